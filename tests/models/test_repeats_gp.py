"""Noise that falls with the number of repeats, and that differs between inputs."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from botorch.models import SingleTaskGP
from gpytorch.kernels import MaternKernel, ScaleKernel
from torch import Tensor

from ax_costaware.models import (
    DenseMarginalLogLikelihood,
    ExactPosterior,
    NoiseVariance,
    RepeatsGP,
)
from ax_costaware.models.fantasies import fantasized
from ax_costaware.models.noise_variance import smoothed_variances

BOUNDS = torch.tensor([[0.0, 0.0, 1.0], [1.0, 2.0, 9.0]], dtype=torch.double)
INPUTS = BOUNDS[:, :2]


def data(count: int = 15, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Points, the last column the number of repeats, and outcomes ``n x 1``."""
    generator = torch.Generator().manual_seed(seed)
    X = torch.rand(count, 3, generator=generator, dtype=torch.double) * BOUNDS[1]
    X[:, 2] = X[:, 2].ceil()
    noise = torch.randn(count, generator=generator, dtype=torch.double)
    return X, (torch.sin(4 * X[:, 0]) + 0.5 * noise / X[:, 2].sqrt()).unsqueeze(-1)


def shape(X: Tensor) -> Tensor:
    """A noise variance that grows with the first input."""
    return 0.2 + X[..., 0]


@pytest.mark.parametrize("noise", [None, shape])
def test_it_is_a_gp_of_known_noise_that_ignores_the_number_of_repeats(noise: Any) -> None:
    X, Y = data()
    ours = RepeatsGP(X, Y, 2, BOUNDS, noise, outcome_transform=None)
    ours.likelihood.noise = 0.3
    variances = (X.new_ones(15) if noise is None else noise(X) / noise(X).mean()) * 0.3 / X[:, 2]
    plain = SingleTaskGP(
        X[:, :2] / BOUNDS[1, :2],
        Y,
        variances.unsqueeze(-1),
        covar_module=ScaleKernel(MaternKernel(nu=2.5, ard_num_dims=2)),
        outcome_transform=None,
    )
    plain.covar_module.base_kernel.lengthscale = ours.covar_module.base_kernel.lengthscale.detach()
    plain.covar_module.outputscale = ours.covar_module.outputscale.detach()
    new = data(7, seed=1)[0]
    found, expected = ours.posterior(new), plain.posterior(new[:, :2] / BOUNDS[1, :2])
    torch.testing.assert_close(found.mean, expected.mean)
    torch.testing.assert_close(found.variance, expected.variance)
    cached = ExactPosterior.of(ours)
    torch.testing.assert_close(cached(new)[0], found.mean.squeeze(-1))
    added = ours.posterior(new, observation_noise=True).variance - found.variance
    torch.testing.assert_close(cached.noise_at(new), added.squeeze(-1))
    again = fantasized(ours, new)
    pending = ExactPosterior.of(ours, X_pending=new)
    torch.testing.assert_close(pending(X)[1], again.posterior(X).variance.squeeze(-1))
    model, mll = ours.train(), DenseMarginalLogLikelihood(ours.likelihood, ours)
    covariance = plain.covar_module(X[:, :2] / BOUNDS[1, :2]).to_dense() + variances.diag()
    mean = model.mean_module(X)
    density = torch.distributions.MultivariateNormal(mean, covariance).log_prob(Y.squeeze(-1))
    priors = sum(p.log_prob(value(m)).sum() for _, m, p, value, _ in model.named_priors())
    torch.testing.assert_close(mll.compute_custom_loss(), -(density + priors) / 15)


def test_repeats_are_pooled() -> None:
    """One mean of four repeats is worth as much as four single values at the same inputs."""
    X, Y = data()
    once = torch.tensor([[0.4, 0.4, 1.0]] * 4, dtype=torch.double)
    values = torch.tensor([[0.1], [0.5], [0.3], [0.9]], dtype=torch.double)
    several = torch.cat([X, once[:1] * torch.tensor([1.0, 1.0, 4.0])])
    models = (
        RepeatsGP(torch.cat([X, once]), torch.cat([Y, values]), 2, BOUNDS, outcome_transform=None),
        RepeatsGP(
            several, torch.cat([Y, values.mean().reshape(1, 1)]), 2, BOUNDS, outcome_transform=None
        ),
    )
    new = data(5, seed=2)[0]
    first, second = (ExactPosterior.of(model)(new) for model in models)
    torch.testing.assert_close(first, second)


def test_choices_share_a_lengthscale_beside_the_number_of_repeats() -> None:
    X = torch.tensor([[1.0, 2.0, 0.0], [0.0, 3.0, 1.0]] * 4, dtype=torch.double)
    bounds = torch.tensor([[0.0, 1.0, 0.0], [1.0, 5.0, 1.0]], dtype=torch.double)
    found = RepeatsGP(X, torch.rand(8, 1).double(), 1, bounds, choices=[[0, 2]])
    assert found.covar_module.base_kernel.parameter_lengthscale.numel() == 1
    assert found.posterior(X).mean.shape == (8, 1)


@pytest.mark.parametrize("rises", [True, False])
def test_the_noise_is_learned_from_the_spread(rises: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(40, 2, generator=generator, dtype=torch.double) * BOUNDS[1, :2]
    sigma = torch.exp(1.5 * X[:, 0]) if rises else torch.full((40,), 1.7, dtype=torch.double)
    y = sigma.unsqueeze(-1) * torch.randn(40, 4, generator=generator, dtype=torch.double)
    noise = NoiseVariance(X, y.var(dim=-1), torch.full((40,), 3.0, dtype=torch.double), INPUTS)
    error = (noise(X).detach() / sigma.square()).log()
    raw = (y.var(dim=-1) / sigma.square()).log()
    assert error.var() < 0.3 * raw.var()
    assert abs(float(error.mean())) < 0.4
    spread = float(noise(X).detach().log().std())
    assert spread > 0.4 if rises else spread < 0.2


def test_few_spreads_are_pooled() -> None:
    X = torch.rand(2, 2, dtype=torch.double)
    variances, freedom = torch.tensor([1.0, 4.0]).double(), torch.tensor([1.0, 2.0]).double()
    noise = NoiseVariance(X, variances, freedom, INPUTS)
    assert noise(X).tolist() == pytest.approx([3.0, 3.0])
    smoothed = smoothed_variances(
        torch.cat([X, X[:1]]),
        torch.tensor([1.0 / 2, 4.0 / 3, 7.0]).double(),
        torch.tensor([2.0, 3.0, 1.0]).double(),
        INPUTS,
    )
    assert smoothed.tolist() == pytest.approx([1.5, 1.0, 7.0])
    same = smoothed_variances(X, torch.zeros(2).double(), torch.full((2,), 3.0).double(), INPUTS)
    assert same.tolist() == [0.0, 0.0]
    assert math.isclose(noise.pooled, 3.0)

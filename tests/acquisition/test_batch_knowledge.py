"""What trials are worth to the recommendation: by fantasies, a closed form, and in other units."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import numpy as np
import pytest
import torch
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.models import SingleTaskGP
from botorch.models.transforms import Standardize
from gpytorch.kernels import RBFKernel, ScaleKernel
from scipy.stats import norm
from torch import Tensor

from ax_costaware.acquisition.batch_knowledge import (
    Candidates,
    batch_knowledge,
    expected_gain,
)
from ax_costaware.acquisition.feasibility import Feasibility, OutcomeConstraint
from ax_costaware.acquisition.partial_query import QueryNodes
from ax_costaware.acquisition.starts import regions_of
from ax_costaware.laws import Uniform, sobol_nodes
from ax_costaware.models.posterior import FunctionalPosterior

NOISE = 0.04


def gp(n: int = 6, scale: float | None = None) -> SingleTaskGP:
    """A GP with fixed hyperparameters on ``n`` points of a smooth function of two inputs.

    With a scale the outcomes have that, and are standardised.
    """
    generator = torch.Generator().manual_seed(n)
    X = torch.rand(n, 2, dtype=torch.double, generator=generator)
    Y = (scale or 1.0) * torch.sin(5 * X).sum(dim=-1, keepdim=True)
    kernel = ScaleKernel(RBFKernel(ard_num_dims=2))
    transform = None if scale is None else Standardize(1, min_stdv=0.0)
    model = SingleTaskGP(X, Y, covar_module=kernel, outcome_transform=transform)
    kernel.base_kernel.lengthscale = torch.full((2,), 0.3, dtype=torch.double)
    kernel.outputscale = torch.tensor(1.3, dtype=torch.double)
    model.likelihood.noise = torch.tensor(NOISE, dtype=torch.double)
    return cast(SingleTaskGP, model.eval().requires_grad_(False))


def grid(*columns: Tensor) -> Tensor:
    return torch.cartesian_prod(*columns)


def candidates(model: SingleTaskGP) -> Candidates:
    """Queries that set the first input and leave the second to three nodes."""
    first = torch.linspace(0, 1, 7, dtype=torch.double)
    second, weights = torch.tensor([0.1, 0.5, 0.8]).double(), torch.tensor([0.3, 0.5, 0.2]).double()
    points = torch.stack([first, torch.full_like(first, 0.5)], dim=-1)
    membership = torch.block_diag(*[weights.unsqueeze(-1)] * len(first))
    return Candidates(FunctionalPosterior.of(model), points, grid(first, second), membership)


def gain_of(found: Candidates, landing: Tensor, z: Tensor) -> float:
    return expected_gain(found.joint_with(landing, z))


def normal(rows: int, columns: int, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, columns, generator=generator, dtype=torch.double)


def test_the_gain_is_that_of_models_which_have_seen_the_outcomes() -> None:
    model, landing = gp(), torch.tensor([[0.9, 0.2], [0.35, 0.6], [0.3, 0.65]]).double()
    found = candidates(model)
    count = 4096
    gain = gain_of(found, landing, normal(3, count))
    seen = model.posterior(landing, observation_noise=True).rsample(torch.Size([count]))
    best_now = (found.membership.mT @ model.posterior(found.nodes).mean.squeeze(-1)).max()
    # The mean of a GP with given hyperparameters is linear in the outcomes.
    X, Y = model.train_inputs[0], model.train_targets
    K = model.covar_module(torch.cat([X, landing])).to_dense()
    solver = torch.linalg.inv(K + NOISE * torch.eye(len(K)).double())
    k = model.covar_module(found.nodes, torch.cat([X, landing])).to_dense()
    prior = float(model.mean_module.constant)
    outcomes = torch.cat([Y.expand(count, -1), seen.squeeze(-1)], dim=-1) - prior
    values = (prior + outcomes @ solver @ k.mT) @ found.membership
    gains = values.max(dim=-1).values - best_now
    error = float(gains.std()) / math.sqrt(count)
    assert gain == pytest.approx(float(gains.mean()), abs=4 * error)
    assert gain > 5 * error


def below(bound: float) -> OutcomeConstraint:
    return OutcomeConstraint("other", upper=bound)


def other_gp(scale: float = 1.0) -> SingleTaskGP:
    """The model of a further outcome, observed elsewhere."""
    generator = torch.Generator().manual_seed(3)
    X = torch.rand(5, 2, dtype=torch.double, generator=generator)
    kernel = ScaleKernel(RBFKernel(ard_num_dims=2))
    model = SingleTaskGP(
        X, scale * X.sum(dim=-1, keepdim=True).cos(), covar_module=kernel, outcome_transform=None
    )
    kernel.base_kernel.lengthscale = torch.full((2,), 0.4, dtype=torch.double)
    kernel.outputscale = torch.tensor(scale**2, dtype=torch.double)
    model.likelihood.noise = torch.tensor(NOISE * scale**2, dtype=torch.double)
    return cast(SingleTaskGP, model.eval().requires_grad_(False))


@pytest.mark.parametrize("bound", [0.6, 0.75, 0.9])
def test_with_bounds_the_gain_is_an_integral_over_both_outcomes(bound: float) -> None:
    """Of three candidates and one trial, by quantiles: a value counts by how likely it may be."""
    model, other = gp(), other_gp()
    nodes = torch.tensor([[0.2, 0.3], [0.5, 0.7], [0.9, 0.9]]).double()
    landing = torch.tensor([[0.2, 0.35]]).double()

    def told(of: SingleTaskGP) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        posterior = of.posterior(torch.cat([nodes, landing]))
        covariance = posterior.distribution.covariance_matrix.numpy()
        slope = covariance[:3, 3] / np.sqrt(covariance[3, 3] + NOISE)
        return posterior.mean.squeeze(-1).numpy()[:3], slope, np.diag(covariance)[:3]

    (a, slope, _), (b, steep, v) = told(model), told(other)
    z = norm.ppf((np.arange(1000) + 0.5) / 1000)
    low = a.min()

    def deployed(mean: np.ndarray, chance: np.ndarray) -> np.ndarray:
        found: np.ndarray = (chance * (mean - low)).max(axis=0)
        return found

    mean = (a[:, None] + slope[:, None] * z)[:, :, None]
    left = np.sqrt(v - steep**2)[:, None]
    chance = norm.cdf((bound - b[:, None] - steep[:, None] * z) / left)[:, None, :]
    expected = deployed(mean, chance).mean() - deployed(a, norm.cdf((bound - b) / np.sqrt(v)))
    found = Candidates(FunctionalPosterior.of(model), nodes, nodes, torch.eye(3).double())
    seen = replace(found, posterior=FunctionalPosterior.of(other))
    count = 200_000
    gain = expected_gain(
        found.joint_with(landing, normal(1, count)),
        [(below(bound), seen.joint_with(landing, normal(1, count, seed=2)))],
    )
    assert gain == pytest.approx(float(expected), rel=0.03)
    assert gain > 5e-3


def gains(
    model: SingleTaskGP,
    sign: float = 1.0,
    plays: tuple[int, ...] = (12, 3),
    bounds: Sequence[tuple[SingleTaskGP, float]] = (),
) -> list[float]:
    """Of two control sets: the first input, and both."""
    limits = [(below(bound), FunctionalPosterior.of(other)) for other, bound in bounds]
    box = torch.tensor([[0.0, 0.0], [1.0, 1.0]]).double()
    nodes, weights = sobol_nodes([Uniform(0, 1)] * 2, 16)
    controls = [[0], [0, 1]]
    transform = ScalarizedPosteriorTransform(torch.tensor([sign]).double())
    return batch_knowledge(
        FunctionalPosterior.of(model, transform),
        [QueryNodes(nodes, weights, columns) for columns in controls],
        controls,
        regions_of(controls, box, box.mean(dim=0)),
        model.train_inputs[0],
        plays,
        seed=0,
        feasibility=Feasibility(limits),
    )


def test_the_unit_and_the_sign_of_the_objective_do_not_matter() -> None:
    usual = gains(gp(scale=1.0))
    assert min(usual) > 0
    assert gains(gp(scale=1e-30)) == pytest.approx([1e-30 * gain for gain in usual], rel=1e-6)
    assert gains(gp(scale=1e30)) == pytest.approx([1e30 * gain for gain in usual], rel=1e-6)
    assert gains(gp(scale=-1.0), sign=-1.0) == pytest.approx(usual, rel=1e-6)


def test_bounds_matter_where_they_are_near() -> None:
    """One that is far changes nothing; where nothing can be feasible there is nothing to gain."""
    usual = gains(gp())
    assert gains(gp(), bounds=[(other_gp(), 50.0)]) == pytest.approx(usual)
    assert gains(gp(), bounds=[(other_gp(), -50.0)]) == [0.0, 0.0]
    near = gains(gp(), bounds=[(other_gp(), -0.2)])
    assert min(near) > 0
    assert near != pytest.approx(usual, rel=0.01)
    assert gains(gp(), bounds=[(other_gp(1e6), -0.2e6)]) == pytest.approx(near, rel=1e-3)


def test_no_trials_gain_nothing() -> None:
    assert gains(gp(), plays=(0, 0)) == [0.0, 0.0]
    assert gains(gp(), plays=(0, 0), bounds=[(other_gp(), -0.2)]) == [0.0, 0.0]
    some = gains(gp(), plays=(0, 3), bounds=[(other_gp(), -0.2)])
    assert some[0] == 0.0 < some[1]

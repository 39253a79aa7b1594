"""The model with the rougher kernel: BoTorch's of before, put together by hand."""

from __future__ import annotations

import math

import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize, Warp
from botorch.models.utils.gpytorch_modules import (
    get_matern_kernel_with_gamma_prior,
)
from botorch.optim.utils import sample_all_priors
from gpytorch.mlls import ExactMarginalLogLikelihood
from torch import Tensor

from ax_costaware.models import (
    DefaultGP,
    DenseMarginalLogLikelihood,
    MaternGP,
)
from ax_costaware.models.choice_kernel import ChoiceMaternKernel
from ax_costaware.models.dense_marginal_likelihood import dense_covariance
from ax_costaware.models.kernels import FixedKernel


@pytest.mark.parametrize("noise", [None, 0.01])
def test_posteriors_and_likelihoods_are_botorchs(noise: float | None) -> None:
    """Of a model put together by hand, before a fit."""
    generator = torch.Generator().manual_seed(0)
    X = 3 * torch.rand(12, 3, generator=generator, dtype=torch.double)
    Y, points = X.sin().sum(dim=-1, keepdim=True), X[:5] + 0.1
    given = (X, Y, None if noise is None else torch.full_like(Y, noise))
    kernel = get_matern_kernel_with_gamma_prior(3)
    for theirs, ours in (
        (SingleTaskGP(*given, covar_module=kernel, input_transform=Normalize(3)), MaternGP),
        (SingleTaskGP(*given, input_transform=Normalize(3)), DefaultGP),
    ):
        models = (theirs, ours(*given, input_transform=Normalize(3)))
        losses = []
        for model in models:
            mll = ExactMarginalLogLikelihood(model.likelihood, model).train()
            losses.append(float(mll(model(*model.train_inputs), model.train_targets).detach()))
        assert losses[1] == pytest.approx(losses[0], abs=1e-6)
        before, after = (model.posterior(points) for model in models)
        torch.testing.assert_close(after.mean, before.mean)
        torch.testing.assert_close(after.variance, before.variance)
    assert not hasattr(MaternGP(X, Y, outcome_transform=None), "outcome_transform")


def test_hyperparameters_keep_their_values_and_their_bounds() -> None:
    X, Y = torch.rand(5, 2, dtype=torch.double), torch.rand(5, 1, dtype=torch.double)
    kernel = get_matern_kernel_with_gamma_prior(2)
    usual, model = SingleTaskGP(X, Y, covar_module=kernel), MaternGP(X, Y)
    bounds = {"covar_module.base_kernel.lengthscale": 0.0, "covar_module.outputscale": 0.0}
    for path, bound in {**bounds, "likelihood.noise_covar.noise": 1e-4}.items():
        owner, _, value = path.rpartition(".")
        ours, theirs = (each.get_submodule(owner) for each in (model, usual))
        assert torch.allclose(getattr(ours, value), getattr(theirs, value))
        getattr(ours, f"raw_{value}").data.fill_(-40.0)
        assert getattr(ours, value).detach().max().item() == pytest.approx(bound, abs=1e-9)
    # A fit that failed is tried again from here.
    sample_all_priors(model)
    assert model.covar_module.base_kernel.lengthscale.min() > 1e-6
    assert model.likelihood.noise.min() > 1e-4


def test_a_warp_of_inputs_is_fitted_beside_it() -> None:
    """Its exponents have a bound as well, and are read as they are."""
    X = torch.rand(8, 2, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    warp = Warp(2, [0, 1])
    model = MaternGP(X, X.square().sum(dim=-1, keepdim=True), input_transform=warp)
    torch.testing.assert_close(warp.concentration0, torch.ones(2).double(), rtol=0, atol=1e-3)
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    assert bool(model.posterior(X).mean.isfinite().all())


CHOICE = [1, 2, 3, 4]
"""Columns of a choice of four values, after that of a number."""


def with_choice(numbers: Tensor, values: list[int]) -> Tensor:
    """Points with a number and a one-hot choice."""
    return torch.cat([numbers.unsqueeze(-1), torch.eye(4).double()[values]], dim=-1)


def test_the_columns_of_a_choice_share_a_length_scale() -> None:
    kernel = ChoiceMaternKernel(6, [[1, 2, 3], [4, 5]]).double()
    kernel.lengthscale = torch.tensor([0.5, 0.8, 2.0]).double()
    assert kernel.parameter_lengthscale.flatten().tolist() == pytest.approx([0.5, 0.8, 2.0])
    assert kernel.lengthscale.shape == (1, 6)
    X = torch.tensor([[0.1, 1, 0, 0, 1, 0], [0.1, 0, 0, 1, 1, 0], [0.4, 0, 1, 0, 0, 1]]).double()

    def matern(square: float) -> float:
        r = math.sqrt(5 * square)
        return (1 + r + r**2 / 3) * math.exp(-r)

    # Different values are a quarter of the width of a column apart.
    expected = [
        matern(0.25**2 / 0.8**2),
        matern(0.3**2 / 0.5**2 + 0.25**2 / 0.8**2 + 0.25**2 / 2.0**2),
    ]
    exact = kernel(X).to_dense()
    assert exact[0, 1:].tolist() == pytest.approx(expected, abs=1e-7)
    assert torch.allclose(FixedKernel(kernel, 6).covariances(X, X), exact, atol=1e-9)
    assert torch.allclose(dense_covariance(kernel, X), exact, atol=1e-9)


def test_the_fit_with_choices_is_of_the_same_likelihood() -> None:
    generator = torch.Generator().manual_seed(1)
    X = with_choice(torch.rand(12, generator=generator).double(), 3 * [0, 1, 2, 3])
    model = MaternGP(X, X[:, :1].sin() + 0.3 * X[:, 2:3], choices=[CHOICE])
    effect, matern = model.covar_module.kernels
    assert matern.base_kernel.parameter_lengthscale.shape == (1, 2)
    at = model.covar_module(X).to_dense() - matern(X).to_dense()
    assert torch.allclose(at, effect.variance * (X[:, 1:] @ X[:, 1:].T))
    mll = DenseMarginalLogLikelihood(model.likelihood, model).train()
    plain = -mll(model(*model.train_inputs), model.train_targets)
    names = [name for name, _ in mll.named_parameters()]
    ours, theirs = (
        torch.autograd.grad(loss, list(mll.parameters()))
        for loss in (mll.compute_custom_loss(), plain)
    )
    assert mll.compute_custom_loss().item() == pytest.approx(plain.item(), abs=1e-9)
    for name, a, b in zip(names, ours, theirs, strict=True):
        assert torch.allclose(a, b, atol=1e-8), name
    # A fit that failed is tried again from here.
    before = matern.base_kernel.parameter_lengthscale.detach().clone()
    sample_all_priors(model)
    after = matern.base_kernel.parameter_lengthscale
    assert after.min() > 0
    assert (after != before).all()

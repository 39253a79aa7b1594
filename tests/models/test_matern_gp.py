"""The model with the rougher kernel: BoTorch's of before, put together by hand."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize, Standardize, Warp
from botorch.models.utils.gpytorch_modules import (
    get_covar_module_with_dim_scaled_prior,
    get_matern_kernel_with_gamma_prior,
)
from botorch.optim.fit import fit_gpytorch_mll_scipy
from botorch.optim.utils import sample_all_priors
from gpytorch.constraints import GreaterThan
from gpytorch.kernels import MaternKernel, ScaleKernel
from gpytorch.mlls import ExactMarginalLogLikelihood
from gpytorch.priors import GammaPrior, LogNormalPrior
from torch import Tensor

from ax_costaware.exceptions import InputError
from ax_costaware.laws import GaussianConditional
from ax_costaware.methods import CostAware
from ax_costaware.models import (
    ConditionalMeanProcess,
    DefaultGP,
    DenseMarginalLogLikelihood,
    FidelityGP,
    LogNormalCostModel,
    MaternGP,
    TimeVaryingGP,
)
from ax_costaware.models.choice_kernel import ChoiceMaternKernel
from ax_costaware.models.dense_marginal_likelihood import dense_covariance
from ax_costaware.models.kernels import FixedKernel

BOX = torch.tensor([[0.0] * 4, [1.0] * 4], dtype=torch.double)


def costs_by_choice(X: Tensor, cost: Tensor, **options: Any) -> LogNormalCostModel:
    return LogNormalCostModel(X, cost.squeeze(-1), kind="trend", **options)


@pytest.mark.parametrize("known", [False, True])
def test_it_is_botorchs_model_with_another_kernel(known: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    X = 3 * torch.rand(12, 3, generator=generator, dtype=torch.double)
    Y = X.sin().sum(dim=-1, keepdim=True)
    noise = torch.full_like(Y, 0.01) if known else None
    matern = MaternKernel(nu=2.5, ard_num_dims=3, lengthscale_prior=GammaPrior(3.0, 6.0))
    kernel = ScaleKernel(matern, outputscale_prior=GammaPrior(2.0, 0.15))
    by_hand = SingleTaskGP(X, Y, noise, covar_module=kernel, input_transform=Normalize(3))
    ours = MaternGP(X, Y, noise, input_transform=Normalize(3))
    for model in (by_hand, ours):
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    points = 3 * torch.rand(5, 3, generator=generator, dtype=torch.double)
    posteriors = [model.posterior(points) for model in (by_hand, ours)]
    assert torch.allclose(posteriors[0].mean, posteriors[1].mean, atol=1e-4)
    assert torch.allclose(posteriors[0].variance, posteriors[1].variance, atol=1e-4)
    assert isinstance(ours.outcome_transform, Standardize)
    assert not hasattr(MaternGP(X, Y, outcome_transform=None), "outcome_transform")


def test_the_gittins_method_has_it_unless_another_is_asked_for() -> None:
    assert CostAware(1.0).model().model_class is MaternGP
    assert CostAware(1.0, kernel="squared_exponential").model().model_class is DefaultGP
    assert CostAware(1.0, kernel="matern").model(CostAware(1.0).model()).model_class is MaternGP


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


def test_by_logarithms_a_fit_takes_less_than_half_of_the_steps() -> None:
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(20, 4, generator=generator, dtype=torch.double)
    Y = X.mul(4).sin().prod(dim=-1, keepdim=True)
    kernel = get_matern_kernel_with_gamma_prior(4)
    results = []
    for model in (SingleTaskGP(X, Y, covar_module=kernel), MaternGP(X, Y)):
        mll = ExactMarginalLogLikelihood(model.likelihood, model).train()
        results.append(fit_gpytorch_mll_scipy(mll))
    as_they_are, by_logarithms = results
    assert by_logarithms.fval == pytest.approx(as_they_are.fval, abs=1e-6)
    assert 2 * by_logarithms.step < as_they_are.step


def test_botorchs_default_is_fitted_so_too() -> None:
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(20, 4, generator=generator, dtype=torch.double)
    Y = X.mul(4).sin().prod(dim=-1, keepdim=True)
    usual, ours = SingleTaskGP(X, Y), DefaultGP(X, Y)
    points = torch.rand(5, 4, generator=generator, dtype=torch.double)
    before, after = (model.posterior(points) for model in (usual, ours))
    assert torch.allclose(after.mean, before.mean)
    assert torch.allclose(after.variance, before.variance)
    as_it_is, by_logarithms = (
        fit_gpytorch_mll_scipy(ExactMarginalLogLikelihood(model.likelihood, model).train())
        for model in (usual, ours)
    )
    assert by_logarithms.fval == pytest.approx(as_it_is.fval, abs=1e-6)
    assert 1.5 * by_logarithms.step < as_it_is.step


def test_models_of_drift_and_of_averages_are_fitted_so_too() -> None:
    """With a kernel that is given it is searched as it is."""
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(20, 4, generator=generator, dtype=torch.double)
    X[:, 3] = torch.linspace(0.0, 1.0, 20, dtype=torch.double)  # the time
    Y = X.mul(4).sin().prod(dim=-1, keepdim=True)
    kernel = get_covar_module_with_dim_scaled_prior(3, use_rbf_kernel=False)
    unit = tuple(tuple(float(i == j) for j in range(4)) for i in range(4))
    law = GaussianConditional(unit, (0.0,) * 4, (0.01,) * 4)
    bound = GreaterThan(0.02, transform=None, initial_value=math.exp(0.5))
    average = ScaleKernel(
        get_covar_module_with_dim_scaled_prior(4),
        outputscale_prior=LogNormalPrior(0.5, 1.0),
        outputscale_constraint=bound,
    )
    models = {
        "as they are": (
            TimeVaryingGP(X, Y, covar_module=kernel),
            ConditionalMeanProcess(X, Y, law, covar_module=average),
        ),
        "by logarithms": (TimeVaryingGP(X, Y), ConditionalMeanProcess(X, Y, law)),
    }
    fits = {
        way: [
            fit_gpytorch_mll_scipy(ExactMarginalLogLikelihood(each.likelihood, each).train())
            for each in both
        ]
        for way, both in models.items()
    }
    for as_it_is, by_logarithms in zip(*fits.values(), strict=True):
        assert by_logarithms.fval < as_it_is.fval + 1e-5
        assert 1.5 * by_logarithms.step < as_it_is.step


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
    assert model.covar_module.base_kernel.parameter_lengthscale.shape == (1, 2)
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
    before = model.covar_module.base_kernel.parameter_lengthscale.detach().clone()
    sample_all_priors(model)
    after = model.covar_module.base_kernel.parameter_lengthscale
    assert after.min() > 0
    assert (after != before).all()


def test_what_holds_for_tried_values_is_expected_of_the_others() -> None:
    generator = torch.Generator().manual_seed(0)
    numbers = torch.rand(16, generator=generator).double()
    X = with_choice(numbers, 8 * [0, 1])
    at = with_choice(torch.linspace(0.1, 0.9, 9).double(), 9 * [3])
    means = []
    for choices in ([CHOICE], []):
        model = MaternGP(X, numbers.mul(5).sin().unsqueeze(-1), choices=choices)
        fit_gpytorch_mll(DenseMarginalLogLikelihood(model.likelihood, model))
        means.append(model.posterior(at).mean.detach().squeeze(-1))
    errors = [float((mean - at[:, 0].mul(5).sin()).abs().max()) for mean in means]
    assert errors[0] < 0.1
    assert errors[1] > 0.5


@pytest.mark.parametrize("choices", [[[1, 5]], [[-1, -2]], [[0, 1], [1, 2]]])
@pytest.mark.parametrize(
    "make",
    [MaternGP, partial(FidelityGP, fidelities=[{3: 1.0}], bounds=BOX), costs_by_choice],
    ids=["objective", "fidelities", "cost"],
)
def test_columns_of_choices_that_there_are_not(
    make: Callable[..., object], choices: Sequence[Sequence[int]]
) -> None:
    """They were ignored, so that columns of one choice had length-scales each."""
    X = torch.rand(5, 4, dtype=torch.double, generator=torch.Generator().manual_seed(0))
    with pytest.raises(InputError, match=r"choices=\[\[.*from 0 to 3"):
        make(X, X[:, :1], choices=choices)

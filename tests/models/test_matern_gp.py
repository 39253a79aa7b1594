"""The model with the rougher kernel: BoTorch's of before, put together by hand."""

from __future__ import annotations

import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize, Standardize
from botorch.models.utils.gpytorch_modules import get_matern_kernel_with_gamma_prior
from botorch.optim.fit import fit_gpytorch_mll_scipy
from botorch.optim.utils import sample_all_priors
from gpytorch.kernels import MaternKernel, ScaleKernel
from gpytorch.mlls import ExactMarginalLogLikelihood
from gpytorch.priors import GammaPrior

from ax_costaware.methods import Gittins
from ax_costaware.models import MaternGP


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
    assert Gittins(1.0).model().model_class is MaternGP
    assert Gittins(1.0, kernel="squared_exponential").model().model_class is None
    assert Gittins(1.0, kernel="matern").model(Gittins(1.0).model()).model_class is MaternGP


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

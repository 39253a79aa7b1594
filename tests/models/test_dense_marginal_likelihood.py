from __future__ import annotations

from typing import Any

import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.kernels import CategoricalKernel
from botorch.models.transforms import Normalize, Warp
from botorch.models.utils.gpytorch_modules import get_covar_module_with_dim_scaled_prior
from botorch.optim.closures import get_loss_closure_with_grads
from botorch.optim.utils import get_parameters
from gpytorch.kernels import (
    Kernel,
    LinearKernel,
    MaternKernel,
    ProductKernel,
    RBFKernel,
    ScaleKernel,
)
from gpytorch.mlls import ExactMarginalLogLikelihood
from gpytorch.priors import GammaPrior
from torch import Tensor

from ax_costaware.laws import GaussianConditional, UniformBoxConditional
from ax_costaware.models import (
    ConditionalMeanProcess,
    DenseMarginalLogLikelihood,
    ForgettingKernel,
    TimeVaryingGP,
)
from ax_costaware.models.dense_marginal_likelihood import dense_covariance

DOUBLE = torch.double
UNIT = Normalize(2, bounds=torch.tensor([[0.0, 0.0], [1.5, 1.5]], dtype=DOUBLE))


def data(n: int = 12, d: int = 3) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(n, d, generator=generator, dtype=DOUBLE)
    noise = torch.randn(n, 1, generator=generator, dtype=DOUBLE)
    return X, X.mul(5).sin().sum(dim=-1, keepdim=True) + 0.1 * noise


def loss_and_gradients(mll: ExactMarginalLogLikelihood) -> tuple[Tensor, dict[str, Tensor]]:
    mll.train()
    parameters = get_parameters(mll, requires_grad=True)
    loss, gradients = get_loss_closure_with_grads(mll, parameters)()
    pairs = zip(parameters, gradients, strict=True)
    return loss.detach().clone(), {name: g.clone() for name, g in pairs if g is not None}


def plain(kernel: Kernel | None, **options: Any) -> SingleTaskGP:
    return SingleTaskGP(*data(), covar_module=kernel, **options)


def averages(law: Any, cells: bool = False) -> ConditionalMeanProcess:
    X, y = data(40, 2)
    if cells:
        X = (X * 4).floor() / 4 + 0.125
    return ConditionalMeanProcess(X, y, law, latent_transform=UNIT)


MODELS = {
    "default": lambda: plain(None),
    "normalized": lambda: plain(None, input_transform=Normalize(3)),
    "known noise": lambda: SingleTaskGP(
        *data(), train_Yvar=torch.full((12, 1), 0.01, dtype=DOUBLE)
    ),
    "one length-scale": lambda: plain(ScaleKernel(RBFKernel(), outputscale_prior=GammaPrior(2, 1))),
    "Matern 5/2": lambda: plain(get_covar_module_with_dim_scaled_prior(3, use_rbf_kernel=False)),
    "Matern 3/2": lambda: plain(ScaleKernel(MaternKernel(1.5, ard_num_dims=3))),
    "linear": lambda: plain(LinearKernel(ard_num_dims=3) + RBFKernel()),
    "columns": lambda: plain(
        ProductKernel(
            MaternKernel(2.5, active_dims=(0, 2), ard_num_dims=2), RBFKernel(active_dims=(1,))
        )
    ),
    "categories": lambda: plain(
        ProductKernel(RBFKernel(active_dims=(0, 1)), CategoricalKernel(active_dims=(2,)))
    ),
    "warped": lambda: plain(None, input_transform=Warp(3, [0, 1, 2])),
    "scaled columns": lambda: plain(ScaleKernel(RBFKernel(active_dims=(0, 2), ard_num_dims=2))),
    "time": lambda: TimeVaryingGP(*data(), forgetting=None),
    "scaled, time": lambda: TimeVaryingGP(
        *data(), covar_module=ScaleKernel(MaternKernel(2.5, ard_num_dims=2))
    ),
    "normal law": lambda: averages(
        GaussianConditional(((1, 0), (0, 1)), (0, 0), (0.02, 0.1), outside="keep")
    ),
    "dependent normal law": lambda: averages(
        GaussianConditional(((1, 0), (0, 1)), (0, 0), ((0.1, 0.05), (0.05, 0.1)), outside="keep")
    ),
    "boxes": lambda: averages(UniformBoxConditional((0.1, 0.2), outside="keep")),
    "equal boxes": lambda: averages(UniformBoxConditional((0.125, 0.125), outside="keep"), True),
}


@pytest.mark.parametrize("name", MODELS)
def test_loss_and_gradients_are_those_of_gpytorch(name: str) -> None:
    torch.manual_seed(0)
    model = MODELS[name]()
    for parameter in model.parameters():
        parameter.data.mul_(0.7)  # not where a gradient may happen to vanish
    expected = loss_and_gradients(ExactMarginalLogLikelihood(model.likelihood, model))
    found = loss_and_gradients(DenseMarginalLogLikelihood(model.likelihood, model))
    torch.testing.assert_close(found[0], expected[0], rtol=1e-9, atol=1e-9)
    assert found[1].keys() == expected[1].keys()
    for parameter_name, gradient in expected[1].items():
        torch.testing.assert_close(found[1][parameter_name], gradient, rtol=1e-6, atol=1e-8)


def test_batches_take_botorch_s_loss() -> None:
    X, y = data()
    model = SingleTaskGP(X, torch.cat([y, 2 * y], dim=-1))
    expected = ExactMarginalLogLikelihood(model.likelihood, model)
    dense = DenseMarginalLogLikelihood(model.likelihood, model)
    for mll in (expected, dense):
        mll.train()
    found = dense.compute_custom_loss()
    torch.testing.assert_close(found, -expected(model(*model.train_inputs), model.train_targets))
    fit_gpytorch_mll(dense)


def test_calling_it_is_gpytorch_s() -> None:
    model = plain(None)
    model.train()
    output = model(*model.train_inputs)
    torch.testing.assert_close(
        DenseMarginalLogLikelihood(model.likelihood, model)(output, model.train_targets),
        ExactMarginalLogLikelihood(model.likelihood, model)(output, model.train_targets),
    )


def test_covariances_of_a_kernel_that_is_none_of_the_known() -> None:
    X, _ = data()
    kernel = ForgettingKernel(0.1, active_dims=[2]).double()
    torch.testing.assert_close(dense_covariance(kernel, X), kernel(X).to_dense())


@pytest.mark.parametrize("transform", [None, Normalize(3)])
def test_a_model_with_other_data_is_fitted_to_these(transform: Normalize | None) -> None:
    model = plain(None, input_transform=transform)
    mll = DenseMarginalLogLikelihood(model.likelihood, model)
    loss_and_gradients(mll)
    X, y = data(20)
    model.set_train_data(X, model.outcome_transform(y)[0].squeeze(-1), strict=False)
    expected = loss_and_gradients(ExactMarginalLogLikelihood(model.likelihood, model))
    torch.testing.assert_close(loss_and_gradients(mll)[0], expected[0], rtol=1e-9, atol=1e-9)

"""A model over inputs and time with the hyperparameters that were given."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models.transforms.input import Normalize
from botorch.utils.datasets import SupervisedDataset
from gpytorch.mlls import ExactMarginalLogLikelihood

from ax_costaware.laws import GaussianConditional
from ax_costaware.models.fixed_hyperparameters import (
    FixedConditionalMeanProcess,
    FixedHyperparameterGP,
    FixedTimeVaryingGP,
)
from ax_costaware.models.time_varying_gp import TimeVaryingGP


def data(dtype: torch.dtype = torch.double) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(6, 3, dtype=dtype, generator=generator)
    X[:, -1] = torch.arange(6) * 2.0
    return X, torch.sin(3 * X.sum(dim=-1, keepdim=True))


@pytest.mark.filterwarnings("ignore::botorch.exceptions.warnings.InputDataWarning")
@pytest.mark.parametrize("dtype", [torch.float, torch.double])
@pytest.mark.parametrize("lengthscale", [0.3, [0.3, 0.7]])
@pytest.mark.parametrize("observed", [False, True])
def test_posterior(dtype: torch.dtype, lengthscale: float | list[float], observed: bool) -> None:
    """That of the formula, and fitting the model changes nothing."""
    X, Y = data(dtype)
    Yvar = torch.full_like(Y, 0.04) if observed else None
    model = FixedTimeVaryingGP(
        X, Y, Yvar, forgetting=0.1, lengthscale=lengthscale, outputscale=0.6, noise_variance=1e-5,
        mean=0.2,
    )  # fmt: skip
    assert isinstance(model, TimeVaryingGP)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert not any(p.requires_grad for p in model.parameters())

    def kernel(A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        scale = torch.tensor(lengthscale, dtype=torch.double)
        gap = (A[:, None, :-1] - B[None, :, :-1]) / scale
        lag = (A[:, None, -1] - B[None, :, -1]).abs()
        return 0.6 * (-0.5 * gap.square().sum(dim=-1)).exp() * 0.9 ** (lag / 2)

    at = torch.tensor([[0.2, 0.9, 13.0], [0.5, 0.5, 4.5]], dtype=dtype)
    train, new = X.double(), at.double()
    noise = torch.eye(6, dtype=torch.double) * (0.04 if observed else 1e-5)
    weights = torch.linalg.solve(kernel(train, train) + noise, kernel(train, new)).T
    mean = 0.2 + weights @ (Y.double() - 0.2)
    covariance = kernel(new, new) - weights @ kernel(train, new)
    posterior = model.posterior(at)
    tolerance = {torch.float: 2e-3, torch.double: 1e-7}[dtype]
    assert torch.allclose(posterior.mean.double(), mean, atol=tolerance)
    assert torch.allclose(
        posterior.distribution.covariance_matrix.double(), covariance, atol=tolerance
    )


@pytest.mark.parametrize(
    "unknown",
    [None, torch.full((6,), math.nan), np.full(6, math.nan), [math.nan] * 6],
    ids=["none", "tensor", "array", "list"],
)
def test_noise_that_is_not_known_is_the_given_one(unknown: Any) -> None:
    A, z = data()[0][:6, :1], data()[1][:6]
    law = GaussianConditional([[1]], [0], 0.01, outside="keep")
    model = FixedConditionalMeanProcess(A, z, law, noise_variance=0.003, noise=unknown)
    torch.testing.assert_close(model.likelihood.noise, torch.full_like(A[:, 0], 0.003))


def test_from_a_data_set() -> None:
    """As Ax's surrogate makes it, with inputs that are scaled and a time that is not."""
    X, Y = data()
    names = ["a", "b", "time"]
    inputs = FixedTimeVaryingGP.construct_inputs(
        SupervisedDataset(X, Y, feature_names=names, outcome_names=["y"]),
        lengthscale=[0.3, 0.7],
        forgetting=0.1,
    )
    bounds = torch.tensor([[0.0, -1.0, 0.0], [2.0, 1.0, 1.0]], dtype=torch.double)
    model = FixedTimeVaryingGP(**inputs, input_transform=Normalize(3, bounds=bounds))
    assert model.forgetting_kernel.forgetting.item() == pytest.approx(0.1, rel=1e-12)
    (lengthscales,) = model.spatial_kernel.base_kernel.lengthscale.tolist()
    assert lengthscales == pytest.approx([0.3, 0.7], rel=1e-12)


def test_matern_kernel_against_its_formula() -> None:
    X, Y, Z = (torch.rand(n, d, dtype=torch.double) for n, d in ((6, 2), (6, 1), (4, 2)))
    options = {"lengthscale": 0.3, "outputscale": 2.0, "noise_variance": 1e-3, "mean": 0.5}
    model = FixedHyperparameterGP(X, Y, kernel="matern", **options)

    def covariance(A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        r = 5**0.5 * torch.cdist(A, B) / 0.3
        return 2.0 * (1 + r + r**2 / 3) * (-r).exp()

    K = covariance(X, X) + 1e-3 * torch.eye(6, dtype=torch.double)
    mean = 0.5 + covariance(Z, X) @ torch.linalg.solve(K, Y - 0.5)
    assert torch.allclose(model.posterior(Z).mean, mean, atol=1e-9)

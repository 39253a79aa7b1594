"""The time-varying GP against direct formulas, and as a BoTorch model."""

from __future__ import annotations

import math
from copy import deepcopy

import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.utils.datasets import SupervisedDataset
from gpytorch.kernels import MaternKernel, RBFKernel, ScaleKernel
from gpytorch.likelihoods import FixedNoiseGaussianLikelihood
from gpytorch.means import ZeroMean
from gpytorch.mlls import ExactMarginalLogLikelihood
from torch import Tensor

from ax_costaware.models import TimeVaryingGP
from ax_costaware.models.time_varying_gp import PRIOR_FORGETTING

# The tests are about the model, also of outcomes and inputs as they come.
pytestmark = pytest.mark.filterwarnings("ignore::botorch.exceptions.warnings.InputDataWarning")

FORGETTING, NOISE = 0.05, 0.01


def data(
    n: int = 12,
    d: int = 2,
    m: int = 1,
    batch: tuple[int, ...] = (),
    dtype: torch.dtype = torch.double,
) -> tuple[Tensor, Tensor]:
    """Rounds 1, 3, 5, ... of a drifting function."""
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(*batch, n, d, generator=generator, dtype=torch.double)
    t = torch.arange(1.0, 2 * n, 2, dtype=torch.double).expand(*batch, n).unsqueeze(-1)
    shift = torch.arange(m, dtype=torch.double)
    Y = (4 * x.sum(-1, keepdim=True) + 0.05 * t + shift).sin()
    return torch.cat([x, t], dim=-1).to(dtype), Y.to(dtype)


def at(now: float, n: int = 5, d: int = 2) -> Tensor:
    """Points at a time."""
    x = torch.rand(n, d, generator=torch.Generator().manual_seed(1), dtype=torch.double)
    return torch.cat([x, torch.full((n, 1), now, dtype=torch.double)], dim=-1)


def matern(lengthscale: float = 0.3) -> MaternKernel:
    kernel = MaternKernel(nu=1.5).double()
    kernel.lengthscale = torch.tensor(lengthscale, dtype=torch.double)
    return kernel


def known(X: Tensor, Y: Tensor) -> TimeVaryingGP:
    """A model of which everything is given."""
    return TimeVaryingGP(
        X,
        Y,
        covar_module=matern(),
        forgetting=FORGETTING,
        noise=NOISE,
        mean_module=ZeroMean(),
        outcome_transform=None,
    ).eval()


def direct(X: Tensor, Y: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and covariance at points, from the formulas of the kernel and the posterior."""

    def k(a: Tensor, b: Tensor) -> Tensor:
        r = math.sqrt(3) * torch.cdist(a[:, :-1], b[:, :-1]) / 0.3
        gaps = (a[:, -1:] - b[:, -1:].T).abs()
        return (1 + r) * (-r).exp() * (1 - FORGETTING) ** (gaps / 2)

    solved = torch.linalg.solve(k(X, X) + NOISE * torch.eye(len(X)).to(X), k(X, points))
    return solved.T @ Y.squeeze(-1), k(points, points) - k(points, X) @ solved


@pytest.mark.parametrize("now", [10.0, 30.0, 400.0])
def test_posterior_is_the_formulas(now: float) -> None:
    X, Y = data()
    posterior = known(X, Y).posterior(at(now))
    mean, covariance = direct(X, Y, at(now))
    assert torch.allclose(posterior.mean.squeeze(-1), mean, rtol=1e-9, atol=1e-12)
    assert torch.allclose(posterior.covariance_matrix, covariance, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("m", [1, 2])
@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize("dtype", [torch.float, torch.double])
def test_shapes_and_types(m: int, batch: tuple[int, ...], dtype: torch.dtype) -> None:
    X, Y = data(m=m, batch=batch, dtype=dtype)
    model = TimeVaryingGP(X, Y)
    points = at(30.0).to(dtype)
    many = points.expand(4, *(1 for _ in batch), 5, 3)
    for shape, candidates in [((*batch, 5, m), points), ((4, *batch, 5, m), many)]:
        posterior = model.posterior(candidates)
        assert posterior.mean.shape == posterior.variance.shape == shape
        assert posterior.mean.dtype == dtype
    assert model.batch_shape == batch
    assert model.num_outputs == m
    assert {parameter.dtype for parameter in model.parameters()} == {dtype}
    assert model.forgetting_kernel.forgetting.shape == (*batch, *((m,) if m > 1 else ()), 1, 1)


def test_what_is_given_is_not_fitted() -> None:
    X, Y = data()
    assert TimeVaryingGP(X, Y, noise=1e40).likelihood.noise.item() == 1e40
    model = TimeVaryingGP(X, Y, forgetting=FORGETTING, noise=1e-6)
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    assert model.forgetting_kernel.forgetting.item() == pytest.approx(FORGETTING, rel=1e-14)
    assert model.likelihood.noise.item() == pytest.approx(1e-6, rel=1e-14, abs=0)
    assert {name for name, parameter in model.named_parameters() if parameter.requires_grad} == {
        "mean_module.raw_constant",
        "covar_module.kernels.0.raw_lengthscale",
    }


def test_gradients_in_the_inputs_against_differences() -> None:
    model = TimeVaryingGP(*data())

    def moments(points: Tensor) -> tuple[Tensor, Tensor]:
        posterior = model.posterior(points)
        return posterior.mean, posterior.variance

    assert torch.autograd.gradcheck(moments, (at(30.0, n=3).requires_grad_(),))
    # A point at the time of the latest observation: the kernel has a kink there.
    points = at(23.0).requires_grad_()
    posterior = model.posterior(points)
    (gradient,) = torch.autograd.grad(posterior.mean.sum() + posterior.variance.sum(), points)
    assert bool(torch.isfinite(gradient).all())


def test_the_prior_starts_from_the_usual_step() -> None:
    X, Y = data()
    start = TimeVaryingGP(X, Y).forgetting_kernel.forgetting.item()
    assert 1 - (1 - start) ** 2 == pytest.approx(PRIOR_FORGETTING, rel=1e-5)  # two rounds a step
    one = TimeVaryingGP(X[:1], Y[:1], outcome_transform=None)
    assert one.forgetting_kernel.forgetting.item() == pytest.approx(PRIOR_FORGETTING, rel=1e-5)


@pytest.mark.parametrize("kernel", ["matern", "scaled", "own columns", "sum"])
def test_spatial_kernels_read_the_inputs_only(kernel: str) -> None:
    spatial = {
        "matern": matern(),
        "scaled": ScaleKernel(RBFKernel(ard_num_dims=2)).double(),
        "own columns": ScaleKernel(RBFKernel(active_dims=(1,))).double(),
        "sum": (RBFKernel(active_dims=(0,)) + RBFKernel(active_dims=(1,))).double(),
    }[kernel]
    points = at(3.0)
    alone = deepcopy(spatial)(points[:, :2]).to_dense()
    X, Y = data()
    model = TimeVaryingGP(X, Y, covar_module=spatial, forgetting=FORGETTING)
    later = points + torch.tensor([0.0, 0.0, 4.0], dtype=torch.double)
    found = model.covar_module(points, later).to_dense()
    assert torch.allclose(found, alone * (1 - FORGETTING) ** 2)
    # The kernel is the same as before for who goes on using it by itself.
    assert torch.allclose(model.spatial_kernel(points[:, :2]).to_dense(), alone)


def test_constructor_arguments_from_a_data_set() -> None:
    X, Y = data()
    names = {"feature_names": ["a", "b", "time"], "outcome_names": ["y"]}
    inputs = TimeVaryingGP.construct_inputs(SupervisedDataset(X, Y, **names), forgetting=0.2)
    model = TimeVaryingGP(**inputs)
    assert model.forgetting_kernel.forgetting.item() == pytest.approx(0.2)
    exact = SupervisedDataset(X, Y, Yvar=torch.full_like(Y, 1e-6), **names)
    model = TimeVaryingGP(**TimeVaryingGP.construct_inputs(exact))
    assert isinstance(model.likelihood, FixedNoiseGaussianLikelihood)


def test_one_outcome_of_several() -> None:
    X, Y = data(m=2)
    model = TimeVaryingGP(X, Y)
    model.forgetting_kernel.forgetting = torch.tensor([0.01, 0.2]).reshape(2, 1, 1)
    posterior, part = model.posterior(at(30.0)), model.subset_output([1]).posterior(at(30.0))
    assert torch.allclose(part.mean, posterior.mean[:, 1:])
    assert torch.allclose(part.variance, posterior.variance[:, 1:])

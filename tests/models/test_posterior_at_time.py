"""The posterior at one time, against the model's own."""

from __future__ import annotations

import pytest
import torch
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.models.transforms import Normalize
from gpytorch.kernels import MaternKernel, ScaleKernel
from torch import Tensor

from ax_costaware.models import ExactPosterior, TimeVaryingGP

# Raw inputs and outcomes are what some of these models are about.
pytestmark = pytest.mark.filterwarnings("ignore::botorch.exceptions.warnings.InputDataWarning")

NOW = 25.0
NEGATIVE = ScalarizedPosteriorTransform(torch.tensor([-1.0], dtype=torch.double))


def model(name: str) -> TimeVaryingGP:
    generator = torch.Generator().manual_seed(0)
    x = 3 + 2 * torch.rand(12, 2, generator=generator, dtype=torch.double)
    t = torch.arange(0.0, 24, 2, dtype=torch.double).unsqueeze(-1)
    X, Y = torch.cat([x, t], dim=-1), (2 * x).sin().sum(-1, keepdim=True) + 5
    bounds = torch.tensor([[3.0, 3.0, 0.0], [5.0, 5.0, 1.0]], dtype=torch.double)
    kernel = ScaleKernel(MaternKernel(nu=1.5)).double()
    kernel.outputscale = 2.5
    options = {
        "plain": {"covar_module": kernel, "outcome_transform": None},
        "default": {"input_transform": Normalize(3, bounds=bounds)},
        "fixed noise": {"train_Yvar": torch.full_like(Y, 0.1), "forgetting": 0.2},
    }[name]
    return TimeVaryingGP(X, Y, **options)  # type: ignore[arg-type]


def points(n: int = 5) -> Tensor:
    return 3 + 2 * torch.rand(n, 2, generator=torch.Generator().manual_seed(1), dtype=torch.double)


@pytest.mark.parametrize("name", ["plain", "default", "fixed noise"])
@pytest.mark.parametrize("transform", [None, NEGATIVE])
def test_moments_are_the_models(name: str, transform: ScalarizedPosteriorTransform | None) -> None:
    gp = model(name)
    now = ExactPosterior.of(gp, transform).at_time(NOW)
    rows = torch.cat([points(), torch.full((5, 1), NOW, dtype=torch.double)], dim=-1)
    posterior = gp.posterior(rows, posterior_transform=transform)
    covariance = posterior.distribution.covariance_matrix  # type: ignore[attr-defined]
    found = now.compared_with(points()[4])(points()[:4])
    for mean, variance, n in [(*now(points()), 5), (found.mean, found.variance, 4)]:
        assert torch.allclose(mean, posterior.mean[:n, 0], rtol=1e-8)  # type: ignore[attr-defined]
        assert torch.allclose(variance, covariance.diagonal()[:n], rtol=1e-6)
    assert torch.allclose(found.covariance, covariance[:4, 4], rtol=1e-6)


@pytest.mark.parametrize("name", ["plain", "default"])
def test_correlations_are_the_priors(name: str) -> None:
    gp = model(name)
    rows = points() if name == "plain" else (points() - 3) / 2
    covariance = gp.spatial_kernel(rows).to_dense()
    expected = covariance[:4, 4] / covariance[4, 4]  # the variance is the same everywhere
    now = ExactPosterior.of(gp).at_time(NOW)
    assert torch.allclose(now.correlation(points()[:4], points()[4]), expected)
    assert torch.allclose(now.compared_with(points()[4])(points()[:4]).correlation, expected)


def test_gradients_against_differences() -> None:
    now = ExactPosterior.of(model("default")).at_time(NOW)
    x = points(3).requires_grad_()
    assert torch.autograd.gradcheck(now, (x,))
    assert torch.autograd.gradcheck(lambda X: tuple(now.compared_with(points()[4])(X)), (x,))


def test_another_time_is_that_of_a_new_one() -> None:
    gp = model("default")
    posterior = ExactPosterior.of(gp)
    posterior.at_time(NOW)(points())
    later, new = posterior.at_time(NOW + 9), ExactPosterior.of(gp).at_time(NOW + 9)
    for found, expected in zip(later(points()), new(points()), strict=True):
        assert torch.equal(found, expected)

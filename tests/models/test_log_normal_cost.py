"""Costs learned from what trials have cost."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.spatial.distance import cdist
from torch import Tensor

from ax_costaware.models import LogNormalCostModel
from ax_costaware.models.log_normal_cost import CostKind

KINDS: list[CostKind] = ["gp", "linear", "trend"]
UNIT_SQUARE = torch.tensor([[0.0, 0.0], [1.0, 1.0]])


def _inputs(n: int, d: int = 2, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(n, d, dtype=torch.double, generator=generator)


def _log_cost(X: Tensor) -> Tensor:
    return 3.0 + 2.0 * X[:, 0] - X[:, -1]


def _costs(X: Tensor, noise: float = 0.1, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    scatter = torch.randn(len(X), dtype=torch.double, generator=generator)
    return (_log_cost(X) + noise * scatter).exp()


def _fitted(kind: CostKind, n: int = 15, **options: Any) -> LogNormalCostModel:
    X = _inputs(n)
    return LogNormalCostModel(X, _costs(X), kind, UNIT_SQUARE, **options)


def _prior_covariance(model: LogNormalCostModel, A: Any, B: Any) -> Any:
    """Of the scaled logarithms, with the hyperparameters of the fit."""
    kernel = model._posterior.factor.kernel
    line = 0.0
    if model.kind != "gp":
        line = float(kernel.kernels[0].variance) * (A - 0.5) @ (B - 0.5).T
    if model.kind == "linear":
        return line + 1.0
    rough = kernel if model.kind == "gp" else kernel.kernels[1]
    lengthscale = rough.lengthscale.numpy()
    r = math.sqrt(5) * cdist(A / lengthscale, B / lengthscale)
    return line + (1 + r + r**2 / 3) * np.exp(-r)


def _regression(model: LogNormalCostModel, X: Tensor, rows: Any, Xt: Any) -> tuple[Any, Any]:
    """Mean and variance of logarithms of costs at points, from some rows of the data."""
    y, A = _costs(X).log().numpy(), X.numpy()[rows]
    center = y.mean()
    scale = math.sqrt((((y - center) ** 2).sum() + 1) / len(y))
    factor = model._posterior.factor
    prior_mean, noise = float(factor.prior_mean), float(factor.noise[0])
    K = _prior_covariance(model, A, A) + noise * np.eye(len(A))
    k = _prior_covariance(model, Xt, A)
    mean = prior_mean + k @ np.linalg.solve(K, (y[rows] - center) / scale - prior_mean)
    prior = np.diag(_prior_covariance(model, Xt, Xt))
    variance = prior - np.sum(k * np.linalg.solve(K, k.T).T, axis=1) + noise
    return center + scale * mean, scale**2 * variance


@pytest.mark.parametrize("kind", KINDS)
def test_moments_are_those_of_the_regression(kind: CostKind) -> None:
    """At new points, and at each of the data by the others."""
    X, Xt = _inputs(15), _inputs(20, seed=3)
    model = _fitted(kind)
    mean, variance = _regression(model, X, range(15), Xt.numpy())
    np.testing.assert_allclose(model.log_moments(Xt)[0], mean, rtol=1e-8)
    np.testing.assert_allclose(model.log_moments(Xt)[1], variance, rtol=1e-6)
    means, variances = model.leave_one_out()
    for out in range(15):
        rest = [row for row in range(15) if row != out]
        mean, variance = _regression(model, X, rest, X.numpy()[[out]])
        np.testing.assert_allclose(means[[out]], mean, rtol=1e-7)
        np.testing.assert_allclose(variances[[out]], variance, rtol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_the_error_is_that_of_the_mean(kind: CostKind) -> None:
    """Monte Carlo over the regression's value at a point; the scatter enters by its mean only."""
    model, Xt = _fitted(kind, 8), _inputs(3, seed=4)
    mean, variance = model.log_moments(Xt)
    scatter = float(model._posterior.factor.noise[0] * model._scale.square())
    draws = torch.randn(10**6, 1, dtype=torch.double, generator=torch.Generator().manual_seed(2))
    expected = (mean + (variance - scatter).sqrt() * draws + scatter / 2).exp()
    assert torch.allclose(model.expected_cost_error(Xt), expected.std(dim=0), rtol=0.02)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_finite_differences(kind: CostKind) -> None:
    model, X = _fitted(kind, n=6), _inputs(4, seed=9).requires_grad_(True)
    functions = (model.expected_cost, model.log_cost, model.log_moments, model.expected_cost_error)
    assert all(torch.autograd.gradcheck(function, (X,)) for function in functions)
    past = _inputs(6).requires_grad_(True)
    (gradient,) = torch.autograd.grad(model.log_cost(past).sum(), past)
    assert bool(gradient.isfinite().all())


@pytest.mark.parametrize("kind", KINDS)
def test_expected_cost_is_the_mean_of_the_cost(kind: CostKind) -> None:
    X = _inputs(5, seed=4)
    model = _fitted(kind, n=4)
    mean, variance = model.log_moments(X)
    for m, s, expected in zip(mean, variance.sqrt(), model.expected_cost(X), strict=True):
        a, b = float(m), float(s)
        integral, _ = quad(
            lambda z, a=a, b=b: math.exp(a + b * z - z * z / 2) / math.sqrt(2 * math.pi), -12, 12
        )
        assert float(expected) == pytest.approx(integral, rel=1e-8)
    draws = torch.randn(10**6, 1, generator=torch.Generator().manual_seed(5)).double()
    costs = (mean + variance.sqrt() * draws).exp()
    error = costs.std(dim=0) / 1e3
    assert bool(((costs.mean(dim=0) - model.expected_cost(X)).abs() <= 4 * error).all())
    assert torch.equal(model.log_cost(X), mean + variance / 2)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batch_shape", [(), (1,), (3, 2)])
@pytest.mark.parametrize("dtype", [torch.float, torch.double])
def test_shapes_and_dtypes(
    kind: CostKind, batch_shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    model = _fitted(kind, n=5)
    X = torch.rand(*batch_shape, 2, dtype=dtype, generator=torch.Generator().manual_seed(8))
    flat = X.reshape(-1, 2).double()
    for got, expected in (
        (model.expected_cost(X), model.expected_cost(flat)),
        (model.log_cost(X), model.log_cost(flat)),
        (model.log_moments(X)[0], model.log_moments(flat)[0]),
        (model.log_moments(X)[1], model.log_moments(flat)[1]),
    ):
        assert got.shape == batch_shape
        assert got.dtype == dtype
        assert torch.allclose(got.reshape(-1).double(), expected, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("unit", [1e-12, 1e12])
def test_the_unit_of_cost_does_not_matter(kind: CostKind, unit: float) -> None:
    X, Xt = _inputs(8), _inputs(20, seed=11)
    cost = _costs(X)
    one = LogNormalCostModel(X, cost, kind, UNIT_SQUARE).expected_cost(Xt)
    other = LogNormalCostModel(X, unit * cost, kind, UNIT_SQUARE).expected_cost(Xt)
    assert torch.allclose(other / unit, one, rtol=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_bounds_scale_the_inputs_and_default_to_their_range(kind: CostKind) -> None:
    X, Xt = _inputs(6), _inputs(10, seed=13)
    bounds = torch.stack([X.amin(dim=0), X.amax(dim=0)])
    explicit = LogNormalCostModel(X, _costs(X), kind, bounds).expected_cost(Xt)
    assert torch.equal(LogNormalCostModel(X, _costs(X), kind).expected_cost(Xt), explicit)
    factor, shift = torch.tensor([1000.0, 1e-3]), torch.tensor([-5.0, 3.0])
    moved = LogNormalCostModel(factor * X + shift, _costs(X), kind, factor * bounds + shift)
    assert torch.allclose(moved.expected_cost(factor * Xt + shift), explicit, rtol=1e-3)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, 5])
def test_fits_are_deterministic_and_leave_the_random_state(kind: CostKind, n: int) -> None:
    X, Xt = _inputs(n), _inputs(10, seed=14)
    torch.manual_seed(0)
    state = torch.get_rng_state()
    one = LogNormalCostModel(X, _costs(X), kind, UNIT_SQUARE).expected_cost(Xt)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(1)
    assert torch.equal(LogNormalCostModel(X, _costs(X), kind, UNIT_SQUARE).expected_cost(Xt), one)


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
def test_it_is_fitted_where_the_user_keeps_no_gradients(context: Any) -> None:
    X = _inputs(5)
    with context():
        found = _fitted("linear", 5).expected_cost(X)
    torch.testing.assert_close(found, _fitted("linear", 5).expected_cost(X))


def test_a_trend_goes_on_where_nothing_was_tried() -> None:
    """A process alone goes back to the mean; what is no line is still learned."""
    X = torch.linspace(0.0, 0.35, 8, dtype=torch.double).unsqueeze(-1)
    bounds = torch.tensor([[0.0], [1.0]])
    far = torch.ones(1, 1, dtype=torch.double)
    kinds: list[CostKind] = ["gp", "trend"]
    found = {
        kind: float(LogNormalCostModel(X, (4 * X[:, 0]).exp(), kind, bounds).expected_cost(far))
        for kind in kinds
    }
    assert found["gp"] < 0.5 * math.exp(4.0) < found["trend"] < 3 * math.exp(4.0)
    inputs = torch.linspace(0.0, 1.0, 12, dtype=torch.double).unsqueeze(-1)
    waves = (2 * (9 * inputs[:, 0]).sin()).exp()
    model = LogNormalCostModel(inputs, waves, "trend", bounds)
    between = inputs[:-1] + 1 / 24
    mean, _ = model.log_moments(between)
    assert float((mean - 2 * (9 * between[:, 0]).sin()).abs().max()) < 0.35

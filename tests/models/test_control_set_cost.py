"""Expected costs of one control set, constant unless its values show in the costs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from ax_costaware.exceptions import InputError
from ax_costaware.models import ControlSetCostModel, LogNormalCostModel
from ax_costaware.models.control_set_cost import (
    ControlSetCostKind,
    _constant_leave_one_out,
    least_gain,
)
from tests.repeats import mostly_slow

KINDS: list[ControlSetCostKind] = ["constant", "linear", "gp"]


def _inputs(n: int, d: int = 1, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(n, d, dtype=torch.double, generator=generator)


def _scatter(n: int, sd: float, seed: int = 1) -> Tensor:
    return sd * torch.randn(n, dtype=torch.double, generator=torch.Generator().manual_seed(seed))


def _bounds(d: int) -> Tensor:
    return torch.tensor([[0.0] * d, [1.0] * d])


def _wiggly(X: Tensor, sd: float = 0.1) -> Tensor:
    return (torch.sin(6 * X[:, 0]) + _scatter(len(X), sd)).exp()


@pytest.mark.parametrize("d", [1, 3])
@pytest.mark.parametrize("sd", [0.01, 0.3])
@pytest.mark.parametrize("n", mostly_slow([12, 30], [12]))
def test_costs_that_scatter_are_constant(d: int, sd: float, n: int) -> None:
    kinds = []
    for seed in range(4):
        cost = 5 * _scatter(n, sd, seed + 1).exp()
        model = ControlSetCostModel(_inputs(n, d, seed), cost, bounds=_bounds(d))
        kinds.append(model.kind)
        if model.kind == "constant":
            mean, error = model.estimate(_inputs(7, d, 5).reshape(7, 1, d))
            assert error is None
            assert torch.allclose(mean, cost.mean().expand(7, 1))
    assert kinds.count("constant") >= 3


@pytest.mark.parametrize("d", [1, 3])
def test_the_logarithm_of_costs_on_a_line(d: int) -> None:
    X, Xt = _inputs(30, d), _inputs(50, d, seed=3)
    cost = (1 + 2 * X[:, 0] + _scatter(30, 0.1)).exp()
    model = ControlSetCostModel(X, cost, bounds=_bounds(d))
    assert model.kind == "linear"
    mean, error = model.estimate(Xt)
    assert error is not None
    assert float((mean / (1 + 2 * Xt[:, 0]).exp() - 1).abs().max()) < 0.2
    assert bool((error < 0.2 * mean).all())


def test_costs_that_bend() -> None:
    X, Xt = _inputs(30), _inputs(50, seed=3)
    model = ControlSetCostModel(X, _wiggly(X), bounds=_bounds(1))
    assert model.kind == "gp"
    mean, _ = model.estimate(Xt)
    assert float((mean / torch.sin(6 * Xt[:, 0]).exp() - 1).abs().mean()) < 0.1


@pytest.mark.parametrize("d", [1, 2])
def test_few_costs_are_constant_whatever_they_show(d: int) -> None:
    enough = 2 * (d + 1) + 2
    X = torch.linspace(0, 1, enough).double().unsqueeze(-1).repeat(1, d)
    X[:, 1:] = X[:, 1:].square()
    cost = (3 * X[:, 0]).exp()
    assert ControlSetCostModel(X[:-1], cost[:-1], bounds=_bounds(d)).kind == "constant"
    assert ControlSetCostModel(X, cost, bounds=_bounds(d)).kind != "constant"


@pytest.mark.parametrize("kind", [*KINDS, "auto"])
@pytest.mark.parametrize("n", [1, 2, 9])
def test_equal_costs(kind: Any, n: int) -> None:
    model = ControlSetCostModel(_inputs(n), torch.full((n,), 3.0), 1.0, _bounds(1), kind)
    assert model.kind == ("constant" if kind == "auto" else kind)
    mean, _ = model.estimate(_inputs(4, seed=2))
    if model.kind == "constant":
        assert torch.allclose(mean, torch.tensor(3.0).double())
    assert bool(((mean > 1) & mean.isfinite()).all())


@pytest.mark.parametrize("kind", ["linear", "gp"])
def test_leaving_one_out_is_a_regression_without_it(kind: Any) -> None:
    X, cost = _inputs(12, 2), _wiggly(_inputs(12, 2))
    model = LogNormalCostModel(X, cost, kind, _bounds(2))
    posterior = model._posterior.factor  # type: ignore[attr-defined]
    with torch.no_grad():
        K = posterior.kernel(posterior.X).to_dense().numpy()
    noise, prior_mean = float(posterior.noise[0]), float(posterior.prior_mean)
    y = cost.log().numpy()
    center, scale = y.mean(), math.sqrt((((y - y.mean()) ** 2).sum() + 1) / 12)
    means, variances = (moment.numpy() for moment in model.leave_one_out())
    for out in range(12):
        rest = [row for row in range(12) if row != out]
        A = K[np.ix_(rest, rest)] + noise * np.eye(11)
        residual = (y[rest] - center) / scale - prior_mean
        mean = prior_mean + K[out, rest] @ np.linalg.solve(A, residual)
        variance = K[out, out] + noise - K[out, rest] @ np.linalg.solve(A, K[rest, out])
        np.testing.assert_allclose(means[out], center + scale * mean, rtol=1e-7)
        np.testing.assert_allclose(variances[out], scale**2 * variance, rtol=1e-6)


def test_leaving_one_out_of_a_constant() -> None:
    """A flat prior on the level: the mean of the others, and one n - 1-th of scatter on top."""
    log_cost = _scatter(8, 0.4)
    mean, variance = _constant_leave_one_out(log_cost)
    for out in range(8):
        rest = torch.cat([log_cost[:out], log_cost[out + 1 :]])
        assert torch.allclose(mean[out], rest.mean())
        assert torch.allclose(variance, log_cost.var() * (1 + 1 / 7))


@pytest.mark.parametrize("kind", ["linear", "gp"])
def test_the_error_is_that_of_the_mean(kind: Any) -> None:
    """Monte Carlo over the regression's value at a point; the scatter enters by its mean only."""
    X = _inputs(8)
    model = LogNormalCostModel(X, _wiggly(X, 0.3), kind, _bounds(1))
    Xt = _inputs(3, seed=4)
    mean, variance = model.log_moments(Xt)
    noise = model._posterior.factor.noise[0]
    scatter = float(noise * model._scale.square())
    draws = torch.randn(10**6, 1, dtype=torch.double, generator=torch.Generator().manual_seed(2))
    expected = (mean + (variance - scatter).sqrt() * draws + scatter / 2).exp()
    assert torch.allclose(model.expected_cost_error(Xt), expected.std(dim=0), rtol=0.02)
    assert torch.allclose(model.expected_cost(Xt), expected.mean(dim=0), rtol=0.01)


def test_the_error_shrinks_while_the_scatter_stays() -> None:
    errors = []
    for n in (15, 150):
        X = _inputs(n)
        cost = (1 + X[:, 0] + _scatter(n, 0.4)).exp()
        _, error = ControlSetCostModel(X, cost, kind="linear", bounds=_bounds(1)).estimate(X)
        assert error is not None
        errors.append(float(error.mean() / cost.mean()))
    assert errors[0] < 0.4
    assert errors[1] < 0.7 * errors[0]
    assert errors[1] < 0.2 * 0.4


@pytest.mark.parametrize("kind", KINDS)
def test_the_fixed_part_is_taken_off_and_put_back(kind: ControlSetCostKind) -> None:
    X, Xt = _inputs(10), _inputs(5, seed=2)
    cost = _wiggly(X)
    bare, bare_error = ControlSetCostModel(X, cost, 0.0, _bounds(1), kind).estimate(Xt)
    mean, error = ControlSetCostModel(X, 20 + cost, 20.0, _bounds(1), kind).estimate(Xt)
    assert torch.allclose(mean, 20 + bare, rtol=1e-5)
    if kind == "constant":
        assert error is None
    else:
        assert error is not None
        assert bare_error is not None
        assert torch.allclose(error, bare_error, rtol=1e-4)


def test_a_fixed_part_lets_the_rest_show() -> None:
    """With most of the cost known, the logarithm of the rest is on a line."""
    X = _inputs(30)
    rest = (3 * X[:, 0] + _scatter(30, 0.05)).exp()
    model = ControlSetCostModel(X, 100 + rest, 100.0, _bounds(1))
    assert model.kind == "linear"
    mean, _ = model.estimate(torch.tensor([[0.0], [1.0]]).double())
    assert torch.allclose(mean - 100, torch.tensor([1.0, math.exp(3)]).double(), rtol=0.1)


@settings(max_examples=10, deadline=None)
@given(
    unit=st.floats(1e-9, 1e9),
    shape=st.sampled_from(["noise", "line", "wiggle"]),
    fixed=st.sampled_from([0.0, 0.4]),
)
def test_the_unit_of_cost_does_not_matter(unit: float, shape: str, fixed: float) -> None:
    X, Xt = _inputs(9), _inputs(6, seed=2)
    log_cost = {
        "noise": _scatter(9, 0.2),
        "line": 2 * X[:, 0] + _scatter(9, 0.1),
        "wiggle": torch.sin(6 * X[:, 0]),
    }[shape]
    cost = fixed + log_cost.exp()
    one = ControlSetCostModel(X, cost, fixed, _bounds(1))
    other = ControlSetCostModel(X, unit * cost, unit * fixed, _bounds(1))
    assert one.kind == other.kind
    for a, b in zip(one.estimate(Xt), other.estimate(Xt), strict=True):
        assert (a is None) == (b is None)
        if a is not None and b is not None:
            assert torch.allclose(unit * a, b, rtol=1e-7, atol=0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batch_shape", [(), (1,), (3, 2)])
@pytest.mark.parametrize("dtype", [torch.float, torch.double])
def test_shapes_and_dtypes(
    kind: ControlSetCostKind, batch_shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    X = _inputs(5, 2)
    model = ControlSetCostModel(X.to(dtype), _wiggly(X).to(dtype), 0.1, kind=kind)
    for part in model.estimate(torch.rand(*batch_shape, 2, dtype=dtype)):
        assert part is None or (part.shape == batch_shape and part.dtype == dtype)


@pytest.mark.parametrize("kind", ["linear", "gp"])
def test_gradients_are_finite_differences(kind: Any) -> None:
    X = _inputs(6, 2)
    model = ControlSetCostModel(X, _wiggly(X), 0.5, kind=kind)
    points = _inputs(3, 2, seed=6).requires_grad_(True)
    assert torch.autograd.gradcheck(model.estimate, (points,))


def test_a_richer_model_has_to_gain_more_the_more_it_fits() -> None:
    assert least_gain("linear", 1) <= least_gain("gp", 1) < least_gain("gp", 4)


@pytest.mark.parametrize("kind", [*KINDS, "auto"])
@pytest.mark.parametrize("cost", [2.0, 1.0, -1.0, math.nan, math.inf])
def test_refuses_costs_by_row_and_value(kind: Any, cost: float) -> None:
    costs = torch.tensor([3.0, 4.0, cost]).double()
    with pytest.raises(InputError, match=rf"cost\[2\]={cost!r}: expected a finite cost > 2\."):
        ControlSetCostModel(_inputs(3), costs, 2.0, kind=kind)


@pytest.mark.parametrize("kind", [*KINDS, "auto"])
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"X": torch.ones(3)}, r"X of shape \(3,\): expected n x d"),
        ({"X": torch.ones(0, 1)}, r"X of shape \(0, 1\): expected n x d"),
        ({"X": torch.tensor([[0.0], [math.nan], [1.0]])}, r"X\[1\]=\[nan\]: expected finite"),
        ({"cost": torch.ones(2)}, r"cost of shape \(2,\): expected \(3,\)"),
        ({"cost": [1.0, 2.0, 3.0]}, r"cost of shape \[1\.0, 2\.0, 3\.0\]: expected \(3,\)"),
        ({"fixed": -1.0}, r"fixed=-1\.0: expected a finite number >= 0"),
        ({"fixed": math.nan}, r"fixed=nan: expected a finite number"),
        ({"bounds": torch.ones(2, 3)}, r"bounds: got shape \(2, 3\); expected finite bounds 2 x 1"),
        ({"bounds": torch.tensor([[1.0], [0.0]])}, r"bounds=\[\[1\.0\], \[0\.0\]\]: expected fin"),
    ],
)
def test_refuses(kind: Any, changes: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"X": _inputs(3), "cost": torch.ones(3), **changes}
    with pytest.raises(InputError, match=message):
        ControlSetCostModel(**arguments, kind=kind)


def test_refuses_an_unknown_kind() -> None:
    with pytest.raises(InputError, match=r"kind='cubic': expected one of \['constant', 'linear'"):
        ControlSetCostModel(_inputs(3), torch.ones(3), kind="cubic")  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", KINDS)
def test_refuses_points_of_another_space(kind: ControlSetCostKind) -> None:
    model = ControlSetCostModel(_inputs(3), torch.ones(3), kind=kind)
    with pytest.raises(InputError, match=r"X of shape \(4, 3\): expected batch_shape x 1\."):
        model.estimate(torch.ones(4, 3))

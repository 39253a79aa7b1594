"""Expected costs of one control set, constant unless its values show in the costs."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from ax_costaware.models import ControlSetCostModel
from ax_costaware.models.control_set_cost import (
    ControlSetCostKind,
    _constant_leave_one_out,
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


@pytest.mark.parametrize("kind", [*KINDS, "auto"])
@pytest.mark.parametrize("n", [1, 2, 9])
def test_equal_costs(kind: Any, n: int) -> None:
    model = ControlSetCostModel(_inputs(n), torch.full((n,), 3.0), 1.0, _bounds(1), kind)
    assert model.kind == ("constant" if kind == "auto" else kind)
    mean, _ = model.estimate(_inputs(4, seed=2))
    if model.kind == "constant":
        assert torch.allclose(mean, torch.tensor(3.0).double())
    assert bool(((mean > 1) & mean.isfinite()).all())


def test_leaving_one_out_of_a_constant() -> None:
    """A flat prior on the level: the mean of the others, and one n - 1-th of scatter on top."""
    log_cost = _scatter(8, 0.4)
    mean, variance = _constant_leave_one_out(log_cost)
    for out in range(8):
        rest = torch.cat([log_cost[:out], log_cost[out + 1 :]])
        assert torch.allclose(mean[out], rest.mean())
        assert torch.allclose(variance, log_cost.var() * (1 + 1 / 7))


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


@pytest.mark.parametrize("shape", ["noise", "line", "wiggle"])
@pytest.mark.parametrize(("unit", "fixed"), [(1e-9, 0.4), (1e9, 0.0)])
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


@pytest.mark.parametrize("kind", ["linear", "gp"])
def test_gradients_are_finite_differences(kind: Any) -> None:
    X = _inputs(6, 2)
    model = ControlSetCostModel(X, _wiggly(X), 0.5, kind=kind)
    points = _inputs(3, 2, seed=6).requires_grad_(True)
    assert torch.autograd.gradcheck(model.estimate, (points,))

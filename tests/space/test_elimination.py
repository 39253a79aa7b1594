"""Columns that equality constraints determine: exact, within bounds, and all over the space."""

from __future__ import annotations

import pytest
import torch
from botorch.optim.parameter_constraints import evaluate_feasibility
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from ax_costaware.acquisition.optimize import Region, maximize
from ax_costaware.acquisition.starts import raw_points, regions_of
from ax_costaware.exceptions import InputError
from ax_costaware.space.elimination import Elimination, LinearConstraints


def total(d: int, value: float = 1.0) -> tuple[Tensor, Tensor, float]:
    """That all columns sum to a value."""
    return torch.arange(d), torch.ones(d, dtype=torch.double), value


def box(d: int) -> Tensor:
    return torch.tensor([[0.0] * d, [1.0] * d], dtype=torch.double)


@settings(max_examples=50, deadline=None)
@given(
    d=st.integers(2, 8), k=st.integers(1, 3), seed=st.integers(0, 10_000), size=st.integers(-3, 3)
)
def test_points_keep_to_equations_and_bounds(d: int, k: int, seed: int, size: int) -> None:
    """Whatever the units, the number of equations, and another constraint."""
    k = min(k, d - 1)
    generator = torch.Generator().manual_seed(seed)
    lower = torch.randn(d, generator=generator, dtype=torch.double)
    widths = 10.0 ** (size * torch.rand(d, generator=generator, dtype=torch.double))
    bounds = torch.stack([lower, lower + widths])
    inside = lower + widths * (0.2 + 0.6 * torch.rand(d, generator=generator, dtype=torch.double))
    rows = torch.randn(k + 1, d, generator=generator, dtype=torch.double)
    every = torch.arange(d)
    equalities = [(every, row, float(row @ inside)) for row in rows[:k]]
    room = float(rows[k] @ inside) - 0.2 * float(rows[k].abs() @ widths)
    found = Elimination.of(equalities, bounds, [(every, rows[k], room)])
    U = torch.rand(64, d, generator=generator, dtype=torch.double)
    X = found.spread(lower + widths * U, seed)
    scale = (rows.abs() * torch.maximum(bounds.abs()[0], bounds.abs()[1])).sum(dim=-1)
    for row, (_, _, rhs), unit in zip(rows, equalities, scale, strict=False):
        assert ((X @ row - rhs).abs() <= 1e-9 * unit).all()
    slack = 1e-9 * widths
    assert ((lower - slack <= X) & (lower + widths + slack >= X)).all()
    assert (X @ rows[k] >= room - 1e-9 * scale[k]).all()
    torch.testing.assert_close(found.complete(X), X)
    assert evaluate_feasibility(X.unsqueeze(-2), list(found.constraints), tolerance=1e-6).all()


def test_simple_equations_are_solved_exactly() -> None:
    found = Elimination.of([total(2), (torch.tensor([2]), torch.ones(1).double(), 0.25)], box(3))
    X = torch.tensor([[0.7, 0.1, 0.9]], dtype=torch.double, requires_grad=True)
    complete = found.complete(X)
    assert complete.tolist() in ([[0.9, 0.1, 0.25]], [[0.7, 1 - 0.7, 0.25]])
    assert not found.constraints, "both are within their bounds if one is"
    (slope,) = torch.autograd.grad(complete[0, 0] - 3 * complete[0, 1] + complete[0, 2], X)
    assert sorted(slope.abs().tolist()[0]) == [0.0, 0.0, 4.0]


def test_points_are_spread_like_the_uniform_law() -> None:
    """On the simplex of ten components, of which rejection leaves one in 362,880."""
    d, n = 10, 4000
    X = Elimination.of([total(d)], box(d)).spread(torch.rand(n, d).double(), 0)
    mean, deviation = 1 / d, ((d - 1) / (d**2 * (d + 1))) ** 0.5
    torch.testing.assert_close(X.mean(dim=0), torch.full((d,), mean).double(), rtol=0.1, atol=0.0)
    torch.testing.assert_close(
        X.std(dim=0), torch.full((d,), deviation).double(), rtol=0.12, atol=0.0
    )


@pytest.mark.parametrize(
    "equalities",
    [
        [total(2), total(2, 1.1)],
        [total(3, 3.5)],
        [total(3, 3.0)],
        [(torch.tensor([1]), torch.ones(1).double(), 1.5)],
        [(torch.tensor([], dtype=torch.long), torch.ones(0).double(), 0.5)],
    ],
)
def test_what_leaves_no_room_is_refused(equalities: LinearConstraints) -> None:
    with pytest.raises(InputError, match="contradict each other, or leave no room"):
        Elimination.of(equalities, box(3))


def test_equations_that_say_the_same_are_one() -> None:
    found = Elimination.of([total(3), total(3)], box(3))
    assert len(found.columns) == 1
    held = (torch.tensor([0]), torch.ones(1).double(), 0.4)
    every = [held, *((torch.tensor([i]), torch.ones(1).double(), 0.3) for i in (1, 2))]
    pinned = Elimination.of([total(3), *every], box(3))
    assert pinned.sources == []
    assert pinned.spread(box(3), 0).tolist() == [pytest.approx([0.4, 0.3, 0.3])] * 2


@pytest.mark.parametrize("d", [2, 4, 9])
def test_a_local_search_keeps_to_an_equation(d: int) -> None:
    """It ends at the point of the plane that is nearest to a target."""
    found = Elimination.of([total(d)], box(d))
    target = torch.linspace(0.5, 1.5, d).double() / d  # of sum one
    region = Region(box(d), constraints=found.constraints, elimination=found)
    starts = found.spread(torch.rand(64, d).double(), 1)

    def function(X: Tensor, _: Tensor) -> Tensor:
        return -(X - target - 0.01).square().sum(dim=-1)

    ends = maximize(function, [region], [starts], num_restarts=4)[0].point
    assert ((ends.sum(dim=-1) - 1).abs() < 1e-12).all()
    assert (ends >= 0).all()
    torch.testing.assert_close(ends[0], target, rtol=0.0, atol=1e-4)


@pytest.mark.parametrize("d", [3, 8])
def test_raw_points_keep_to_an_equation(d: int) -> None:
    """Of a control set of all columns but the last, everywhere and near a training input."""
    found = Elimination.of([total(d)], box(d + 1))
    default = torch.full((d + 1,), 0.5).double()
    controlled = list(range(d))
    (region,) = regions_of(
        [controlled], box(d + 1), default, constraints=found.constraints, elimination=found
    )
    near = torch.cat([torch.eye(d)[:1], torch.ones(1, 1)], dim=-1).double()
    spread = torch.full((d + 1,), 0.05).double()
    X = raw_points(region, 64, near, spread, 0)
    assert X.shape == (64, d + 1)
    assert ((X[:, :d].sum(dim=-1) - 1).abs() < 1e-12).all()
    assert (X[:, :d] >= -1e-9).all()
    assert (X[:, d] == 0.5).all()
    assert (X[:, 0] > 0.6).sum() >= 16, "near the training input"
    assert (X[:, 0] < 0.4).sum() >= 8, "and elsewhere"

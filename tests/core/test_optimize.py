"""The search for choices, integers and constraints, beside all that there is."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest
import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.models import SingleTaskGP
from torch import Tensor

from ax_costaware.core import Problem, SpaceExhausted
from ax_costaware.core.history import PastTrial
from ax_costaware.core.optimize import design_of, is_out_of_scale, maximum_within
from ax_costaware.exceptions import InputError
from ax_costaware.methods import CostAware
from ax_costaware.space import Choice, Range, Space
from ax_costaware.space.finite_spaces import ALL_POINTS, all_points, untried
from ax_costaware.space.parameters import Row

SOILS = ("sand", "clay", "peat", "loam", "silt")
SPACE = Space.of(
    [
        Range("dose", 0.0, 1.0),
        Range("rate", 0.0, 1.0),
        Choice("soil", SOILS),
        Range("pots", 0, 40, is_integer=True),
        Choice("lid", (True, False)),
    ],
    [({"dose": 1.0, "rate": 1.0}, 1.0)],
)
_MODEL = SingleTaskGP(torch.rand(2, 9).double(), torch.rand(2, 1).double())


class Hills(AcquisitionFunction):
    """A hill for each choice, at different places, the higher ones beyond the constraint."""

    def __init__(self) -> None:
        super().__init__(_MODEL)

    def forward(self, X: Tensor) -> Tensor:
        """Values of points ``b x 1 x d``: ``b``."""
        dose, rate, pots = X[:, 0, 0], X[:, 0, 1], X[:, 0, 7]
        soil = X[:, 0, 2:7] @ torch.arange(5.0).to(X)
        at, lid = 0.2 + 0.15 * soil, X[:, 0, 8]
        distance = (dose - at).square() + (rate - at).square() + ((pots - 9 * soil) / 40).square()
        return (1 + 0.2 * soil + 0.1 * lid) * (-3 * distance).exp()


def highest(held: Row) -> float:
    """The largest value by brute force."""
    grid = torch.linspace(0, 1, 201).double()
    dose, rate = (axis.flatten() for axis in torch.meshgrid(grid, grid, indexing="ij"))
    within = dose + rate <= 1 + 1e-9
    best = -math.inf
    for soil, pots, lid in itertools.product(SOILS, range(41), (True, False)):
        row: Row = {"dose": 0.0, "rate": 0.0, "soil": soil, "pots": pots, "lid": lid}
        if any(row[name] != value for name, value in held.items()):
            continue
        X = SPACE.encode([row]).repeat(int(within.sum()), 1)
        X[:, 0], X[:, 1] = dose[within], rate[within]
        best = max(best, float(Hills()(X.unsqueeze(1)).max()))
    return best


@pytest.mark.parametrize("held", [{}, {"soil": "clay"}, {"pots": 11, "lid": False}])
def test_the_best_point_of_all(held: Row) -> None:
    columns = SPACE.columns_of(held)
    found = maximum_within(Problem(SPACE), Hills(), {"raw_samples": 64, "num_restarts": 4}, columns)
    (row,) = SPACE.decode(found.point.unsqueeze(0))
    assert SPACE.meets(row)
    assert all(row[name] == value for name, value in held.items())
    assert found.value == pytest.approx(float(Hills()(SPACE.encode([row]).unsqueeze(1))), abs=1e-9)
    # The grid is no finer than that.
    assert highest(held) - 1e-9 <= found.value <= highest(held) + 1e-4


class Sums(AcquisitionFunction):
    """The sum of the columns."""

    def __init__(self) -> None:
        super().__init__(_MODEL)

    def forward(self, X: Tensor) -> Tensor:
        """Values of points ``b x 1 x d``: ``b``."""
        return X[:, 0].sum(dim=-1)


def integers(count: int, upper: int) -> Space:
    """A space of finitely many points."""
    return Space.of([Range(f"x{i}", 0, upper, is_integer=True) for i in range(count)])


def tried(space: Space, rows: list[Row]) -> Problem:
    """A problem with trials at some points."""
    trials = tuple(PastTrial(i, row, outcome=0.0, is_observed=True) for i, row in enumerate(rows))
    return Problem(space, trials)


def test_corners_of_a_finite_space_are_found() -> None:
    """Quasi-random points seldom come to the end values of several integers at once."""
    space = integers(4, 3)
    every = itertools.product(range(4), repeat=4)
    rows: list[Row] = [dict(zip(space.names, values, strict=True)) for values in every]
    problem = tried(space, rows[:-1])
    found = maximum_within(problem, Sums(), {})
    assert space.decode(found.point.unsqueeze(0)) == rows[-1:]
    assert not problem.is_exhausted
    everywhere = tried(space, rows)
    assert everywhere.is_exhausted
    *others, last = everywhere.trials
    excluded = replace(last, status="ABANDONED", outcome=None, is_observed=False, is_excluded=True)
    assert not Problem(space, (*others, excluded)).is_exhausted
    with pytest.raises(SpaceExhausted):
        maximum_within(everywhere, Sums(), {})


def test_the_best_untried_point_of_very_many() -> None:
    space = integers(3, 200)
    corner = dict.fromkeys(space.names, 200)
    found = maximum_within(tried(space, [corner]), Sums(), {"raw_samples": 64, "num_restarts": 4})
    assert found.value == 599
    assert not tried(space, [corner]).is_exhausted


def test_integers_on_a_log_scale_are_known_again() -> None:
    """Two ways to a logarithm differ in the last digit."""
    space = Space.of([Range("n", 1, 4000, is_integer=True, log_scale=True)])
    rows: list[Row] = [{"n": n} for n in range(1, 4001)]
    assert tried(space, rows).is_exhausted
    quasi_random = space.sobol_points(256, 0)
    assert not len(untried(quasi_random, space.encode(rows)))


@pytest.mark.parametrize(
    ("parameter", "is_bounded", "expected"),
    [
        (Range("n", 0, 1), True, False),
        (Range("n", 0, 1e4), False, False),
        (Range("n", 0, 1e4), True, True),
        (Range("n", 0, 1e5), False, True),
        (Range("n", 1e-9, 1e9, log_scale=True), False, False),
        (Range("n", 0, 10_000, is_integer=True), True, False),
        (Range("n", 0, 10**6, is_integer=True), False, True),
        (Choice("n", (1, 10**9), is_ordered=True), False, False),
    ],
)
def test_which_spaces_are_searched_in_units_of_the_ranges(
    parameter: Range | Choice, is_bounded: bool, expected: bool
) -> None:
    others = [Choice("soil", SOILS), Range("pots", 0, 9, is_integer=True)]
    sums = [({"n": 1.0, "pots": 1.0}, 9.0)] if is_bounded else []
    assert is_out_of_scale(Space.of([parameter, *others], sums)) is expected


@pytest.mark.parametrize("held", [{"x": 0.5}, {"x": 0.5, "n": 1}], ids=["real", "real, integer"])
def test_what_is_left_may_be_finite(held: dict[str, float]) -> None:
    """As where all real numbers were disabled: nothing is tried again and again."""
    space = Space.of([Range("x", 0, 1), Range("n", 0, 1, is_integer=True), Choice("c", (*"ab",))])
    every = itertools.product((0.5,), (0, 1), "ab")
    rows: list[Row] = [dict(zip(space.names, values, strict=True)) for values in every]
    left = [row for row in rows if row["n"] == held.get("n", row["n"])]
    assert not tried(space, rows).is_exhausted
    problem = replace(tried(space, left[1:]), fixed=held)
    assert not problem.is_exhausted
    found = maximum_within(problem, Sums(), {})
    assert space.decode(found.point.unsqueeze(0)) == left[:1]
    exhausted = replace(tried(space, left), fixed=held)
    with pytest.raises(SpaceExhausted):
        maximum_within(exhausted, Sums(), {})
    assert exhausted.is_exhausted


def test_what_is_fixed_leaves_room_within_constraints() -> None:
    constraint = {"x": 1.0, "n": 2.0}, 2.5
    space = Space.of([Range("x", 0, 1), Range("n", 0, 2, is_integer=True)], [constraint])
    assert space.held_at({"n": 1}) is space
    assert not space.held_at({"x": 0.5, "n": 1}).sums, "what is fixed as a whole was seen to"
    with pytest.raises(InputError, match=r"{'n': 2}: parameter constraint 'x \+ 2\*n <= 2.5' "):
        space.held_at({"n": 2})


Bounded = list[tuple[dict[str, float], float]]


def sum_is(weights: dict[str, float], value: float) -> Bounded:
    """That a sum is a number, as Ax's Client says it."""
    return [(weights, value), ({name: -w for name, w in weights.items()}, -value)]


def parts(count: int, upper: int) -> list[Range]:
    """Integers."""
    return [Range(name, 0, upper, is_integer=True) for name in "abcdefgh"[:count]]


STEPS = [Choice(name, tuple(0.1 * i for i in range(11)), is_ordered=True) for name in "abcde"]
LIDS = [Choice("soil", SOILS), Choice("lid", (True, False))]
X, Y = Range("x", 0.0, 1.0), Range("y", 0.0, 1.0)
TIED: dict[str, Space] = {
    "few": Space.of(parts(5, 10), sum_is(dict.fromkeys("abcde", 1.0), 10.0)),
    "two sums": Space.of(
        parts(5, 12),
        [
            *sum_is(dict.fromkeys("abcde", 1.0), 20.0),
            *sum_is({"a": 1.0, "b": 2.0, "c": 3.0, "d": 1.0, "e": 2.0}, 35.0),
        ],
    ),
    "many steps": Space.of(STEPS, sum_is(dict.fromkeys("abcde", 1.0), 2.0)),
    "weights at most": Space.of(
        parts(5, 14), [({"a": 3.0, "b": 4.0, "c": 5.0, "d": 7.0, "e": 2.0}, 47.0)]
    ),
    "choices": Space.of([*parts(4, 10), *LIDS], sum_is(dict.fromkeys("abcd", 1.0), 20.0)),
    "real": Space.of([*parts(4, 6), X], sum_is(dict.fromkeys("abcd", 1.0), 6.0)),
    "shared with a real": Space.of([*parts(3, 6), X], [(dict.fromkeys("abcx", 1.0), 2.5)]),
    "real sum": Space.of(
        [*parts(4, 5), X, Y],
        [*sum_is(dict.fromkeys("abcd", 1.0), 5.0), *sum_is({"x": 1.0, "y": 1.0}, 1.0)],
    ),
}
"""Spaces of which constraints leave little."""


def every_point(space: Space) -> Tensor:
    """All valid points, by brute force, or with some values of each real number."""
    axes = dict(space.discrete)
    for i in space.smooth:
        is_determined = space.elimination is not None and i in space.elimination.columns
        axes[i,] = torch.linspace(0, 1, 1 if is_determined else 21).double().unsqueeze(-1)
    picks = torch.cartesian_prod(*[torch.arange(len(values)) for values in axes.values()])
    points = space.bounds.new_empty(len(picks), space.bounds.shape[-1])
    for (columns, values), pick in zip(axes.items(), picks.mT, strict=True):
        points[:, list(columns)] = values[pick]
    return space.feasible(space.complete(points))


class Bumps(AcquisitionFunction):
    """The highest of some bumps all over a space."""

    def __init__(self, space: Space, centers: Tensor) -> None:
        super().__init__(_MODEL)
        self.lower, self.width = space.bounds[0], space.bounds[1] - space.bounds[0]
        self.centers = (centers - self.lower) / self.width
        self.heights = torch.linspace(1, 2, len(centers)).double()
        self.size = 0.09 * len(self.width)

    def forward(self, X: Tensor) -> Tensor:
        """Values of points ``b x 1 x d``: ``b``."""
        unit = (X[:, 0] - self.lower) / self.width
        distance = torch.cdist(unit, self.centers).square() / self.size
        return ((-2 * distance).exp() * self.heights).amax(dim=-1)


@pytest.mark.parametrize("name", TIED)
def test_the_best_point_where_constraints_leave_little(name: str) -> None:
    """Where one number moves, another one has to move, too."""
    space = TIED[name]
    points = every_point(space)
    found = all_points(space)
    if found is not None:
        assert torch.allclose(found, points.unique(dim=0))
    assert (found is None) == (bool(space.smooth) or len(points) > ALL_POINTS)
    for seed in range(2):
        generator = torch.Generator().manual_seed(seed)
        bumps = Bumps(space, points[torch.randperm(len(points), generator=generator)[:20]])
        with torch.no_grad():
            highest = float(bumps(points.unsqueeze(1)).max())
        best = maximum_within(Problem(space), bumps, {})
        assert space.meets(*space.decode(best.point.unsqueeze(0)))
        assert best.value >= 0.99 * highest


@pytest.mark.parametrize("held", [{"a": 3}, {"a": 0, "b": 9}, {"c": 10}])
def test_what_is_fixed_leaves_of_a_sum(held: Row) -> None:
    space = TIED["few"]
    columns = space.columns_of(held)
    points = all_points(space, columns)
    assert points is not None
    rows = space.decode(points)
    assert all(space.meets(row) and {**row, **held} == row for row in rows)
    free, left = 5 - len(held), 10 - sum(int(str(value)) for value in held.values())
    assert len(rows) == math.comb(left + free - 1, free - 1)
    around = space.decode(space.neighbors(points, columns))
    assert all(row in rows for row in around)
    drawn = space.decode(space.sobol_points(256, 0, columns))
    assert len(drawn) > len(rows) // 2
    assert all(row in rows for row in drawn)


def test_a_design_of_numbers_that_sum_to_one() -> None:
    """Of ten of them hardly any quasi-random point of the box does."""
    space = Space.of(
        [Range(f"x{i}", 0, 10, is_integer=True) for i in range(10)],
        sum_is({f"x{i}": 1.0 for i in range(10)}, 10.0),
    )
    assert len(space.sobol_points(256, 0)) > 200
    rows = list(itertools.islice(design_of(Problem(space), CostAware(1.0, lmbda=1.0)), 20))
    assert all(space.meets(row) for row in rows)
    assert len({tuple(row.values()) for row in rows}) == 20


def test_a_search_of_integers_without_room_is_refused() -> None:
    space = Space.of(parts(3, 4), sum_is(dict.fromkeys("abc", 1.0), 13.0))
    with pytest.raises(InputError, match="no point met the parameter constraints"):
        maximum_within(Problem(space), Sums(), {})

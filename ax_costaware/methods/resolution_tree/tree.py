"""A tree of cells over a box: coarse cells are cheap to measure, fine cells locate the optimum.

Zhang et al. 2024, "Indirect Query Bayesian Optimization with Integrated Feedback", section 5.2 and
Algorithm 1 (CMETS). A measurement of a cell of level ``l`` observes its mean. The children of the
cell, at level ``l + 1``, are a finer partition of it. Candidates are the leaves of the tree and
their children; the one of most information per cost is measured and split. Algorithm 1 as printed
takes the siblings of a measured child off the leaves: they remain candidates, but not their
children. ``published`` does that; in ``leaves`` they stay, and the leaves partition the box.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, product
from numbers import Integral
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from ax_costaware.argument_checks import (
    at_least,
    checked_items,
    finite_number,
    integer_at_least,
    interval,
    nonnegative_number,
    numbers,
    positive_number,
    sequence_of,
    set_fields,
)
from ax_costaware.exceptions import InputError

_MOST_CHILDREN = 4096
"""Largest number of parts of a cell: the information of all of them is computed."""

_MOST_PER_COLUMN = 2**40
"""Most cells of one column, whose centres still differ in double precision."""

_SAME_CENTRE = 1e-3
"""Tolerance of a centre, in widths of its cell, for rounding by transforms."""

_SAME_COST = 1e-9
"""Relative excess of a cost over the budget left that is rounding only."""


@dataclass(frozen=True, order=True)
class Cell:
    """A cell of a resolution tree."""

    level: int
    """Number of splits of the box; the root, the whole box, has level zero."""

    index: tuple[int, ...]
    """Position among the cells of its level, counted in each column from zero."""


_PLACE = attrgetter("level", "index")
"""Sort key of cells: the same as their own order, and faster to compare."""


@dataclass(frozen=True)
class ResolutionTree:
    """A box that is split, level by level, into equal cells.

    The tree has no state: its leaves follow from the measured cells.

    Raises:
        InputError: If the bounds are no box, the finest level is negative or too fine, no column is
            split, or costs and noise are not one number > 0 (noise: >= 0) for each level.
    """

    lower: tuple[float, ...]
    """Lower bounds of the ``d`` columns, in raw units."""

    upper: tuple[float, ...]
    """Upper bounds."""

    max_level: int
    """The finest level; its cells are not split, and may be measured repeatedly."""

    splits: Sequence[int] | int = 2
    """Number of parts of a cell along every column, or ``d`` numbers."""

    costs: Sequence[float] | None = None
    """Cost of measuring a cell of each level from 0 to ``max_level``; by default
    ``0.5 (level + 1)``, that of the paper."""

    noise: Sequence[float] | float | None = None
    """Standard deviation of the noise of a measurement, by level or for all; None if unknown."""

    def __post_init__(self) -> None:
        lower = numbers(self.lower, "lower")
        upper = numbers(self.upper, "upper", len(lower))
        for pair in zip(lower, upper, strict=True):
            interval(*pair)
        levels = integer_at_least(self.max_level, 0, "max_level")
        splits = _splits(self.splits, len(lower))
        if max(splits) ** levels > _MOST_PER_COLUMN:
            most = int(math.log(_MOST_PER_COLUMN) / math.log(max(splits)))
            raise InputError(
                f"max_level={self.max_level!r}: expected at most {most} with splits={splits!r};"
                " cells of a finer level are not told apart."
            )
        if math.prod(splits) > _MOST_CHILDREN:
            raise InputError(
                f"splits={self.splits!r}: expected at most {_MOST_CHILDREN} parts of a cell, and "
                f"of {len(lower)} columns it has {math.prod(splits)}."
            )
        costs = self.costs
        if costs is None:
            costs = tuple(0.5 * (level + 1) for level in range(levels + 1))
        noise = self.noise
        if noise is not None and not isinstance(noise, Iterable):
            noise = (noise,) * (levels + 1)
        per_level = f"{levels + 1} numbers, one for each level from 0 to {levels}"
        if noise is not None:
            noise = checked_items(noise, "noise", per_level, nonnegative_number, levels + 1)
        set_fields(
            self,
            lower=lower,
            upper=upper,
            max_level=levels,
            splits=splits,
            costs=checked_items(costs, "costs", per_level, positive_number, levels + 1),
            noise=noise,
        )

    @property
    def num_columns(self) -> int:
        """The number ``d`` of columns."""
        return len(self.lower)

    @property
    def num_children(self) -> int:
        """Number of children of a cell."""
        return math.prod(self._splits)

    @property
    def root(self) -> Cell:
        """The cell that is the whole box."""
        return Cell(0, (0,) * self.num_columns)

    def centre(self, cell: Cell) -> tuple[float, ...]:
        """Return the centre of a cell, ``d`` numbers in raw units.

        Raises:
            InputError: If it is no cell of the tree, here and below.
        """
        self._check(cell)
        return tuple(self.centres([cell])[0].tolist())

    def centres(self, cells: Sequence[Cell]) -> npt.NDArray[np.float64]:
        """Return the centres of cells, ``n x d`` in raw units, without checks."""
        index = np.array([cell.index for cell in cells], dtype=float)
        counts = np.array([self._counts[cell.level] for cell in cells], dtype=float)
        lower, upper = np.array(self.lower), np.array(self.upper)
        return np.asarray(lower + (upper - lower) * ((index + 0.5) / counts))

    def half_widths(self, level: int) -> tuple[float, ...]:
        """Return half the widths of the cells of a level, ``d`` numbers in raw units.

        Raises:
            InputError: If the tree has no such level, here and below.
        """
        counts = np.array(self._counts[self._level(level)])
        return tuple((0.5 * (np.array(self.upper) - np.array(self.lower)) / counts).tolist())

    def cost(self, level: int) -> float:
        """Return the cost of measuring a cell of a level."""
        level = self._level(level)
        return self.costs[level]  # type: ignore[index]

    def noise_of(self, level: int) -> float | None:
        """Return the standard deviation of the noise at a level; None if unknown."""
        level = self._level(level)
        return None if self.noise is None else self.noise[level]  # type: ignore[index]

    def cell_at(self, level: Any, centre: Iterable[Any]) -> Cell:
        """Return the cell of a level and centre.

        Args:
            level: A level of the tree, as an integer or an integral float.
            centre: ``d`` numbers in raw units; within rounding those of ``centre``.

        Raises:
            InputError: If the tree has no such level, or no such centre there.
        """
        level = self._level(level)
        numbers = checked_items(
            centre, "centre", f"{self.num_columns} numbers", length=self.num_columns
        )
        cell = self.cell_around(level, numbers)
        pairs = zip(numbers, self.centre(cell), self.half_widths(level), strict=True)
        for column, (value, nearest, half) in enumerate(pairs):
            if abs(value - nearest) > 2 * half * _SAME_CENTRE:
                raise InputError(
                    f"centre={numbers!r} has {value!r} in column {column}: expected the centre of a"
                    f" cell of level {level}; the nearest is {nearest!r}."
                )
        return cell

    def cell_around(self, level: int, point: Sequence[float]) -> Cell:
        """Return the cell of a level that contains a point, ``d`` numbers in raw units."""
        sides = zip(point, self.lower, self.upper, self._counts[self._level(level)], strict=True)
        places = (((x - low) / (high - low) * n, n) for x, low, high, n in sides)
        return Cell(level, tuple(int(min(max(place, 0.0), n - 1)) for place, n in places))

    def children(self, cell: Cell) -> tuple[Cell, ...]:
        """Return the cells into which a cell is split; none at the finest level."""
        self._check(cell)
        return self._children(cell)

    def _children(self, cell: Cell) -> tuple[Cell, ...]:
        if cell.level == self.max_level:
            return ()
        parts = (range(i * k, (i + 1) * k) for i, k in zip(cell.index, self._splits, strict=True))
        return tuple(Cell(cell.level + 1, index) for index in product(*parts))

    def leaves(self, measured: Iterable[Cell] = ()) -> tuple[Cell, ...]:
        """Return the leaves of the tree, given the measured cells; they partition the box.

        A measured cell is split, and so are all its ancestors. A cell of the finest level is not
        split.

        Args:
            measured: Cells of the tree; a cell may be there more than once, and the order does
                not matter.

        Returns:
            The leaves, coarse ones first and then by index.
        """
        split: set[Cell] = set()
        for cell in measured:
            self._check(cell)
            if cell.level < self.max_level:
                split.add(cell)
            split.update(self.ancestors(cell))
        leaves = {child for cell in split for child in self._children(cell)} - split
        return tuple(sorted(leaves or {self.root}, key=_PLACE))

    def published(self, measured: Iterable[Cell] = ()) -> tuple[tuple[Cell, ...], tuple[Cell, ...]]:
        """Return the leaves and the active cells of Algorithm 1 as printed, sorted.

        Args:
            measured: Measured cells in their order.
        """
        leaves, expansions = {self.root}, {*self._children(self.root)}
        for cell in measured:
            self._check(cell)
            leaves -= {*islice(self.ancestors(cell), 1)} if cell in expansions else {cell}
            expansions -= {cell}
            leaves |= {*self._children(cell)}
            expansions |= {child for leaf in leaves for child in self._children(leaf)}
        return tuple(sorted(leaves, key=_PLACE)), tuple(sorted(leaves | expansions, key=_PLACE))

    def active(self, measured: Iterable[Cell] = ()) -> tuple[Cell, ...]:
        """Return the cells that may be measured next: the leaves and their children, sorted."""
        return self.with_children(self.leaves(measured))

    def with_children(self, leaves: Iterable[Cell]) -> tuple[Cell, ...]:
        """Return cells and their children, sorted; for leaves these are the active cells."""
        found = {*leaves, *(child for leaf in leaves for child in self._children(leaf))}
        return tuple(sorted(found, key=_PLACE))

    def decide(
        self,
        cells: Sequence[Cell],
        information: Iterable[Any],
        remaining: float | None = None,
        costs: Sequence[float] | None = None,
    ) -> tuple[int, str]:
        """Choose the cell with the most information per unit of cost.

        Args:
            cells: The candidates, see ``active``.
            information: Information of measuring each of them, finite.
            remaining: Budget left; None without a budget.
            costs: Cost of measuring each of them; None: that of its level.

        Returns:
            Position of the affordable cell with the largest ratio, the first of several, and the
            reason, a phrase with the numbers that decided.

        Raises:
            InputError: If there are no candidates or none is affordable, or the information is not
                one finite number for each.
        """
        values = sequence_of(information, "information", "a number for each cell")
        if not cells or len(values) != len(cells):
            raise InputError(
                f"information has {len(values)} values for {len(cells)} cells: expected one for"
                " each of one or more."
            )
        gains = [finite_number(value, f"information[{i}]") for i, value in enumerate(values)]
        for cell in cells:
            self._check(cell)
        if costs is None:
            costs = [self.cost(cell.level) for cell in cells]
        left = math.inf if remaining is None else finite_number(remaining, "remaining")
        affordable = [i for i, cost in enumerate(costs) if cost <= left + _SAME_COST * abs(left)]
        if not affordable:
            raise InputError(
                f"remaining={remaining!r}: expected at least {min(costs):.6g}, the cost of the"
                " cheapest cell."
            )
        position = max(affordable, key=lambda i: gains[i] / costs[i])
        cell, value = cells[position], gains[position] / costs[position]
        among = f"the {len(affordable)} affordable of " if len(affordable) < len(cells) else ""
        return (
            position,
            f"measuring this cell of level {cell.level} tells {gains[position]:.4g} at a cost of"
            f" {costs[position]:.6g}: {value:.4g} per unit of cost is the most of {among}"
            f"{len(cells)} cells",
        )

    def ancestors(self, cell: Cell) -> Iterator[Cell]:
        """Yield the cells that contain a cell, the smallest first."""
        for level in reversed(range(cell.level)):
            counts = self._counts[cell.level - level]
            yield Cell(level, tuple(i // n for i, n in zip(cell.index, counts, strict=True)))

    @cached_property
    def _splits(self) -> tuple[int, ...]:
        assert isinstance(self.splits, tuple)
        return self.splits

    @cached_property
    def _counts(self) -> tuple[tuple[int, ...], ...]:
        """Numbers of cells of each level, by column."""
        return tuple(tuple(k**n for k in self._splits) for n in range(self.max_level + 1))

    def _level(self, level: Any) -> int:
        number = finite_number(level, "level")
        if not number.is_integer() or not 0 <= number <= self.max_level:
            raise InputError(f"level={level!r}: expected an integer from 0 to {self.max_level}.")
        return int(number)

    def _check(self, cell: Cell) -> None:
        is_cell = (
            isinstance(cell, Cell)
            and isinstance(cell.level, Integral)
            and 0 <= cell.level <= self.max_level
            and len(cell.index) == self.num_columns
            and all(
                isinstance(i, Integral) and 0 <= i < n
                for i, n in zip(cell.index, self._counts[cell.level], strict=True)
            )
        )
        if not is_cell:
            raise InputError(
                f"cell={cell!r}: expected a cell of a tree of {self.num_columns} columns, splits"
                f" {self.splits!r} and levels 0 to {self.max_level}."
            )


def _splits(splits: Any, num_columns: int) -> tuple[int, ...]:
    expected = "an integer >= 2, or one integer >= 1 for each column, not all 1"
    if isinstance(splits, Integral) and not isinstance(splits, bool):
        splits = (splits,) * num_columns
    numbers = checked_items(splits, "splits", expected, at_least(1), num_columns)
    if max(numbers) < 2:
        raise InputError(f"splits={splits!r}: expected {expected}.")
    return numbers

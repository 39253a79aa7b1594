r"""The maximizer of acquisition functions.

It serves every search of the package: one function, or several *tasks* in one batch, such as
control sets with different columns, or sample paths. Rows of points carry the index of their task,
so that one evaluation serves a step of all tasks.

1. Screening: the starts of each task are scored. The best ones that are not near one another stay.
2. Search: all of them climb by BoTorch's batched L-BFGS-B, in units of the unit cube and of the
   scores' standard deviation. Integers climb as if they were real numbers, and are rounded.
3. Polish: the leaders of each task climb to convergence, with integers and choices as they are.
4. Changes: choices and integers are changed where that makes a leader better, one at a time, or two
   that a constraint ties together; then it climbs again.

Rows climb without inequality constraints. The best few rows that violate one are repeated with
BoTorch's solver for constraints (SLSQP), which has no batches. Equality constraints determine
columns, see ``space.elimination``: SLSQP would violate them by its tolerance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Generic, TypeAlias, TypeVar

import torch
from torch import Tensor

from ax_costaware.acquisition.local_search import Nonlinear, ascend
from ax_costaware.space.discrete import Discrete, exchanges, satisfied
from ax_costaware.space.elimination import Elimination, LinearConstraints
from ax_costaware.space.finite_spaces import all_points
from ax_costaware.space.parameters import Range
from ax_costaware.space.space import Space

TaskFunction: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""From points ``n x d`` and the task of each, ``n``, to values ``n``, differentiable."""

START_DISTANCE = 0.1
"""Least distance of starts in the unit cube, so that they are in different basins."""

SAME_OPTIMUM = 0.01
"""Distance in the unit cube below which two ends are one local optimum."""

ITERATIONS = 100
"""Iterations of a local search; on smooth functions of a few columns it takes 10 to 30."""

SEARCH_ITERATIONS = 15
"""Iterations of all restarts, before the leaders are polished."""

NUM_POLISHED = 4
"""Number of leaders of each task."""

ROUNDS = 3
"""Rounds of changes of integers and choices."""

# Relative range of values below which a function is constant, to rounding.
_FLAT = 1e-12

# Rows per evaluation outside of the local search.
_AT_ONCE = 1024

# Rows of a task that are repeated with constraints.
_REPEATED = 4

# Columns with more values than this are changed by 1, 2, 4, ... steps only.
_MOST_CHANGES = 64

# Most rows of a table that a row is changed to: those nearest to it.
_MOST_ROWS = 1024

Values = TypeVar("Values", float, Tensor)


@dataclass(frozen=True, eq=False)
class Optimum(Generic[Values]):
    """A point with its value, or a batch of points with one value each."""

    point: Tensor
    """The point, ``d``; of a batch ``batch_shape x d``."""

    value: Values
    """The value of what was maximized there; of a batch, a tensor of shape ``batch_shape``."""

    feasibility: float | None = None
    """Probability that it is feasible; None without constraints, or if it was not computed."""

    trial: int | None = None
    """Position of the observed trial that evaluated it; None if none did."""

    is_limited_by_budget: bool = False
    """True if a better point costs more than what is left, or than ``max_trial_cost``."""


def _unchanged(X: Tensor) -> Tensor:
    return X


@dataclass(frozen=True, eq=False)
class Region:
    """Feasible set of a task.

    The tasks of one search have the same bounds and the same equality constraints.
    """

    bounds: Tensor
    """``2 x d`` bounds of the columns."""

    discrete: Discrete = ()
    """``(columns, values)``: these columns jointly take a row of ``values``, ``m x len(columns)``:
    one column for an integer, several for a one-hot encoding."""

    fixed: Mapping[int, float] = field(default_factory=dict)
    """Values of columns that are fixed; ``discrete`` has none of them."""

    constraints: LinearConstraints = ()
    """Inequality constraints, ``(indices, coefficients, rhs)`` with
    ``sum_i coefficients_i x[indices_i] >= rhs``."""

    elimination: Elimination | None = None
    """Equality constraints, as the columns that they determine; ``constraints`` are of others."""

    integers: Mapping[int, Range] = field(default_factory=dict)
    """Columns that climb as real numbers at first, and are rounded to a value of the range."""

    candidates: Tensor | None = None
    """``m x d`` points of a finite region; None for any other."""

    nonlinear: Nonlinear | None = None
    """Nonlinear constraints; None without any."""

    pin: Callable[[Tensor], Tensor] = _unchanged
    """Function that gives inactive columns of points their one value."""

    @staticmethod
    def of(space: Space, fixed: Mapping[int, float]) -> Region:
        """Return the region of a search space, enumerated if it has few points.

        Args:
            space: The space.
            fixed: Values of columns that are fixed.
        """
        return Region(
            space.bounds,
            space.discrete_but(fixed)[0],
            fixed,
            space.inequality_constraints,
            space.elimination,
            {i: parameter for i, parameter in space.integers.items() if i not in fixed},
            all_points(space, fixed),
            Nonlinear.of(space) if space.nonlinear else None,
            space.hierarchy.pin if space.conditions else _unchanged,
        )

    @cached_property
    def free(self) -> list[int]:
        """Columns that a local search moves."""
        if self.candidates is not None:
            return []
        taken = {column for columns, _ in self.discrete for column in columns}
        taken |= {*self.fixed, *self.integers}
        taken |= set(() if self.elimination is None else self.elimination.columns)
        return [column for column in range(self.bounds.shape[-1]) if column not in taken]

    def complete(self, X: Tensor) -> Tensor:
        """Return points ``... x d`` with determined and inactive columns set."""
        return self.pin(X if self.elimination is None else self.elimination.complete(X))

    def feasible(self, X: Tensor) -> Tensor:
        """Return the points, of ``n x d``, that satisfy the constraints once completed."""
        X = self.complete(X)
        return X[self.is_feasible(X)]

    def is_feasible(self, X: Tensor) -> Tensor:
        """Return a mask of completed points ``n x d`` that satisfy the constraints."""
        holds = satisfied(X, self.constraints)
        return holds if self.nonlinear is None else holds & self.nonlinear.holds(X)

    def rounded(self, X: Tensor) -> Tensor:
        """Return points ``n x d`` with rounded integers; they may violate inequalities."""
        X = X.clone()
        for column, parameter in self.integers.items():
            X[:, column] = parameter.nearest(X[:, column])
        return self.complete(X)

    def changes(self, X: Tensor) -> Tensor:
        """Return valid points, ``m x d``, with other integers or choices than a point ``1 x d``."""
        if self.candidates is not None or not (self.discrete or self.integers):
            return X[:0]
        still = {*self.fixed} | set(() if self.elimination is None else self.elimination.columns)
        found = [exchanges(X, self.discrete, self.bounds, self.constraints, still)]
        for columns, values in self.discrete:
            if self.integers.keys().isdisjoint(columns):
                others = values.to(X)
                if len(others) > _MOST_ROWS:  # of a table
                    width = self.bounds.diff(dim=0)[0, list(columns)]
                    off = (others - X[:, list(columns)]) / torch.where(width > 0, width, 1.0)
                    near = off.square().sum(dim=-1).topk(_MOST_ROWS, largest=False).indices
                    others = others[near] if len(columns) > 1 else others
                if len(columns) == 1 and len(values) > _MOST_CHANGES:
                    others = others.sort(dim=0).values
                    at = int((others[:, 0] - X[0, columns[0]]).abs().argmin())
                    places = [at + step for step in _steps(len(others))]
                    others = others[[place for place in places if 0 <= place < len(others)]]
                found.append(_with(X, columns, others))
        for column, parameter in self.integers.items():
            steps = _steps(round((parameter.upper - parameter.lower) / (parameter.step or 1.0)) + 1)
            moved = [parameter.nearest(X[:, column], step) for step in steps]
            found.append(_with(X, (column,), torch.stack(moved)))
        return self.feasible(torch.cat(found))


def _steps(count: int) -> list[int]:
    """Return the steps by which a column with ``count`` values is changed."""
    steps = [2**power for power in range(max(count - 1, 1).bit_length())]
    return [sign * step for step in steps for sign in (-1, 1)]


def _with(X: Tensor, columns: Sequence[int], values: Tensor) -> Tensor:
    """Return a point ``1 x d`` with other values, ``m x len(columns)``, of some columns."""
    changed = X.repeat(len(values), 1)
    changed[:, list(columns)] = values
    return changed


def maximize(
    function: TaskFunction,
    regions: Sequence[Region],
    starts: Sequence[Tensor],
    *,
    scores: Sequence[Tensor] | None = None,
    coarse: TaskFunction | None = None,
    num_restarts: int | Sequence[int] = 20,
    num_polished: int | None = NUM_POLISHED,
    iterations: int | None = None,
    rounds: int = ROUNDS,
    distances: Tensor | None = None,
) -> list[Optimum[Tensor]]:
    """Maximize a function over the regions of several tasks.

    Args:
        function: The objective; a value depends on its own point only.
        regions: The region of each task.
        starts: For each task ``m x d`` valid points to choose starts from. A region with candidates
            has no other points.
        scores: Values of the starts, if they are known.
        coarse: A cheaper approximation of the function for screening and search.
        num_restarts: Local searches per task: one number, or one for each.
        num_polished: Local searches of a task that run to convergence; None for all.
        iterations: Most iterations of a local search; None for ``ITERATIONS``.
        rounds: Rounds of changes of integers and choices.
        distances: ``d`` least distances of starts, by column.

    Returns:
        For each task its local optima, ``k x d``, best first, with their values.
    """
    search = _Search(function, regions, coarse or function, distances)
    counts = [num_restarts] * len(regions) if isinstance(num_restarts, int) else num_restarts
    X, tasks = search.screened(starts, scores, counts)
    polished = max(counts) if num_polished is None else num_polished
    if bool((search.relaxed != search.free).any()):
        ends, _ = search.climb(X, tasks, search.relaxed, SEARCH_ITERATIONS, search.coarse)
        X, tasks = search.with_rounded(X, ends, tasks)
        rows = search.leaders(X, search.evaluate(X, tasks), tasks, polished)
        X, tasks = X[rows], tasks[rows]
    elif num_polished is not None:
        X, values = search.climb(X, tasks, search.free, SEARCH_ITERATIONS, search.coarse)
        rows = search.leaders(X, values, tasks, polished)
        X, tasks = X[rows], tasks[rows]
    X, values = search.climb(X, tasks, search.free, iterations or ITERATIONS, function)
    rows = search.leaders(X, values, tasks, num_polished or NUM_POLISHED)
    for _ in range(rounds):
        rows = search.change(X, values, tasks, rows)
        if not len(rows):
            break
        X[rows], values[rows] = search.climb(
            X[rows], tasks[rows], search.free, SEARCH_ITERATIONS, function
        )
    order = search.leaders(X, values, tasks, len(X))
    return [
        Optimum(X[rows], values[rows])
        for rows in (order[tasks[order] == task] for task in range(len(regions)))
    ]


class _Search:
    """State of a search over the rows of all tasks; see ``maximize`` for the arguments."""

    def __init__(
        self,
        function: TaskFunction,
        regions: Sequence[Region],
        coarse: TaskFunction,
        distances: Tensor | None,
    ) -> None:
        self.function, self.coarse, self.regions = function, coarse, regions
        self.bounds, self.complete = regions[0].bounds, regions[0].complete
        width = self.bounds[1] - self.bounds[0]
        self.width = torch.where(width > 0, width, torch.ones_like(width))
        self.distances = START_DISTANCE * self.width if distances is None else distances
        self.free = torch.zeros(len(regions), self.bounds.shape[-1], dtype=torch.bool)
        self.free = self.free.to(self.bounds.device)
        for task, region in enumerate(regions):
            self.free[task, region.free] = True
        self.relaxed = self.free.clone()
        for task, region in enumerate(regions):
            self.relaxed[task, list(region.integers)] = region.candidates is None
        # The tolerances of the optimizer are absolute, so values are standardized by task.
        self.level = torch.zeros(len(regions)).to(self.bounds)
        self.height = torch.ones(len(regions)).to(self.bounds)

    def to_unit(self, X: Tensor) -> Tensor:
        """Return points ``n x d`` in the coordinates of the unit cube."""
        return (X - self.bounds[0]) / self.width

    def evaluate(self, X: Tensor, tasks: Tensor, function: TaskFunction | None = None) -> Tensor:
        """Return values, computed in chunks of rows to bound the memory."""
        parts = zip(X.split(_AT_ONCE), tasks.split(_AT_ONCE), strict=True)
        with torch.no_grad():
            return torch.cat([(function or self.function)(*part) for part in parts])

    def screened(
        self,
        starts: Sequence[Tensor],
        scores: Sequence[Tensor] | None,
        counts: Sequence[int],
    ) -> tuple[Tensor, Tensor]:
        """Return the best starts of each task, and the task of each start."""
        index = torch.arange(len(starts))  # on the CPU, where indices serve tensors of any device
        if scores is None:
            sizes = [len(X) for X in starts]
            tasks = index.repeat_interleave(torch.tensor(sizes))
            scores = self.evaluate(torch.cat([*starts]), tasks, self.coarse).split(sizes)
        chosen = []
        for task, (X, score) in enumerate(zip(starts, scores, strict=True)):
            finite = score[score.isfinite()]
            if len(finite) > 1 and is_flat(finite):
                self.free[task] = self.relaxed[task] = False
            elif len(finite) > 1:  # a single value has no spread: keep a scale of one
                size = finite.abs().max()  # squares may be out of range
                height, level = torch.std_mean(finite / size, correction=0)
                self.height[task], self.level[task] = size * height, size * level
            best = spaced_best(score, X / self.distances, counts[task], 1.0)
            chosen.append(X[best])
        counted = torch.tensor([len(X) for X in chosen])
        return torch.cat(chosen), index.repeat_interleave(counted)

    def climb(
        self,
        X: Tensor,
        tasks: Tensor,
        free: Tensor,
        iterations: int,
        function: TaskFunction,
    ) -> tuple[Tensor, Tensor]:
        """Run a local search over the ``free`` columns of each task, ``t x d``, from every row.

        A row that would end worse than it started stays.
        """
        free = free[tasks]

        def scaled(points: Tensor, rows: Tensor) -> Tensor:
            index = tasks[rows]
            values = function(self.complete(points), index)
            return (values - self.level[index]) / self.height[index]

        ends = self.complete(ascend(scaled, X, self.bounds, free, iterations))
        for task in tasks.unique().tolist():
            region = self.regions[task]
            rows = (tasks == task).nonzero().flatten()
            out = rows[~region.is_feasible(ends[rows]).cpu()]
            ends[out], again = X[out], out[:_REPEATED]
            if len(again):
                repeated = ascend(
                    partial(_of_rows, scaled, again),
                    X[again],
                    self.bounds,
                    free[again],
                    iterations,
                    region.constraints,
                    region.nonlinear,
                )
                ends[again] = self.complete(repeated)
        both = self.evaluate(torch.cat([X, ends]), tasks.repeat(2), function)
        before, after = both.chunk(2)
        better = after > before
        return torch.where(better.unsqueeze(-1), ends, X), torch.where(better, after, before)

    def with_rounded(self, X: Tensor, ends: Tensor, tasks: Tensor) -> tuple[Tensor, Tensor]:
        """Return the starts, and the valid ends of their searches after rounding integers."""
        rows, index = [X], [tasks]
        for task in tasks.unique().tolist():
            found = self.regions[task].rounded(ends[tasks == task])
            found = found[self.regions[task].is_feasible(found)]
            rows.append(found)
            index.append(torch.full((len(found),), task))
        return torch.cat(rows), torch.cat(index)

    def leaders(self, X: Tensor, values: Tensor, tasks: Tensor, count: int) -> Tensor:
        """Return indices of the best distinct rows of every task, in order of tasks."""
        picked, unit = [], self.to_unit(X)
        for task in range(len(self.regions)):
            rows = (tasks == task).nonzero().flatten()
            best = spaced_best(values[rows], unit[rows], count, SAME_OPTIMUM)
            picked.append(rows[best.cpu()])
        return torch.cat(picked)

    def change(self, X: Tensor, values: Tensor, tasks: Tensor, rows: Tensor) -> Tensor:
        """Apply the best change of integers or choices to each row; return the rows that moved."""
        index = rows.tolist()
        changed = [self.regions[int(tasks[row])].changes(X[row].unsqueeze(0)) for row in index]
        sizes = torch.tensor([len(points) for points in changed])
        if not int(sizes.sum()):
            return rows[:0]
        scores = self.evaluate(torch.cat(changed), tasks[rows].repeat_interleave(sizes))
        moved = []
        for row, points, score in zip(index, changed, scores.split(sizes.tolist()), strict=True):
            if len(score) and score.max() > values[row]:
                best = int(score.argmax())
                X[row], values[row] = points[best], score[best]
                moved.append(row)
        return torch.tensor(moved, dtype=torch.long)


def _of_rows(function: TaskFunction, rows: Tensor, X: Tensor, index: Tensor) -> Tensor:
    """Return values of a function of points and row indices, for a subset of the rows."""
    return function(X, rows[index])


def spaced_best(values: Tensor, scaled: Tensor, num: int, distance: float) -> Tensor:
    """Return indices of the best points, no two of them closer than ``distance``.

    Args:
        values: ``p`` values, larger is better.
        scaled: ``p x d`` points in length-scales.
        num: Largest number of points; there are fewer if the others are too close or have the value
            ``-inf``.
        distance: The smallest distance, in length-scales.
    """
    values, columns = values.clone(), scaled.mT.contiguous()
    picked: list[int] = []
    for _ in range(min(num, len(values))):
        best = int(values.argmax())
        if picked and values[best] == -torch.inf:
            break
        picked.append(best)
        squares = (columns - scaled[best].unsqueeze(-1)).square().sum(dim=0)
        values.masked_fill_(squares <= distance**2, -torch.inf)
    return torch.tensor(picked, dtype=torch.long, device=values.device)


def is_flat(values: Tensor) -> bool:
    """True if all values are equal, to rounding."""
    # Subnormal ranges count as flat: their inverse is infinite.
    least = (_FLAT * values.abs().max()).clamp_min(torch.finfo(values.dtype).tiny)
    return bool(values.max() - values.min() <= least)

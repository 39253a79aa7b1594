"""Feasible values of integers and choices under linear constraints.

If integers have to sum to ten, hardly any point of the box is feasible, and no feasible point has a
feasible neighbor that differs in one column. Therefore points are enumerated column by column, and
partial points that no values of the other columns complete are dropped (branch and bound). A search
moves two columns at once.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from ax_costaware.space.elimination import LinearConstraints

Discrete: TypeAlias = Sequence[tuple[tuple[int, ...], Tensor]]
"""Blocks of columns, each with the rows of values that it can take."""

_MAX_ROWS = 2**18
"""Largest number of partial points in memory."""

_STEPS = (-3, -2, -1, 1, 2, 3)
"""Moves of the first of two columns, in values. Weights of 2 and 3 need two or three."""


def satisfied(X: Tensor, constraints: LinearConstraints) -> Tensor:
    """Return a mask of the ``p x d`` points that satisfy linear constraints, to rounding."""
    holds = torch.ones(len(X), dtype=torch.bool, device=X.device)
    for index, coefficients, rhs in constraints:
        holds &= X[:, index] @ coefficients.to(X) >= rhs - 1e-9 * (1.0 + abs(rhs))
    return holds


def combinations(
    blocks: Discrete,
    bounds: Tensor,
    constraints: LinearConstraints,
    most: int,
    generator: torch.Generator | None = None,
) -> Tensor | None:
    """Return points whose discrete columns can be completed to feasible points.

    Args:
        blocks: ``(columns, values)`` pairs: these columns jointly take a row of ``values``.
        bounds: ``2 x d`` bounds of the columns. Other columns have all values in between.
        constraints: ``(indices, coefficients, rhs)`` with
            ``sum_i coefficients_i x[indices_i] >= rhs``.
        most: Largest number of points.
        generator: Generator to sample the points if there are more; None not to sample.

    Returns:
        ``n x d`` distinct points, with other columns at their lower bound. None if there are more
        than ``most``, or too many partial points, and no ``generator``.
    """
    weights = bounds.new_zeros(len(constraints), bounds.shape[-1])
    for row, (index, coefficients, _) in zip(weights, constraints, strict=True):
        row[index] = coefficients.to(row)
    rhs = bounds.new_tensor([b - 1e-9 * (1.0 + abs(b)) for _, _, b in constraints])
    highest = (weights * bounds[0]).maximum(weights * bounds[1])

    left = []
    for columns, values in blocks:
        at, values = list(columns), values.to(bounds)
        terms = values @ weights[:, at].T
        room = highest.sum(dim=-1) - highest[:, at].sum(dim=-1)
        values = values[(terms + room >= rhs).all(dim=-1)]
        if not len(values):
            return bounds.new_empty(0, bounds.shape[-1])
        highest[:, at] = (values @ weights[:, at].T).amax(dim=0).unsqueeze(-1) / len(at)
        left.append((at, values))
    # Constrained blocks come first, since unconstrained ones only multiply the number of points.
    left.sort(key=lambda block: not bool(weights[:, block[0]].any()))

    points = bounds[:1].clone()
    sums = weights.new_zeros(1, len(constraints))
    room = highest.sum(dim=-1)
    for at, values in left:
        free = not bool(weights[:, at].any())
        if generator is None and len(points) * len(values) > (most if free else _MAX_ROWS):
            return None
        points, sums = _some((points, sums), max(_MAX_ROWS // len(values), 1), generator)
        terms = (values @ weights[:, at].T).repeat(len(points), 1)
        sums = sums.repeat_interleave(len(values), dim=0) + terms
        room = room - highest[:, at].sum(dim=-1)
        keep = (sums + room >= rhs).all(dim=-1).nonzero().flatten()
        points = points[keep // len(values)]
        points[:, at] = values[keep % len(values)]
        sums = sums[keep]
    if generator is None and len(points) > most:
        return None
    return _some((points,), most, generator)[0]


def _some(
    rows: tuple[Tensor, ...], most: int, generator: torch.Generator | None
) -> tuple[Tensor, ...]:
    """Return at most ``most`` rows of tensors, the same random rows of each."""
    if generator is None or len(rows[0]) <= most:
        return rows
    pick = torch.randperm(len(rows[0]), generator=generator)[:most]
    return tuple(each[pick] for each in rows)


def read(blocks: Discrete, constraints: LinearConstraints) -> Discrete:
    """Return the blocks with a constrained column."""
    columns = {column for index, _, _ in constraints for column in index.tolist()}
    return [block for block in blocks if not columns.isdisjoint(block[0])]


def exchanges(
    X: Tensor,
    blocks: Discrete,
    bounds: Tensor,
    constraints: LinearConstraints,
    held: Collection[int] = (),
) -> Tensor:
    """Return feasible neighbors of points that differ in two columns of one constraint.

    The first, discrete column moves by up to three values. The second one is set such that the
    sum stays the same, or to the two nearest values.

    Args:
        X: ``n x d`` points.
        blocks: As in ``combinations``. The second column may be discrete or real.
        bounds: As in ``combinations``.
        constraints: As in ``combinations``.
        held: Columns that do not move.

    Returns:
        ``m x d`` points.
    """
    grids = {
        columns[0]: values.flatten().to(X).sort().values
        for columns, values in read(blocks, constraints)
        if len(columns) == 1 and columns[0] not in held
    }
    taken = {column for columns, _ in blocks for column in columns} | {*held}
    found, seen = [X[:0]], set()
    for index, coefficients, _ in constraints:
        weights = dict(zip(index.tolist(), coefficients.tolist(), strict=True))
        for i in weights.keys() & grids.keys():
            for j in weights.keys() - {i}:
                move = i, j, weights[i] / weights[j]
                if move in seen or (j in taken and j not in grids):
                    continue
                seen.add(move)
                changed = _exchanged(X, grids, bounds, *move)
                found.append(changed[satisfied(changed, constraints)])
    return torch.cat(found)


def _exchanged(
    X: Tensor, grids: dict[int, Tensor], bounds: Tensor, i: int, j: int, ratio: float
) -> Tensor:
    """Return points with column ``i`` moved, and ``j`` set such that the sum stays nearly."""
    grid, steps = grids[i], torch.tensor(_STEPS)
    at = (X[:, i].unsqueeze(-1) - grid).abs().argmin(dim=-1)
    to = at.unsqueeze(-1) + steps.to(at)
    inside = ((to >= 0) & (to < len(grid))).flatten()
    rows = X.repeat_interleave(len(steps), dim=0)[inside]
    values = grid[to.flatten()[inside]]
    target = rows[:, j] - ratio * (values - rows[:, i])
    rows[:, i] = values
    if j not in grids:
        rows[:, j] = target.clamp(bounds[0, j], bounds[1, j])
        return rows
    others = grids[j]
    # The tolerance keeps a target that is a value of the grid, despite rounding.
    after = torch.searchsorted(others, target - 1e-9 * (1.0 + target.abs()))
    ends = []
    for place in (after - 1, after):
        end = rows.clone()
        end[:, j] = others[place.clamp(0, len(others) - 1)]
        ends.append(end)
    return torch.cat(ends)

"""Values of integers and choices that linear constraints leave room for.

Where numbers have to sum to ten, hardly any point of the box is valid, and a valid one has no valid
neighbor in any single column. So points are put together column by column, without those that no
values of the other columns complete, and a search moves two columns at once.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from ax_costaware.space.elimination import LinearConstraints

Discrete: TypeAlias = Sequence[tuple[tuple[int, ...], Tensor]]
"""Columns that jointly take a row of values, with the rows."""

_AT_ONCE = 2**18
"""Rows that are looked at together, at most."""

_STEPS = (-3, -2, -1, 1, 2, 3)
"""How many values on the first of two columns moves: with weights of 2 and 3 two or three."""


def satisfied(X: Tensor, constraints: LinearConstraints) -> Tensor:
    """Which rows of a ``p x d``-tensor satisfy linear constraints, but for rounding."""
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
    """Points whose discrete columns leave room for the constraints.

    Args:
        blocks: ``(columns, values)`` pairs: these columns jointly take a row of ``values``.
        bounds: ``2 x d`` bounds of the columns. Columns of no block may be anywhere in between.
        constraints: ``(indices, coefficients, rhs)`` with
            ``sum_i coefficients_i x[indices_i] >= rhs``.
        most: The largest number of points.
        generator: Draws some of the points where there are more.

    Returns:
        ``n x d`` different points, with columns of no block at their lower bound. None if there
        are more than ``most`` and no ``generator``, or if a constraint leaves too many to look at.
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
    # What constraints read comes first: the number of points only grows by the others.
    left.sort(key=lambda block: not bool(weights[:, block[0]].any()))

    points = bounds[:1].clone()
    sums = weights.new_zeros(1, len(constraints))
    room = highest.sum(dim=-1)
    for at, values in left:
        free = not bool(weights[:, at].any())
        if generator is None and len(points) * len(values) > (most if free else _AT_ONCE):
            return None
        points, sums = _some((points, sums), max(_AT_ONCE // len(values), 1), generator)
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
    """At most so many rows of some tensors, the same of each."""
    if generator is None or len(rows[0]) <= most:
        return rows
    pick = torch.randperm(len(rows[0]), generator=generator)[:most]
    return tuple(each[pick] for each in rows)


def read(blocks: Discrete, constraints: LinearConstraints) -> Discrete:
    """The blocks that constraints read."""
    columns = {column for index, _, _ in constraints for column in index.tolist()}
    return [block for block in blocks if not columns.isdisjoint(block[0])]


def exchanges(
    X: Tensor,
    blocks: Discrete,
    bounds: Tensor,
    constraints: LinearConstraints,
    held: Collection[int] = (),
) -> Tensor:
    """Valid points that differ from others in two columns which a constraint reads.

    A number moves some values on, and another one to the values around where the sum stays.

    Args:
        X: ``n x d`` points.
        blocks: As of ``combinations``; both columns of no block and integers may be the second.
        bounds: As of ``combinations``.
        constraints: As of ``combinations``.
        held: Columns that stay.

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
    """Points with column ``i`` some values on, and ``j`` where the sum stays, or next to that."""
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
    # A little further, so that rounding leaves a value what it is.
    after = torch.searchsorted(others, target - 1e-9 * (1.0 + target.abs()))
    ends = []
    for place in (after - 1, after):
        end = rows.clone()
        end[:, j] = others[place.clamp(0, len(others) - 1)]
        ends.append(end)
    return torch.cat(ends)

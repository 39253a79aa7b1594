"""Raw points and regions of the search over the values of a control set.

Raw points are a scrambled Sobol design over the controlled columns, joined by points near the
training inputs, where the maxima of an optimistic function of a GP with short length-scales lie
(between the plateau far from all data and the data with the best outcomes). The best raw points
that are not near one another become the starting points of the local search.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from ax_costaware.acquisition.optimize import Region
from ax_costaware.exceptions import InputError
from ax_costaware.laws.quadrature import uniforms
from ax_costaware.space.discrete import Discrete, combinations, read, satisfied
from ax_costaware.space.elimination import Elimination, LinearConstraints

# Raw points of a control set by the number of controlled columns; a surface with length-scale 0.1
# has about 5 maxima per unit and column. Without random columns a point costs one node, and there
# the surface is also at its roughest.
_RAW_SAMPLES = {1: 64, 2: 192, 3: 384}
_RAW_SAMPLES_MANY = 512
_RAW_SAMPLES_FULL_CONTROL = 4096

# Local searches of a control set.
_NUM_RESTARTS = 4
_NUM_RESTARTS_FULL_CONTROL = 24

# Attempts at drawing feasible raw points, each of which doubles the number drawn.
MAX_REJECTION_ROUNDS = 6

# Most valid combinations of discrete values to draw from, if a first attempt finds too few points.
_MOST_COMBINATIONS = 2**14

# Largest step, relative, from a training input towards a random point of the feasible set.
_PART = 0.2


def num_starts(controlled: Sequence[int], d: int) -> tuple[int, int]:
    """Return the numbers of raw points and of local searches for some of ``d`` columns."""
    if len(controlled) == d:
        return _RAW_SAMPLES_FULL_CONTROL, _NUM_RESTARTS_FULL_CONTROL
    return _RAW_SAMPLES.get(len(controlled), _RAW_SAMPLES_MANY), _NUM_RESTARTS


def regions_of(
    controls: Sequence[Sequence[int]],
    bounds: Tensor,
    default: Tensor,
    discrete: Discrete = (),
    constraints: LinearConstraints = (),
    fixed: Mapping[int, float] | None = None,
    elimination: Elimination | None = None,
) -> list[Region]:
    """Return the region of the values of each control set.

    Args:
        controls: Per control set, the columns that it controls.
        bounds: ``2 x d`` lower and upper bounds.
        default: ``d`` values of the columns that a control set leaves alone.
        discrete: As of ``Region``.
        constraints: As of ``Region``; those that read none of a control set's columns are left out.
        fixed: Values of columns that are fixed wherever they are controlled.
        elimination: As of ``Region``, if the columns that it determines are in every control set.
    """
    sums = [(torch.as_tensor(i), c.to(bounds), float(b)) for i, c, b in constraints]
    found = []
    for columns in map(set, controls):
        free = columns - {*(fixed or {})}
        others = [c for c in range(bounds.shape[-1]) if c not in columns]
        values = dict(zip(others, default[others].tolist(), strict=True))
        values |= {c: value for c, value in (fixed or {}).items() if c in columns}
        blocks = [block for block in discrete if {*block[0]} <= free]
        its = [c for c in sums if {*c[0].tolist()} & columns]
        found.append(Region(bounds, blocks, values, its, elimination))
    return found


def raw_points(region: Region, num_points: int, near: Tensor, spread: Tensor, seed: int) -> Tensor:
    """Raw points of one control set.

    Args:
        region: Where its values may be.
        num_points: How many points to return.
        near: ``n x d`` training inputs; half the points lie around these.
        spread: ``d`` standard deviations of the points around them.
        seed: Seed of the design.

    Returns:
        ``num_points x d`` feasible points.

    Raises:
        InputError: If hardly any point satisfies the constraints.
    """
    num_near = num_points // 2 if len(near) else 0
    found: list[Tensor] = []
    together: Discrete = []
    for attempt in range(MAX_REJECTION_ROUNDS):
        factor = 2**attempt
        generator = torch.Generator().manual_seed(seed + attempt)
        if attempt == 1:
            together = _combinations(region, generator)
        lower, upper = region.bounds
        unit = uniforms(len(spread), factor * (num_points - num_near), seed + attempt)
        spaced = lower + (upper - lower) * unit.to(lower)
        pick = torch.arange(factor * num_near) % max(len(near), 1)
        steps = torch.randn(len(pick), len(spread), generator=generator).to(near)
        around = (near[pick] + spread * steps).clamp(lower, upper)
        points = torch.cat([spaced, around])
        for block, values in [*region.discrete, *together]:
            chosen = torch.randint(len(values), (len(points),), generator=generator)
            points[:, list(block)] = values.to(points)[chosen]
        points[:, list(region.fixed)] = points.new_tensor([*region.fixed.values()])
        if region.elimination is not None:
            # Replace points that cannot be completed by random feasible ones, or, for those near a
            # training input, by points on the segment to one. Equality constraints are linear, so
            # they hold on the segment if they hold at both ends.
            points = region.complete(points)
            out = ~satisfied(points, region.constraints)
            chance = torch.Generator().manual_seed(seed + attempt)
            part = _PART * torch.rand(len(points), generator=chance).to(points)
            part[: len(spaced)] = 1.0
            lost, sources = points[out], region.elimination.sources
            lost[:, sources] = torch.cat([spaced, near[pick]])[out][:, sources]
            points[out] = region.elimination.spread(lost, seed + attempt, part[out])
        found.append(points[satisfied(points, region.constraints)])
        if sum(map(len, found)) >= num_points:
            break
    feasible = torch.cat(found)
    if len(feasible) == 0:
        raise InputError(
            "inequality_constraints: got constraints that no raw point satisfies where columns have"
            f" the values {dict(region.fixed)}; they must leave room for the values of every"
            " control set."
        )
    return feasible[:num_points]


def _combinations(region: Region, generator: torch.Generator) -> Discrete:
    """Return the valid combinations of the discrete columns that constraints read, as one block."""
    blocks = read(region.discrete, region.constraints)
    if not blocks:
        return []
    bounds = region.bounds.clone()
    bounds[:, list(region.fixed)] = bounds.new_tensor([*region.fixed.values()])
    found = combinations(blocks, bounds, region.constraints, _MOST_COMBINATIONS, generator)
    assert found is not None
    columns = [column for block, _ in blocks for column in block]
    return [(tuple(columns), found[:, columns])] if len(found) else []

"""Finite search spaces: enumeration, and points that were not tried."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from ax_costaware.space.discrete import combinations
from ax_costaware.space.space import Space

ALL_POINTS = 4096
"""Number of valid points up to which a space is enumerated."""

_ROUNDING = 1e-12
"""Relative tolerance of equal values, such as one logarithm computed in two ways."""


def all_points(space: Space, fixed: Mapping[int, float] | None = None) -> Tensor | None:
    """Return all points of a space that satisfy its constraints, ``n x d``; None if too many.

    Args:
        space: The space.
        fixed: Values of columns to hold.
    """
    fixed = fixed or {}
    blocks, bounds = space.discrete_but(fixed)
    free = {column for columns, _ in blocks for column in columns}
    if not 0 < len(space.bounds.T) == len(free | fixed.keys()):
        return None
    points = combinations(blocks, bounds, space.inequality_constraints, ALL_POINTS)
    if points is None:
        return None
    found: Tensor = space.feasible(points.unique(dim=0))
    return found


def starts_of(space: Space, n: int, seed: int, fixed: Mapping[int, float]) -> Tensor:
    """Return points from which to search: all of a small finite space, else quasi-random ones.

    Args:
        space: The space.
        n: Number of quasi-random points.
        seed: Their seed.
        fixed: Values of columns to hold.
    """
    points = all_points(space, fixed)
    return space.sobol_points(n, seed, fixed) if points is None else points


def is_untried(points: Tensor, tried: Tensor) -> Tensor:
    """Return a mask of the ``n x d`` points that equal none of ``m x d`` others, to rounding."""
    differs = (points.unsqueeze(1) - tried).abs() > _ROUNDING * tried.abs()
    return differs.any(dim=-1).all(dim=-1)


def untried(points: Tensor, tried: Tensor) -> Tensor:
    """Return the ``n x d`` points that equal none of ``m x d`` others, to rounding."""
    return points[is_untried(points, tried)]

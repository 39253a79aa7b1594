"""Spaces of finitely many points: all of them, and those that were not tried."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from ax_costaware.space.discrete import combinations
from ax_costaware.space.space import Space

ALL_POINTS = 4096
"""A space of no more valid points is searched by looking at all of them."""

_ROUNDING = 1e-12
"""Relative difference of logarithms of one number that were computed in two ways."""


def all_points(space: Space, fixed: Mapping[int, float] | None = None) -> Tensor | None:
    """All points of a space that meet its constraints, ``n x d``; None where there are too many.

    Args:
        space: The space.
        fixed: Values of columns that are held.
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
    """Points from which to search: all of a space of few, or else quasi-random ones.

    Args:
        space: The space.
        n: How many quasi-random ones to look for.
        seed: Their seed.
        fixed: Values of columns that are held.
    """
    points = all_points(space, fixed)
    return space.sobol_points(n, seed, fixed) if points is None else points


def is_untried(points: Tensor, tried: Tensor) -> Tensor:
    """Which of ``n x d`` points are none of ``m x d`` others, but for rounding."""
    apart = (points.unsqueeze(1) - tried).abs() > _ROUNDING * tried.abs()
    return apart.any(dim=-1).all(dim=-1)


def untried(points: Tensor, tried: Tensor) -> Tensor:
    """Those of ``n x d`` points that are none of ``m x d`` others, but for rounding."""
    return points[is_untried(points, tried)]

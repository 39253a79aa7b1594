"""Finite search spaces: enumeration, and points that were not tried."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from ax_costaware.space.discrete import combinations
from ax_costaware.space.space import Space

ALL_POINTS = 4096
"""Number of valid points up to which a space is enumerated."""

_ROUNDING = 1e-12
"""Relative tolerance of equal values, such as one logarithm computed in two ways."""


_MANY = 2**18
"""Number of pairs of points from which on they are first compared by the sums of their columns."""


_GOLDEN = (5.0**0.5 - 1.0) / 2.0
"""Its multiples are spread over the unit interval, so that weights of columns differ."""


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
    most = ALL_POINTS if space.listed is None else max(ALL_POINTS, len(space.listed))
    points = combinations(blocks, bounds, space.inequality_constraints, most)
    if points is None:
        return None
    points = space.hierarchy.pin(points) if space.conditions else points
    found: Tensor = space.feasible(points if space.listed else points.unique(dim=0))
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
    if len(points) * len(tried) > _MANY:
        # Only points with nearly the same weighted sum of columns as another one may equal it.
        weights = 0.5 + (_GOLDEN * torch.arange(1, tried.shape[-1] + 1).to(tried)) % 1.0
        sums, at = (tried @ weights).sort().values, points @ weights
        slack = 10 * _ROUNDING * (tried.abs() @ weights).max()
        maybe = torch.searchsorted(sums, at - slack) < torch.searchsorted(sums, at + slack)
        found = ~maybe
        if len(points) > int(maybe.sum()):
            found[maybe] = is_untried(points[maybe], tried)
            return found
    differs = (points.unsqueeze(1) - tried).abs() > _ROUNDING * tried.abs()
    return differs.any(dim=-1).all(dim=-1)


def untried(points: Tensor, tried: Tensor) -> Tensor:
    """Return the ``n x d`` points that equal none of ``m x d`` others, to rounding."""
    return points[is_untried(points, tried)]

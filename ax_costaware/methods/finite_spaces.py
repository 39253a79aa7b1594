"""Spaces of finitely many points: all of them, and those that were not tried."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from ax_costaware.methods.space import Space

ALL_POINTS = 4096
"""A space of no more points is searched by looking at all of them."""

_ROUNDING = 1e-12
"""Relative difference of logarithms of one number that were computed in two ways."""


def all_points(space: Space, fixed: Mapping[int, float] | None = None) -> Tensor | None:
    """All points of a space that meet its constraints, ``n x d``; None where there are too many.

    Args:
        space: The space.
        fixed: Values of columns that are held.
    """
    columns = [*space.columns.values()]
    values = [column.parameter.values_up_to(ALL_POINTS) or () for column in columns]
    count = math.prod(map(len, values))
    if not columns or not 0 < count <= ALL_POINTS:
        return None
    picks = torch.cartesian_prod(*map(torch.arange, map(len, values))).reshape(count, -1)
    blocks = [
        space.bounds.new_tensor([column.encode(value) for value in found])[pick]
        for column, found, pick in zip(columns, values, picks.mT, strict=True)
    ]
    points = torch.cat(blocks, dim=-1)
    for index, value in (fixed or {}).items():
        points[:, index] = value
    found: Tensor = space.feasible(points.unique(dim=0))
    return found


def untried(points: Tensor, tried: Tensor) -> Tensor:
    """Those of ``n x d`` points that are none of ``m x d`` others, but for rounding."""
    apart = (points.unsqueeze(1) - tried).abs() > _ROUNDING * tried.abs()
    return points[apart.any(dim=-1).all(dim=-1)]

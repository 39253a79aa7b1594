"""Spaces of finitely many points: all of them, and those that were not tried."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from ax_costaware.space.space import Space

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
    fixed, codes = fixed or {}, list[list[list[float]]]()
    for column in space.columns.values():
        values = column.parameter.values_up_to(ALL_POINTS)
        held = [[fixed[i] for i in column.indices if i in fixed]]
        codes.append(held if values is None else [column.encode(value) for value in values])
    count = math.prod(map(len, codes))
    if not (codes and all(map(all, codes))) or not 0 < count <= ALL_POINTS:
        return None
    picks = torch.cartesian_prod(*map(torch.arange, map(len, codes))).reshape(count, -1)
    blocks = [
        space.bounds.new_tensor(found)[pick] for found, pick in zip(codes, picks.mT, strict=True)
    ]
    points = torch.cat(blocks, dim=-1)
    for index, value in fixed.items():
        points[:, index] = value
    found: Tensor = space.feasible(points.unique(dim=0))
    return found


def untried(points: Tensor, tried: Tensor) -> Tensor:
    """Those of ``n x d`` points that are none of ``m x d`` others, but for rounding."""
    apart = (points.unsqueeze(1) - tried).abs() > _ROUNDING * tried.abs()
    return points[apart.any(dim=-1).all(dim=-1)]

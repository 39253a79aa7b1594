"""Multi-start local search of a box with constraints, in which some columns may be held."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ax_costaware.acquisition.joint_ascent import ascend, ascend_constrained
from ax_costaware.acquisition.starts import LinearConstraints, spaced_best

START_DISTANCE = 0.1
"""Starts of local searches are at least so far apart, in the unit cube: they spread over hills."""

ITERATIONS = 100
"""Iterations of a local search; on smooth functions of a few columns it takes 10 to 30."""

# A function whose values differ by less than this part of them is constant but for rounding.
_FLAT = 1e-12

# Points that are scored at once.
_MOST_AT_ONCE = 1024


@dataclass(frozen=True, eq=False)
class LocalSearch:
    """Where points may be, and how the best of them is searched for."""

    bounds: Tensor
    """``2 x d`` bounds of the points."""

    held: Sequence[int] = ()
    """Columns that a local search leaves as they are at its start: those of integers and choices,
    and those that are fixed."""

    constraints: LinearConstraints = ()
    """``(indices, coefficients, rhs)`` with ``sum_i coefficients_i x[indices_i] >= rhs``."""

    def climb(
        self,
        function: Callable[[Tensor], Tensor],
        points: Tensor,
        restarts: int,
        iterations: int = ITERATIONS,
    ) -> tuple[Tensor, Tensor]:
        """Search from the best points that are not near one another.

        Args:
            function: From points ``n x d`` to ``n`` values, differentiable.
            points: ``m x d`` valid points, all of which are scored.
            restarts: Number of local searches.
            iterations: Most iterations of one.

        Returns:
            Their starts, ``r x d``, and their ends, which are no worse.
        """
        with torch.no_grad():
            values = torch.cat([function(part) for part in points.split(_MOST_AT_ONCE)])
        best = spaced_best(values, self.to_unit(points), restarts, START_DISTANCE)
        starts = points[best]
        highest, height = values.max(), values.max() - values.min()
        # The inverse of a subnormal height is infinite.
        flat = (_FLAT * values.abs().max()).clamp_min(torch.finfo(values.dtype).tiny)
        if height <= flat:
            return starts, starts
        free = torch.ones_like(starts[0], dtype=torch.bool)
        free[list(self.held)] = False

        def scaled(X: Tensor, _: Tensor | None = None) -> Tensor:
            return (function(X) - highest) / height

        if self.constraints:
            ends = ascend_constrained(
                scaled, starts, self.bounds, free, self.constraints, iterations
            )
        else:
            ends = ascend(scaled, starts, self.bounds, free.expand_as(starts), iterations)
        with torch.no_grad():
            better = function(ends) > values[best]
        return starts, torch.where(better.unsqueeze(-1), ends, starts)

    def to_unit(self, X: Tensor) -> Tensor:
        """Points ``n x d`` in the coordinates of the unit cube."""
        width = self.bounds[1] - self.bounds[0]
        return (X - self.bounds[0]) / torch.where(width > 0, width, torch.ones_like(width))

r"""Multi-start local search of a box with constraints, in which some columns may be held.

L-BFGS-B in the coordinates of the unit cube, whatever the units of the box; with linear constraints
the solver that BoTorch takes for them. Columns that are held keep the value of their start.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from botorch.generation.gen import gen_candidates_scipy
from torch import Tensor

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
        held = torch.nonzero(self._is_held()).flatten().tolist()
        # The inverse of a subnormal height is infinite.
        flat = (_FLAT * values.abs().max()).clamp_min(torch.finfo(values.dtype).tiny)
        if len(held) == points.shape[-1] or height <= flat:
            return starts, starts
        shift, scale = self._frame()

        def value(U: Tensor) -> Tensor:
            # The tolerances of the optimiser are absolute.
            return (function(shift + scale * U.squeeze(-2)) - highest) / height

        unit = (starts - shift) / scale
        limits = (self.bounds - shift) / scale
        unit = torch.where(self._is_held(), unit, unit.clamp(*limits))
        # A line search that rounding has ended has arrived; BoTorch's filters let it warn.
        with warnings.catch_warnings(record=True):
            ended, _ = gen_candidates_scipy(
                unit.unsqueeze(-2),
                value,  # type: ignore[arg-type]
                lower_bounds=limits[0],
                upper_bounds=limits[1],
                inequality_constraints=[
                    (index, weights * scale[index], rhs - float(shift[index] @ weights))
                    for index, weights, rhs in self.constraints
                ],
                fixed_features={column: unit[:, column] for column in held},
                # With constraints it does not search from several starts as one problem.
                options={"maxiter": iterations, "max_optimization_problem_aggregation_size": 1},
            )
        ends = shift + scale * ended.squeeze(-2)
        ends = torch.where(self._is_held(), starts, ends.clamp(*self.bounds))
        ends = self._pulled_back(starts, ends)
        with torch.no_grad():
            better = (function(ends) > values[best]) & self._feasible(ends)
        return starts, torch.where(better.unsqueeze(-1), ends, starts)

    def _frame(self) -> tuple[Tensor, Tensor]:
        """Origin and unit, ``d`` each, of the unit cube; a held column stays as it is, exactly."""
        lower, width = self.bounds[0], self.bounds[1] - self.bounds[0]
        held = self._is_held()
        scale = torch.where(held, torch.ones_like(width), width)
        return torch.where(held, torch.zeros_like(lower), lower), scale

    def _is_held(self) -> Tensor:
        held = self.bounds[1] <= self.bounds[0]
        held[list(self.held)] = True
        return held

    def to_unit(self, X: Tensor) -> Tensor:
        """Points ``n x d`` in the coordinates of the unit cube."""
        width = self.bounds[1] - self.bounds[0]
        return (X - self.bounds[0]) / torch.where(width > 0, width, torch.ones_like(width))

    def _pulled_back(self, starts: Tensor, ends: Tensor) -> Tensor:
        """Ends that the solver left outside of a constraint, on the way from their valid starts."""
        step = starts.new_ones(len(starts))
        for index, weights, rhs in self.constraints:
            before, after = starts[:, index] @ weights - rhs, ends[:, index] @ weights - rhs
            way = before.clamp_min(0.0) / (before - after).clamp_min(torch.finfo(step.dtype).tiny)
            step = torch.where(after < 0, torch.minimum(step, way), step)
        return torch.where((step < 1).unsqueeze(-1), starts + step[:, None] * (ends - starts), ends)

    def _feasible(self, X: Tensor) -> Tensor:
        """Which of points ``m x d`` satisfy the constraints, but for rounding."""
        holds = torch.ones(len(X), dtype=torch.bool, device=X.device)
        for index, weights, rhs in self.constraints:
            holds &= X[:, index] @ weights >= rhs - 1e-9 * (1.0 + abs(rhs))
        return holds

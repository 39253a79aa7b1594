"""Multi-start gradient ascent in a box with linear inequality constraints.

The search is in the coordinates of the unit cube. Without constraints all starts advance together,
by BoTorch's batched L-BFGS-B. With constraints each start runs alone, by the solver that BoTorch
uses for them (SLSQP). Tolerances are absolute, for values that vary by about one.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from botorch.generation.gen import gen_candidates_scipy
from botorch.optim.batched_lbfgs_b import fmin_l_bfgs_b_batched
from threadpoolctl import ThreadpoolController
from torch import Tensor

from ax_costaware.space.elimination import LinearConstraints
from ax_costaware.space.nonlinear import Slack
from ax_costaware.space.space import Space

_HALVINGS = 40
"""Bisections of the way back from an end that violates a nonlinear constraint."""


class Nonlinear(NamedTuple):
    """Nonlinear constraints of a region."""

    holds: Callable[[Tensor], Tensor]
    """From points ``n x d`` to a mask of those that satisfy all of them."""

    slacks: Sequence[Slack]
    """Slack of each, >= 0 where it holds, differentiable."""

    @staticmethod
    def of(space: Space) -> Nonlinear:
        """Return the nonlinear constraints of a space, on points that it completes."""

        def completed(slack: Slack) -> Slack:
            return lambda X: slack(space.complete(X))

        return Nonlinear(completed(space.keeps), [*map(completed, space.slacks)])


def ascend(
    function: Callable[[Tensor, Tensor], Tensor],
    starts: Tensor,
    bounds: Tensor,
    free: Tensor,
    iterations: int,
    constraints: LinearConstraints = (),
    nonlinear: Nonlinear | None = None,
) -> Tensor:
    """Climb from many starts; without constraints one evaluation serves a step of all of them.

    Args:
        function: From points ``n x d``, and the row of ``starts`` that each comes from, to ``n``
            values, differentiable; a value depends on its own point only.
        starts: ``p x d`` points, which satisfy the constraints.
        bounds: ``2 x d`` bounds of the columns that move.
        free: ``p x d`` mask of the columns that move. The others stay, also out of the bounds.
        iterations: Most steps.
        constraints: ``(indices, coefficients, rhs)`` with
            ``sum_i coefficients_i x[indices_i] >= rhs``. With them, ``free[0]`` and the function of
            the first row apply to all rows.
        nonlinear: Further constraints, as in ``constraints``.

    Returns:
        The ends, ``p x d``, which satisfy the constraints.
    """
    lower, width = bounds[0], bounds[1] - bounds[0]
    free = free & (width > 0)
    if not bool(free.any()):
        return starts
    if constraints or nonlinear is not None:
        return _ascend_constrained(
            function, starts, bounds, free[0], iterations, constraints, nonlinear
        )

    def points_at(unit: Tensor, rows: Tensor) -> Tensor:
        return torch.where(free[rows], lower + width * unit, starts[rows])

    def negative(
        x: npt.NDArray[np.float64], batch_indices: Sequence[int], **_: Any
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        unit = torch.as_tensor(x).to(starts).requires_grad_(True)
        rows = torch.as_tensor(batch_indices)
        values = function(points_at(unit, rows), rows)
        (slopes,) = torch.autograd.grad(values.sum(), unit)
        return -values.detach().double().cpu().numpy(), -slopes.double().cpu().numpy()

    first = torch.where(free, (starts - lower) / width, 0.0)
    # SciPy's linear algebra is on vectors of a few entries, where threads cost more than they save.
    with torch.enable_grad(), _threads().limit(limits=1, user_api="blas"):
        ends, _, _ = fmin_l_bfgs_b_batched(
            negative,
            x0=first.detach().double().cpu().numpy(),
            bounds=[(0.0, 1.0)] * starts.shape[-1],
            maxiter=iterations,
            factr=1e5,
            pass_batch_indices=True,
        )
    points = points_at(torch.as_tensor(ends).to(starts), torch.arange(len(starts)))
    return torch.where(free, points.clamp(*bounds), starts)


@cache
def _threads() -> ThreadpoolController:
    """Return the controller of BLAS threads, cached since finding them takes milliseconds."""
    return ThreadpoolController()


def _ascend_constrained(
    function: Callable[[Tensor, Tensor], Tensor],
    starts: Tensor,
    bounds: Tensor,
    free: Tensor,
    iterations: int,
    constraints: LinearConstraints,
    nonlinear: Nonlinear | None,
) -> Tensor:
    first = torch.zeros(1, dtype=torch.long)
    shift = torch.where(free, bounds[0], 0.0)
    scale = torch.where(free, bounds[1] - bounds[0], 1.0)
    unit = (starts - shift) / scale
    unit = torch.where(free, unit.clamp(0.0, 1.0), unit)
    # Skip constraints on columns that stay: BoTorch has no tolerance for rounding there.
    moving = [bool(free[index].any()) for index, _, _ in constraints]
    # Silence warnings of line searches that end by rounding, which is convergence here.
    with warnings.catch_warnings(record=True):
        ended, _ = gen_candidates_scipy(
            unit.unsqueeze(-2),
            lambda U: function(  # type: ignore[arg-type]
                shift + scale * U.squeeze(-2), first.expand(len(U))
            ),
            lower_bounds=0.0,
            upper_bounds=1.0,
            inequality_constraints=[
                (index, weights * scale[index], rhs - float(shift[index] @ weights))
                if moves
                else (index, weights, -torch.inf)
                for (index, weights, rhs), moves in zip(constraints, moving, strict=True)
            ],
            nonlinear_inequality_constraints=[
                (partial(_slack_of_unit, slack, shift, scale), True)
                for slack in ([] if nonlinear is None else nonlinear.slacks)
            ],
            fixed_features={
                column: unit[:, column] for column in torch.nonzero(~free).flatten().tolist()
            },
            # With constraints BoTorch cannot solve several starts as one problem.
            options={"maxiter": iterations, "max_optimization_problem_aggregation_size": 1},
        )
    ends = torch.where(free, (shift + scale * ended.squeeze(-2)).clamp(*bounds), starts)
    ends = _pulled_back(starts, ends, [*compress(constraints, moving)])
    return ends if nonlinear is None else _halved_back(starts, ends, nonlinear)


def _slack_of_unit(slack: Slack, shift: Tensor, scale: Tensor, unit: Tensor) -> Tensor:
    return slack(shift + scale * unit)


def _pulled_back(starts: Tensor, ends: Tensor, constraints: LinearConstraints) -> Tensor:
    """Return ends, moved back towards their valid starts where they violate a constraint."""
    step = starts.new_ones(len(starts))
    for index, weights, rhs in constraints:
        before, after = starts[:, index] @ weights - rhs, ends[:, index] @ weights - rhs
        way = before.clamp_min(0.0) / (before - after).clamp_min(torch.finfo(step.dtype).tiny)
        step = torch.where(after < 0, torch.minimum(step, way), step)
    return torch.where((step < 1).unsqueeze(-1), starts + step[:, None] * (ends - starts), ends)


def _halved_back(starts: Tensor, ends: Tensor, nonlinear: Nonlinear) -> Tensor:
    """Return ends, moved back towards their valid starts until they satisfy the constraints."""
    low, high = torch.zeros_like(starts[:, :1]), torch.ones_like(starts[:, :1])
    low = torch.where(nonlinear.holds(ends).unsqueeze(-1), high, low)
    for _ in range(_HALVINGS):
        if bool((low == 1).all()):
            break
        middle = 0.5 * (low + high)
        holds = nonlinear.holds(torch.lerp(starts, ends, middle)).unsqueeze(-1)
        low, high = torch.where(holds, middle, low), torch.where(holds, high, middle)
    return torch.where(low == 1, ends, torch.lerp(starts, ends, low))

r"""Ascent of many functions at once, one step of all of them for one evaluation.

Sample paths are cheap together and dear one by one, so they are climbed in step: a projected
quasi-Newton method (BFGS) on a box, each start with its own Hessian and step length. A start is
never left for a worse point.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

ITERATIONS = 60
"""Most steps; smooth functions of a few columns take 10 to 20."""

_FIRST_STEP = 0.05
"""Length of the first step in the unit cube."""

_LONGEST_STEP = 0.25

_ENOUGH = 1e-4
"""The part of the rise that the slope promises that a step has to make."""

_STEEP = 1e-6
"""A start has arrived where its slope in the unit cube, over the height, is below this."""

_SHORTEST = 1e-7


def ascend(
    function: Callable[[Tensor, Tensor], Tensor],
    starts: Tensor,
    bounds: Tensor,
    height: Tensor,
    held: Sequence[int] = (),
    iterations: int = ITERATIONS,
) -> tuple[Tensor, Tensor]:
    """Climb from many starts.

    Args:
        function: From points ``n x d``, and for each the number of the function that is asked, to
            ``n`` values, differentiable; a value depends on its own point only.
        starts: ``S x k x d`` points in the box, ``k`` for each of ``S`` functions.
        bounds: ``2 x d`` bounds.
        height: A scale of the values of each function, ``S``, > 0; tolerances are relative to it.
        held: Columns that keep the values of the starts.
        iterations: Most evaluations.

    Returns:
        The ends, ``S x k x d``, and the values there, ``S x k``.
    """
    shape, d = starts.shape[:-1], starts.shape[-1]
    lower, width = bounds[0], bounds[1] - bounds[0]
    is_held = width <= 0
    is_held[list(held)] = True
    origin = torch.where(is_held, torch.zeros_like(lower), lower)
    scale = torch.where(is_held, torch.ones_like(width), width)
    number = torch.arange(len(starts), device=starts.device).repeat_interleave(shape[-1])

    def evaluate(U: Tensor, which: Tensor) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            points = U.detach().requires_grad_()
            values = function(origin + scale * points, which) / height[which]
            (slopes,) = torch.autograd.grad(values.sum(), points)
        return values.detach(), slopes.masked_fill(is_held, 0.0)

    U = ((starts - origin) / scale).reshape(-1, d)
    value, slope = evaluate(U, number)
    step = torch.ones_like(value)
    identity = torch.eye(d).to(starts)
    steepness = slope.norm(dim=-1).clamp_min(_STEEP)
    hessian = identity * (steepness / _FIRST_STEP)[..., None, None]
    for _ in range(iterations):
        stuck = is_held | ((U <= 0) & (slope < 0)) | ((U >= 1) & (slope > 0))
        free_slope = slope.masked_fill(stuck, 0.0)
        arrived = (free_slope.norm(dim=-1) < _STEEP) | (step < _SHORTEST)
        # Only those that are still under way are evaluated.
        (on,) = torch.nonzero(~arrived, as_tuple=True)
        if not len(on):
            break
        both = stuck[on].unsqueeze(-1) | stuck[on].unsqueeze(-2)
        free_hessian = torch.where(both, identity, hessian[on])
        direction = torch.linalg.solve(free_hessian, free_slope[on].unsqueeze(-1)).squeeze(-1)
        longest = direction.abs().amax(dim=-1, keepdim=True).clamp_min(1e-300)
        direction = direction * (_LONGEST_STEP / longest).clamp_max(1.0)
        trial = U[on] + step[on].unsqueeze(-1) * direction
        trial = torch.where(is_held, U[on], trial.clamp(0.0, 1.0))
        new_value, new_slope = evaluate(trial, number[on])
        move, old = trial - U[on], value[on]
        promised = (slope[on] * move).sum(dim=-1)
        rises = (new_value > old) & (new_value >= old + _ENOUGH * promised)
        hessian[on] = torch.where(
            rises[..., None, None],
            _updated(hessian[on], move, slope[on] - new_slope),
            hessian[on],
        )
        step[on] = torch.where(rises, 1.0, 0.3 * step[on])
        U[on] = torch.where(rises.unsqueeze(-1), trial, U[on])
        slope[on] = torch.where(rises.unsqueeze(-1), new_slope, slope[on])
        value[on] = torch.where(rises, new_value, old)
    ends = (origin + scale * U).clamp(*bounds).reshape(starts.shape)
    return torch.where(is_held, starts, ends), value.reshape(shape) * height.unsqueeze(-1)


def _updated(hessian: Tensor, move: Tensor, fall: Tensor) -> Tensor:
    """The BFGS update of the negative Hessian, from a step and the fall of the slope along it."""
    curvature = (move * fall).sum(dim=-1)
    is_concave = curvature > 1e-10 * move.norm(dim=-1) * fall.norm(dim=-1)
    safe = torch.where(is_concave, curvature, torch.ones_like(curvature))[..., None, None]
    along = (hessian @ move.unsqueeze(-1)).squeeze(-1)
    across = (move * along).sum(dim=-1).clamp_min(1e-300)[..., None, None]
    updated = (
        hessian
        - along.unsqueeze(-1) * along.unsqueeze(-2) / across
        + fall.unsqueeze(-1) * fall.unsqueeze(-2) / safe
    )
    # Where the function is convex along the step, longer steps are worth trying.
    return torch.where(is_concave[..., None, None], updated, 0.5 * hessian)

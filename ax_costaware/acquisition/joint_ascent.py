"""Ascent of many functions at once, one step of all of them for one evaluation.

Functions that are cheap together and dear one by one are climbed in step, by BoTorch's batched
L-BFGS-B.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from botorch.optim.batched_lbfgs_b import fmin_l_bfgs_b_batched
from threadpoolctl import threadpool_limits
from torch import Tensor


def ascend(
    function: Callable[[Tensor, Tensor], Tensor],
    starts: Tensor,
    bounds: Tensor,
    free: Tensor,
    iterations: int,
) -> Tensor:
    """Climb from many starts, in the coordinates of the unit cube.

    Args:
        function: From points ``n x d``, and the row of ``starts`` that each comes from, to ``n``
            values, differentiable; a value depends on its own point only. Tolerances are absolute,
            for values that vary by about one.
        starts: ``p x d`` points.
        bounds: ``2 x d`` bounds of the columns that move.
        free: ``p x d``: which columns of each row move. The others stay, also out of the bounds.
        iterations: Most steps.

    Returns:
        The ends, ``p x d``.
    """
    lower, width = bounds[0], bounds[1] - bounds[0]
    free = free & (width > 0)

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
    # SciPy's own linear algebra is on vectors of a few entries: threads only get in its way.
    with torch.enable_grad(), threadpool_limits(limits={"openblas": 1}):
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

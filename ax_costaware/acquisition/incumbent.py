"""The incumbent: the best of the points that were evaluated, by the model's posterior mean.

With noise the largest outcome is the luckiest one, and the largest posterior mean over the whole
space is a promise; the best posterior mean at an evaluated point is what one has in hand.
"""

from __future__ import annotations

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.models.model import Model
from torch import Tensor

from ax_costaware.exceptions import InputError
from ax_costaware.models.point_posterior import PointPosterior


def incumbent(
    model: Model,
    X: Tensor,
    posterior_transform: PosteriorTransform | None = None,
    maximize: bool = True,
) -> tuple[float, int]:
    """The best posterior mean at evaluated points.

    Args:
        model: A fitted model; an ensemble's means are averaged.
        X: The evaluated points, ``n x d``.
        posterior_transform: Applied to the posterior.
        maximize: Whether large values of the objective are good.

    Returns:
        The posterior mean, in the unit and sign of the (transformed) objective, and the row of
        ``X`` that has it.

    Raises:
        InputError: If ``X`` has no row.
    """
    if X.ndim != 2 or len(X) == 0:
        raise InputError(f"X: got shape {tuple(X.shape)}; expected (n, d) with n >= 1.")
    with torch.no_grad():
        mean, _ = PointPosterior.of(model, posterior_transform).mixture(X)
    row = int(mean.argmax() if maximize else mean.argmin())
    return float(mean[row]), row

r"""Gaussian process of trials that repeat a measurement, and report the mean.

One column of the inputs is the number of repeats :math:`n`. The objective does not depend on it;
the noise variance does, which is :math:`\sigma^2(x) / n`. Results at the same inputs are pooled.
Repeats are a fidelity without a bias.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from botorch.models.transforms.input import Normalize
from botorch.models.transforms.outcome import OutcomeTransform
from botorch.models.utils.gpytorch_modules import (
    get_covar_module_with_dim_scaled_prior,
    get_matern_kernel_with_gamma_prior,
)
from botorch.utils.types import DEFAULT, _DefaultType
from torch import Tensor

from ax_costaware.argument_checks import checked_bounds
from ax_costaware.models.choice_kernel import ChoiceMaternKernel
from ax_costaware.models.configurable_gp import ConfigurableGP, search_by_logarithms
from ax_costaware.models.repeats_likelihood import Noise, repeats_likelihood


class RepeatsGP(ConfigurableGP):
    r"""Exact GP with noise variance ``sigma^2(x) / n``.

    Args:
        train_X: ``m x d`` points, the number of repeats among the columns.
        train_Y: ``m x 1`` means of the repeats.
        repeats: Column of the number of repeats.
        bounds: ``2 x d`` bounds, by which columns are scaled to the unit cube.
        noise: Noise variance of one measurement as a function of points ``... x d``, see
            ``repeats_likelihood``; None: the variance is the same everywhere.
        outcome_transform: As in ``SingleTaskGP``, which standardizes outcomes by default.
        choices: Columns of each one-hot choice, which share a length-scale of a Matern kernel.
        kernel: ``"matern"``, scaled and with Gamma priors, or ``"squared_exponential"``, BoTorch's
            default.
    """

    knows_choices = True
    """True: the constructor takes ``choices``."""

    def __init__(
        self,
        train_X: Tensor,
        train_Y: Tensor,
        repeats: int,
        bounds: Tensor,
        noise: Noise | None = None,
        outcome_transform: OutcomeTransform | _DefaultType | None = DEFAULT,
        choices: Sequence[Sequence[int]] = (),
        kernel: str = "matern",
    ) -> None:
        d = train_X.shape[-1]
        inputs = [i for i in range(d) if i != repeats]
        if kernel == "squared_exponential":
            covariance = get_covar_module_with_dim_scaled_prior(d - 1, active_dims=inputs)
        else:
            covariance = get_matern_kernel_with_gamma_prior(d - 1)
            base = covariance.base_kernel
            if choices:
                within = [[inputs.index(i) for i in block] for block in choices]
                prior = base.lengthscale_prior
                base = ChoiceMaternKernel(d - 1, within, lengthscale_prior=prior)
                covariance.base_kernel = base
            for part in (covariance, base):  # a ScaleKernel has the active columns of its base
                part.active_dims = torch.tensor(inputs)
        scaling = Normalize(d, bounds=checked_bounds(bounds, d).to(train_X))
        super().__init__(
            train_X,
            train_Y,
            covar_module=covariance,
            likelihood=repeats_likelihood(train_X, repeats, scaling, noise),
            outcome_transform=outcome_transform,
            input_transform=scaling,
        )
        search_by_logarithms(self)

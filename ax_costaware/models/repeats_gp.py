r"""Gaussian process of trials that repeat a measurement, and report the mean.

One column of the inputs is the number of repeats :math:`n`. The objective does not depend on it;
the noise variance does, which is :math:`\sigma^2(x) / n`. Results at the same inputs are pooled.
Repeats are a fidelity without a bias.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from botorch.models.transforms.input import Normalize
from botorch.models.transforms.outcome import OutcomeTransform
from botorch.models.utils.gpytorch_modules import (
    MIN_INFERRED_NOISE_LEVEL,
    get_matern_kernel_with_gamma_prior,
)
from botorch.utils.datasets import SupervisedDataset
from botorch.utils.types import DEFAULT, _DefaultType
from gpytorch.constraints import GreaterThan
from gpytorch.priors import LogNormalPrior
from torch import Tensor

from ax_costaware.argument_checks import checked_bounds
from ax_costaware.models.choice_kernel import ChoiceMaternKernel
from ax_costaware.models.configurable_gp import ConfigurableGP, search_by_logarithms
from ax_costaware.models.repeats_likelihood import RepeatsLikelihood

_NOISE = (-4.0, 1.0)
"""Log-normal prior of the noise variance if no spread of repeats is known: BoTorch's default."""

_NOISE_WIDTH = 1.0
"""Standard deviation of its logarithm around the pooled variance of repeats. The noise of a mean
may differ from it: the folds of one cross-validation are not independent of each other, and repeats
may share a part of the noise."""

_LEAST_LEVEL = 10 * MIN_INFERRED_NOISE_LEVEL
"""Least median of the prior, so that its mode is above the least noise."""


class RepeatsGP(ConfigurableGP):
    r"""Exact GP with a scaled Matern-5/2 kernel and noise variance ``sigma^2(x) / n``.

    Args:
        train_X: ``m x d`` points, the number of repeats among the columns.
        train_Y: ``m x 1`` means of the repeats.
        repeats: Column of the number of repeats.
        bounds: ``2 x d`` bounds, by which columns are scaled to the unit cube.
        noise: Noise variance of one measurement as a function of points ``... x d``, as far as it
            is known from the spread of repeats. Its shape is used as it is; its level is the median
            of the prior of the level, which is fitted. None: the variance is the same everywhere.
        outcome_transform: As in ``SingleTaskGP``, which standardizes outcomes by default.
        choices: Columns of each one-hot choice, which share a length-scale.
    """

    knows_choices = True
    """True: the constructor takes ``choices``."""

    def __init__(
        self,
        train_X: Tensor,
        train_Y: Tensor,
        repeats: int,
        bounds: Tensor,
        noise: Callable[[Tensor], Tensor] | None = None,
        outcome_transform: OutcomeTransform | _DefaultType | None = DEFAULT,
        choices: Sequence[Sequence[int]] = (),
    ) -> None:
        d = train_X.shape[-1]
        inputs = [i for i in range(d) if i != repeats]
        kernel = get_matern_kernel_with_gamma_prior(d - 1)
        base = kernel.base_kernel
        if choices:
            within = [[inputs.index(i) for i in block] for block in choices]
            base = ChoiceMaternKernel(d - 1, within, lengthscale_prior=base.lengthscale_prior)
            kernel.base_kernel = base
        for part in (kernel, base):  # a ScaleKernel has the active columns of its base
            part.active_dims = torch.tensor(inputs)
        scaling = Normalize(d, bounds=checked_bounds(bounds, d).to(train_X))
        (location, width), level = _NOISE, 1.0
        if noise is not None:
            with torch.no_grad():
                level = float(noise(train_X).mean())
            location, width = math.log(max(level, _LEAST_LEVEL)), _NOISE_WIDTH
        prior = LogNormalPrior(location, width)
        bound = GreaterThan(MIN_INFERRED_NOISE_LEVEL, transform=None, initial_value=prior.mode)
        super().__init__(
            train_X,
            train_Y,
            covar_module=kernel,
            likelihood=RepeatsLikelihood(
                _NoiseFactor(repeats, scaling, noise, level),
                noise_prior=prior,
                noise_constraint=bound,
            ),
            outcome_transform=outcome_transform,
            input_transform=scaling,
        )
        search_by_logarithms(self)

    @classmethod
    def construct_inputs(cls, training_data: SupervisedDataset, **options: Any) -> dict[str, Any]:
        """Return constructor arguments; standard errors enter by ``noise``, which smooths them."""
        found = super().construct_inputs(training_data, **options)
        found.pop("train_Yvar", None)
        return found

    def latent_noise_of(self, X: Tensor) -> Tensor:
        """Return noise variances ``... x 1`` of ``... x d`` points, after the outcome transform."""
        with torch.no_grad():
            level = self.likelihood.noise
        factor: Tensor = self.likelihood.factor(self.input_transform(X))
        noise: Tensor = level * factor
        return noise.unsqueeze(-1)


class _NoiseFactor:
    """Noise variance as a multiple of its level, at points on the unit cube."""

    def __init__(
        self,
        repeats: int,
        scaling: Normalize,
        noise: Callable[[Tensor], Tensor] | None,
        level: float,
    ) -> None:
        self._repeats, self._scaling, self._noise, self._level = repeats, scaling, noise, level

    def __call__(self, X: Tensor) -> Tensor:
        points = self._scaling.untransform(X)
        count = points[..., self._repeats].clamp_min(1.0)
        if self._noise is None:
            return count.reciprocal()
        return self._noise(points) / (self._level * count)

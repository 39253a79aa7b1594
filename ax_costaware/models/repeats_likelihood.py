r"""Gaussian noise that falls with the number of repeats of a trial.

A trial that repeats a measurement :math:`n` times reports the mean, whose noise variance is
:math:`\sigma^2(x) / n`. Here :math:`\sigma^2(x) = \sigma^2 s(x)`: the level :math:`\sigma^2` is a
hyperparameter, and the shape :math:`s`, which is one on average, is given.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from botorch.models.transforms.input import Normalize
from botorch.models.utils.gpytorch_modules import MIN_INFERRED_NOISE_LEVEL
from gpytorch.constraints import GreaterThan
from gpytorch.likelihoods import GaussianLikelihood
from gpytorch.priors import LogNormalPrior
from linear_operator.operators import DiagLinearOperator
from torch import Tensor

Noise = Callable[[Tensor], Tensor]
"""Noise variance of one measurement as a function of points ``... x d``."""

_PRIOR = (-4.0, 1.0)
"""Log-normal prior of the noise variance if no spread of repeats is known: BoTorch's default."""

_WIDTH = 1.0
"""Standard deviation of its logarithm around the pooled variance of repeats. The noise of a mean
may differ from it: the folds of one cross-validation are not independent of each other, and repeats
may share a part of the noise."""

_LEAST_LEVEL = 10 * MIN_INFERRED_NOISE_LEVEL
"""Least median of the prior, so that its mode is above the least noise."""


def repeats_likelihood(
    train_X: Tensor, repeats: int, scaling: Normalize, noise: Noise | None
) -> RepeatsLikelihood:
    """Return the likelihood of trials that report the mean of their repeats.

    Args:
        train_X: ``m x d`` points, the number of repeats among the columns.
        repeats: Column of the number of repeats.
        scaling: The model's input transform.
        noise: Noise variance of one measurement, as far as it is known from the spread of repeats.
            Its shape is used as it is; its level is the median of the prior of the level, which is
            fitted. None: the variance is the same everywhere.
    """
    (location, width), level = _PRIOR, 1.0
    if noise is not None:
        with torch.no_grad():
            level = float(noise(train_X).mean())
        location, width = math.log(max(level, _LEAST_LEVEL)), _WIDTH
    prior = LogNormalPrior(location, width)
    bound = GreaterThan(MIN_INFERRED_NOISE_LEVEL, transform=None, initial_value=prior.mode)
    return RepeatsLikelihood(
        _NoiseFactor(repeats, scaling, noise, level), noise_prior=prior, noise_constraint=bound
    )


class RepeatsLikelihood(GaussianLikelihood):  # type: ignore[misc]
    """Gaussian likelihood whose noise variance is ``noise * factor(X)``.

    Args:
        factor: Function from the model's points ``... x n x d`` to factors, ``... x n``.
        **options: As of ``GaussianLikelihood``.
    """

    def __init__(self, factor: Callable[[Tensor], Tensor], **options: Any) -> None:
        super().__init__(**options)
        self.factor = factor

    def noise_at(self, X: Tensor) -> Tensor:
        """Return noise variances, ``... x n``, at the model's points ``... x n x d``."""
        found: Tensor = self.noise * self.factor(X)
        return found

    def _shaped_noise_covar(
        self, base_shape: Any, *params: Any, **kwargs: Any
    ) -> DiagLinearOperator:
        """Return the covariance of the noise at the points that GPyTorch passes along."""
        (X,) = params
        noise = self.noise_at(X[0] if isinstance(X, list | tuple) else X)
        return DiagLinearOperator(noise.expand(base_shape))

    def get_fantasy_likelihood(self, **kwargs: Any) -> RepeatsLikelihood:
        """Return itself: the noise follows from the points."""
        return self


def noise_at(likelihood: Any, X: Tensor) -> Tensor:
    """Return the noise variances, ``n``, of a fitted Gaussian likelihood at points ``n x d``."""
    noise: Tensor = likelihood.noise.detach()
    if isinstance(likelihood, RepeatsLikelihood):
        return noise * likelihood.factor(X)
    return noise.expand(len(X))


class _NoiseFactor:
    """Noise variance as a multiple of its level, at points on the unit cube."""

    def __init__(self, repeats: int, scaling: Normalize, noise: Noise | None, level: float) -> None:
        self._repeats, self._scaling, self._noise, self._level = repeats, scaling, noise, level

    def __call__(self, X: Tensor) -> Tensor:
        points = self._scaling.untransform(X)
        count = points[..., self._repeats].clamp_min(1.0)
        if self._noise is None:
            return count.reciprocal()
        return self._noise(points) / (self._level * count)

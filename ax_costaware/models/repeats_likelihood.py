r"""Gaussian noise that falls with the number of repeats of a trial.

A trial that repeats a measurement :math:`n` times reports the mean, whose noise variance is
:math:`\sigma^2(x) / n`. Here :math:`\sigma^2(x) = \sigma^2 s(x)`: the level :math:`\sigma^2` is a
hyperparameter, and the shape :math:`s`, which is one on average, is given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpytorch.likelihoods import GaussianLikelihood
from linear_operator.operators import DiagLinearOperator
from torch import Tensor


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
    """Return the noise variances, ``n``, of a Gaussian likelihood at points ``n x d``."""
    if isinstance(likelihood, RepeatsLikelihood):
        return likelihood.noise_at(X)
    noise: Tensor = likelihood.noise.expand(len(X))
    return noise

r"""Noise variance as a log-normal function of the inputs, learned from repeated measurements.

A trial with :math:`k` repeats has a sample variance :math:`s^2` with :math:`\nu = k - 1` degrees of
freedom. Given the variance :math:`\sigma^2(x)`, :math:`\log(\nu s^2 / \sigma^2)` is the logarithm
of a chi-squared number, with mean :math:`\psi(\nu/2) + \log 2` and variance :math:`\psi'(\nu/2)`.
So an unbiased observation of :math:`\log \sigma^2(x)` with known noise is

.. math:: \log(\nu s^2 / 2) - \psi(\nu / 2) \pm \sqrt{\psi'(\nu / 2)} ,

and a Gaussian process of these is the model (as in Goldberg, Williams and Bishop 1998, "Regression
with input-dependent noise", and Binois, Gramacy and Ludkovski 2018, "Practical heteroskedastic
Gaussian process modeling", section 2). Its prior variance is fitted with a prior of small values,
so that variances are nearly equal unless the spreads say otherwise.
"""

from __future__ import annotations

import math
from functools import cached_property

import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.transforms.input import Normalize
from botorch.models.utils.gpytorch_modules import get_covar_module_with_dim_scaled_prior
from gpytorch.kernels import ScaleKernel
from gpytorch.priors import LogNormalPrior
from torch import Tensor

from ax_costaware.models.configurable_gp import search_by_logarithms
from ax_costaware.models.dense_marginal_likelihood import DenseMarginalLogLikelihood
from ax_costaware.models.posterior import FunctionalPosterior

_LEAST_ROWS = 5
"""Trials with repeats from which on variances may differ between inputs."""

_OUTPUTSCALE = (math.log(0.2), 1.5)
"""Log-normal prior of the variance of the log variance over inputs."""

_PRIOR_FREEDOM = 0.1
"""Degrees of freedom of the pooled variance in that of each trial, since equal values have a
variance of zero, which has no logarithm."""


def smoothed_variances(X: Tensor, variances: Tensor, counts: Tensor, bounds: Tensor) -> Tensor:
    """Return the noise variances of means, ``n``, those of repeats by a ``NoiseVariance``.

    Args:
        X: ``n x d`` points.
        variances: Squares of the standard errors of the means, ``n``.
        counts: Numbers of repeats whose spread they are from, ``n``; one for others, which stay.
        bounds: ``2 x d`` bounds.
    """
    repeated = counts > 1
    of_one = (counts * variances)[repeated]
    if not bool((of_one > 0).any()):
        return variances
    noise = NoiseVariance(X[repeated], of_one, counts[repeated] - 1, bounds)
    found = variances.clone()
    with torch.no_grad():
        found[repeated] = noise(X[repeated]) / counts[repeated]
    return found


class NoiseVariance:
    """Noise variance of a single measurement as a function of points.

    Args:
        X: ``n x d`` points of trials with repeats.
        variances: Their sample variances, ``n``; not all zero.
        freedom: Their degrees of freedom, the number of repeats less one, ``n``.
        bounds: ``2 x d`` bounds, by which columns are scaled to the unit cube.
        columns: Columns on which the variance may depend; None for all.
    """

    def __init__(
        self,
        X: Tensor,
        variances: Tensor,
        freedom: Tensor,
        bounds: Tensor,
        columns: list[int] | None = None,
    ) -> None:
        self.pooled = float((freedom * variances).sum() / freedom.sum())
        self._columns = list(range(X.shape[-1])) if columns is None else columns
        self._X, self._bounds = X[:, self._columns], bounds[:, self._columns]
        self._variances, self._freedom = variances, freedom

    @property
    def data(self) -> tuple[list[list[float]], list[float], list[float]]:
        """Points, variances and degrees of freedom."""
        return self._X.tolist(), self._variances.tolist(), self._freedom.tolist()

    @cached_property
    def _posterior(self) -> FunctionalPosterior | None:
        """Posterior of the log variance over the pooled one; None for too few trials."""
        if len(self._X) < _LEAST_ROWS:
            return None
        with torch.enable_grad():
            return self._fitted()

    def _fitted(self) -> FunctionalPosterior:
        X, nu = self._X, self._freedom + _PRIOR_FREEDOM
        relative = (self._freedom * self._variances / self.pooled + _PRIOR_FREEDOM) / nu
        log_variance = (nu * relative / 2).log() - torch.digamma(nu / 2)
        kernel = ScaleKernel(
            get_covar_module_with_dim_scaled_prior(X.shape[-1]),
            outputscale_prior=LogNormalPrior(*_OUTPUTSCALE),
        )
        model = SingleTaskGP(
            X,
            log_variance.unsqueeze(-1),
            torch.polygamma(1, nu / 2).unsqueeze(-1),
            covar_module=kernel,
            outcome_transform=None,
            input_transform=Normalize(X.shape[-1], bounds=self._bounds),
        )
        search_by_logarithms(model)
        fit_gpytorch_mll(DenseMarginalLogLikelihood(model.likelihood, model))
        return FunctionalPosterior.of(model)

    def __call__(self, X: Tensor) -> Tensor:
        """Return the expected noise variances, ``...``, of one measurement at ``... x d``."""
        if self._posterior is None:
            return X.new_full(X.shape[:-1], self.pooled)
        mean, variance = self._posterior(X[..., self._columns])
        return self.pooled * (mean + variance / 2).exp()

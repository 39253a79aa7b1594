r"""The posterior of a drifting function at one time, over its inputs alone.

A search for the point to use holds the time fixed, at which the covariance of a point with an
observation is that of their inputs times a factor of the observation's age. The factor of the
training data is computed once; what a search then asks for many times over is a kernel and some
products. Units are those of the posterior after the posterior transform.
"""

from __future__ import annotations

from copy import copy
from typing import NamedTuple

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.models.model import Model
from torch import Tensor
from torch.nn.functional import pad

from ax_costaware.exceptions import UnsupportedInputError
from ax_costaware.models.cached_posterior import CachedPosterior, least, only_model
from ax_costaware.models.time_varying_gp import TimeVaryingGP


class Comparison(NamedTuple):
    """Posterior of points beside that of another one."""

    mean: Tensor
    """Means of the points."""

    variance: Tensor
    """Variances of the points."""

    covariance: Tensor
    """Covariances with the other one."""

    correlation: Tensor
    """Prior correlations with the other one."""


class PosteriorNow:
    """Posterior of a ``TimeVaryingGP`` at one time, of points without the time.

    Args:
        model: A model of one outcome with a constant mean, Gaussian noise, and no outcome transform
            or ``Standardize``; or a ``ModelListGP`` of one such model.
        now: The time, in the unit of the model's last column.
        posterior_transform: Applied to the posterior; with one that negates, all is about
            minimisation.
        X_pending: ``k x (d + 1)`` points under evaluation with their times, believed at their
            posterior mean.

    Raises:
        UnsupportedInputError: If the model is another one.
    """

    def __init__(
        self,
        model: Model,
        now: float,
        posterior_transform: PosteriorTransform | None = None,
        X_pending: Tensor | None = None,
    ) -> None:
        model = only_model(model)
        posterior = CachedPosterior.from_model(model, posterior_transform, X_pending)
        if posterior is None or not isinstance(model, TimeVaryingGP):
            raise UnsupportedInputError(
                f"model: got {type(model).__name__}; expected a TimeVaryingGP of one outcome with a"
                " constant mean, Gaussian noise, no outcome transform but Standardize, and no"
                " posterior or forward of its own."
            )
        self._posterior = posterior
        self._kernel = model.spatial_kernel
        self._forgetting_kernel = model.forgetting_kernel
        self._set_now(now)

    def at(self, now: float) -> PosteriorNow:
        """The posterior at another time; the factor of the data is shared."""
        other = copy(self)
        other._set_now(now)
        return other

    def __call__(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance, each ``n``, of points ``n x d``."""
        posterior, rows = self._posterior, self._rows(X)
        covariance = self._kernel(rows, posterior.X).to_dense() * self._weights
        return posterior.moments_of(covariance, self._prior_variance(rows))

    def compare(self, X: Tensor, point: Tensor) -> Comparison:
        """Points ``n x d`` beside another one, ``d``."""
        posterior, rows = self._posterior, self._rows(torch.cat([X, point.unsqueeze(0)]))
        # One call of the kernel, for the data and the other point.
        columns = torch.cat([posterior.X, rows[-1:]])
        covariances: Tensor = self._kernel(rows, columns).to_dense()
        covariance, between = covariances[:, :-1] * self._weights, covariances[:-1, -1:]
        whitened, prior = covariance @ posterior.root, self._prior_variance(rows)
        return Comparison(
            posterior.mean_of(covariance[:-1]),
            posterior.variance_of(whitened[:-1], prior[:-1]),
            posterior.covariance_of(whitened[:-1], whitened[-1:], between).squeeze(-1),
            between.squeeze(-1) / _deviations(prior),
        )

    def correlation(self, X: Tensor, point: Tensor) -> Tensor:
        """Prior correlations, ``n``, of points ``n x d`` with another one, ``d``."""
        rows = self._rows(torch.cat([X, point.unsqueeze(0)]))
        prior = self._prior_variance(rows)
        between: Tensor = self._kernel(rows[:-1], rows[-1:]).to_dense().squeeze(-1)
        return between / _deviations(prior)

    def _set_now(self, now: float) -> None:
        self.now = now
        data = self._posterior.X
        with torch.no_grad():
            at_now = pad(data[:1, :-1], (0, 1), value=now)
            # The share of each observation's covariance that is left.
            self._weights = self._forgetting_kernel(data, at_now).to_dense().squeeze(-1)

    def _rows(self, X: Tensor) -> Tensor:
        """Points after the model's input transform, which is of points with a time."""
        return self._posterior.transform(pad(X, (0, 1), value=self.now))

    def _prior_variance(self, rows: Tensor) -> Tensor:
        variance: Tensor = self._kernel(rows, diag=True)
        return variance


def _deviations(prior: Tensor) -> Tensor:
    """Prior standard deviations of all points but the last, each times that of the last."""
    return (prior[:-1] * prior[-1]).clamp_min(least(prior)).sqrt()

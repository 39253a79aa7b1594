r"""Posterior of a forgetting Gaussian process on finitely many candidates, one round at a time.

The model of Bogunovic, Scarlett and Cevher 2016, *Time-Varying Gaussian Process Bandit
Optimization*: covariance :math:`k(x, x') \rho^{|t - t'|}` with :math:`\rho = \sqrt{1 - \epsilon}`.

Let :math:`V = L^{-1} k(X, \cdot)`, with the Cholesky factor :math:`L` of the covariance of the
observations, and a column per candidate. As time passes, :math:`V` shrinks by :math:`\rho`, and
:math:`L` stays. An observation at candidate :math:`c` adds one row to :math:`V`: the posterior
covariance of :math:`c` with all candidates, divided by the standard deviation of the observation.
:math:`L` is never needed. A round costs ``O(rows * candidates)`` if it is measured, and
``O(candidates)`` otherwise.

At time :math:`t`, row ``i`` has the weight :math:`\rho^{t - t_i}`. Rows below a tolerance are
dropped, which changes later posterior means and standard deviations by about that share of a prior
standard deviation. Only :math:`V^T V` matters, so that more rows than candidates are replaced by
the triangle of their QR factorization. Memory is therefore bounded.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

_FIRST_CAPACITY = 32


class CandidatePosterior:
    """Posterior mean and variance of a zero-mean forgetting process at each of ``m`` candidates.

    Args:
        covariance: Function that returns row ``c`` of the prior covariance, of shape ``m``.
        variance: Prior variances, of shape ``m``.
        forgetting: The forgetting rate epsilon, in ``[0, 1)``; with 0 nothing is forgotten.
        noise: Variance of an observation's noise, > 0.
        tolerance: Weight below which an observation is dropped.
    """

    def __init__(
        self,
        covariance: Callable[[int], Vector],
        variance: Vector,
        forgetting: float,
        noise: float,
        tolerance: float,
    ) -> None:
        self._covariance = covariance
        self._prior_variance = variance
        self._noise = noise
        self._log_decay = 0.5 * math.log1p(-forgetting)
        self._oldest = math.log(tolerance)
        # Moments at the time of the last observation.
        self._time = 0.0
        self._mean = np.zeros_like(variance)
        self._explained = np.zeros_like(variance)
        # Rows of V, each at the time of its own observation; those from start to end count.
        self._rows = np.empty((_FIRST_CAPACITY, len(variance)))
        self._times = np.empty(_FIRST_CAPACITY)
        self._start = self._end = 0
        self._last_explained: tuple[int, Vector] | None = None

    @property
    def num_rows(self) -> int:
        """Number of rows of ``V``: one per observation that still counts, or fewer."""
        return self._end - self._start

    def moments(self, now: float) -> tuple[Vector, Vector]:
        """Return posterior means and variances at time ``now``, each of shape ``m``.

        Args:
            now: A time not before that of the last observation.
        """
        weight = math.exp(self._log_decay * (now - self._time))
        variance = self._prior_variance - weight * weight * self._explained
        return weight * self._mean, np.maximum(variance, 0.0, out=variance)

    def covariance(self, candidate: int, now: float) -> Vector:
        """Return posterior covariances of a candidate with all of them at time ``now``, ``m``.

        The candidate of the last call costs ``O(m)``, another one ``O(rows * m)``.
        """
        weight = math.exp(2 * self._log_decay * (now - self._time))
        found: Vector = self._covariance(candidate) - weight * self._explained_with(candidate)
        return found

    def observe(self, candidate: int, now: float, value: float) -> None:
        """Condition on a value observed at a candidate at time ``now``.

        Args:
            candidate: Index of the candidate.
            now: A time not before that of the last observation.
            value: The observation.
        """
        if self._log_decay != 0:
            age = self._oldest / self._log_decay
            while self._start < self._end and now - self._times[self._start] > age:
                self._start += 1
        covariance = self.covariance(candidate, now)
        # Rounding may make the variance negative.
        deviation = math.sqrt(max(float(covariance[candidate]), 0.0) + self._noise)
        explained = self._explained_with(candidate)
        if self._end == len(self._rows):
            self._make_room(now)
        row: Vector = np.divide(covariance, deviation, out=self._rows[self._end])
        self._times[self._end] = now
        self._end += 1
        weight = math.exp(self._log_decay * (now - self._time))
        surprise = (value - weight * float(self._mean[candidate])) / deviation
        self._mean = weight * self._mean + surprise * row
        # Cached, so that the next call for the same candidate needs no sum over rows.
        self._last_explained = candidate, weight * weight * explained + row[candidate] * row
        self._explained = weight * weight * self._explained + row * row
        self._time = now

    def _explained_with(self, candidate: int) -> Vector:
        """Return a candidate's row of ``V' V`` at the time of the last observation, ``m``."""
        if self._last_explained is None or self._last_explained[0] != candidate:
            rows = self._rows[self._start : self._end]
            ages = self._time - self._times[self._start : self._end]
            weights = np.exp(2 * self._log_decay * ages) * rows[:, candidate]
            self._last_explained = candidate, weights @ rows
        return self._last_explained[1]

    def _make_room(self, now: float) -> None:
        rows = self._rows[self._start : self._end]
        times = self._times[self._start : self._end]
        if len(rows) > 2 * rows.shape[1]:
            weights = np.exp(self._log_decay * (now - times))
            rows = np.asarray(np.linalg.qr(weights[:, None] * rows, mode="r"))
            times = np.full(len(rows), now)
        capacity = 2 * max(len(rows), _FIRST_CAPACITY // 2)
        self._rows, self._times = np.empty((capacity, rows.shape[1])), np.empty(capacity)
        self._rows[: len(rows)], self._times[: len(rows)] = rows, times
        self._start, self._end = 0, len(rows)

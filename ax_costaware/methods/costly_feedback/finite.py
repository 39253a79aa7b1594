"""A finite set of candidates as the domain of the costly-feedback loop.

A round takes a few operations on vectors with an entry per candidate; see
``ax_costaware.models.candidate_posterior`` for the cost of a measurement.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from gpytorch.kernels import Kernel
from numpy.typing import ArrayLike, NDArray
from scipy.spatial import KDTree

from ax_costaware.exceptions import InputError
from ax_costaware.laws.tables import table
from ax_costaware.methods.costly_feedback.domain import Hyperparameters, Observation, Point
from ax_costaware.methods.costly_feedback.round import Choice, RoundPoints, distinct
from ax_costaware.methods.costly_feedback.rules import RIVAL_CORRELATION, FeedbackRule, Rivals
from ax_costaware.models.candidate_posterior import CandidatePosterior

TOLERANCE = 1e-4
"""Weight below which an observation is dropped, which shifts a posterior mean by about this share
of a prior standard deviation."""

_LARGEST_MATRIX = 2_000
"""Most candidates for which the whole prior covariance is stored (32 MB); else single rows."""


class FiniteDomain(RoundPoints):
    """Candidates, at least two and all different.

    Args:
        candidates: ``m x d``, or ``m`` numbers.
        unit_cube: True to scale candidates to the unit cube for the kernel.
        keep_point: False to choose the largest upper confidence bound in each round.

    Raises:
        InputError: If there is one candidate, two are equal, or a coordinate is not finite.
    """

    def __init__(self, candidates: ArrayLike, unit_cube: bool, keep_point: bool = True) -> None:
        self._points = _checked(candidates)
        self.dimension = int(self._points.shape[1])
        self._are_numbers = np.ndim(candidates) == 1
        lower = self._points.min(axis=0)
        width = self._points.max(axis=0) - lower
        self._unit = (self._points - lower) / np.where(width > 0, width, 1.0)
        self._inputs = self._unit if unit_cube else self._points
        self._neighbours = _neighbours(self._unit)
        self._keep_point = keep_point

    def point(self, key: int) -> Point | float:
        """Return the candidate, a number if numbers were given."""
        return float(self._points[key, 0]) if self._are_numbers else self._points[key].copy()

    def inputs(self, key: int) -> Point:
        """Return the coordinates for the kernel."""
        return np.asarray(self._inputs[key])

    def random_key(self, generator: np.random.Generator) -> int:
        """Return the index of a random candidate."""
        return int(generator.integers(len(self._points)))

    def condition(self, model: Hyperparameters, observations: Sequence[Observation]) -> None:
        """Take a model, and condition it on observations in the order of their rounds."""
        self._prior = _Prior(model.kernel, model.outputscale, self._inputs)
        self._mean = model.mean
        self._posterior = CandidatePosterior(
            self._prior.row, self._prior.variance, model.forgetting, model.noise, TOLERANCE
        )
        self._last_moments: tuple[float, tuple[Point, Point]] | None = None
        self._last_choice: int | None = None
        for observation in observations:
            self.observe(observation)

    def observe(self, observation: Observation) -> None:
        """Condition on one more observation, not older than any before it."""
        self._posterior.observe(observation.key, observation.round, observation.value - self._mean)
        self._last_moments = None
        self._last_choice = None

    def choose(self, now: float, beta: float) -> Choice:
        """Return the candidate with the largest upper confidence bound, the first of equals.

        Without a new observation the last choice stays until one of its rivals has a larger bound,
        unless ``keep_point`` is False. Otherwise it would move to close neighbours without a
        relevant difference: the order of the bounds changes with time, in contrast to Lemma 1 of
        the paper, whose inequality (10) holds for the larger of two deviations only.
        """
        mean, variance = self._moments(now)
        key, last = int((mean + math.sqrt(beta) * np.sqrt(variance)).argmax()), self._last_choice
        if last is None or not self._keep_point or self._prior.are_rivals(last, key):
            self._last_choice = last = key
        return self.at(last, now)

    def at(self, key: int, now: float) -> Choice:
        """Return a candidate with its posterior."""
        mean, variance = self._moments(now)
        return Choice(key, self._mean + float(mean[key]), float(variance[key]))

    def rivals(self, choice: Choice, now: float, beta: float, rule: FeedbackRule) -> Rivals:
        """Return the rivals of the chosen candidate.

        By correlation they are all candidates with a prior correlation below
        ``RIVAL_CORRELATION``, or the least correlated one.
        """
        mean, variance = self._moments(now)
        found = _NONE
        if rule.compare != "correlation":
            bound = mean + math.sqrt(beta) * np.sqrt(variance)
            optima = np.flatnonzero(bound >= bound[self._neighbours].max(axis=0))
            found = optima[optima != self._top(bound, choice.key)]
            if rule.bandwidth:
                best_first = found[np.argsort(-bound[found], kind="stable")]
                order = [choice.key, *best_first.tolist()]
                found = np.array(distinct(self._unit, order, rule.bandwidth)[1:], dtype=np.intp)
        if not len(found) and rule.compare != "local_optima_only":
            found = self._prior.uncorrelated_with(choice.key)
        covariance = self._posterior.covariance(choice.key, now)[found] if rule.joint else None
        return Rivals(self._mean + mean[found], variance[found], covariance)

    def _top(self, bound: Point, key: int) -> int:
        """Return the local optimum that hill climbing reaches from a candidate."""
        while True:
            neighbours = self._neighbours[:, key]
            best = int(neighbours[bound[neighbours].argmax()])
            if bound[best] <= bound[key]:
                return key
            key = best

    def _moments(self, now: float) -> tuple[Point, Point]:
        """Return posterior means and variances in a round, cached."""
        if self._last_moments is None or self._last_moments[0] != now:
            self._last_moments = now, self._posterior.moments(now)
        return self._last_moments[1]

    def to_dict(self) -> dict[str, Any]:
        """Return the candidates as plain values, and the last choice."""
        given = self._points[:, 0] if self._are_numbers else self._points
        return {"candidates": given.tolist(), "kept": self._last_choice}

    def restore(self, stored: dict[str, Any]) -> None:
        """Restore the last choice."""
        self._last_choice = stored["kept"]


_NONE = np.empty(0, dtype=np.intp)


class _Prior:
    """Prior moments of the candidates."""

    def __init__(self, kernel: Kernel, outputscale: float, inputs: Point) -> None:
        self._kernel = kernel
        self._scale = outputscale
        self._inputs = torch.tensor(inputs, dtype=torch.double)
        with torch.no_grad():
            diagonal = kernel(self._inputs, diag=True)
            self.variance: Point = outputscale * diagonal.double().numpy()
        self._deviation = np.sqrt(self.variance)
        self._matrix = None if len(inputs) > _LARGEST_MATRIX else self._covariance(slice(None))
        self._last_row: tuple[int, Point] | None = None
        self._last_uncorrelated: tuple[int, NDArray[np.intp]] | None = None

    def row(self, key: int) -> Point:
        """Return the prior covariances of a candidate with all candidates."""
        if self._matrix is not None:
            return np.asarray(self._matrix[key])
        # The last row is usually requested again. (No `lru_cache`: loops are pickled.)
        if self._last_row is None or self._last_row[0] != key:
            self._last_row = key, self._covariance(slice(key, key + 1))[0]
        return self._last_row[1]

    def uncorrelated_with(self, key: int) -> NDArray[np.intp]:
        """Return the candidates of small prior correlation with one, else the least correlated."""
        if self._last_uncorrelated is None or self._last_uncorrelated[0] != key:
            scale = self._deviation * self._deviation[key]
            # A point without prior variance, as at zero with a linear kernel, has no correlation.
            correlation = np.divide(self.row(key), scale, out=np.zeros_like(scale), where=scale > 0)
            correlation[key] = 1.0
            found = np.flatnonzero(correlation < RIVAL_CORRELATION)
            if not len(found):
                found = correlation.argmin(keepdims=True)
            self._last_uncorrelated = key, found
        return self._last_uncorrelated[1]

    def are_rivals(self, key: int, other: int) -> bool:
        """True if the prior correlation of two candidates is small."""
        limit = RIVAL_CORRELATION * self._deviation[key] * self._deviation[other]
        return key != other and bool(self.row(key)[other] < limit or limit == 0)

    def _covariance(self, rows: slice) -> Point:
        with torch.no_grad():
            block = self._kernel(self._inputs[rows], self._inputs).to_dense()
        return np.asarray(self._scale * block.double().numpy())


def _checked(candidates: ArrayLike) -> Point:
    expected = "an m x d array of numbers, or m numbers, with m >= 2"
    points = table(candidates, "candidates")
    if len(points) < 2:
        raise InputError(f"candidates has {len(points)} point: expected {expected}.")
    _, first, counts = np.unique(points, axis=0, return_index=True, return_counts=True)
    if (counts > 1).any():
        twice = points[first[counts > 1][0]].tolist()
        raise InputError(f"candidates has the point {twice!r} twice: expected different points.")
    return points


def _neighbours(points: Point) -> NDArray[np.intp]:
    """Return the ``k x m`` neighbours of each point, two per dimension, for local optima."""
    count, d = points.shape
    if d == 1:
        order = points[:, 0].argsort()
        place = order.argsort()
        # An end has one neighbour, twice.
        before = np.where(place > 0, place - 1, place + 1)
        after = np.where(place < count - 1, place + 1, place - 1)
        return np.stack([order[before], order[after]])
    _, nearest = KDTree(points).query(points, k=min(2 * d + 1, count))
    return np.ascontiguousarray(nearest[:, 1:].T)

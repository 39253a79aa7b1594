"""One round of CE-GP-UCB, in Ax and in the loop: the point to use, and whether to measure it.

Wang et al. 2020, "Cost-Efficient Online Hyperparameter Optimization", Algorithm 1, lines 3 to 8.
Points are finitely many (``finite``), or are searched for (``SearchedRound``).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ax_costaware.acquisition.confidence_search import ConfidenceSearch
from ax_costaware.methods.costly_feedback.rules import (
    FeedbackRule,
    MeasurementChoice,
    Prospect,
    Rivals,
    checked_measurement,
)
from ax_costaware.models.outcome_scale import OutcomeScale
from ax_costaware.models.time_varying_gp import TimeVaryingGP

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Choice:
    """The point of a round."""

    key: Any
    """Key of the point, of the kind of the points that it is one of."""

    mean: float
    """Posterior mean there, in the outcome's unit with the sign of maximization."""

    variance: float
    """Posterior variance there."""


class RoundPoints(ABC):
    """The points that can be used in a round, with their posterior."""

    @abstractmethod
    def choose(self, now: float, beta: float) -> Choice:
        """Return the point with the largest upper confidence bound at time ``now``."""

    @abstractmethod
    def rivals(self, choice: Choice, now: float, beta: float, rule: FeedbackRule) -> Rivals:
        """Return the rivals of a chosen point at time ``now`` that a rule compares it with."""

    def measurement(
        self,
        rule: FeedbackRule,
        choice: Choice,
        now: float,
        beta: float,
        draw: Callable[[], float],
        chance: float | None = None,
    ) -> MeasurementChoice:
        """Return what a rule decides for a chosen point; see ``Prospect`` for the arguments."""
        rivals = None
        if rule.compare is not None:
            rivals = self.rivals(choice, now, beta, rule)
        prospect = Prospect(choice.mean, choice.variance, beta, draw, rivals, chance)
        return checked_measurement(rule, rule.decide(prospect))


class SearchedRound(RoundPoints):
    """Local optima of the bound, and their rivals, as found by searches at one time.

    Later moments, while nothing is observed, follow from those of the search. With the weight
    ``w = (1 - forgetting)^((now - searched) / 2)`` the mean is ``m + w (mean - m)`` for a prior
    mean ``m``, and variances and covariances are ``prior - w^2 (prior - posterior)``.

    Args:
        search: The search at a time; its points are keyed by their index.
        now: Its time.
        beta: Weight of the upper confidence bound.
        scale: Scale of the outcomes that the posterior is of.
    """

    def __init__(
        self, search: ConfidenceSearch, now: float, beta: float, scale: OutcomeScale
    ) -> None:
        self.search, self.now, self.beta = search, now, beta
        self.optima = search.upper_confidence_bound(beta)
        self._scale = scale
        posterior = search.posterior
        assert isinstance(posterior.model, TimeVaryingGP)
        rate = float(posterior.model.forgetting_kernel.forgetting.detach())
        self._log_decay = 0.5 * math.log1p(-rate)
        with torch.no_grad():
            self._location = float(posterior.factor.outcome(torch.zeros(())))
            moments = *posterior(self.optima.point), posterior.prior_variance(self.optima.point)
        self._moments = [moment.cpu().numpy() for moment in moments]
        # The last rivals, by the point and the rule.
        self._rivals: tuple[tuple[int, FeedbackRule], list[Array]] | None = None

    def choose(self, now: float, beta: float) -> Choice:
        """Return the best local optimum; see ``RoundPoints.choose``.

        At the time of the search it is the first one, in whose order feasibility counts, too.
        """
        mean, variance = self._mean(now, self._moments[0]), self._second(now, *self._moments[1:])
        best = 0
        if now != self.now:
            best = int((mean + math.sqrt(beta) * np.sqrt(variance)).argmax())
        return Choice(best, float(mean[best]), float(variance[best]))

    def rivals(self, choice: Choice, now: float, beta: float, rule: FeedbackRule) -> Rivals:
        """Return the rivals, among them the strongest ones; see ``RoundPoints.rivals``."""
        wanted = choice.key, rule
        if self._rivals is None or self._rivals[0] != wanted:
            assert rule.compare is not None
            points = self.optima.point
            order = [choice.key, *(i for i in range(len(points)) if i != choice.key)]
            lower, upper = self.search.region.bounds
            unit = ((points - lower) / (upper - lower).clamp_min(1e-300)).cpu().numpy()
            optima = points[distinct(unit, order, rule.bandwidth)]
            found = self.search.rivals(optima, rule.compare, rule.joint)
            variance = float(self._moments[2][choice.key])
            covariances = found.correlation * (variance * found.prior_variance).sqrt()
            moments = (*found[:3], found.prior_variance, covariances)
            self._rivals = wanted, [moment.cpu().numpy() for moment in moments]
        means, posterior, covariance, prior, prior_covariance = self._rivals[1]
        return Rivals(
            self._mean(now, means),
            self._second(now, posterior, prior),
            self._second(now, covariance, prior_covariance) if rule.joint else None,
        )

    def _mean(self, now: float, mean: Array) -> Array:
        """Return means at a time, in the outcome's unit, from those of the search."""
        if now != self.now:
            weight = math.exp(self._log_decay * (now - self.now))
            mean = self._location + weight * (mean - self._location)
        return self._scale.maximized(mean)

    def _second(self, now: float, posterior: Array, prior: Array) -> Array:
        """Return variances or covariances at a time, from those of the search and the prior."""
        if now != self.now:
            weight = math.exp(2 * self._log_decay * (now - self.now))
            posterior = prior - weight * (prior - posterior)
        return self._scale.unit**2 * posterior


def distinct(points: Array, order: Sequence[int], bandwidth: float) -> list[int]:
    """Return the points that are not near a better one.

    Args:
        points: ``n x d`` points, in the unit cube.
        order: Indices of some of them, best first.
        bandwidth: Distance up to which points are near one another; 0 to keep all.
    """
    if bandwidth == 0:
        return [*order]
    found: list[int] = []
    for i in order:
        if all(math.dist(points[i], points[j]) > bandwidth for j in found):
            found.append(i)
    return found

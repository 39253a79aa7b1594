"""Rules of CE-GP-UCB that decide whether to measure, on plain numbers.

Wang, Ren, Bogunovic, Xiong and Urtasun 2020, *Cost-Efficient Online Hyperparameter Optimization*.
Each round uses the point with the largest upper confidence bound, and a rule decides whether to
measure its outcome. The rule gets posterior means and variances, with the sign of maximization and
in one unit, of the point and of its rivals: the points that it may be confused with. The rule names
the kind of rivals that it needs; the method finds them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from ax_costaware.acquisition.confidence_search import Compare
from ax_costaware.argument_checks import (
    boolean,
    check_fields,
    instance_of,
    integer_at_least,
    nonnegative_number,
    number_between_zero_and_one,
    one_of,
    optional,
    plain_value,
    positive_number,
    probability,
)
from ax_costaware.exceptions import InputError

RIVAL_CORRELATION = 0.8
"""Prior correlation with the chosen point below which a point is a rival. Closer points cannot, and
need not, be distinguished."""

_SMALLEST_VARIANCE = 1e-300

_checked_compare = partial(one_of, allowed=get_args(Compare))


@dataclass(frozen=True)
class Rivals:
    """Posterior moments, of shape ``k``, of the points that the chosen one is compared with."""

    mean: NDArray[np.float64]
    """Posterior means."""

    variance: NDArray[np.float64]
    """Posterior variances."""

    covariance: NDArray[np.float64] | None = None
    """Posterior covariances with the chosen point, for a rule that wants them."""


@dataclass(frozen=True)
class Prospect:
    """Input of a rule: the posterior at the point of a round and at its rivals."""

    mean: float
    """Posterior mean at the chosen point."""

    variance: float
    """Posterior variance there."""

    beta: float
    """Weight of the upper confidence bound ``mean + sqrt(beta) * sd``, >= 0."""

    draw: Callable[[], float]
    """Callable that returns a new uniform number on [0, 1) with each call."""

    rivals: Rivals | None = None
    """The points that it is compared with, for a rule that wants them."""

    chance: float | None = None
    """Probability that the point is feasible if that is uncertain, in which case rules measure;
    else None."""


@dataclass(frozen=True)
class MeasurementChoice:
    """A rule's choice whether to measure, and why."""

    measure: bool
    """True to measure."""

    reason: str
    """The reason, a sentence with the numbers that decided."""

    confidence: float | None = None
    """Smallest probability that the point is better than a rival, if the rule uses it."""


class FeedbackRule(ABC):
    """A rule that says whether the outcome of a round is measured."""

    @property
    def compare(self) -> Compare | None:
        """Kind of rivals that the rule wants, or None."""
        return None

    @property
    def joint(self) -> bool:
        """True if the rule wants their covariances with the chosen point."""
        return False

    @property
    def bandwidth(self) -> float:
        """Distance in the unit cube up to which a local optimum counts as a better one."""
        return 0.0

    @abstractmethod
    def decide(self, prospect: Prospect) -> MeasurementChoice:
        """Decide whether to measure.

        Args:
            prospect: Posterior at the point of the round and at its rivals.

        Raises:
            InputError: If the rule wants rivals, or their covariances, and gets None.
        """


@dataclass(frozen=True)
class MeasurementRule(FeedbackRule):
    """Measure unless the point is better than each rival with probability ``kappa`` at least.

    It also measures if feasibility is uncertain. This is line 8 of the paper's Algorithm 1. With
    ``kappa`` of 1/2 or less the rule may never measure again, because long after the last
    measurement every such probability is 1/2.

    Raises:
        InputError: Unless ``kappa`` is strictly between 0 and 1 and ``compare`` is one of its
            values.
    """

    kappa: float = 0.9
    """Confidence at which no measurement is needed."""

    compare: Compare = "correlation"
    """Kind of rivals: ``"correlation"``; ``"local_optima"`` of the bound, with the former if there
    is one optimum; or ``"local_optima_only"``, with which a single optimum is never measured."""

    joint: bool = True
    """True to count the posterior covariance of the point and its rival. The paper takes them for
    independent, which measures more."""

    bandwidth: float = 0.0
    """Distance in the unit cube up to which a local optimum is merged with a better one. The paper
    does so by mean shift, with 0.2 (appendix E.3)."""

    def __post_init__(self) -> None:
        check_fields(
            self,
            kappa=number_between_zero_and_one,
            compare=_checked_compare,
            joint=boolean,
            bandwidth=nonnegative_number,
        )

    def decide(self, prospect: Prospect) -> MeasurementChoice:
        """Compare the point with its rivals; see ``FeedbackRule.decide``."""
        rivals = _rivals_of(prospect)
        if not len(rivals.mean):
            return _single(prospect)
        spread = rivals.variance + prospect.variance
        if self.joint:
            if rivals.covariance is None:
                raise InputError("rivals.covariance=None: the rule asks for joint moments.")
            spread = spread - 2 * rivals.covariance
        # If the difference has no variance, its sign decides.
        z = (prospect.mean - rivals.mean) / np.sqrt(np.maximum(spread, _SMALLEST_VARIANCE))
        least = float(z.min())
        confidence = float(ndtr(least))
        measure = least < float(ndtri(self.kappa))
        if prospect.chance is not None:
            return MeasurementChoice(True, _open(prospect.chance), confidence)
        return MeasurementChoice(
            measure,
            f"the point is better than its strongest rival with probability {confidence:.3g}, "
            f"{'below' if measure else 'not below'} kappa = {self.kappa:g}",
            confidence,
        )


@dataclass(frozen=True)
class LCBUCBRule(FeedbackRule):
    """Measure unless the chosen point's lower bound is above the upper bound of every rival.

    The condition of the paper's Lemma 8. It measures more than ``MeasurementRule(0.99)``.

    Raises:
        InputError: Unless ``compare`` is one of its values.
    """

    compare: Compare = "correlation"
    """Kind of rivals, as for ``MeasurementRule``."""

    bandwidth: float = 0.0
    """Distance up to which local optima are merged, as for ``MeasurementRule``."""

    def __post_init__(self) -> None:
        check_fields(self, compare=_checked_compare, bandwidth=nonnegative_number)

    def decide(self, prospect: Prospect) -> MeasurementChoice:
        """Compare the confidence intervals; see ``FeedbackRule.decide``."""
        if prospect.chance is not None:
            return MeasurementChoice(True, _open(prospect.chance))
        rivals, weight = _rivals_of(prospect), math.sqrt(prospect.beta)
        if not len(rivals.mean):
            return _single(prospect)
        lower = prospect.mean - weight * math.sqrt(prospect.variance)
        upper = float((rivals.mean + weight * np.sqrt(rivals.variance)).max())
        measure = upper >= lower
        return MeasurementChoice(
            measure,
            f"the largest upper confidence bound of a rival, {upper:.6g}, is "
            f"{'not below' if measure else 'below'} the point's lower one, {lower:.6g}",
        )


@dataclass(frozen=True)
class BernoulliRule(FeedbackRule):
    """Measure with a fixed probability, whatever the model says.

    Raises:
        InputError: Unless ``quota`` is in [0, 1].
    """

    quota: float
    """The probability, which is the expected share of the rounds that are measured."""

    @classmethod
    def balanced(
        cls, rounds: int, forgetting: float, nu: float = math.inf, dimension: int = 1
    ) -> BernoulliRule:
        """Return the rule whose bound on regret plus number of measurements is smallest.

        The quotas of Corollary 6 are ``B1 = B2 = T q``, up to factors that it leaves open. With
        ``c = d (d + 1) / (2 nu + d (d + 1))``, 0 for the squared-exponential kernel,
        ``q = max(T^(-(1 - c) / (3 - c)), forgetting^((1 - c) / (7 - 3 c)))``.

        Args:
            rounds: Number of rounds ``T``.
            forgetting: Forgetting rate per round, in (0, 1).
            nu: Smoothness of a Matern kernel, >= 2 in the corollary; infinity for the
                squared-exponential kernel.
            dimension: Number of inputs ``d``.
        """
        rounds = integer_at_least(rounds, 1, "rounds")
        forgetting = number_between_zero_and_one(forgetting, "forgetting")
        pairs = integer_at_least(dimension, 1, "dimension") * (dimension + 1)
        c = 0.0 if nu == math.inf else pairs / (2 * positive_number(nu, "nu") + pairs)
        return cls(max(rounds ** (-(1 - c) / (3 - c)), forgetting ** ((1 - c) / (7 - 3 * c))))

    def __post_init__(self) -> None:
        check_fields(self, quota=probability)

    def decide(self, prospect: Prospect) -> MeasurementChoice:
        """Draw; see ``FeedbackRule.decide``."""
        measure = prospect.draw() < self.quota
        return MeasurementChoice(
            measure,
            f"drawn {'to measure' if measure else 'to skip'}: the quota is {self.quota:g} of the "
            "rounds",
        )


@dataclass(frozen=True)
class MixedRule(FeedbackRule):
    """Measure a share ``lower`` of the rounds in any case, and up to ``upper`` by ``rule``.

    Algorithm 1 of the paper, with ``lower = B1 / T`` and ``upper = B2 / T`` for its quotas of
    measurements B1 and B2 in T rounds. A round is measured

    - with probability ``lower``, or else
    - if ``rule`` measures, with probability ``(upper - lower) / (1 - lower)``, so that a rule that
      always measures reaches the upper quota. With ``upper=1`` every measurement of ``rule`` is
      made.

    With ``reach_upper=False`` the second probability is that of line 8, ``upper - lower``. The
    share of a rule that always measures is then ``lower + (1 - lower) (upper - lower)``: 0.44 for
    the quotas 0.2 and 0.5.

    Raises:
        InputError: Unless ``rule`` is a rule and ``0 <= lower <= upper <= 1``.
    """

    rule: FeedbackRule
    """Rule for the rounds beyond the lower quota."""

    lower: float
    """Share of the rounds that are measured in any case, in expectation."""

    upper: float
    """Largest share of the rounds that are measured, in expectation."""

    reach_upper: bool = True
    """False for the probability of line 8, with which the upper quota is not reached."""

    def __post_init__(self) -> None:
        checked_rule(self.rule, "rule")
        check_fields(self, lower=probability, upper=probability, reach_upper=boolean)
        if self.lower > self.upper:
            raise InputError(
                f"lower={self.lower!r}, upper={self.upper!r}: expected quotas with lower <= upper."
            )

    @property
    def compare(self) -> Compare | None:
        """Kind of rivals that the inner rule wants."""
        return self.rule.compare

    @property
    def joint(self) -> bool:
        """True if the inner rule wants covariances."""
        return self.rule.joint

    @property
    def bandwidth(self) -> float:
        """Bandwidth of the inner rule."""
        return self.rule.bandwidth

    def decide(self, prospect: Prospect) -> MeasurementChoice:
        """Draw for the lower quota, then ask the rule; see ``FeedbackRule.decide``."""
        if prospect.draw() < self.lower:
            return MeasurementChoice(
                True, f"drawn to measure: the lower quota is {self.lower:g} of the rounds"
            )
        inner = self.rule.decide(prospect)
        rest = 1 - self.lower if self.reach_upper else 1.0
        if not inner.measure or prospect.draw() * rest < self.upper - self.lower:
            return inner
        return MeasurementChoice(
            False,
            f"{inner.reason}, but drawn to skip: the upper quota is {self.upper:g} of the rounds",
            inner.confidence,
        )


@dataclass(frozen=True)
class FullFeedback(FeedbackRule):
    """Measure every round, as time-varying GP-UCB does."""

    def decide(self, prospect: Prospect) -> MeasurementChoice:
        """Measure; see ``FeedbackRule.decide``."""
        return MeasurementChoice(True, "every round is measured")


def default_rule(forgetting_is_given: bool) -> FeedbackRule:
    """Return the default rule, a ``MeasurementRule``.

    If the forgetting rate is learned, a tenth of the rounds is measured in any case. Otherwise a
    rate that was learned too small would make the model overconfident, and without measurements
    this would never be corrected.
    """
    rule = MeasurementRule()
    return rule if forgetting_is_given else MixedRule(rule, lower=0.1, upper=1.0)


def _open(chance: float) -> str:
    return f"the point is feasible with probability {chance:.3g} only"


def _single(prospect: Prospect) -> MeasurementChoice:
    """Return the choice for a point without rivals: unless feasibility is open, not to measure."""
    if prospect.chance is not None:
        return MeasurementChoice(True, _open(prospect.chance))
    return MeasurementChoice(
        False, "the point is the only local optimum of the upper confidence bound"
    )


def _rivals_of(prospect: Prospect) -> Rivals:
    if prospect.rivals is None:
        raise InputError("rivals=None: the rule compares the point with others.")
    return prospect.rivals


def checked_rule(rule: Any, name: str) -> FeedbackRule:
    """Return ``rule`` unchanged.

    Raises:
        InputError: If it is no rule, or wants rivals of another kind than there are.
    """
    found: FeedbackRule = instance_of(
        rule, name, FeedbackRule, "a rule such as MeasurementRule(0.9)"
    )
    one_of(found.compare, f"{name}={rule!r}: compare", (*get_args(Compare), None))
    return found


def checked_measurement(rule: FeedbackRule, choice: MeasurementChoice) -> MeasurementChoice:
    """Return what a rule chose, with a plain boolean: a rule may be a user's.

    Raises:
        InputError: If it is no ``MeasurementChoice``, says neither True nor False, or has no reason
            or a confidence that is no probability.
    """
    name = type(rule).__name__
    if not isinstance(choice, MeasurementChoice) or not isinstance(choice.reason, str):
        raise InputError(f"{name} chose {choice!r}: expected a MeasurementChoice with a reason.")
    return replace(
        choice,
        measure=boolean(plain_value(choice.measure), f"{name}: measure"),
        confidence=optional(probability)(plain_value(choice.confidence), f"{name}: confidence"),
    )

"""The epsilon schedule: the cheapest control set whose value comes within epsilon of the best.

Steps 3 to 6 of Algorithm 1 (UCB-CVS) in Tay et al. 2023, *Bayesian Optimization with Cost-varying
Variable Subsets*. Epsilon is in the units of the values, that is in raw units of the objective:
with an objective in dollars, ``EpsilonSchedule.constant(5.0)`` gives up at most five dollars of
expected upper confidence bound for a cheaper trial.
"""

from __future__ import annotations

from dataclasses import dataclass

from ax_costaware.exceptions import InputError
from ax_costaware.policies.control_set_rules.cheapest_search import cheapest_within
from ax_costaware.policies.control_set_rules.rule import (
    ControlSetDecision,
    ControlSetHistory,
    Evaluate,
    SeenValues,
)
from ax_costaware.queries.argument_checks import finite_number, nonnegative_number


@dataclass(frozen=True)
class EpsilonSchedule:
    """Epsilon ``initial * t^-power * ratio^(t - 1)`` in the rule's decision number ``t``, from 1.

    ``EpsilonSchedule(0)`` relaxes nothing: the largest value wins whatever it costs (UCB-PSQ), and
    the cost only decides between equal values.

    Raises:
        InputError: Unless ``initial >= 0``, ``power >= 0`` and ``0 < ratio <= 1`` are finite
        numbers.
    """

    initial: float
    """Epsilon of the first decision, in raw units of the objective."""

    power: float = 0.0
    """Exponent of the polynomial decay; its sum over ``t`` is sublinear, as Theorem 4.1 asks, for
    any ``power > 0``."""

    ratio: float = 1.0
    """Factor of the geometric decay from one decision to the next."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "initial", nonnegative_number(self.initial, "initial"))
        object.__setattr__(self, "power", nonnegative_number(self.power, "power"))
        ratio = finite_number(self.ratio, "ratio", "a number in (0, 1]")
        if not 0 < ratio <= 1:
            raise InputError(f"ratio={self.ratio!r}: expected a number in (0, 1].")
        object.__setattr__(self, "ratio", ratio)

    @classmethod
    def constant(cls, epsilon: float) -> EpsilonSchedule:
        """The same epsilon, in raw units of the objective, in every decision."""
        return cls(epsilon)

    @classmethod
    def polynomial(cls, initial: float, power: float) -> EpsilonSchedule:
        """Epsilon ``initial / t^power`` in decision ``t``."""
        return cls(initial, power=power)

    @classmethod
    def geometric(cls, initial: float, ratio: float) -> EpsilonSchedule:
        """Epsilon ``initial * ratio^(t - 1)`` in decision ``t``."""
        return cls(initial, ratio=ratio)

    def epsilon(self, t: int) -> float:
        """Epsilon of decision number ``t``, from 1, in raw units of the objective."""
        return float(self.initial * t**-self.power * self.ratio ** (t - 1))

    def decide(self, history: ControlSetHistory, evaluate: Evaluate) -> ControlSetDecision:
        """Choose a control set; see ``ControlSetRule.decide``.

        The choice is that of evaluating every control set, of which only those that can matter are
        evaluated. ``in_play`` of the decision holds, of the cheapest control sets that qualify,
        those that were.
        """
        epsilon = self.epsilon(history.round)
        seen = SeenValues(evaluate)
        best, in_play = cheapest_within(history, seen, epsilon)
        index = history.largest(in_play, seen.values)
        value, cost = seen.values[index], history.costs[index]
        reason = (
            f"Decision {history.round} with epsilon {epsilon:.6g}: the largest value is "
            f"{seen.values[best]:.6g}, of {history.describe(best)} at cost "
            f"{history.costs[best]:g}; "
        )
        if index == best:
            reason += "no cheaper control set comes within epsilon of it."
        else:
            reason += (
                f"the cheapest control sets within epsilon of it cost {cost:g}, and "
                f"{history.describe(index)} has the largest value of these, {value:.6g}."
            )
        return ControlSetDecision(
            index=index, reason=reason, in_play=tuple(in_play), values=seen.values
        )

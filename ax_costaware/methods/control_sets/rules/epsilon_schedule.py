"""The epsilon schedule: the cheapest control set whose value comes within epsilon of the best.

Steps 3 to 6 of Algorithm 1 (UCB-CVS) in Tay et al. 2023, *Bayesian Optimization with Cost-varying
Variable Subsets*. Epsilon is in the units of the values, that is in raw units of the objective:
with an objective in dollars, ``EpsilonSchedule.constant(5.0)`` gives up at most five dollars of
expected upper confidence bound for a cheaper trial.

It is found without evaluating all control sets: with every subset of ten inputs there are 1023 of
them, and each value is an optimisation. Values are monotone under inclusion (see ``rule``). So

* the best value is that of a maximal set;
* a set with a superset of at most the same cost never wins;
* if a set does not qualify, none of its subsets does;
* once a set qualifies, no more expensive one can win, and one of equal cost only by a larger value.

The remaining sets are searched from both ends: from above by inclusion, starting at the cheapest
set that is known to qualify, which is short if few qualify; and from below by cost, which is short
if many do. The end with fewer evaluations, its next step included, goes next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ax_costaware.argument_checks import check_fields, nonnegative_number, share
from ax_costaware.methods.control_sets.rules.rule import (
    ControlSetChoice,
    ControlSetHistory,
    ControlSetRule,
    Evaluate,
    Mask,
    SeenValues,
    cost_groups,
    maximal,
)

Indices = npt.NDArray[np.intp]


@dataclass(frozen=True)
class EpsilonSchedule(ControlSetRule):
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
        check_fields(self, initial=nonnegative_number, power=nonnegative_number, ratio=share)

    @classmethod
    def constant(cls, epsilon: float) -> EpsilonSchedule:
        """Return a schedule with the same epsilon, in raw units, in every decision."""
        return cls(epsilon)

    @classmethod
    def polynomial(cls, initial: float, power: float) -> EpsilonSchedule:
        """Return a schedule with epsilon ``initial / t^power`` in decision ``t``."""
        return cls(initial, power=power)

    @classmethod
    def geometric(cls, initial: float, ratio: float) -> EpsilonSchedule:
        """Return a schedule with epsilon ``initial * ratio^(t - 1)`` in decision ``t``."""
        return cls(initial, ratio=ratio)

    def epsilon(self, t: int) -> float:
        """Return epsilon of decision number ``t``, from 1, in raw units of the objective."""
        return float(self.initial * t**-self.power * self.ratio ** (t - 1))

    def decide(self, history: ControlSetHistory, evaluate: Evaluate) -> ControlSetChoice:
        """Choose a control set; see ``ControlSetRule.decide``.

        The choice is the same as with all values, but only control sets that can matter are
        evaluated. ``in_play`` has the evaluated ones among the cheapest that qualify.
        """
        epsilon = self.epsilon(history.round)
        seen = SeenValues(evaluate)
        best, in_play = _cheapest_within(history, seen, epsilon)
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
        return ControlSetChoice(
            index=index, reason=reason, in_play=tuple(in_play), values=seen.values
        )


def _cheapest_within(
    history: ControlSetHistory, seen: SeenValues, epsilon: float
) -> tuple[int, list[int]]:
    """Apply steps 3 to 5 of Algorithm 1 to the affordable control sets.

    Args:
        history: State of the experiment.
        seen: Cache of the values, which are monotone under inclusion.
        epsilon: Largest difference to the best value.

    Returns:
        The control set of the best value, and those that qualify in the cheapest cost group with
        any (equal costs to rounding). The largest value of that group is among the latter, but sets
        that cannot be larger than one of them may be missing.

    Raises:
        InputError: If no control set is affordable, or a value is not a finite number.
    """
    affordable = history.affordable_indices()
    contained = history.contained
    ranks = _ranks(history.costs)
    is_evaluated = np.zeros(len(ranks), dtype=np.bool_)
    bounds = np.full(len(ranks), np.inf)

    def evaluate_batch(batch: list[int]) -> None:
        for index, value in zip(batch, seen.evaluate(batch), strict=True):
            is_evaluated[index] = True
            np.minimum(bounds, value, out=bounds, where=contained[:, index])

    tops = maximal(contained, affordable)
    evaluate_batch(tops)
    best = history.largest(tops, seen.values)
    goal = seen.values[best]

    relevant = _undominated(contained, ranks, affordable)
    spent_above = spent_below = 0
    while True:
        qualifying = [i for i, value in seen.values.items() if value + epsilon >= goal]
        rank = min(ranks[i] for i in qualifying)
        winners = sorted(i for i in qualifying if ranks[i] == rank)
        leader = history.largest(winners, seen.values)
        is_open = relevant & ~is_evaluated & (bounds + epsilon >= goal)
        is_open &= (ranks < rank) | ((ranks == rank) & (bounds >= seen.values[leader]))
        if not is_open.any():
            return best, winners
        still_open = np.flatnonzero(is_open)
        cheaper_parts = np.flatnonzero(is_open & contained[:, leader] & (ranks < rank))
        above = maximal(contained, cheaper_parts if len(cheaper_parts) else still_open)
        below = _cheapest(still_open, ranks, at_least=spent_below)
        if spent_above + len(above) <= spent_below + len(below):
            spent_above += len(above)
            evaluate_batch(above)
        else:
            spent_below += len(below)
            evaluate_batch(below)


def _ranks(costs: Sequence[float]) -> Indices:
    """Return the number of each control set's cost group, from the cheapest."""
    ranks = np.zeros(len(costs), dtype=np.intp)
    for rank, group in enumerate(cost_groups(costs)):
        ranks[list(group)] = rank
    return ranks


def _undominated(contained: Mask, ranks: Indices, affordable: Sequence[int]) -> Mask:
    """Return a mask of affordable sets without an affordable superset that costs no more."""
    eligible = np.zeros(len(ranks), dtype=np.bool_)
    eligible[list(affordable)] = True
    costs_no_more = ranks[None, :] <= ranks[:, None]
    return np.asarray(eligible & ~(contained & costs_no_more & eligible[None, :]).any(axis=1))


def _cheapest(indices: Indices, ranks: Indices, at_least: int) -> list[int]:
    """Return the cheapest cost groups among ``indices`` that hold ``at_least`` control sets.

    Doubling the number of evaluations keeps the number of calls logarithmic if all costs differ.
    """
    ordered = indices[np.argsort(ranks[indices], kind="stable")]
    last = ranks[ordered[min(max(at_least, 1), len(ordered)) - 1]]
    return [int(index) for index in ordered[ranks[ordered] <= last]]

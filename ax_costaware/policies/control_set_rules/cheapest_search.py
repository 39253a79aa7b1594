r"""The cheapest control sets whose value comes within epsilon of the best, without looking at all.

With every subset of ten inputs there are 1023 control sets, and each value is an optimisation.
Values are monotone under inclusion (see ``inclusion``), and therefore

* the best value is found on the sets that are part of no other;
* a set that is part of another of no larger cost never wins;
* a set that fails takes all its parts with it;
* once a set qualifies, no dearer one can win, and one of equal cost only by a larger value.

What is left open is searched from both ends: from above by inclusion, down from the cheapest
control set that is known to qualify, which is short when few qualify; and from below by cost, which
is short when many do. The end that has asked for less, its next step included, goes next, so that
neither can run away where the other would have been short. Values and epsilon are in raw units of
the objective.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ax_costaware.policies.control_set_rules.inclusion import (
    Mask,
    cost_groups,
    maximal,
    proper_supersets,
)
from ax_costaware.policies.control_set_rules.rule import ControlSetHistory, SeenValues

Indices = npt.NDArray[np.intp]


def cheapest_within(
    history: ControlSetHistory, seen: SeenValues, epsilon: float
) -> tuple[int, list[int]]:
    """Steps 3 to 5 of Algorithm 1 among the affordable control sets.

    Args:
        history: Where the experiment stands.
        seen: Gives the values, which are monotone under inclusion, and keeps them.
        epsilon: How far below the best value a control set may be.

    Returns:
        The control set of the best value, and those that qualify in the cheapest cost group with
        any (equal costs to rounding). The largest value of that group is among the latter, but sets
        that cannot be larger than one of them may be missing.

    Raises:
        InputError: If no control set is affordable, or a value is not a finite number.
    """
    affordable = history.affordable_indices()
    contained = proper_supersets(history.parameters)
    ranks = _ranks(history.costs)
    looked = np.zeros(len(ranks), dtype=np.bool_)
    bounds = np.full(len(ranks), np.inf)

    def look(batch: list[int]) -> None:
        for index, value in zip(batch, seen.look(batch), strict=True):
            looked[index] = True
            np.minimum(bounds, value, out=bounds, where=contained[:, index])

    tops = maximal(contained, affordable)
    look(tops)
    best = history.largest(tops, seen.values)
    goal = seen.values[best]

    relevant = _undominated(contained, ranks, affordable)
    spent_above = spent_below = 0
    while True:
        qualifying = [i for i, value in seen.values.items() if value + epsilon >= goal]
        rank = min(ranks[i] for i in qualifying)
        winners = sorted(i for i in qualifying if ranks[i] == rank)
        leader = history.largest(winners, seen.values)
        is_open = relevant & ~looked & (bounds + epsilon >= goal)
        is_open &= (ranks < rank) | ((ranks == rank) & (bounds >= seen.values[leader]))
        if not is_open.any():
            return best, winners
        still_open = np.flatnonzero(is_open)
        cheaper_parts = np.flatnonzero(is_open & contained[:, leader] & (ranks < rank))
        above = maximal(contained, cheaper_parts if len(cheaper_parts) else still_open)
        below = _cheapest(still_open, ranks, at_least=spent_below)
        if spent_above + len(above) <= spent_below + len(below):
            spent_above += len(above)
            look(above)
        else:
            spent_below += len(below)
            look(below)


def _ranks(costs: Sequence[float]) -> Indices:
    """Number of the cost group of each control set, from the cheapest."""
    ranks = np.zeros(len(costs), dtype=np.intp)
    for rank, group in enumerate(cost_groups(costs)):
        ranks[list(group)] = rank
    return ranks


def _undominated(contained: Mask, ranks: Indices, affordable: Sequence[int]) -> Mask:
    """Affordable control sets that are part of no affordable one of at most the same cost."""
    eligible = np.zeros(len(ranks), dtype=np.bool_)
    eligible[list(affordable)] = True
    no_dearer = ranks[None, :] <= ranks[:, None]
    undominated: Mask = eligible & ~(contained & no_dearer & eligible[None, :]).any(axis=1)
    return undominated


def _cheapest(indices: Indices, ranks: Indices, at_least: int) -> list[int]:
    """The cheapest cost groups among ``indices``, as many as hold ``at_least`` control sets.

    Asking for as many as were asked for before keeps the number of calls logarithmic where every
    control set has a cost of its own.
    """
    ordered = indices[np.argsort(ranks[indices], kind="stable")]
    last = ranks[ordered[min(max(at_least, 1), len(ordered)) - 1]]
    return [int(index) for index in ordered[ranks[ordered] <= last]]

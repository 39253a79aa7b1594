"""Explore then commit: play each cheap cost group a number of times, then the best control set.

Section 4.2 of Tay et al. 2023, *Bayesian Optimization with Cost-varying Variable Subsets*. A cost
group is the control sets of equal cost; the most expensive group is not explored. ``ETC-50`` is
``ExploreThenCommit(50)``, and ``ETC-Ada``, which the paper recommends, is
``ExploreThenCommit.adaptive()``. Hoang et al. 2025, *Bayesian Optimization for Unknown Cost-Varying
Variable Subsets with No-Regret Costs*, groups control sets of unknown costs by their number of
inputs: ``ExploreThenCommit(50, by="size")``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from typing_extensions import override

from ax_costaware.argument_checks import (
    check_fields,
    integer_at_least,
    one_of,
    optional,
    positive_number,
    sequence_of,
    set_fields,
)
from ax_costaware.exceptions import InputError
from ax_costaware.methods.control_sets.rules.rule import (
    ControlSetChoice,
    ControlSetHistory,
    ControlSetRule,
    Evaluate,
    SeenValues,
    cost_groups,
    maximal,
)

_ROUNDING = 1e-9
"""Relative distance to an integer that is rounding only, so that 4 / (0.3 / 3) is 40."""

_LAST = {"cost": "most expensive, cheapest first", "size": "largest, smallest first"}
"""The group that is not explored, and the order of the others."""


@dataclass(frozen=True, init=False, repr=False)
class ExploreThenCommit(ControlSetRule):
    """Play the cheapest cost group that has plays left; when none has, every control set competes.

    Within what is in play, the control set with the largest value is chosen. A group without an
    affordable control set is passed over. With ``by="size"`` a group is the control sets of an
    equal number of inputs, from the fewest; the group of most inputs is not explored.
    """

    plays: int | tuple[int, ...] | None
    """Plays of each cost group, or of each in turn, cheapest first, without the most expensive one;
    None if ``scale`` sets them."""

    scale: float | None
    """Groups get ``floor(scale / c)`` plays, with ``c`` their cost relative to the largest; None if
    ``plays`` sets them."""

    by: str
    """Property that the control sets of a group share: ``"cost"`` or ``"size"``."""

    def __init__(
        self,
        plays: int | Sequence[int] | None = None,
        scale: float | None = None,
        by: str = "cost",
    ) -> None:
        """Give either the plays of each group or a scale.

        Args:
            plays: An integer >= 0 for every cost group, or one for each but the most expensive,
                cheapest first.
            scale: A finite number > 0; see ``adaptive``.
            by: ``"cost"``; or ``"size"``, which works with unknown costs and takes no ``scale``.

        Raises:
            InputError: For both or neither of ``plays`` and ``scale``, or values other than these.
        """
        if (plays is None) == (scale is None):
            raise InputError(f"plays={plays!r}, scale={scale!r}: expected one of the two.")
        if one_of(by, "by", _LAST) == "size" and scale is not None:
            raise InputError(
                f"scale={scale!r} with by='size': expected plays, since a scale is "
                "divided by costs."
            )
        set_fields(self, plays=plays, scale=scale, by=by)
        check_fields(self, plays=optional(_checked_plays), scale=optional(positive_number))

    @classmethod
    def adaptive(cls, scale: float = 4.0) -> ExploreThenCommit:
        """Return a rule with ``floor(scale / c)`` plays of a group, ``c`` its relative cost.

        ``c`` is relative to the largest cost, so that each group is explored for about ``scale``
        times the largest cost.

        Args:
            scale: A finite number > 0.

        Raises:
            InputError: For any other ``scale``.
        """
        return cls(scale=scale)

    def __repr__(self) -> str:
        if self.scale is not None:
            return f"ExploreThenCommit.adaptive(scale={self.scale!r})"
        by = "" if self.by == "cost" else f", by={self.by!r}"
        return f"ExploreThenCommit(plays={self.plays!r}{by})"

    def plays_per_group(self, costs: Sequence[float]) -> tuple[int, ...]:
        """Return the plays of each group but the most expensive, cheapest first.

        Args:
            costs: Costs of all declared control sets, or their numbers of inputs.

        Raises:
            InputError: If ``plays`` lists another number of groups.
        """
        groups = cost_groups(costs)[:-1]
        if self.scale is not None:
            largest = max(costs)
            return tuple(_floor(self.scale * largest / costs[group[0]]) for group in groups)
        if isinstance(self.plays, tuple):
            if len(self.plays) != len(groups):
                raise InputError(
                    f"plays={self.plays!r} has {len(self.plays)} entries: expected {len(groups)}, "
                    f"one for each {self.by} group but the {_LAST[self.by]}, of the {self.by}s "
                    f"{list(costs)}."
                )
            return self.plays
        assert self.plays is not None
        return (self.plays,) * len(groups)

    @override
    def refusal(self, costs: Mapping[str, Any]) -> str | None:
        if self.by == "size":
            return None
        for name, cost in costs.items():
            if cost is None:
                return (
                    f"explores by cost, but control set {name!r} has cost=None: pass a rule that "
                    "takes unknown costs, such as UnknownCosts() or ExploreThenCommit(..., "
                    "by='size'), or give the cost of every control set."
                )
            if not isinstance(cost, float):
                return (
                    f"explores by one cost for each control set, but control set {name!r} has "
                    f"cost={cost!r}, which depends on its values: pass "
                    "LargestValuePerCost(above='worst'), the default, or EpsilonSchedule, which "
                    "compare costs at the best values."
                )
        return None

    @override
    def exploration_cost(self, costs: Sequence[float]) -> float | None:
        """Return the cost of all plays before the commitment; None if it is not known."""
        if self.by == "size":
            return None
        groups = cost_groups(costs)[:-1]
        plays = self.plays_per_group(costs)
        return math.fsum(n * costs[group[0]] for n, group in zip(plays, groups, strict=True))

    def decide(self, history: ControlSetHistory, evaluate: Evaluate) -> ControlSetChoice:
        """Choose a control set; see ``ControlSetRule.decide``.

        Raises:
            InputError: Also if ``plays`` lists another number of groups than there are.
        """
        in_play = history.affordable_indices()
        because = (
            f"No {self.by} group has affordable plays left to explore, so all {len(in_play)} "
            "affordable control sets compete"
        )
        shared = history.costs if self.by == "cost" else [*map(float, map(len, history.parameters))]
        for group, allowance in zip(
            cost_groups(shared)[:-1], self.plays_per_group(shared), strict=True
        ):
            left = allowance - sum(history.plays[i] for i in group)
            affordable = [i for i in group if history.affordable[i]]
            if left > 0 and affordable:
                in_play = affordable
                because = (
                    f"Exploring control sets of {self.by} {shared[group[0]]:g}, which have "
                    f"{left} of {allowance} plays left"
                )
                break
        # By monotonicity the largest value is that of a maximal set.
        seen = SeenValues(evaluate)
        seen.evaluate(maximal(history.contained, in_play))
        index = history.largest(seen.values, seen.values)
        return ControlSetChoice(
            index=index,
            reason=f"{because}: {history.describe(index)} has the largest value, "
            f"{seen.values[index]:.6g}.",
            in_play=tuple(in_play),
            values=seen.values,
        )


def _floor(quotient: float) -> int:
    nearest = round(quotient)
    return nearest if math.isclose(quotient, nearest, rel_tol=_ROUNDING) else math.floor(quotient)


def _checked_plays(plays: Any, name: str) -> int | tuple[int, ...]:
    if isinstance(plays, Integral):
        return integer_at_least(plays, 0, name)
    counts = sequence_of(plays, name, "an integer >= 0, or a list of them")
    return tuple(integer_at_least(count, 0, f"{name}[{i}]") for i, count in enumerate(counts))

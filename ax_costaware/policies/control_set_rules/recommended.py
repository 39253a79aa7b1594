"""Which rule a user gets who names none.

What is known decides: with every cost declared the rule of Tay et al. 2023 explores by cost; where
one has to be learned, the confidence bound above the worst value per expected cost does better
than the rule of Hoang et al. 2025 over the panel of ``benchmarks/panel.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ax_costaware.policies.control_set_rules.explore_then_commit import ExploreThenCommit
from ax_costaware.policies.control_set_rules.per_cost import LargestValuePerCost
from ax_costaware.policies.control_set_rules.rule import ControlSetRule
from ax_costaware.queries.control_sets import ControlSet, check_control_sets


class RecommendedRule(NamedTuple):
    """A rule and the reason for it."""

    rule: ControlSetRule
    """How a control set is chosen."""

    reason: str
    """Why this rule, a sentence."""


def recommended_rule(control_sets: Sequence[ControlSet]) -> RecommendedRule:
    """The rule that ``control_set_strategy`` uses where none is given.

    Args:
        control_sets: The control sets, with or without costs.

    Raises:
        InputError: If there are no control sets, one is no ``ControlSet``, or two are alike.
    """
    unknown = [s.name for s in check_control_sets(control_sets) if s.cost is None]
    if not unknown:
        return RecommendedRule(
            ExploreThenCommit.adaptive(),
            "the cost of every control set is given, so cheap ones are explored more often.",
        )
    return RecommendedRule(
        LargestValuePerCost(above="worst"),
        f"the cost of {unknown} has to be learned, so the one that promises most per unit of "
        "expected cost is taken.",
    )

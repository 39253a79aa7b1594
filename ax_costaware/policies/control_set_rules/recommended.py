"""Which rule a user gets who names none.

What is known decides: with every cost declared the rule of Tay et al. 2023 explores by cost; where
one has to be learned, the rule of Hoang et al. 2025 explores for a share of the budget, or, without
one, a number of times.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ax_costaware.policies.control_set_rules.explore_then_commit import ExploreThenCommit
from ax_costaware.policies.control_set_rules.rule import ControlSetRule
from ax_costaware.policies.control_set_rules.unknown_costs import UnknownCosts
from ax_costaware.queries.control_sets import ControlSet, check_control_sets

ROUNDS_WITHOUT_BUDGET = 5
"""Times that each control set is explored where there is no budget to take a share of."""


class RecommendedRule(NamedTuple):
    """A rule and the reason for it."""

    rule: ControlSetRule
    """How a control set is chosen."""

    reason: str
    """Why this rule, a sentence."""


def recommended_rule(control_sets: Sequence[ControlSet], budget: float | None) -> RecommendedRule:
    """The rule that ``control_set_strategy`` uses where none is given.

    Args:
        control_sets: The control sets, with or without costs.
        budget: What all trials may cost together; None for no limit.

    Raises:
        InputError: If there are no control sets, one is no ``ControlSet``, or two are alike.
    """
    unknown = [s.name for s in check_control_sets(control_sets) if s.cost is None]
    if not unknown:
        return RecommendedRule(
            ExploreThenCommit.adaptive(),
            "the cost of every control set is given, so cheap ones are explored more often.",
        )
    if budget is None:
        return RecommendedRule(
            UnknownCosts(rounds=ROUNDS_WITHOUT_BUDGET),
            f"the cost of {unknown} has to be learned, and there is no budget of which exploring "
            f"could take a share: each control set is explored {ROUNDS_WITHOUT_BUDGET} times.",
        )
    return RecommendedRule(
        UnknownCosts(),
        f"the cost of {unknown} has to be learned, so exploring takes a share of the budget.",
    )

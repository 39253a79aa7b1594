"""The control set of which the money that is left teaches most about what to deploy.

A rule of this package, for known and for learned costs. What is deployed in the end is the query
with the best expectation, whatever was played; so control sets are compared by what all the money
that is left would add to that expectation if it went into one of them: many cheap trials, or a few
dear ones (a batch knowledge gradient, see ``ax_costaware.acquisition.batch_knowledge``). One trial
per unit of cost would mislead, since a first trial may tell next to nothing and the tenth a lot.
Neither a shift or scale of the objective nor the unit of cost changes a decision.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ax_costaware.exceptions import InputError
from ax_costaware.policies.control_set_rules.rule import (
    ControlSetDecision,
    ControlSetHistory,
    Evaluate,
    EvaluateKnowledge,
    expected_costs,
    finite_values,
)
from ax_costaware.queries.argument_checks import positive_number, set_fields

_MOST_PLAYS = 100
"""Trials that are looked ahead, where the money pays for more."""

_HORIZON = 10
"""Trials of the dearest control set that stand for the money where there is no budget."""

_ALIKE = 1.25
"""Control sets whose costs differ by no more than this factor cost the same."""


@dataclass(frozen=True)
class KnowledgePerBudget:
    """The cheapest of the control sets that the money left is worth most in, or nearly.

    Raises:
        InputError: If ``share`` is no number in (0, 1].
    """

    share: float = 0.7
    """A control set is in play if the money is worth at least this share of the most in it. Cheap
    trials can react to one another, which the worth of a batch leaves out."""

    def __post_init__(self) -> None:
        expected = "a number in (0, 1]"
        share = positive_number(self.share, "share", expected)
        if share > 1:
            raise InputError(f"share={self.share!r}: expected {expected}.")
        set_fields(self, share=share)

    def decide(self, history: ControlSetHistory, evaluate: Evaluate) -> ControlSetDecision:
        """Choose a control set; see ``ControlSetRule.decide``.

        Raises:
            InputError: Also if ``evaluate`` is no ``EvaluateKnowledge``.
        """
        if not isinstance(evaluate, EvaluateKnowledge):
            raise InputError(
                f"evaluate={evaluate!r}: expected an EvaluateKnowledge, which says what trials are "
                "worth to the recommendation."
            )
        affordable = history.affordable_indices()
        costs = expected_costs(history, evaluate, affordable)
        money = history.remaining
        if money is None:
            money = _HORIZON * max(costs.values())
        plays = [min(_MOST_PLAYS, max(1, math.floor(money / costs[i] + 1e-9))) for i in affordable]
        given = finite_values(evaluate.knowledge(affordable, plays), affordable, "a worth of ")
        worth = dict(zip(affordable, given, strict=True))
        least = self.share * max(worth.values())
        in_play = [i for i in affordable if worth[i] >= least]
        cheapest = min(costs[i] for i in in_play)
        in_play = [i for i in in_play if costs[i] <= _ALIKE * cheapest]
        index = history.largest(in_play, worth)
        trials = dict(zip(affordable, plays, strict=True))[index]
        return ControlSetDecision(
            index=index,
            reason=f"{trials} trials of {history.describe(index)}, for {money:g}, are expected to "
            f"add {worth[index]:.4g} to the best expectation, at most {max(given):.4g} would be "
            f"added by any control set; it is the cheapest that adds {self.share:.0%} of that.",
            in_play=tuple(in_play),
            values=worth,
        )

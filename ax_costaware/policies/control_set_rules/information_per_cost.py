"""The control set whose trial tells most about the best reachable query per unit of cost.

It needs no numbers of plays and no schedule, and works with declared and with learned costs. The
values are information in nats (``acquisition="information"`` of ``optimize_control_sets``), so that
neither the unit of cost nor a shift or scale of the objective changes a decision.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ax_costaware.policies.control_set_rules.rule import (
    ControlSetDecision,
    ControlSetHistory,
    Evaluate,
    EvaluateBounds,
    SeenValues,
)


@dataclass(frozen=True)
class InformationPerCost:
    """The affordable control set with the most information per unit of expected cost."""

    acquisition: ClassVar[str] = "information"
    """What the values must be, whatever the strategy's own acquisition function is."""

    def decide(self, history: ControlSetHistory, evaluate: Evaluate) -> ControlSetDecision:
        """Choose a control set; see ``ControlSetRule.decide``."""
        affordable = history.affordable_indices()
        seen = SeenValues(evaluate)
        values = seen.look(affordable)
        costs = {i: history.costs[i] for i in affordable}
        if isinstance(evaluate, EvaluateBounds):
            estimates = evaluate.costs(affordable)
            costs = {i: estimate.mean for i, estimate in zip(affordable, estimates, strict=True)}
        ratios = {i: value / costs[i] for i, value in zip(affordable, values, strict=True)}
        index = history.largest(affordable, ratios)
        return ControlSetDecision(
            index=index,
            reason=f"{history.describe(index)} tells most about the best query per unit of cost of "
            f"the {len(affordable)} affordable control sets: {seen.values[index]:.4g} nats at an "
            f"expected cost of {costs[index]:g}.",
            in_play=tuple(affordable),
            values=seen.values,
        )

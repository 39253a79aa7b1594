"""The largest value per unit of cost: a baseline.

Appendix C of Tay et al. 2023, *Bayesian Optimization with Cost-varying Variable Subsets*, compares
with UCB-PSQ, TS-PSQ and expected improvement divided by the control set's cost. Which of the three
it is depends on the values; costs are in the user's own unit.
"""

from __future__ import annotations

from dataclasses import dataclass

from ax_costaware.policies.control_set_rules.inclusion import (
    cost_groups,
    maximal,
    proper_supersets,
)
from ax_costaware.policies.control_set_rules.rule import (
    ControlSetDecision,
    ControlSetHistory,
    Evaluate,
    SeenValues,
)


@dataclass(frozen=True)
class LargestValuePerCost:
    """The affordable control set whose value over its cost is largest.

    It depends on where the objective has its zero, and means something only for values that are not
    negative, as those of expected improvement are: a negative value improves by being dearer.
    """

    def decide(self, history: ControlSetHistory, evaluate: Evaluate) -> ControlSetDecision:
        """Choose a control set; see ``ControlSetRule.decide``."""
        affordable = set(history.affordable_indices())
        contained = proper_supersets(history.parameters)
        seen = SeenValues(evaluate)
        groups = [affordable.intersection(group) for group in cost_groups(history.costs)]
        # Within equal costs the ratio is monotone under inclusion, as the value is.
        seen.look([i for group in groups if group for i in maximal(contained, group)])
        ratios = {i: value / history.costs[i] for i, value in seen.values.items()}
        index = history.largest(ratios, ratios)
        return ControlSetDecision(
            index=index,
            reason=f"{history.describe(index)} has the largest value per cost of the "
            f"{len(affordable)} affordable control sets, {ratios[index]:.6g}: the value "
            f"{seen.values[index]:.6g} at cost {history.costs[index]:g}.",
            in_play=tuple(sorted(affordable)),
            values=seen.values,
        )

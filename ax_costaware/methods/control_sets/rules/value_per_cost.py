"""The control set with the largest value per unit of its cost.

``LargestValuePerCost`` is a baseline: appendix C of Tay et al. 2023, *Bayesian Optimization with
Cost-varying Variable Subsets*, compares with UCB-PSQ, TS-PSQ and expected improvement divided by
the control set's cost; the acquisition function decides which of the three it is. An upper
confidence bound above the worst value, and not above zero, per cost is this package's own rule.
"""

from __future__ import annotations

from dataclasses import dataclass

from typing_extensions import override

from ax_costaware.argument_checks import given_fields, instance_of, one_of
from ax_costaware.methods.control_sets.rules.rule import (
    ControlSetChoice,
    ControlSetHistory,
    ControlSetRule,
    Evaluate,
    EvaluateBounds,
    SeenValues,
    cost_groups,
    expected_costs,
    maximal,
)


@dataclass(frozen=True)
class LargestValuePerCost(ControlSetRule):
    """The affordable control set whose value over its cost is largest.

    Counted from zero, values have to be nonnegative, as those of expected improvement are: a
    negative value per cost improves with the cost. Counted from the worst, neither shift nor scale
    of the objective, nor the unit of cost, changes a decision, and learned costs are those at the
    values that would be set.

    Trials with uncontrolled inputs teach little about values that these hardly ever take, however
    cheap the trials are. Where the best values are among them ``ExploreThenCommit`` does better.

    Raises:
        InputError: If ``above`` is neither ``"zero"`` nor ``"worst"``.
    """

    above: str = "zero"
    """Value that values are counted from: ``"zero"``; or ``"worst"``, the least posterior mean."""

    def __post_init__(self) -> None:
        one_of(self.above, "above", ("zero", "worst"))

    def __repr__(self) -> str:
        return f"LargestValuePerCost({', '.join(given_fields(self))})"

    @property
    @override
    def baseline(self) -> str:
        return self.above

    @override
    def decide(self, history: ControlSetHistory, evaluate: Evaluate) -> ControlSetChoice:
        """Choose a control set; see ``ControlSetRule.decide``.

        Raises:
            InputError: Also if values are counted from the worst, and ``evaluate`` is no
                ``EvaluateBounds``.
        """
        affordable, seen = history.affordable_indices(), SeenValues(evaluate)
        least, costs, what = 0.0, dict(enumerate(history.costs)), "value"
        if self.above == "worst":
            expected = "an EvaluateBounds, which knows the worst value"
            known: EvaluateBounds = instance_of(evaluate, "evaluate", EvaluateBounds, expected)
            seen.evaluate(affordable)
            least, costs = known.worst(), expected_costs(history, known, affordable)
            what = f"value above the worst, {least:.6g},"
        else:
            contained = history.contained
            groups = [set(affordable).intersection(group) for group in cost_groups(history.costs)]
            # Within equal costs the ratio is monotone under inclusion, as the value is.
            seen.evaluate([i for group in groups if group for i in maximal(contained, group)])
        ratios = {i: (value - least) / costs[i] for i, value in seen.values.items()}
        index = history.largest(ratios, ratios)
        at = "cost" if history.is_priced(index) else "a cost that is not known yet, taken to be"
        others = f"Of the {len(affordable)} affordable control sets"
        return ControlSetChoice(
            index=index,
            reason=f"{others if affordable[1:] else 'Nothing else is affordable:'} "
            f"{history.describe(index)} has the largest {what} per cost, {ratios[index]:.6g}: the "
            f"value {seen.values[index]:.6g} at {at} {costs[index]:g}.",
            in_play=tuple(affordable),
            values=seen.values,
        )

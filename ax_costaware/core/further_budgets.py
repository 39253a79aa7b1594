"""Further budgets of a method, each in a unit of its own.

The first budget is that of the method. A further one has an account of its own: that of a method
with the further cost and budget alone, on the same trials. The record of a trial has its expected
cost in each further unit; a cost that is learned is reported as a metric.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ax_costaware.core.history import PastTrial
from ax_costaware.space.parameters import Row

if TYPE_CHECKING:
    from ax_costaware.core.account import Budgeted, BudgetState
    from ax_costaware.core.problem import Problem

FURTHER_COSTS = "further_costs"
"""Entry of a record: expected costs by the name of their unit."""


def in_unit(trial: PastTrial, unit: str, method: Budgeted) -> PastTrial:
    """Return a trial with its costs in a further unit.

    Args:
        trial: The trial.
        unit: Name of the unit.
        method: Method with the costs in this unit alone.
    """
    metric = method.trial_costs.metric
    cost = None if metric is None else trial.metrics.get(metric)
    expected = (trial.record.get(FURTHER_COSTS) or {}).get(unit)
    record = {**trial.record, "expected_cost": expected}
    for name in ("cost_metric", "switching_cost"):
        record.pop(name, None)
    return replace(
        trial,
        reported_cost=cost,
        cost_metric=metric,
        record=record,
        attempts=(None,) * len(trial.attempts),
    )


def problem_in(problem: Problem, unit: str, method: Budgeted) -> Problem:
    """Return a problem with the costs of its trials in a further unit."""
    return replace(problem, trials=tuple(in_unit(t, unit, method) for t in problem.trials))


def further_states(
    method: Budgeted, problem: Problem, initial: bool = False
) -> dict[str, BudgetState]:
    """Return the state of each further budget before a decision, by the name of its unit."""
    return {
        unit: other.budget_state(problem_in(problem, unit, other), initial)
        for unit, other in method.trial_costs.further.items()
    }


def further_costs(
    method: Budgeted, problem: Problem, rows: Sequence[Row]
) -> list[dict[str, float | None]]:
    """Return the expected costs of trials in further units; None before any is reported."""
    found: list[dict[str, float | None]] = [{} for _ in rows]
    for unit, other in method.trial_costs.further.items():
        at, metric = problem_in(problem, unit, other), other.trial_costs.metric
        if metric is None or any(trial.reported_cost is not None for trial in at.trials):
            costs = other.trial_costs.expected(at, rows)
        else:
            costs = [None] * len(rows)
        for each, cost in zip(found, costs, strict=True):
            each[unit] = cost
    return found

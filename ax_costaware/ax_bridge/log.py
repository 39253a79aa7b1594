"""What the strategies say in Ax's log: each decision with its reason, and a budget that runs out.

A line is written where a decision is made, so that an experiment that is loaded, looked at or
assessed writes none. Costs are in the user's own unit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ax.core.experiment import Experiment
from ax.core.generator_run import GeneratorRun
from ax.utils.common.logger import get_logger

from ax_costaware.ax_bridge.records import RECORD, decision_record
from ax_costaware.display import display_cost, display_number, display_values
from ax_costaware.methods.method import Method

logger = get_logger(__name__)

NEARLY_USED = 0.9
"""The part of a budget beyond which it is said to be nearly used up, once."""


def log_decision(
    run: GeneratorRun, experiment: Experiment, method: Method, undelivered: int
) -> None:
    """Log a decision: what to set, what that costs, what was spent before it, and why.

    Args:
        run: What was generated, with its record.
        experiment: The experiment, before the trial is part of it.
        method: The method.
        undelivered: Earlier decisions of the same batch, which are no trials yet.
    """
    index = max(experiment.trials, default=-1) + 1 + undelivered
    record: Mapping[str, Any] = (run.gen_metadata or {})[RECORD]
    controlled = record.get("controlled") or run.arms[0].parameters
    cost = display_cost(record.get("control_set"), record.get("expected_cost"))
    spent, budget = record["decision"]["spent"], method.budget
    money = f"{display_number(spent)}{_of(budget)} spent before"
    unmeasured = "" if record.get("measure", True) else ", without measuring"
    logger.info(
        f"Trial {index}: set {display_values(controlled)} {cost}{unmeasured}; {money}. "
        f"{record['why']}"
    )
    if budget is None or not _nearly_used(record, method):
        return
    if undelivered and spent >= NEARLY_USED * budget:
        return  # an earlier decision of the batch has said so
    earlier = (decision_record(trial) for trial in experiment.trials.values())
    if not any(_nearly_used(other, method) for other in earlier):
        committed = spent + _reserved(record, method)
        logger.info(
            f"The budget is nearly used up: with trial {index}, "
            f"{display_number(committed)}{_of(budget)} is spent or reserved."
        )


def _of(budget: float | None) -> str:
    return "" if budget is None else f" of {display_number(budget)}"


def _nearly_used(record: Mapping[str, Any], method: Method) -> bool:
    """Whether a decision that was recorded leaves little of the budget."""
    spent = (record.get("decision") or {}).get("spent")
    if spent is None or method.budget is None:
        return False
    return bool(spent + _reserved(record, method) >= NEARLY_USED * method.budget)


def _reserved(record: Mapping[str, Any], method: Method) -> float:
    """What a decision reserves of the budget."""
    free = record.get("phase") == "initial" and not method.charge_initial
    return 0.0 if free else record.get("expected_cost") or 0.0

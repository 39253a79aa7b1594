"""The record of a decision, and what Ax's log says of it.

Each decision is logged with its reason and with what it leaves out, and a budget that runs out,
once. A line is written where a decision is made, so that an experiment that is loaded, looked at or
assessed writes none. Costs are in the user's own unit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ax.core.generator_run import GeneratorRun
from ax.utils.common.logger import get_logger

from ax_costaware.ax_bridge.records import RECORD
from ax_costaware.core import Decision, Problem
from ax_costaware.core.decision import all_left_out, record_of
from ax_costaware.display import display_cost, display_number, display_values
from ax_costaware.methods import Method

logger = get_logger(__name__)

NEARLY_USED = 0.9
"""The part of a budget beyond which it is said to be nearly used up, once."""


def recorded(
    run: GeneratorRun, decision: Decision, problem: Problem, method: Method
) -> GeneratorRun:
    """What was generated, with the record of its decision, which is logged.

    The line says what to set, what that costs, what was spent before it, and why.

    Args:
        run: What was generated.
        decision: The decision.
        problem: What it was made from.
        method: The method.
    """
    record: dict[str, Any] = record_of(method, problem, decision)
    run._gen_metadata = {**(run.gen_metadata or {}), RECORD: record}
    index, budget, spent = problem.next_index, method.budget, record["decision"]["spent"]
    controlled = record.get("controlled") or run.arms[0].parameters
    cost = display_cost(record.get("control_set"), record.get("expected_cost"))
    money = f"{display_number(spent)}{_of(budget)} spent before"
    unmeasured = "" if record.get("measure", True) else ", without measuring"
    logger.info(
        f"Trial {index}: set {display_values(controlled)} {cost}{unmeasured}; {money}. "
        f"{record['why']}"
    )
    for left_out in all_left_out(method, problem):
        logger.warning(left_out)
    if budget is not None and record.get("expected_cost") is None and len(problem.undelivered) == 1:
        logger.warning(
            "Several trials are asked for at once, and nothing is known of what they cost: they "
            f"may overrun budget={budget:g}. Ask for one at a time until a cost was reported."
        )
    if budget is not None:
        earlier = [_committed(trial.record, method) for trial in problem.trials]
        if problem.undelivered:
            earlier.append(spent)  # an earlier decision of the batch has said so
        committed = _committed(record, method)
        if max(earlier, default=0.0) < NEARLY_USED * budget <= committed:
            logger.info(
                f"The budget is nearly used up: with trial {index}, "
                f"{display_number(committed)}{_of(budget)} is spent or reserved."
            )
    return run


def _of(budget: float | None) -> str:
    return "" if budget is None else f" of {display_number(budget)}"


def _committed(record: Mapping[str, Any], method: Method) -> float:
    """What was spent before a decision that was recorded, and what it reserves; 0 if not known."""
    spent = (record.get("decision") or {}).get("spent")
    free = record.get("phase") == "initial" and not method.charge_initial
    reserved = 0.0 if free else record.get("expected_cost") or 0.0
    return 0.0 if spent is None else float(spent + reserved)

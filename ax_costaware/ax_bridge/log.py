"""Record and log of decisions and of the budget.

Each decision is logged with its reason. That a budget is nearly used up, or overrun, is logged
once, by the decision or report that reaches it. Loading, reading or assessing an experiment logs
nothing. Costs are in the user's own unit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ax.core.experiment import Experiment
from ax.core.generator_run import GeneratorRun
from ax.exceptions.core import UnsupportedError, UserInputError
from ax.utils.common.logger import get_logger

from ax_costaware.ax_bridge.records import RECORD, decision_record, past_trials
from ax_costaware.ax_bridge.turns import turn_of
from ax_costaware.core import Decision, Problem
from ax_costaware.core.account import ROUNDING, ledger_of, spent
from ax_costaware.core.decision import all_left_out, record_of
from ax_costaware.display import display_cost, display_number, display_values
from ax_costaware.exceptions import InputError
from ax_costaware.methods import Method

logger = get_logger(__name__)

NEARLY_USED = 0.9
"""Fraction of a budget above which it is logged as nearly used up."""


def recorded(
    run: GeneratorRun,
    decision: Decision,
    problem: Problem,
    method: Method,
    experiment: Experiment,
) -> GeneratorRun:
    """Return a generator run with the record of its decision, and log the decision.

    The line has the values to set, their cost, the amount spent before, and the reason.

    Args:
        run: The generator run.
        decision: The decision.
        problem: The problem of the decision.
        method: The method.
        experiment: The experiment.
    """
    record: dict[str, Any] = record_of(method, problem, decision)
    run._gen_metadata = {**(run.gen_metadata or {}), RECORD: record}
    index, budget = problem.next_index, method.budget
    controlled = record.get("controlled") or run.arms[0].parameters
    cost = display_cost(record.get("control_set"), record.get("expected_cost"))
    spent = f"{display_number(record['decision']['spent'])}{_of(budget)} spent before"
    unmeasured = "" if record.get("measure", True) else ", without measuring"
    logger.info(
        f"Trial {index}: set {display_values(controlled)} {cost}{unmeasured}; {spent}. "
        f"{record['why']}"
    )
    for left_out in all_left_out(method, problem):
        logger.warning(left_out)
    if (
        budget is not None
        and record.get("expected_cost") is None
        and len(problem.earlier_in_batch) == 1
    ):
        logger.warning(
            "Several trials are asked for at once, and no cost is known yet: they may overrun "
            f"budget={budget:g}. Ask for one at a time until a cost was reported."
        )
    _log_budget(experiment, method, _committed(record, method), index)
    return run


def log_spending(experiment: Experiment, method: Method, trial_index: int) -> None:
    """Log that a budget is nearly used up, or overrun, after the cost of a trial was reported.

    Args:
        experiment: The experiment.
        method: The method.
        trial_index: The trial.
    """
    if method.budget is None:
        return
    try:
        amount = spent(ledger_of(past_trials(experiment, method), method))
    except (InputError, UnsupportedError, UserInputError):
        return  # The next decision raises the error of the ledger.
    _log_budget(experiment, method, amount, trial_index)


def _log_budget(experiment: Experiment, method: Method, amount: float, index: int) -> None:
    """Log the largest threshold of the budget that ``amount`` is the first to reach."""
    budget, turn = method.budget, turn_of(experiment)
    if budget is None:
        return
    records = map(decision_record, experiment.trials.values())
    before = max([turn.most_spent, *(_committed(record, method) for record in records)])
    turn.most_spent = max(turn.most_spent, amount)
    largest = budget * (1 + ROUNDING)
    if before <= largest < amount:
        said = "overrun"
    elif before < NEARLY_USED * budget <= amount <= largest:
        said = "nearly used up"
    else:
        return
    logger.info(
        f"The budget is {said}: with trial {index}, {display_number(amount)}{_of(budget)} is spent "
        "or reserved."
    )


def _of(budget: float | None) -> str:
    return "" if budget is None else f" of {display_number(budget)}"


def _committed(record: Mapping[str, Any], method: Method) -> float:
    """Return the amount spent and reserved with a recorded decision; 0 if not known."""
    spent = (record.get("decision") or {}).get("spent")
    free = record.get("phase") == "initial" and not method.charge_initial
    reserved = 0.0 if free else record.get("expected_cost") or 0.0
    return 0.0 if spent is None else float(spent + reserved)

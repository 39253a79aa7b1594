"""Inputs of a runner from a trial, and validation of the function's return value.

A runner sees the trial and its experiment but not the strategy. It reads from the records of the
decisions which parameters a control set controls, and which costs are learned.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ax.core.base_trial import BaseTrial
from ax.core.map_metric import MapMetric
from ax.core.metric import Metric
from ax.core.types import TParamValue
from ax.exceptions.core import UserInputError

from ax_costaware.argument_checks import nonnegative_number
from ax_costaware.ax_bridge.log import log_spending
from ax_costaware.ax_bridge.node import method_of
from ax_costaware.ax_bridge.records import decision_record, objective_metrics, planned_trial
from ax_costaware.ax_bridge.search_space import active_parameters
from ax_costaware.ax_bridge.turns import running_strategy
from ax_costaware.core.history import NEVER_RUN
from ax_costaware.core.traits import CONTROL_SET
from ax_costaware.costs import ControlSet
from ax_costaware.exceptions import InputError
from ax_costaware.metrics import ReportedMetric
from ax_costaware.runners.result import EXPECTED, read_result
from ax_costaware.session.reported import (
    TrialTerms,
    check_cost_of_trial,
    check_inputs,
    completion_record,
)


def trial_parameters(trial: BaseTrial) -> dict[str, TParamValue]:
    """Return the values to set in a trial, by parameter name, as ``query`` does.

    With control sets those that the trial controls; otherwise all of the arm's.

    Raises:
        UserInputError: If no record says what the trial's control set controls.
    """
    parameters, controlled = planned_trial(trial).parameters, terms_of(trial).controlled
    parameters = active_parameters(trial.experiment.search_space, parameters)
    return {name: parameters[name] for name in (parameters if controlled is None else controlled)}


def terms_of(trial: BaseTrial) -> TrialTerms:
    """Return how a trial is run and reported, from the records.

    A trial that the user attached has no record. Then the latest record of another trial with its
    control set counts, since the strategy may have been replaced. Without one the name of the
    control set counts, which by default lists its parameters. If no record has control sets, a
    parameter of that name is an ordinary one.

    Raises:
        UserInputError: If neither says what the control set controls.
    """
    arm = trial.arms[0].parameters if trial.arms else {}
    others = [other for _, other in sorted(trial.experiment.trials.items(), reverse=True)]
    records = [decision_record(other) for other in (trial, *others)]
    metric = next((record.get("cost_metric") for record in records if record), None)
    change = _switching_cost(trial)
    name = arm.get(CONTROL_SET)
    known = records[:1] if records[0] else [record for record in records if record]
    if name is None or (known and all("control_set" not in record for record in known)):
        return TrialTerms(None, None, metric, change)
    for record in records:
        if record.get("control_set") == name and "controlled" in record:
            controlled, above = tuple(record["controlled"]), record.get("cost_above")
            return TrialTerms(
                controlled,
                None if above is None else ControlSet(controlled, name=str(name), fixed_cost=above),
                metric,
                change,
            )
    controlled = tuple(str(name).split("+"))
    if not all(part in arm for part in controlled):
        raise UserInputError(
            f"trial {trial.index} was attached with the control set {name!r}. No trial of the "
            "strategy has used it yet, so its parameters are unknown here: attach the trial later, "
            "or run it by hand and pass its outcome to complete_trial."
        )
    return TrialTerms(controlled, None, metric, change)


def _switching_cost(trial: BaseTrial) -> float:
    """Return the expected switching cost, unless the trial that it was to follow is gone."""
    before = trial.experiment.trials.get(trial.index - 1)
    if before is not None and before.status.name in NEVER_RUN:
        return 0.0
    return float(decision_record(trial).get("switching_cost") or 0.0)


def read_outcome(
    trial: BaseTrial, plain: Mapping[str, Any], default_cost: float | None
) -> dict[str, Any]:
    """Return the record of a trial's outcome, exactly as ``complete_trial`` writes it.

    Args:
        trial: The trial.
        plain: Return value of the function, as of ``plain_result``.
        default_cost: Cost of the trial if the function reports none.

    Raises:
        UserInputError: If ``complete_trial`` would refuse the outcome. Or if something is missing
            that no metric of the user's fetches elsewhere: an outcome that is optimized or read by
            the strategy, or a cost that is learned.
    """
    result = read_result(plain)
    raw_data, cost = result.raw_data, result.cost
    terms, planned = terms_of(trial), planned_trial(trial)
    metric = terms.cost_metric
    is_told = isinstance(raw_data, Mapping) and metric in raw_data
    if cost is None and not is_told and planned.is_to_be_measured:
        cost = default_cost
    config = trial.experiment.optimization_config
    optimized = set() if config is None else config.metric_names
    strategy = running_strategy(trial.experiment)
    method = None if strategy is None else method_of(strategy)
    if planned.is_to_be_measured:
        if raw_data is not None or not plain["returned"]:
            read = set() if method is None else {*method.reads} - {method.trial_costs.metric}
            _check_reported(trial, optimized | read, raw_data, plain["returned"])
    else:
        # The strategy asked for no measurement: ignore one, and do not charge it.
        values, ignored = raw_data if isinstance(raw_data, Mapping) else {}, {*optimized, metric}
        left = {name: value for name, value in values.items() if name not in ignored} or None
        if left != raw_data:
            raw_data, cost = left, None
    record = completion_record(trial, terms, raw_data, result.realized, cost)
    if method is not None:
        check_inputs(trial, method, record)
    # Without an outcome, a trial of a strategy that may skip measurements costs nothing.
    is_skipped = "measure" in planned.record and not optimized & record["outcomes"].keys()
    is_missing = metric is not None and "cost" not in record and not is_skipped
    if is_missing and _has_nothing_to_fetch(trial.experiment.metrics.get(str(metric))):
        raise UserInputError(
            f"cost=None: the strategy learns costs, from the metric {metric!r}: expected the "
            "trial's cost, in TrialResult(..., cost=...), or time_cost=True for its seconds."
        )
    return record


def failed_cost(trial: BaseTrial, plain: Mapping[str, Any]) -> float | None:
    """Return the cost of an attempt with a refused outcome; None if its cost was refused, too.

    Args:
        trial: The trial.
        plain: Plain part of the return value: its cost, or the cost in the metric from which costs
            are learned.
    """
    cost, raw_data = plain["cost"], plain["raw_data"]
    try:
        if cost is None and isinstance(raw_data, Mapping):
            measured = raw_data.get(str(terms_of(trial).cost_metric))
            cost = measured[0] if isinstance(measured, list) else measured
        return None if cost is None else nonnegative_number(cost, "cost")
    except (InputError, UserInputError):
        return None


def log_cost(trial: BaseTrial) -> None:
    """Log that the budget of the trial's strategy is nearly used up, or overrun."""
    strategy = running_strategy(trial.experiment)
    if strategy is not None:
        log_spending(trial.experiment, method_of(strategy), trial.index)


def is_cost_of_trial(trial: BaseTrial, cost: float) -> bool:
    """True if the cost of a failed attempt can be recorded as the trial's learned cost."""
    terms = terms_of(trial)
    try:
        check_cost_of_trial(cost, trial.index, terms)
    except UserInputError:
        return False
    return terms.cost_metric is None or cost > 0


def _check_reported(trial: BaseTrial, needed: set[str], raw_data: Any, returned: bool) -> None:
    """Refuse a result without the outcomes that no other source has."""
    metrics = trial.experiment.metrics
    due = sorted(name for name in needed if _has_nothing_to_fetch(metrics.get(name)))
    if due and not returned:
        raise UserInputError(f"the function returned None for the metrics {due}: {EXPECTED}.")
    # A bare number is the value of the objective.
    given = raw_data if isinstance(raw_data, Mapping) else objective_metrics(trial.experiment)
    if absent := [name for name in due if name not in given]:
        raise UserInputError(
            f"the function returned values of {sorted(given)} and none of {absent}, which the "
            "experiment optimizes or bounds, or the strategy reads: expected one of each."
        )


def _has_nothing_to_fetch(metric: Metric | None) -> bool:
    """True if a metric has only returned values: this package's, or Ax's without a fetch."""
    return isinstance(metric, ReportedMetric | None) or type(metric) in (Metric, MapMetric)

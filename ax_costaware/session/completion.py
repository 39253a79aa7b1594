"""Reporting how a trial came out: ``complete_trial``; also ``report_cost`` and ``save``.

Everything is validated before anything is written. The realised inputs, the cost and the outcomes
go into the trial's run metadata before Ax completes the trial, because that is where they are kept
at full precision (Ax's own data keep ten decimals) and saved by both of Ax's stores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ax.core.base_trial import BaseTrial
from ax.core.trial_status import TrialStatus
from ax.core.types import TParamValue
from ax.exceptions.core import UserInputError
from ax.utils.common.logger import get_logger

from ax_costaware.argument_checks import instance_of, nonnegative_number, positive_number
from ax_costaware.ax_bridge.client import (
    Outcomes,
    Session,
    SessionClient,
    holding_lock,
    open_session,
)
from ax_costaware.ax_bridge.log import log_spending
from ax_costaware.ax_bridge.records import (
    EXCLUDED,
    RECORD,
    outcome_record,
    planned_trial,
    progress_parameter,
    recorded_outcomes,
    values_in_data,
)
from ax_costaware.ax_bridge.training_data import attach_raw_data, raw_data_of
from ax_costaware.metrics import CostMetric
from ax_costaware.session.realized import warn_out_of_bounds
from ax_costaware.session.reported import (
    RawCurve,
    RawData,
    TrialTerms,
    check_cost_of_trial,
    check_inputs,
    completion_record,
    read_curve,
    switching_cost_of,
)

logger = get_logger(__name__)

_REPORTED = ("realized", "outcomes", "cost", "cost_metric")


@holding_lock
def complete_trial(
    client: SessionClient,
    trial_index: int,
    raw_data: RawData | RawCurve | None = None,
    realized: Mapping[str, TParamValue] | None = None,
    cost: float | None = None,
    progression: float | Sequence[float] | None = None,
) -> None:
    """Record a trial's outcome, its inputs as they really were, and its cost, and complete it.

    The trial is saved if the client has a database. A refused call changes nothing. If only saving
    fails, the trial is completed in this process: once the database is back, the same call again,
    or ``save``, stores it. Of a trial of a control set that Ax's own call has completed, the
    realised inputs and the cost are added, without ``raw_data``.

    Args:
        client: An Ax ``Client``, an ``AxClient``, or a tuple ``(Experiment, GenerationStrategy)``.
        trial_index: Index of a running trial.
        raw_data: The objective's value, ``(mean, sem)``, or a mapping from metric to either; an
            unknown ``sem`` is inferred by the model. None: nothing was measured, and the trial is
            completed without data. With costly feedback that is a skipped measurement, which is
            free; any other strategy still charges the trial, unless ``cost=0``. A mapping may
            lack the objective, and may hold the cost, under the metric that the strategy learns
            costs from.
        realized: The value that each uncontrolled parameter took, in its own unit. A controlled
            parameter may be given too, if it came out differently from plan.
        cost: What the trial cost, in the user's own unit; 0 if it was free. None: it is charged
            what was expected of it, a skipped measurement nothing. A strategy that learns its
            costs needs the cost of every trial, larger than 0; it is shown in Ax's data, too,
            where the experiment has the metric. A trial of a control set with an unknown cost
            needs one, larger than the set's ``fixed_cost``, whether or not it was measured; one
            that was never run is to be marked as abandoned.
        progression: The steps of a learning curve, which increase and are in units of the fidelity
            of ``fidelity_strategy``: ``complete_trial(client, i, scores, progression=range(1,
            11))`` with a list of scores after 1 to 10 epochs, or a list per metric; what is no list
            is of the last step. That is the trial's own fidelity, however far it was to go. A
            number is the step of a ``raw_data`` without lists, as in Ax's own calls, which report
            the steps before.

    Raises:
        UserInputError: If the trial does not exist or is not running, a realised value is missing,
            unknown or does not fit its parameter, a metric is unknown, a number is not finite, a
            cost or standard error is negative, a cost that is learned is 0 or no more than the
            trial's switching cost, it is given twice and differently, or it is missing or too small
            for a control set whose cost is unknown; if the strategy learns from no progress, or
            ``progression`` has other steps than the parameter has values, or not as many as there
            are outcomes; if it was measured at inputs that are no query of its conditional, or no
            cell of its tree.
        UnsupportedError: If the trial has several arms, or another process runs the experiment.

    Warns:
        OutOfBoundsWarning: If a realised value lies outside its parameter's bounds. It is recorded
            and used.
    """
    session = open_session(client, to_write=True)
    trial = session.trial(trial_index)
    control_set = session.method.control_set_of(planned_trial(trial))
    has_run = trial.status in (TrialStatus.COMPLETED, TrialStatus.EARLY_STOPPED)
    # It was completed by Ax's own call.
    is_added = control_set is not None and has_run and "realized" not in outcome_record(trial)
    may_be_unsaved = trial.status.is_completed and session.has_database
    if is_added:
        if raw_data is not None:
            raise UserInputError(
                f"trial {trial_index} is already {trial.status.name.lower().replace('_', ' ')}, "
                "with its outcome: leave out raw_data, and give what is missing, realized and the "
                "cost."
            )
        cost = outcome_record(trial).get("cost") if cost is None else cost
    elif not may_be_unsaved:
        _check_running(trial)
    method, experiment, cost_metric = session.method, session.experiment, session.method.cost_metric
    curve: dict[float, Outcomes] = {}
    if progression is not None:
        instance_of(realized, "realized", Mapping | None, "a mapping from parameter to value")
        curve = {**read_curve(raw_data, progression, experiment, method)}
        parameter, (*_, last) = progress_parameter(experiment, method), curve
        assert parameter is not None
        name = parameter.name
        if name in (realized or {}):
            raise UserInputError(f"realized={realized!r}: progression says {name!r}.")
        raw_data, realized = curve[last] or None, {**(realized or {}), name: last}
    controlled = None if control_set is None else control_set.parameters
    terms = TrialTerms(controlled, control_set, cost_metric, switching_cost_of(session, trial))
    record = completion_record(trial, terms, raw_data, realized, cost)
    _check_reads(session, trial, record)
    if is_added:
        warn_out_of_bounds(record["realized"], session.experiment.search_space)
        trial.update_run_metadata({RECORD: {**outcome_record(trial), **record}})
        session.save_trial(trial)
        log_spending(experiment, method, trial.index)
        return
    if may_be_unsaved:
        _save_again(session, trial, record)
        return
    check_inputs(trial, method, record)
    warn_out_of_bounds(record["realized"], experiment.search_space)
    if progression is not None:
        curve[last] = record["outcomes"]
    _write(session, trial, record, curve)
    log_spending(experiment, method, trial.index)
    if cost_metric is not None and "cost" not in record:
        _warn_of_missing_cost(session, trial, cost_metric)


def _check_reads(session: Session, trial: BaseTrial, record: dict[str, Any]) -> None:
    """Refuse an outcome without what else the method learns from, such as its time.

    A cost may come later, and what Ax's data have already is known.
    """
    method = session.method
    for metric in method.reads if record["outcomes"] else ():
        known = metric in record["outcomes"] or metric == method.cost_metric
        if not known and trial.index not in values_in_data(session.experiment, metric):
            raise UserInputError(
                f"raw_data={list(record['outcomes'])} lacks {metric!r}, which the strategy reads: "
                f"expected a mapping that has it, such as {{..., {metric!r}: ...}}."
            )


def _check_running(trial: BaseTrial) -> None:
    if trial.status.is_completed:
        raise UserInputError(_completed_before(trial))
    if trial.status is not TrialStatus.RUNNING:
        raise UserInputError(
            f"trial {trial.index} is {trial.status.name}: only a running trial can be completed."
        )


def _completed_before(trial: BaseTrial) -> str:
    """Say how what was reported of a completed trial is corrected."""
    i = trial.index
    return (
        f"trial {i} is already completed. Correct its outcomes by client.attach_data({i}, "
        f"{{metric: value}}), and its cost by ax_costaware.report_cost(client, {i}, cost). Inputs "
        f"that were reported stay: ax_costaware.exclude_trial(client, {i}) leaves the trial out, "
        "and ax_costaware.attach_table(client, row, charge=True) attaches it as it was."
    )


def _save_again(session: Session, trial: BaseTrial, record: dict[str, Any]) -> None:
    """Save a completed trial for which the same was reported, as after a database was away."""
    reported = {name: part for name, part in outcome_record(trial).items() if name in _REPORTED}
    if record != reported:
        raise UserInputError(_completed_before(trial))
    session.save_trial(trial)


def _write(
    session: Session, trial: BaseTrial, record: dict[str, Any], curve: Mapping[float, Outcomes]
) -> None:
    """Write the record, then complete the trial; undo both if Ax refuses the completion.

    If the trial was completed and only saving it failed, everything stays: the outcome is in the
    experiment, and the error says how to store it.
    """
    data_before = session.experiment.data
    record_before = trial.run_metadata.get(RECORD)
    # What a runner wrote of its attempts stays: they cost something, too.
    attempts = {name: part for name, part in outcome_record(trial).items() if name == "attempts"}
    trial.update_run_metadata({RECORD: {**record, **attempts}})
    try:
        session.complete(trial, record["outcomes"], curve)
    except BaseException as error:
        if trial.status.is_completed:
            error.add_note(
                f"Trial {trial.index} is completed in this process, but it may not be stored: once "
                "the database is back, call complete_trial with the same arguments again, or "
                "ax_costaware.save(client)."
            )
        else:
            session.experiment.data = data_before
            if record_before is None:
                trial.run_metadata.pop(RECORD)
            else:
                trial.update_run_metadata({RECORD: record_before})
        raise


def _warn_of_missing_cost(session: Session, trial: BaseTrial, cost_metric: str) -> None:
    """Say at once what would stop the next decision, unless the cost came in by Ax before."""
    if trial.index not in values_in_data(session.experiment, cost_metric):
        logger.warning(
            f"trial {trial.index} is completed without its cost, which the strategy learns from "
            f"the metric {cost_metric!r}: no trial is chosen by the model before it is known. "
            f"Report it with ax_costaware.report_cost(client, {trial.index}, ...)."
        )


@holding_lock
def report_cost(client: SessionClient, trial_index: int, cost: float) -> None:
    """Record what a trial has cost that has ended, where ``complete_trial`` was not told.

    So it is for a trial that was completed by Ax's own call, failed, or was stopped early or
    abandoned, and for a bill that comes later or has to be corrected: the last cost counts. What a
    trial cost that failed or was stopped early is learned from, too: the expected cost is that of a
    trial, finished or not. Each ``CostMetric`` of the experiment has it in Ax's data from then on.
    The trial is saved if the client has a database. A refused call changes nothing.

    Args:
        client: An Ax ``Client``, an ``AxClient``, or a tuple ``(Experiment, GenerationStrategy)``.
        trial_index: Index of a trial that has ended.
        cost: What the trial cost, in the user's own unit; 0 if it was free, where the cost of its
            control set is declared.

    Raises:
        UserInputError: If the trial does not exist or has not ended, or if the cost is not finite,
            is negative, or, where costs are learned, not larger than zero and the trial's
            switching cost, or than that and the ``fixed_cost`` of a control set whose cost is
            unknown.
        UnsupportedError: If the trial has several arms, or another process runs the experiment.
    """
    session = open_session(client, to_write=True)
    trial = session.trial(trial_index)
    metric = session.method.cost_metric
    if not trial.status.is_terminal:
        raise UserInputError(
            f"trial {trial.index} is {trial.status.name}: expected one that has ended. Pass the "
            "cost to complete_trial(..., cost=...)."
        )
    paid = (nonnegative_number if metric is None else positive_number)(cost, "cost")
    control_set = session.method.control_set_of(planned_trial(trial))
    terms = TrialTerms(None, control_set, metric, switching_cost_of(session, trial, paid))
    check_cost_of_trial(paid, trial.index, terms)
    record = {**outcome_record(trial), "cost": paid}
    metrics = session.experiment.metrics
    shown = {name for name, found in metrics.items() if isinstance(found, CostMetric)}
    if metric is not None:
        record["cost_metric"] = metric
        record["outcomes"] = {**recorded_outcomes(trial), metric: [paid, None]}
        shown.add(metric)
    if known := raw_data_of(dict.fromkeys(shown, (paid, None)), session.experiment):
        attach_raw_data(trial, known)
    trial.update_run_metadata({RECORD: record})
    session.save_trial(trial)
    log_spending(session.experiment, session.method, trial.index)


@holding_lock
def exclude_trial(client: SessionClient, trial_index: int, reason: str = "") -> None:
    """Leave a trial out of everything: nothing is charged for it, and nothing learned from it.

    So it is for a trial that was attached or completed by mistake, and that no decision can be made
    beside: a control set that does not exist, a point that is no cell of the tree, a value that is
    no number; or for one of several arms, which Ax's own strategies make. It stays in the
    experiment, and counts as one that was abandoned before it ran, which is its status then, unless
    it has failed. The trial is saved if the client has a database.

    Args:
        client: An Ax ``Client``, an ``AxClient``, or a tuple ``(Experiment, GenerationStrategy)``.
        trial_index: Index of the trial.
        reason: Why, to be stored with it.

    Raises:
        UserInputError: If the trial does not exist, or ``reason`` is no string.
        UnsupportedError: If another process runs the experiment.
    """
    session = open_session(client, to_write=True)
    trial = session.any_trial(trial_index)
    instance_of(reason, "reason", str, "a string")
    trial.update_run_metadata({RECORD: {**outcome_record(trial), EXCLUDED: reason}})
    if not trial.status.is_failed:
        # Or Ax would wait for its data, or count it as a trial with data.
        trial.mark_abandoned(reason or None, unsafe=True)
    session.save_trial(trial)


@holding_lock
def save(client: SessionClient) -> None:
    """Save the experiment, with every trial and its data, and the strategy to the database.

    Ax saves what a call changed within that call. Where the database was away the call raised, and
    what it did is in this process only: this stores it. Doing so again changes nothing.

    Args:
        client: An Ax ``Client`` or an ``AxClient`` with a database.

    Raises:
        UserInputError: If the client has no database, no experiment or no strategy of this package.
        UnsupportedError: If another process runs the experiment.
    """
    session = open_session(client, to_write=True)
    session.check_database()
    session.save_everything()

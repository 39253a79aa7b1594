"""Reports on trials: ``complete_trial``, ``report_cost``, ``exclude_trial`` and ``save``.

Everything is validated before anything is written. Realized inputs, cost and outcomes are written
to the trial's run metadata before Ax completes the trial. Run metadata keep full precision (Ax's
own data keep ten decimals), and both of Ax's stores save them.
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
    REPEATS,
    objective_metrics,
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

_REPORTED = ("realized", "outcomes", "cost", "cost_metric", REPEATS)


@holding_lock
def complete_trial(
    client: SessionClient,
    trial_index: int,
    raw_data: RawData | RawCurve | None = None,
    realized: Mapping[str, TParamValue] | None = None,
    cost: float | None = None,
    progression: float | Sequence[float] | None = None,
) -> None:
    """Complete a trial: record its outcome, its realized inputs, and its cost.

    The trial is saved if the client has a database. A refused call changes nothing. If only saving
    fails, the trial is completed in this process. Once the database is back, repeat the call, or
    call ``save``. If Ax's own call has completed a trial of a control set, this function adds the
    realized inputs and the cost; leave out ``raw_data`` then.

    Args:
        client: An Ax ``Client``, an ``AxClient``, or a tuple ``(Experiment, GenerationStrategy)``.
        trial_index: Index of a running trial.
        raw_data: The objective's value, ``(mean, sem)``, a list or array of the values of its
            repeats, or a mapping from metric to one of these. An unknown ``sem`` is inferred by the
            model. The mean of repeats and its standard error become Ax's data, and the values stay
            in the trial's record; their spread tells the model how the noise differs between
            inputs. None: nothing was measured, and the trial is
            completed without data. With costly feedback that is a skipped measurement, which is
            free. Any other strategy charges the trial, unless ``cost=0``. A mapping may lack the
            objective. It may hold the cost, under the metric from which the strategy learns costs.
        realized: The realized value of each uncontrolled parameter, in its own unit. A controlled
            parameter may be given too, if its value differs from the plan.
        cost: Cost of the trial, in the user's own unit; 0 if it was free. None: the expected cost
            is charged, and nothing for a skipped measurement. A strategy that learns costs needs
            the cost of every trial but a skipped measurement, larger than 0. It appears in Ax's
            data, too, if the experiment has the metric. A trial of a control set with an unknown
            cost needs one larger than the set's ``fixed_cost``, measured or not. Mark a trial that
            never ran as abandoned.
        progression: Increasing steps of a learning curve, in units of the fidelity of
            ``fidelity_strategy``. For example ``complete_trial(client, i, scores,
            progression=range(1, 11))`` with a list of scores after 1 to 10 epochs, or a list per
            metric. A value that is no list belongs to the last step. The last step is the trial's
            realized fidelity, whatever was planned. A number is the step of ``raw_data`` without
            lists, as in Ax's own calls, which report the steps before.

    Raises:
        UserInputError: If the trial does not exist or is not running; a realized value is missing,
            unknown or does not fit its parameter; a metric is unknown; a number is not finite; a
            cost or standard error is negative; a learned cost is not larger than 0 and the trial's
            switching cost, or is given twice with different values; the cost of a control set with
            unknown cost is missing or too small; the strategy learns from no progress;
            ``progression`` has steps outside of the parameter's range, or another number of steps
            than of outcomes; or the inputs are no query of the conditional, or no cell of the tree.
        UnsupportedError: If the trial has several arms, or another process runs the experiment.

    Warns:
        OutOfBoundsWarning: If a realized value lies outside its parameter's bounds. It is recorded
            and used.
    """
    session = open_session(client, to_write=True)
    trial = session.trial(trial_index)
    control_set = session.method.control_set_of(planned_trial(trial))
    has_run = trial.status in (TrialStatus.COMPLETED, TrialStatus.EARLY_STOPPED)
    # Ax's own call has completed it.
    is_added = control_set is not None and has_run and "realized" not in outcome_record(trial)
    may_be_unsaved = trial.status.is_completed and session.has_database
    if is_added:
        if raw_data is not None:
            raise UserInputError(
                f"trial {trial_index} is already {trial.status.name.lower().replace('_', ' ')}, "
                "with its outcome: leave out raw_data, and give the missing realized inputs and "
                "cost."
            )
        cost = outcome_record(trial).get("cost") if cost is None else cost
    elif not may_be_unsaved:
        _check_running(trial)
    method, experiment, cost_metric = (
        session.method,
        session.experiment,
        session.method.trial_costs.metric,
    )
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
    """Refuse an outcome without the other metrics that the method reads, such as its time.

    A cost may be reported later. Metrics that Ax's data already have are known.
    """
    method = session.method
    for metric in method.reads if record["outcomes"] else ():
        known = metric in record["outcomes"] or metric == method.trial_costs.metric
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
    """Return the message that explains how to correct a completed trial."""
    i = trial.index
    return (
        f"trial {i} is already completed. Correct its outcomes by client.attach_data({i}, "
        f"{{metric: value}}), and its cost by ax_costaware.report_cost(client, {i}, cost). Inputs "
        f"that were reported stay: ax_costaware.exclude_trial(client, {i}) leaves the trial out, "
        "and ax_costaware.attach_table(client, row, charge=True) attaches it as it was."
    )


def _save_again(session: Session, trial: BaseTrial, record: dict[str, Any]) -> None:
    """Save a completed trial again if the report is the same, as after a database outage."""
    reported = {name: part for name, part in outcome_record(trial).items() if name in _REPORTED}
    if record != reported:
        raise UserInputError(_completed_before(trial))
    session.save_trial(trial)


def _write(
    session: Session, trial: BaseTrial, record: dict[str, Any], curve: Mapping[float, Outcomes]
) -> None:
    """Write the record, then complete the trial; undo both if Ax refuses the completion.

    If the trial was completed and only saving failed, the outcome stays in the experiment, and the
    error says how to store it.
    """
    data_before = session.experiment.data
    record_before = trial.run_metadata.get(RECORD)
    # Keep the record of a runner's attempts: they are charged, too.
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
    """Warn of a missing cost, which would block the next decision; Ax's data may have it."""
    experiment = session.experiment
    if session.method.traits.may_skip and not any(
        trial.index in values_in_data(experiment, name) for name in objective_metrics(experiment)
    ):
        return  # A skipped measurement costs nothing.
    if trial.index not in values_in_data(experiment, cost_metric):
        logger.warning(
            f"trial {trial.index} is completed without its cost, which the strategy learns from "
            f"the metric {cost_metric!r}: the model chooses no trial before it is known. "
            f"Report it with ax_costaware.report_cost(client, {trial.index}, ...)."
        )


@holding_lock
def report_cost(client: SessionClient, trial_index: int, cost: float) -> None:
    """Record the cost of a trial that has ended.

    Use it for a trial that Ax's own call completed, that failed, or that was stopped early or
    abandoned. It also serves for a bill that arrives later, and for a correction: the last cost
    counts. Cost models learn from failed and stopped trials, too, since the expected cost is that
    of any trial. Each ``CostMetric`` of the experiment shows the cost in Ax's data. The trial is
    saved if the client has a database. A refused call changes nothing.

    Args:
        client: An Ax ``Client``, an ``AxClient``, or a tuple ``(Experiment, GenerationStrategy)``.
        trial_index: Index of a trial that has ended.
        cost: Cost of the trial, in the user's own unit; 0 if it was free and the cost of its
            control set is declared.

    Raises:
        UserInputError: If the trial does not exist or has not ended; if the cost is negative or not
            finite; or, where costs are learned, if it is not larger than 0, the switching cost, and
            the ``fixed_cost`` of a control set with unknown cost.
        UnsupportedError: If the trial has several arms, or another process runs the experiment.
    """
    session = open_session(client, to_write=True)
    trial = session.trial(trial_index)
    metric = session.method.trial_costs.metric
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
    """Exclude a trial from learning and from the account.

    Use it for a trial that was attached or completed by mistake and blocks decisions: one with an
    unknown control set, a point that is no cell of the tree, or a value that is no number. Use it
    also for a trial with several arms, which Ax's own strategies make. The trial stays in the
    experiment and counts as abandoned before it ran. Its status becomes abandoned, unless it has
    failed. It is saved if the client has a database.

    Args:
        client: An Ax ``Client``, an ``AxClient``, or a tuple ``(Experiment, GenerationStrategy)``.
        trial_index: Index of the trial.
        reason: The reason, which is stored with the trial.

    Raises:
        UserInputError: If the trial does not exist, or ``reason`` is not a string.
        UnsupportedError: If another process runs the experiment.
    """
    session = open_session(client, to_write=True)
    trial = session.any_trial(trial_index)
    instance_of(reason, "reason", str, "a string")
    trial.update_run_metadata({RECORD: {**outcome_record(trial), EXCLUDED: reason}})
    if not trial.status.is_failed:
        # Otherwise Ax would wait for its data, or count it as a trial with data.
        trial.mark_abandoned(reason or None, unsafe=True)
    session.save_trial(trial)


@holding_lock
def save(client: SessionClient) -> None:
    """Save the experiment with all trials and data, and the strategy, to the database.

    Ax saves the changes of a call within that call. If the database was away, the call raised an
    error and its changes are in this process only: ``save`` stores them. Repeated calls change
    nothing.

    Args:
        client: An Ax ``Client`` or an ``AxClient`` with a database.

    Raises:
        UserInputError: If the client has no database, no experiment or no strategy of this package.
        UnsupportedError: If another process runs the experiment.
    """
    session = open_session(client, to_write=True)
    session.check_database()
    session.save_everything()

"""Reporting what a trial has cost after it ended: ``report_cost``."""

from __future__ import annotations

from ax.exceptions.core import UserInputError

from ax_costaware.ax_bridge.client import SessionClient, open_session
from ax_costaware.ax_bridge.records import RECORD, outcome_record
from ax_costaware.session.reported_cost import check_cost_of_control_set, read_cost


def report_cost(client: SessionClient, trial_index: int, cost: float) -> None:
    """Record what a trial has cost that has ended, where ``complete_trial`` was not told.

    So it is for a trial that was completed by Ax's own call, failed, or was stopped early or
    abandoned, and for a bill that comes later or has to be corrected: the last cost counts. What a
    trial cost that failed or was stopped early is learned from, too: the expected cost is that of a
    trial, finished or not. The trial is saved if the client has a database. A refused call changes
    nothing.

    Args:
        client: An Ax ``Client``, an ``AxClient``, or a tuple ``(Experiment, GenerationStrategy)``.
            Its strategy does not learn costs from a metric.
        trial_index: Index of a trial that has ended.
        cost: What the trial cost, in the user's own unit; 0 if it was free, where the cost of its
            control set is declared.

    Raises:
        UserInputError: If the trial does not exist or has not ended, if the strategy learns costs
            from a metric, or if the cost is not finite, is negative, or not larger than the
            ``fixed_cost`` of a control set whose cost is unknown.
        UnsupportedError: If the trial has several arms.
    """
    session = open_session(client)
    trial = session.trial(trial_index)
    metric = session.method.cost_metric
    if metric is not None:
        raise UserInputError(
            f"the strategy learns costs from the metric {metric!r}: add the cost to Ax's data, for "
            f"example with client.attach_data({trial.index}, {{{metric!r}: ...}})."
        )
    if not trial.status.is_terminal:
        raise UserInputError(
            f"trial {trial.index} is {trial.status.name}: expected one that has ended. Pass the "
            "cost to complete_trial(..., cost=...)."
        )
    paid = read_cost(cost, {}, None)
    if paid is None:
        raise UserInputError("cost=None: expected a finite number >= 0.")
    check_cost_of_control_set(paid, trial.index, session.control_set_of(trial))
    trial.update_run_metadata({RECORD: {**outcome_record(trial), "cost": paid}})
    session.save_trial(trial)

"""Trials that no strategy of this package has generated, such as attached ones.

Ax attaches trials one at a time and stores each in several transactions, which is slow for a table.
Here all rows are attached and stored together, or none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from ax.api.client import Client
from ax.core.base_trial import BaseTrial
from ax.core.data import Data
from ax.core.experiment import Experiment
from ax.core.trial_status import TrialStatus
from ax.core.types import TParamValue
from ax.service.ax_client import AxClient

from ax_costaware.ax_bridge.records import (
    RECORD,
    decision_record,
    is_excluded,
    objective_metrics,
    recorded_outcomes,
    values_in_data,
    with_one_arm,
)
from ax_costaware.ax_bridge.training_data import data_of, raw_data_of

PastRow: TypeAlias = tuple[dict[str, TParamValue], dict[str, Any], TrialStatus]
"""Past trial: its arm, the record of ``complete_trial``, and its status."""


def trials_outside_designs(experiment: Experiment) -> set[int]:
    """Return the completed trials that no initial design of this package has generated.

    They are attached, of plain Ax, or chosen by the model of an earlier strategy.
    """
    measured = [values_in_data(experiment, name) for name in objective_metrics(experiment)]
    return {
        index
        for index, trial in experiment.trials.items()
        if measured
        and all(index in values for values in measured)
        and trial.status.is_completed
        and not is_excluded(trial)
        and decision_record(trial).get("phase") != "initial"
    }


def attach_past(
    experiment: Experiment, rows: Sequence[PastRow], client: Client | AxClient | None
) -> list[int]:
    """Attach past trials, and store them in one transaction if the client has a database.

    Args:
        experiment: The experiment; it is restored if anything fails.
        rows: The checked trials.
        client: The client; None without one.

    Returns:
        Indices of the trials.
    """
    with _all_or_nothing(experiment):
        data: dict[int, Data] = {}
        trials = []
        for arm, record, _ in rows:
            _, index = experiment.attach_trial([arm], run_metadata={RECORD: record})
            trial = with_one_arm(experiment.trials[index])
            if known := raw_data_of(recorded_outcomes(trial), experiment):
                data[index] = data_of(trial, known)
            trials.append(trial)
        if data:
            experiment.attach_data(Data.from_multiple_data(data.values()))
        for trial, (_, _, status) in zip(trials, rows, strict=True):
            trial.mark_as(status)
        if client is not None and client.db_settings_set:
            _store(experiment, trials, data, client)
    return [trial.index for trial in trials]


@contextmanager
def _all_or_nothing(experiment: Experiment) -> Iterator[None]:
    """Remove the attached trials if there is an error."""
    parts: list[dict[Any, Any]] = [
        experiment.trials,
        experiment.arms_by_name,
        experiment.arms_by_signature,
    ]
    before = [dict(part) for part in parts]
    statuses = {key: set(found) for key, found in experiment.trial_indices_by_status.items()}
    data = experiment.data
    try:
        yield
    except BaseException:
        for part, was in zip(parts, before, strict=True):
            part.clear()
            part.update(was)
        experiment.trial_indices_by_status.update(statuses)
        experiment.data = data
        raise


def _store(
    experiment: Experiment,
    trials: Sequence[BaseTrial],
    data: Mapping[int, Data],
    client: Client | AxClient,
) -> None:
    """Store new trials with their data in one transaction; Ax makes several for every trial."""
    from ax.storage.sqa_store.db import session_scope
    from ax.storage.sqa_store.utils import copy_db_ids

    encoder, decoder = client.db_settings.encoder, client.db_settings.decoder
    # Building a frame for each trial would take most of the time.
    whole = Data.from_multiple_data(data.values()).full_df
    for index, part in whole.groupby("trial_index") if data else ():
        data[index].full_df = part.reset_index(drop=True)
    rows: list[Any] = [encoder.trial_to_sqa(trial) for trial in trials]
    outcomes: list[Any] = [
        encoder.data_to_sqa(found, trial_index=index, timestamp=0) for index, found in data.items()
    ]
    for row in [*rows, *outcomes]:
        row.experiment_id = experiment.db_id
    with session_scope() as session:
        session.add_all([*rows, *outcomes])
    for trial, row in zip(trials, rows, strict=True):
        copy_db_ids(decoder.trial_from_sqa(row, experiment=experiment), trial)

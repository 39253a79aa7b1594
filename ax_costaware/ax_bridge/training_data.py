"""Training data from the records: realized inputs, full precision, one row order.

Ax's arms have the plan. The realized values are recorded in ``Trial.run_metadata`` before a trial
is completed (SQL reverts later changes of an arm). They replace the plan in the frames that Ax
passes to an adapter, so that a reloaded experiment trains the same model.

Ax stores a strategy with its generator runs, trials with theirs, and data in separate transactions.
If a process was killed in between, the rest is repaired here before a decision or a read.
"""

from __future__ import annotations

from collections.abc import Mapping

from ax.core.base_trial import BaseTrial
from ax.core.data import MAP_KEY, Data
from ax.core.evaluations_to_data import raw_evaluations_to_data
from ax.core.experiment import Experiment
from ax.core.types import TEvaluationOutcome

from ax_costaware.ax_bridge.records import (
    recorded_outcomes,
    with_one_arm,
)


def restore_data(experiment: Experiment) -> list[int]:
    """Attach the recorded outcomes of completed trials that have no data in Ax.

    A trial and its data are stored in several transactions; the last ones delete the data and write
    them anew. The record of the trial is stored with its status, in the first one.

    Args:
        experiment: The experiment.

    Returns:
        Indices of the trials whose data were restored.
    """
    has_data = experiment.lookup_data().trial_indices
    restored = []
    for index, trial in sorted(experiment.trials.items()):
        outcomes = recorded_outcomes(trial) if trial.status.is_completed else {}
        raw_data = raw_data_of(outcomes, experiment)
        if raw_data and index not in has_data:
            attach_raw_data(with_one_arm(trial), raw_data)
            restored.append(index)
    return restored


def attach_raw_data(trial: BaseTrial, raw_data: TEvaluationOutcome) -> None:
    """Attach outcomes to a trial's one arm, also of a ``BatchTrial``."""
    trial.experiment.attach_data(data_of(trial, raw_data))


def data_of(trial: BaseTrial, raw_data: TEvaluationOutcome) -> Data:
    """Return outcomes of a trial's one arm as Ax's data."""
    (arm,) = trial.arms
    signatures = {name: metric.signature for name, metric in trial.experiment.metrics.items()}
    return raw_evaluations_to_data({arm.name: raw_data}, signatures, trial.index)


def raw_data_of(
    outcomes: Mapping[str, tuple[float, float | None]], experiment: Experiment
) -> dict[str, float | tuple[float, float]]:
    """Return outcomes in Ax's form: an unknown standard error is left out.

    Args:
        outcomes: Per metric the mean and its standard error (None: unknown).
        experiment: The experiment; metrics that it does not have are left out.
    """
    return {
        metric: mean if sem is None else (mean, sem)
        for metric, (mean, sem) in outcomes.items()
        if metric in experiment.metrics
    }


def metrics_without_step(experiment: Experiment, trial_index: int) -> set[str]:
    """Return the metrics of a trial that have a value without a step in Ax."""
    frame = experiment.lookup_data().full_df
    frame = frame[frame["trial_index"] == trial_index]
    return set(
        frame["metric_name"][frame[MAP_KEY].isna()] if MAP_KEY in frame else frame["metric_name"]
    )

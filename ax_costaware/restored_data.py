"""Ax's data of trials whose outcome is recorded, but whose data were never stored.

Ax stores a trial in one transaction and its data in two more, which delete what was there and write
it anew. A process that is killed in between leaves a completed trial without data, for good. What
was recorded of the trial is stored with its status, in the first transaction: the data are made
from that again, before anything is decided or read.
"""

from __future__ import annotations

from collections.abc import Mapping

from ax.core.experiment import Experiment
from ax.core.trial import Trial

from ax_costaware.ledger import outcome_record


def restore_data(experiment: Experiment) -> list[int]:
    """Attach the recorded outcomes of completed trials that have no data in Ax.

    Args:
        experiment: The experiment; metrics that it does not have are left out.

    Returns:
        Indices of the trials whose data were restored.
    """
    missing: dict[int, Mapping[str, tuple[float, float | None]]] = {}
    for index, trial in experiment.trials.items():
        if isinstance(trial, Trial) and trial.status.is_completed:
            recorded = outcome_record(trial).get("outcomes") or {}
            known = {name: value for name, value in recorded.items() if name in experiment.metrics}
            if known:
                missing[index] = known
    if not missing:
        return []
    present = set(experiment.lookup_data(trial_indices=list(missing)).df["trial_index"])
    restored = sorted(missing.keys() - present)
    for index in restored:
        trial = experiment.trials[index]
        assert isinstance(trial, Trial)
        trial.update_trial_data(raw_data=raw_data_of(missing[index]))
    return restored


def raw_data_of(
    outcomes: Mapping[str, tuple[float, float | None]],
) -> dict[str, float | tuple[float, float]]:
    """Outcomes as Ax takes them: an unknown standard error is left out.

    Args:
        outcomes: Per metric the mean and its standard error (None: unknown).
    """
    return {
        metric: mean if sem is None else (mean, sem) for metric, (mean, sem) in outcomes.items()
    }

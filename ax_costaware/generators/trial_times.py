"""When the trials of an experiment are, for a method whose model knows time.

Time is the index of a trial, or what is reported under a metric: a round, a number of training
steps, hours by the clock. Then a trial that has not reported its time yet is placed after the last
one that has, by the median step of time from trial to trial. Times are a function of what is
stored with the trials, in the user's own unit of time.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from ax.core.experiment import Experiment

from ax_costaware.ledger import outcome_record, values_in_data
from ax_costaware.precision import more_precise


@dataclass(frozen=True)
class TrialTimes:
    """The times of the trials, past and to come."""

    reported: Mapping[int, float] | None
    """Times by trial index as they were reported; None where the index itself is the time."""

    next_trial: int
    """Index that the next trial will have."""

    @property
    def now(self) -> float:
        """The time of the next trial."""
        return self[self.next_trial]

    def __getitem__(self, trial_index: int) -> float:
        """The time of a trial, which need not exist yet: reported, or else estimated."""
        reported = self.reported
        if reported is None:
            return float(trial_index)
        if trial_index in reported:
            return reported[trial_index]
        if not reported:
            return 0.0
        ordered = sorted(reported.items())
        steps = [(b - a) / (j - i) for (i, a), (j, b) in pairwise(ordered)]
        last_index, last_time = ordered[-1]
        step = statistics.median(steps) if steps else 0.0
        expected = last_time + (trial_index - last_index) * step
        # A trial whose report is late was not before what has been reported since.
        return max(expected, *reported.values())


def trial_times(experiment: Experiment, metric: str | None) -> TrialTimes:
    """The times of the trials of ``experiment``.

    Args:
        experiment: The experiment.
        metric: The metric in which times are reported; None: the index of a trial is its time.
    """
    if metric is None:
        return TrialTimes(None, len(experiment.trials))
    reported = values_in_data(experiment, metric)
    for index in reported:
        outcomes = outcome_record(experiment.trials[index]).get("outcomes") or {}
        precise, _ = outcomes.get(metric) or (None, None)
        reported[index] = more_precise(reported[index], precise)
    return TrialTimes(reported, len(experiment.trials))

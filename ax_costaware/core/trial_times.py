"""When trials are, past and to come, for a method whose model sees the time."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True)
class TrialTimes:
    """The times of the trials, past and to come, in the user's own unit of time.

    Time is the index of a trial, or what is reported under a metric: a round, a number of training
    steps, hours by the clock. Then a trial that has not reported its time yet is placed after the
    last one that has, by the median step of time from trial to trial.
    """

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

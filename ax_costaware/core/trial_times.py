"""Times of trials, past and future, for a method whose model sees the time."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True)
class TrialTimes:
    """Times of trials, past and future, in the user's unit.

    The time is the trial's index, or the value of a metric such as a round or the hours by the
    clock. A trial without a reported time is extrapolated from the last one with a time, by the
    median step from trial to trial.
    """

    reported: Mapping[int, float] | None
    """Reported times by trial index; None if the index is the time."""

    next_trial: int
    """Index of the next trial."""

    @property
    def now(self) -> float:
        """Time of the next trial."""
        return self[self.next_trial]

    def __getitem__(self, trial_index: int) -> float:
        """Return the reported or else extrapolated time of a trial, which may be a future one."""
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
        # A trial with a late report is placed no earlier than any that has reported.
        return max(expected, *reported.values())

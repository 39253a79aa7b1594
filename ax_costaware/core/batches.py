"""Batches of trials: those of one request, which may share settings and the cost of a set-up.

The record of a trial has the index of the first trial of its batch. A trial that the user attached
is a batch of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ax_costaware.core.history import PastTrial

if TYPE_CHECKING:
    from ax_costaware.core.account import Budgeted
    from ax_costaware.core.problem import Problem

BATCH = "batch"
"""Entry of a record: index of the first trial of the batch."""


def batch_of(trial: PastTrial) -> int:
    """Return the index of the first trial of a trial's batch."""
    return int(trial.record.get(BATCH, trial.index))


def setup_costs(trials: Sequence[PastTrial], method: Budgeted) -> list[float]:
    """Return the set-up cost of each trial: that of its batch for the first one that ran, else 0.

    Args:
        trials: All trials, by increasing index.
        method: Has the cost of a set-up.
    """
    setup, found, seen = method.trial_costs.setup, [0.0] * len(trials), set()
    for i, trial in enumerate(trials if setup else ()):
        batch = batch_of(trial)
        if trial.was_set_up and batch not in seen:
            found[i] = setup
            seen.add(batch)
    return found


def setup_cost(problem: Problem, method: Budgeted) -> float:
    """Return the set-up cost of the next trial: zero if it joins a batch."""
    return 0.0 if problem.earlier_in_batch else method.trial_costs.setup


def batch_size(problem: Problem) -> int:
    """Return the number of trials that are asked for together.

    Without a request that of the largest batch so far.
    """
    if problem.batch_size is not None:
        return problem.batch_size
    sizes = Counter(batch_of(trial) for trial in problem.trials)
    return max(sizes.values(), default=1)

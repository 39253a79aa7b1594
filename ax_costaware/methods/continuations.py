"""Trials that resume an earlier one, such as a training from its checkpoint, to more epochs.

A trial with the inputs of a completed one, and a higher fidelity, costs only what is new:
:math:`c(x, s) - c(x, s')`. The cost therefore has a step at the inputs of earlier trials. A search
by gradients does not find it, so points there are added as candidates.

Resuming a run for one more step is almost free and, because of observation noise, looks slightly
informative. The search therefore counts at least half of the cost paid so far. The budget is
charged the actual cost.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ax_costaware.core.history import PastTrial
from ax_costaware.core.method import Method
from ax_costaware.core.problem import Problem
from ax_costaware.space.parameters import Row, Value

SEARCH_COST_SHARE = 0.5
"""Least cost of resuming a trial that the search counts, relative to the cost paid so far."""

MIN_COST_SHARE = 1e-6
"""Least expected cost of resuming a trial, relative to the cost paid so far.

A learned cost may fall with the fidelity, so that the difference would not be positive.
"""

_STEPS = 32
"""Candidate values of the fidelity for each trial that can be resumed."""


def continued_trial(method: Method, problem: Problem, row: Row) -> PastTrial | None:
    """Return the trial that a parameterization resumes: the farthest one with the same inputs.

    Returns:
        None if

        - no trial with these inputs was completed,
        - the farthest one has the same fidelity or more, so that it would only be repeated, or
        - a trial with these inputs is pending, which may resume the same one.
    """
    name = method.traits.progress_parameter(problem.space.ranges)
    assert name is not None

    def progress(trial: PastTrial) -> float:
        return float(str(trial.inputs[name]))

    alike = [t for t in _completed(problem, name) if {**t.inputs, name: row[name]} == row]
    farthest = max(alike, key=progress, default=None)
    is_ahead = farthest is not None and progress(farthest) < float(str(row[name]))
    return farthest if is_ahead else None


def _completed(problem: Problem, name: str) -> list[PastTrial]:
    pending = [{**other.parameters, name: None} for other in problem.pending]
    return [
        trial
        for trial in problem.trials
        if trial.is_completed
        and not trial.has_lost_value
        and trial.outcome is not None
        and {**trial.inputs, name: None} not in pending
    ]


def resumable(problem: Problem, name: str) -> Tensor | None:
    """Return the ``k x d`` points of trials that can be resumed; None if there are none.

    Args:
        problem: The problem.
        name: The fidelity in which progress is measured.
    """
    rows = [trial.inputs for trial in _completed(problem, name)]
    return problem.space.encode(rows) if rows else None


def continuations(method: Method, problem: Problem) -> list[dict[str, Value]]:
    """Return parameterizations that resume completed trials, up to the largest fidelity."""
    name = str(method.traits.progress_parameter(problem.space.ranges))
    parameter = problem.space.ranges[name]
    first, last = parameter.to_column(parameter.lower), parameter.to_column(parameter.upper)
    grid = parameter.raw(torch.linspace(first, last, _STEPS, dtype=torch.double)).tolist()
    # A range of few integers has duplicates in the grid.
    steps = {problem.fixed.get(name, parameter.decode(step)): None for step in grid}
    found: list[dict[str, Value]] = []
    for trial in _completed(problem, name):
        to_end = {**trial.inputs, name: parameter.upper}
        is_free = {**to_end, **problem.fixed, name: parameter.upper} == to_end
        if is_free and continued_trial(method, problem, to_end) is trial:
            rows = [{**to_end, name: step} for step in steps]
            done = float(str(trial.inputs[name]))
            found += [r for r in rows if float(str(r[name])) > done and problem.space.contains(r)]
    return found

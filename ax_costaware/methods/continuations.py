"""Trials that go on from an earlier one: a training from its checkpoint, to more epochs.

A trial with the inputs of a completed one, and more of the fidelity that progress is measured in,
costs what is new: :math:`c(x, s) - c(x, s')`. It is a step in the cost, at the inputs of earlier
trials only, that a search by gradients never meets; so points there are looked at besides.

Next to where a trial has come to, going on costs next to nothing and tells, by the observation
noise, a little. What a search weighs takes it to cost some part of what the trial has cost, or a
run would be continued step by step; what it can pay is what it costs.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ax_costaware.core.history import PastTrial
from ax_costaware.core.method import Method
from ax_costaware.core.problem import Problem
from ax_costaware.space.parameters import Row, Value

SEARCHED = 0.5
"""Part of what a trial has cost that a search takes going on from it to cost at least."""

LEAST = 1e-6
"""The same of what it is expected to cost, which is learned and may fall with the fidelity."""

_STEPS = 32
"""Values of the fidelity that are looked at of each trial that could be continued."""


def continued_trial(method: Method, problem: Problem, row: Row) -> PastTrial | None:
    """The trial that a parameterization goes on from: of its inputs the one that has come farthest.

    None if none was completed, if that has come as far, so that it would only be run again, or if
    another trial with its inputs is under way, which may be going on from it.
    """
    name = method.progress_parameter(problem.space.ranges)
    assert name is not None

    def progress(trial: PastTrial) -> float:
        return float(str(trial.inputs[name]))

    alike = [t for t in _completed(problem, name) if {**t.inputs, name: row[name]} == row]
    farthest = max(alike, key=progress, default=None)
    is_ahead = farthest is not None and progress(farthest) < float(str(row[name]))
    return farthest if is_ahead else None


def _completed(problem: Problem, name: str) -> list[PastTrial]:
    under_way = [{**other.parameters, name: None} for other in problem.pending]
    return [
        trial
        for trial in problem.trials
        if trial.is_completed
        and not trial.has_lost_value
        and trial.outcome is not None
        and {**trial.inputs, name: None} not in under_way
    ]


def resumable(problem: Problem, name: str) -> Tensor | None:
    """Points of the completed trials that another one may resume, ``k x d``; None for none.

    Args:
        problem: The problem.
        name: The fidelity that progress is measured in.
    """
    rows = [trial.inputs for trial in _completed(problem, name)]
    return problem.space.encode(rows) if rows else None


def continuations(method: Method, problem: Problem) -> list[dict[str, Value]]:
    """Parameterizations that go on from completed trials, up to the fidelity's last value."""
    name = str(method.progress_parameter(problem.space.ranges))
    parameter = problem.space.ranges[name]
    first, last = parameter.to_column(parameter.lower), parameter.to_column(parameter.upper)
    grid = parameter.raw(torch.linspace(first, last, _STEPS, dtype=torch.double)).tolist()
    # Some of few integers are the same.
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

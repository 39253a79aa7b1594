"""Switching costs: of setting a trial otherwise than the trial before it.

The trial before is the one that was started last: of the trials so far and of the decisions of the
same batch the last one. It is read from the history, so that a decision replays. One that failed
counts, for the machine was set; one that never ran does not, nor does one of the past that was
attached without charge; before the first one nothing was set, and nothing is switched.

A switching cost is a step: nothing where a parameter stays as it is, and the same wherever it
goes. A search by gradients never finds the same value, so what a trial could keep of the one before
is searched besides.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING

from torch import Tensor

from ax_costaware.core.history import PastTrial
from ax_costaware.costs.cost_model import (
    CostFunction,
    CostOfTrial,
    TrialContext,
    WithSwitchingCost,
)
from ax_costaware.exceptions import InputError
from ax_costaware.space.parameters import Row, Value, takes

if TYPE_CHECKING:
    from ax_costaware.core.account import Budgeted
    from ax_costaware.core.problem import Problem
    from ax_costaware.costs import ControlSet

_MOST_SUBSETS = 3
"""Parameters of which every subset is tried as what a trial keeps; of more, each and all."""


def settings_of(trial: PastTrial, method: Budgeted) -> Row:
    """What a trial sets of what costs to be changed, by name; nothing of what it does not name."""
    cost = method.switching_cost
    if cost is None:
        return {}
    control_set = method.control_set_of(trial)
    names = cost.names if control_set is None else {*cost.names} & {*control_set.parameters}
    return {name: trial.parameters[name] for name in names if name in trial.parameters}


def switching_costs(trials: Sequence[PastTrial], method: Budgeted) -> list[float]:
    """What it cost each trial to set other values than in the one before.

    Args:
        trials: All trials, by increasing index.
        method: Gives the switching costs, and what a trial sets.
    """
    cost, found, before = method.switching_cost, [0.0] * len(trials), None
    for i, trial in enumerate(trials if cost is not None else ()):
        if trial.was_set_up:
            assert cost is not None
            now = settings_of(trial, method)
            found[i], before = cost.between(before, now), now
    return found


def settings_before(problem: Problem, method: Budgeted) -> Row | None:
    """What the trial before the next one set of what costs to be changed; None if there is none."""
    for row in reversed(problem.earlier_in_batch):
        return settings_of(PastTrial(problem.next_index, row), method)
    for trial in reversed(problem.trials):
        if trial.was_set_up:
            return settings_of(trial, method)
    return None


def switching_cost(problem: Problem, method: Budgeted, row: Row) -> float:
    """What it costs to set a parameterization next."""
    cost = method.switching_cost
    if cost is None:
        return 0.0
    now = settings_of(PastTrial(problem.next_index, row), method)
    return cost.between(settings_before(problem, method), now)


def kept_settings(
    problem: Problem, method: Budgeted, among: Sequence[str] | None = None
) -> list[dict[str, Value]]:
    """What the next trial could keep of the one before, by name, from the fewest parameters on.

    Every subset of up to three parameters; of more than that each on its own, and all.

    Args:
        problem: What is decided from.
        method: Gives the switching costs.
        among: The parameters that the next trial sets; None for all.
    """
    before = settings_before(problem, method) or {}
    columns = problem.space.columns
    names = [
        name
        for name, value in before.items()
        if name in columns
        and (among is None or name in among)
        and name not in problem.fixed
        and takes(columns[name].parameter, value)
    ]
    many = len(names) > _MOST_SUBSETS
    sizes = (1, len(names)) if many else range(1, len(names) + 1)
    return [{n: before[n] for n in kept} for size in sizes for kept in combinations(names, size)]


def costs_left_out(trials: Sequence[int]) -> list[str]:
    """That costs of some trials say nothing, as a sentence for the log; nothing of none.

    Each was more than its switching cost when it was reported, or it would have been refused; but a
    trial before it may have been excluded since, or been given up.
    """
    return [
        f"The costs of trials {list(trials)} are left out of what is learned: each is no more than "
        "its switching cost from the last trial before it that was run. ax_costaware.report_cost "
        "corrects a cost."
    ] * bool(trials)


def check_switching_cost(problem: Problem, method: Budgeted) -> None:
    """Check that what costs to be changed are parameters of the experiment that trials set.

    Raises:
        InputError: By the name of the first that is none.
    """
    cost, candidates = method.switching_cost, method.candidates()
    for name in () if cost is None else cost.names:
        if name not in problem.space.parameters:
            raise InputError(
                f"{cost!r}: changes has {name!r}, which the experiment does not have: expected "
                f"names out of {problem.space.names}."
            )
        if candidates and all(name not in s.parameters for s in candidates):
            raise InputError(
                f"{cost!r}: changes has {name!r}, which no control set sets: expected names out of "
                f"{sorted({n for s in candidates for n in s.parameters})}."
            )


def next_cost(
    method: Budgeted,
    problem: Problem,
    costs: CostFunction | None = None,
    control_set: ControlSet | None = None,
    resumable: Tensor | None = None,
) -> CostOfTrial:
    """Return the cost of the next trial at points of the model's space, all included.

    Args:
        method: Gives the switching costs.
        problem: What is decided from.
        costs: Cost without what depends on earlier trials; None: ``method.trial_costs``.
        control_set: The control set of the trial; None: it sets every parameter.
        resumable: ``k x d`` points of trials that it may resume; None for none.

    Raises:
        InputError: If what costs are learned from is none.
    """
    base = method.trial_costs(problem) if costs is None else costs
    assert base is not None
    if method.switching_cost is not None:
        base = WithSwitchingCost(base, method.switching_cost, problem.space)
    previous = settings_before(problem, method)
    return CostOfTrial(base, TrialContext(control_set, previous, resumable))

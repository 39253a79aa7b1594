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
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ax_costaware.acquisition.log_cost import CostFunction, log_cost_function
from ax_costaware.core.history import PastTrial
from ax_costaware.exceptions import InputError
from ax_costaware.space.parameters import Row, Value, takes

if TYPE_CHECKING:
    from ax_costaware.core.account import Budgeted
    from ax_costaware.core.problem import Problem

_MOST_SUBSETS = 3
"""Parameters of which every subset is tried as what a trial keeps; of more, each and all."""

SAME_VALUE = 1e-12
"""Part of a column's range by which points of one value may differ."""


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
    for row in reversed(problem.undelivered):
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


@dataclass(frozen=True)
class CostAfter:
    """What points cost after the trial before, switching costs included."""

    base: CostFunction
    """What they cost without."""

    steps: tuple[tuple[tuple[int, ...], tuple[float, ...], float], ...]
    """Of each parameter that costs to be changed its columns, what they were, and the cost."""

    always: float
    """Cost of the changes that every point makes."""

    widths: Tensor
    """Ranges of the columns, ``d``."""

    @staticmethod
    def of(
        base: CostFunction,
        problem: Problem,
        method: Budgeted,
        among: Sequence[str] | None = None,
    ) -> CostFunction:
        """What points of the model's space cost next; the base itself without switching costs.

        Args:
            base: What they cost without.
            problem: What is decided from.
            method: Gives the switching costs.
            among: The parameters that the next trial sets; None for all.
        """
        cost, before = method.switching_cost, settings_before(problem, method)
        if cost is None or before is None:
            return base
        space, steps, always = problem.space, [], 0.0
        for name, price in cost.changes:
            if name not in space.columns or (among is not None and name not in among):
                continue
            column = space.columns[name]
            if name in before and takes(column.parameter, before[name]):
                steps.append((column.indices, tuple(column.encode(before[name])), price))
            else:
                always += price
        return CostAfter(base, tuple(steps), always, space.bounds[1] - space.bounds[0])

    def change(self, X: Tensor) -> Tensor:
        """Switching costs of points ``... x d``, ``...``; it has no gradient."""
        found = X.new_full(X.shape[:-1], self.always)
        for columns, codes, price in self.steps:
            at = list(columns)
            apart = (X.detach()[..., at] - X.new_tensor(codes)).abs()
            changed = (apart > SAME_VALUE * self.widths[at].to(X)).any(dim=-1)
            found = found + price * changed
        return found

    def log_expected_cost(self, X: Tensor) -> Tensor:
        """Logarithm of the expected cost at points ``... x d``: ``...``."""
        return torch.logaddexp(log_cost_function(self.base)(X), self.change(X).log())

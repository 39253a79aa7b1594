"""Switching costs in an experiment: which trial was before, and what changes after it.

The trial before is the last one in order of the trials, and then of earlier decisions of the batch.
The trials of a batch are put in the cheapest order when it is complete, see
``ax_costaware.core.tours``.

- Failed trials count, since the equipment was set.
- Trials that never ran do not count, nor do past data that were attached without charge.
- The first trial has no switching cost.

A switching cost has a step or a kink where a parameter keeps its value, to which gradients do not
lead. Optimizers therefore also search the subspaces in which some settings are kept, see
``kept_settings``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

from torch import Tensor

from ax_costaware.core.batches import batch_size, setup_cost, setup_costs
from ax_costaware.core.further_budgets import problem_in
from ax_costaware.core.history import PastTrial
from ax_costaware.costs.cost_model import (
    CostFunction,
    CostModel,
    CostOfTrial,
    ScarcestCost,
    TrialContext,
    WithSetupCost,
    WithSwitchingCost,
)
from ax_costaware.costs.switching_cost import LinearSwitch, TableSwitch
from ax_costaware.exceptions import InputError
from ax_costaware.space.parameters import Row, Value, takes

if TYPE_CHECKING:
    from ax_costaware.core.account import Budgeted
    from ax_costaware.core.method import Method
    from ax_costaware.core.problem import Problem
    from ax_costaware.costs import ControlSet

_LEAST_LIMIT = 1e-300
"""Lower bound of what is left of a budget, so that nothing is divided by zero."""

_MAX_SUBSETS = 3
"""Number of parameters up to which every subset of them may be kept."""


def settings_of(trial: PastTrial, method: Budgeted) -> Row:
    """Return the values that a trial sets of parameters with a switching cost, by name."""
    cost = method.trial_costs.switching
    if cost is None:
        return {}
    control_set = method.control_set_of(trial)
    names = cost.names if control_set is None else {*cost.names} & {*control_set.parameters}
    return {name: trial.parameters[name] for name in names if name in trial.parameters}


def switching_costs(trials: Sequence[PastTrial], method: Budgeted) -> list[float]:
    """Return the switching cost of each trial from the one before, with the set-up of a batch.

    Args:
        trials: All trials, by increasing index.
        method: Has the switching costs and the control sets.
    """
    cost, found, before = method.trial_costs.switching, setup_costs(trials, method), None
    for i, trial in enumerate(trials if cost is not None else ()):
        if trial.was_set_up:
            assert cost is not None
            now = settings_of(trial, method)
            found[i] += cost.between(before, now)
            before = now
    return found


def settings_before(problem: Problem, method: Budgeted) -> Row | None:
    """Return ``settings_of`` the trial before the next one; None if there is none."""
    for row in reversed(problem.earlier_in_batch):
        return settings_of(PastTrial(problem.next_index, row), method)
    for trial in reversed(problem.trials):
        if trial.was_set_up:
            return settings_of(trial, method)
    return None


def switching_cost(problem: Problem, method: Budgeted, row: Row, batch: int | None = None) -> float:
    """Return the switching cost of the next trial at a parameterization, with a set-up.

    Args:
        problem: Inputs of the decision.
        method: Has the costs.
        row: The parameterization.
        batch: Index of the first trial of its batch; None for the batch of the problem.
    """
    cost, setup = method.trial_costs.switching, setup_cost(problem, method)
    if batch is not None:
        setup = method.trial_costs.setup if batch == problem.next_index else 0.0
    if cost is None:
        return setup
    now = settings_of(PastTrial(problem.next_index, row), method)
    return setup + cost.between(settings_before(problem, method), now)


def kept_settings(
    problem: Problem, method: Budgeted, among: Sequence[str] | None = None
) -> list[dict[str, Value]]:
    """Return settings of the trial before that the next one could keep, smallest subsets first.

    All subsets of up to three parameters; of more parameters each alone, and all together.

    Args:
        problem: Inputs of the decision.
        method: Has the switching costs.
        among: Names of the parameters that the next trial sets; None for all.

    Returns:
        Values by name, for each subset.
    """
    before = settings_before(problem, method) or {}
    columns = problem.space.columns
    names = [
        name
        for name, value in before.items()
        if name in columns
        and (among is None or name in among)
        and name not in problem.given
        and takes(columns[name].parameter, value)
    ]
    many = len(names) > _MAX_SUBSETS
    sizes = (1, len(names)) if many else range(1, len(names) + 1)
    return [{n: before[n] for n in kept} for size in sizes for kept in combinations(names, size)]


def keeping_settings(
    problem: Problem, method: Method, count: int
) -> Iterator[tuple[dict[int, float], Tensor]]:
    """Yield columns held at settings of the trial before, with quasi-random points that have them.

    Args:
        problem: Inputs of the decision.
        method: Has the switching costs and the seed.
        count: Largest number of points for each combination of settings.
    """
    for row in kept_settings(problem, method):
        held = problem.space.columns_of(row)
        try:
            space = problem.space.held_at(row)
        except InputError:  # the equality constraints determine other values
            continue
        points = space.sobol_points(count, method.seed, {**problem.held, **held})
        points[:, list(held)] = points.new_tensor([*held.values()])
        yield held, points


def costs_left_out(trials: Sequence[int]) -> list[str]:
    """Return the sentence for the log that the costs of trials are ignored; none without trials.

    Their costs are not above their switching costs. This is checked when a cost is reported, but
    the trial before may have been excluded or abandoned since.
    """
    return [
        f"The cost model ignores the costs of trials {list(trials)}: each is at most its switching "
        "cost from the trial that ran before. ax_costaware.report_cost corrects a cost."
    ] * bool(trials)


def check_switching_cost(problem: Problem, method: Budgeted) -> None:
    """Refuse switching costs that do not fit their parameters, or that no control set sets.

    Raises:
        InputError: With the first such parameter.
    """
    cost, candidates = method.trial_costs.switching, method.traits.control_sets
    is_new = not any(trial.record for trial in problem.trials)
    for name, switch in () if cost is None else cost.switches.items():
        stands = f"{cost!r}: changes"
        if name not in problem.space.parameters:
            raise InputError(
                f"{stands} has {name!r}, which the experiment does not have: expected "
                f"names out of {problem.space.names}."
            )
        if candidates and all(name not in s.parameters for s in candidates):
            raise InputError(
                f"{stands} has {name!r}, which no control set sets: expected names out of "
                f"{sorted({n for s in candidates for n in s.parameters})}."
            )
        is_always_set = all(name in s.parameters for s in candidates)
        refusal = None
        if name in problem.space.conditions and isinstance(switch, LinearSwitch | TableSwitch):
            refusal = "a number, since not every trial has the parameter"
        elif isinstance(switch, LinearSwitch) and switch.unset is None and not is_always_set:
            refusal = "also unset=, the cost after a trial whose control set leaves it uncontrolled"
        elif is_new:  # a choice may lose a value later on
            refusal = switch.refusal(problem.space.parameters[name])
        if refusal is not None:
            raise InputError(f"{stands}[{name!r}]: expected {refusal}.")


def next_cost(
    method: Budgeted,
    problem: Problem,
    costs: CostFunction | None = None,
    control_set: ControlSet | None = None,
    resumable: Tensor | None = None,
    is_compared: bool = False,
) -> CostModel:
    """Return the total cost of the next trial as a function of points of the model's space.

    Args:
        method: Has the switching costs.
        problem: Inputs of the decision.
        costs: Cost without switching costs; None for those of the method.
        control_set: Control set of the trial; None if it sets every parameter.
        resumable: ``k x d`` points of trials that it may resume; None for none.
        is_compared: True for the cost by which trials are compared: the trials of a batch share its
            set-up, and several costs are relative to what is left of their budgets. False for the
            cost that has to be paid, relative to the limits of the budgets.

    Raises:
        InputError: If a reported cost cannot be learned from.
    """
    base = method.trial_costs.model(problem) if costs is None else costs
    assert base is not None
    if method.trial_costs.switching is not None:
        base = WithSwitchingCost(base, method.trial_costs.switching, problem.space)
    if setup := setup_cost(problem, method):
        base = WithSetupCost(base, setup / batch_size(problem) if is_compared else setup)
    previous = settings_before(problem, method)
    own = CostOfTrial(base, TrialContext(control_set, previous, resumable))
    if not method.trial_costs.further:
        return own
    state, found, limits = method.budget_state(problem), list[CostFunction]([own]), []
    for unit, other in method.trial_costs.further.items():
        found.append(next_cost(other, problem_in(problem, unit, other)))
    for each in (state, *state.further.values()):
        limit = each.remaining if is_compared else each.limit
        limits.append(max(limit or 0.0, _LEAST_LIMIT))
    return ScarcestCost(tuple(found), tuple(limits))

"""Number of repeats of a trial, as a part of the decision.

A parameter of the experiment counts repeats, such as the folds of a cross-validation or the first
weights of a network. The objective does not depend on it; the noise variance falls with it, and
the cost rises. The trial is chosen by the knowledge gradient per cost, jointly over inputs and
repeats. It may be at inputs that were tried: the results are pooled.

With ``confirm``, the last share of the budget re-measures the best few inputs, where that may
change what is deployed.
"""

from __future__ import annotations

from collections.abc import Container
from itertools import product
from typing import TYPE_CHECKING, Any

import torch

from ax_costaware.acquisition.knowledge_gradient import LogKnowledgeGradientPerCost
from ax_costaware.acquisition.optimize import Optimum
from ax_costaware.core.history import PastTrial
from ax_costaware.core.problem import Best, Problem
from ax_costaware.costs.cost_model import SAME_VALUE
from ax_costaware.exceptions import InputError
from ax_costaware.methods.cost_aware.search import Search, ignoring_line_search_failures
from ax_costaware.models.fantasies import fantasized
from ax_costaware.models.noise_variance import NoiseVariance
from ax_costaware.space.candidates import Candidates
from ax_costaware.space.parameters import Range, Row, Value

if TYPE_CHECKING:
    from ax_costaware.methods.cost_aware import CostAware

_NUM_BEST = 5
"""Number of best inputs that are re-measured at the end."""

_MOST_COUNTS = 16
"""Most numbers of repeats that are tried at each of the evaluated inputs."""

_LEAST_GAIN = 0.01
"""Gain of a confirmation, in standard deviations of the best inputs, that is worth its cost."""


def check_candidates(name: str | None, candidates: Candidates | None) -> None:
    """Refuse a table that has the parameter that counts repeats.

    Raises:
        InputError: With the parameter.
    """
    if candidates is not None and name in candidates.names:
        raise InputError(
            f"repeats={name!r} is a column of candidates: expected a table of the other "
            "parameters, since every one of its rows may be repeated."
        )


def check_repeats(name: str, problem: Problem, others: Container[str] = ()) -> None:
    """Refuse a parameter that cannot count repeats.

    Args:
        name: The parameter.
        problem: Inputs of the decision.
        others: Names of fidelities, which are no inputs either.

    Raises:
        InputError: Unless it is an integer range from 1 or more, on no scale, in no constraint,
            active in every trial, and not the only parameter.
    """
    space, shown = problem.space, f"repeats={name!r}"
    parameter = space.parameters.get(name)
    if parameter is None:
        raise InputError(f"{shown} is no parameter: expected one of {space.names}.")
    is_count = (
        isinstance(parameter, Range)
        and parameter.is_integer
        and parameter.lower >= 1
        and not parameter.log_scale
    )
    if not is_count:
        raise InputError(
            f"{shown} is {parameter}: expected a range of whole numbers from 1 or more, not on a "
            "log scale."
        )
    if name in space.constrained:
        raise InputError(f"{shown} is in a parameter constraint: expected constraints on others.")
    if name in space.conditions:
        raise InputError(
            f"{shown} is active with {space.conditions[name]} only: expected a parameter of every "
            "trial."
        )
    if all(other == name or other in others for other in space.columns):
        raise InputError(f"{shown} is the only parameter: expected others to choose, too.")


def repeats_options(name: str | None, problem: Problem, metric: str | None) -> dict[str, Any]:
    """Return the options of a model whose noise falls with the number of repeats.

    Args:
        name: The parameter that counts repeats; None without one, and without options.
        problem: Inputs of the decision.
        metric: The metric of the outcome; None for the objective.
    """
    if name is None:
        return {}
    space, metric = problem.space, metric or problem.objective
    (column,) = space.columns[name].indices
    options: dict[str, Any] = {"repeats": column}
    # A standard error without the values is of the planned repeats, as one that Ax was told.
    spreads = [
        (trial.inputs, trial.num_repeats.get(metric, int(str(trial.inputs[name]))), error)
        for trial in problem.trials
        if trial.counts and (error := trial.errors.get(metric)) is not None
    ]
    spreads = [spread for spread in spreads if spread[1] > 1]
    if any(error > 0 for _, _, error in spreads):
        X = space.encode([inputs for inputs, _, _ in spreads])
        count = X.new_tensor([n for _, n, _ in spreads])
        variances = count * X.new_tensor([error for _, _, error in spreads]).square()
        columns = [i for i in range(X.shape[-1]) if i != column]
        options["noise"] = NoiseVariance(X, variances, count - 1, space.bounds, columns)
    return options


def repeats_key(options: dict[str, Any]) -> Any:
    """Return the data that ``repeats_options`` have read, by which fits are cached."""
    noise = options.get("noise")
    return None if noise is None else noise.data


def few_repeats(name: str, problem: Problem, row: Row) -> list[Row]:
    """Return an initial trial with the smallest number of repeats, or also with the next one.

    They alternate: one repeat is the cheapest, and two show the noise and its cost. The second
    one is for a budget that does not pay for two.
    """
    parameter = problem.space.ranges[name]
    counts = [parameter.decode(parameter.lower + k) for k in range(problem.num_begun % 2, -1, -1)]
    given = problem.fixed.get(name)
    return [{**row, name: count if given is None else given} for count in counts]


def distinct_inputs(name: str | None, found: list[Best]) -> list[Best]:
    """Return recommendations that differ in more than their number of repeats."""
    inputs = [{**best.parameters, str(name): None} for best in found]
    return [best for i, best in enumerate(found) if inputs[i] not in inputs[:i]]


def pooled_text(name: str | None, problem: Problem, row: Row) -> str:
    """Return which trials a trial repeats, as a sentence with a space before it; or nothing."""
    again = ", ".join(str(trial.index) for trial in same_inputs(name, problem, row))
    return again and f" It repeats the inputs of trials {again}, and the results are pooled."


def same_inputs(name: str | None, problem: Problem, row: Row) -> list[PastTrial]:
    """Return the observed trials with the inputs of a row, whatever their number of repeats."""
    if name is None:
        return []
    rows = [{**trial.inputs, name: row[name]} for trial in problem.observed]
    near = problem.space.are_near(row, rows, SAME_VALUE)
    return [trial for trial, is_near in zip(problem.observed, near, strict=True) if is_near]


def evaluated_again(
    name: str | None, problem: Problem, target: Row | None = None
) -> tuple[dict[str, Value], ...]:
    """Return evaluated inputs with other numbers of repeats, as candidates of a search.

    Args:
        name: The parameter that counts repeats; None without one, and without candidates.
        problem: Inputs of the decision.
        target: Values of fidelities at which they are candidates, too.
    """
    if name is None:
        return ()
    parameter = problem.space.ranges[name]
    lower, upper = int(parameter.lower), int(parameter.upper)
    counts = list(range(lower, min(upper, lower + _MOST_COUNTS - 1) + 1))
    given = [{**trial.inputs, **at} for trial in problem.observed for at in ({}, target or {})]
    rows = [problem.as_fixed(row) for row in given]
    rows = [{**row, name: lower} for row in rows if problem.space.admits(row)]
    rows = [row for i, row in enumerate(rows) if row not in rows[:i]]
    counts = counts if name not in problem.fixed else [int(str(problem.fixed[name]))]
    return tuple({**row, name: count} for row, count in product(rows, counts))


def maximize_knowledge_per_cost(
    search: Search[CostAware],
) -> tuple[LogKnowledgeGradientPerCost, Optimum[float] | None]:
    """Return the knowledge gradient per cost, and the affordable trial that maximizes it."""
    problem, method = search.problem, search.method
    # Fantasize pending points: ``X_pending`` would let each be deployed, even if infeasible.
    model, pending = problem.model, problem.X_pending
    X, may_be_best = search.baseline()
    acquisition = LogKnowledgeGradientPerCost(
        model if pending is None else fantasized(model, pending),
        X,
        search.compared_cost,
        is_feasible=may_be_best if bool(may_be_best.any()) else None,
        log_weight=search.log_weight,
        exponent=search.cost_exponent,
    )
    if method.confirm is not None and (found := _confirmation(search, acquisition)):
        return acquisition, found
    with ignoring_line_search_failures():  # the logarithm falls steeply near known points
        return acquisition, search.maximize_affordable(acquisition)


def _confirmation(
    search: Search[CostAware], acquisition: LogKnowledgeGradientPerCost
) -> Optimum[float] | None:
    """Return the best trial that measures one of the best inputs again.

    Returns:
        None before the reserved share of the budget is reached, or if it is not expected to help.
    """
    method, problem, state = search.method, search.problem, search.budget_state
    assert method.budget is not None
    assert method.confirm is not None
    if state.remaining is None or state.remaining > method.confirm * method.budget:
        return None
    rows = evaluated_again(method.repeats, problem) or tuple(
        problem.as_fixed(trial.inputs) for trial in problem.observed
    )
    X = problem.space.encode(rows).to(problem.evaluated)
    with torch.no_grad():
        if state.limit is not None:
            X = X[search.costs(X) <= state.limit]
        if not len(X):
            return None
        mean, variance = problem.posterior(X)
        different = mean.unique()  # in increasing order
        least = different[-min(_NUM_BEST, len(different))]
        X, variance = X[mean >= least], variance[mean >= least]
        best = int(acquisition(X.unsqueeze(-2)).argmax())
        point = X[best : best + 1]
        if float(acquisition.log_gain(point).exp()) < _LEAST_GAIN * float(variance.max().sqrt()):
            return None
        return Optimum(point[0], float(acquisition(point.unsqueeze(-2))))

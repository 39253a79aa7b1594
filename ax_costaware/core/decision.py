"""Decisions of a method: checks before it, the next trial, and its stored record.

Two kinds of decisions are made again.

- Near a failed or abandoned trial: by a model in which failed points have at most the median
  outcome, see ``after_failures``.
- At a pending point: by a model in which that point is fantasized (Kriging believer). A model of
  few outcomes seldom finds them exact, so a repeat looks informative, and every decision of a batch
  would be for the same point. Whether the noise is worth a repeat is known better once the first
  trial has reported. If the new decision is at that point again, the batch ends before it. Repeats
  stay if there is much noise, since they average it out.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Mapping
from dataclasses import replace
from numbers import Real
from typing import Any

import torch

from ax_costaware.argument_checks import plain_value
from ax_costaware.core.batches import BATCH
from ax_costaware.core.failures import (
    BY_FAILURES,
    FAILURE_WEIGHTS,
    is_near_failures,
    stop_of_failures,
    with_failures_as_median,
)
from ax_costaware.core.further_budgets import FURTHER_COSTS, further_costs
from ax_costaware.core.history import PastTrial
from ax_costaware.core.method import Method
from ax_costaware.core.problem import Best, Decision, Pending, Problem, SpaceExhausted, Stop
from ax_costaware.core.switching import check_switching_cost, switching_cost
from ax_costaware.costs.switching_cost import is_same
from ax_costaware.exceptions import InputError, UnsupportedInputError
from ax_costaware.space.parameters import Parameter, Range, takes

REPEAT = 0.01
"""Part of a parameter's range within which a trial repeats another one."""

_MUCH_NOISE = 0.25
"""Noise, in standard deviations of the outcomes, above which repeats are useful. The median of
BoTorch's prior is 0.14, and a fit to exact outcomes finds less as they become more."""

_ROUNDING = 1e-6
"""Tolerance of bounds and constraints, relative to a range or to the largest term."""

_STORED = ("details", "extra")
"""Fields of a decision that are stored as plain JSON."""


def check_all(method: Method, problem: Problem) -> None:
    """Refuse an experiment that the method cannot run.

    Raises:
        InputError: As ``Method.check``, or if no parameter has more than one value.
        UnsupportedInputError: If there are outcome constraints, and the method takes none.
    """
    if problem.constraints and method.traits.refuses_constraints is not None:
        named = ", ".join(map(str, problem.constraints))
        raise UnsupportedInputError(
            f"outcome constraints {named}: {method.display_name} takes none, since "
            f"{method.traits.refuses_constraints}. Remove them, or let the objective carry a "
            "penalty; or, if its decide looks at problem.feasibility, set "
            "refuses_constraints = None in its traits."
        )
    check_objectives(method, problem)
    if problem.space.conditions and method.traits.refuses_hierarchy is not None:
        raise UnsupportedInputError(
            f"the search space is hierarchical: {method.display_name} takes none, since "
            f"{method.traits.refuses_hierarchy}. cost_aware_strategy and gittins_strategy do."
        )
    check_switching_cost(problem, method)
    method.check(problem)
    if not problem.space.columns:
        raise InputError(
            f"the parameters {problem.space.names} have one value each: expected a range, or a "
            "choice of several values."
        )


def check_objectives(method: Method, problem: Problem) -> None:
    """Refuse several objectives if the method takes one.

    Raises:
        UnsupportedInputError: With the method's reason.
    """
    if problem.objectives and (reason := method.traits.refuses_objectives) is not None:
        names = sorted(each.metric for each in problem.objectives)
        raise UnsupportedInputError(
            f"the objective has several metrics, {names}: {method.display_name} takes a single "
            f"one, since {reason}. Combine them into one metric, or choose one."
        )


def next_trial(method: Method, problem: Problem, initial: bool) -> Decision | Stop | None:
    """Return the next trial, by ``method.initial`` or by ``method.decide``.

    A run is stopped if every trial of it failed. None if the initial design ends early.

    Args:
        method: The method.
        problem: Inputs of the decision.
        initial: True while the initial design continues.

    Raises:
        InputError: If the budget allows no trial at all, or the decision is invalid.
    """
    stop = stop_of_failures(problem, method.initial_trials)
    if stop is not None:
        return stop

    def decide(problem: Problem) -> Decision | Stop:
        return avoiding_failures(method, problem, lambda p: _checked(method, p, method.decide(p)))

    try:
        if initial:
            found = method.initial(problem)
            if found is None and problem.measured:
                return None
            decision = _checked(method, problem, found)
        else:
            decision = avoiding_repeats(method, problem, decide)
    except SpaceExhausted:
        return Stop(SpaceExhausted.REASON)
    if not isinstance(decision, Stop):
        decision = _with_given(problem, decision)
    elif not problem.trials and not problem.earlier_in_batch:
        state = method.budget_state(problem, initial)
        name = "max_trial_cost" if state.is_capped else "budget"
        if state.limit is not None:
            raise InputError(
                f"{name}={getattr(method, name)!r}: expected a larger one. {decision.reason}"
            )
    return decision


def avoiding_failures(
    method: Method, problem: Problem, decide: Callable[[Problem], Decision | Stop]
) -> Decision | Stop:
    """Return a decision, made again while it is near a failed trial, see ``FAILURE_WEIGHTS``.

    Args:
        method: The method.
        problem: Inputs of the decision.
        decide: Function that makes the decision.
    """
    decision = decide(problem)
    for most, often in FAILURE_WEIGHTS:
        if isinstance(decision, Stop):
            break
        row = decision.parameters
        if is_near_failures(problem, (row, method.deployed(problem, row) or row)):
            points = method.failed_points(problem)
            decision = decide(with_failures_as_median(problem, points, most, often))
            if isinstance(decision, Stop):
                # Its recommendation is by the model with failures, recommend() is without them.
                alone = "recommend(client) goes by the outcomes alone"
                said = f"{decision.reason} That is {BY_FAILURES}; {alone}."
                decision = replace(decision, reason=said)
    return decision


def _with_given(problem: Problem, decision: Decision) -> Decision:
    """Return a decision with the exact fixed values, which a log scale rounds."""
    row = decision.parameters
    given = {n: x for n, x in problem.given.items() if n in row and is_same(row[n], x)}
    return replace(decision, parameters={**row, **given})


def _checked(method: Method, problem: Problem, decision: Decision | Stop | None) -> Decision | Stop:
    """Return the decision of a method, perhaps a user's, with plain values as they are stored.

    Raises:
        InputError: If it is not a decision, its trial is not valid, or it is not plain JSON.
    """
    name = f"{type(method).__name__} decided on"
    if isinstance(decision, Stop) and isinstance(decision.reason, str):
        return decision
    if not isinstance(decision, Decision):
        raise InputError(f"{name} {decision!r}: expected a Decision or a Stop, with a reason.")
    row, cost = decision.parameters, plain_value(decision.expected_cost)
    if isinstance(row, Mapping):
        row = {parameter: plain_value(value) for parameter, value in row.items()}
    known = {**problem.space.parameters, **problem.space.hidden}
    is_trial = isinstance(row, dict) and known.keys() == row.keys()
    is_number = isinstance(cost, Real) and not isinstance(cost, bool)
    if (
        not is_trial
        or not all(takes(parameter, row[n], _ROUNDING) for n, parameter in known.items())
        or (cost is not None and not (is_number and 0 <= cost < math.inf))
    ):
        raise InputError(
            f"{name} {row} with expected_cost={cost!r}: expected a value within bounds, or one of "
            f"the values, for each of {[*known]}, and a finite cost >= 0, or None."
        )
    if not method.traits.control_sets:  # a control set sets some inputs only
        expected = problem.given.items()
        given = {n: x for n, x in expected if not _is_given(known[n], row[n], x)}
        if given:
            raise InputError(f"{name} {row}: expected {given}, as was fixed, or is shared.")
        if not problem.space.meets(row, rounding=_ROUNDING):
            raise InputError(f"{name} {row}: expected a trial that meets the constraints.")
    if not isinstance(decision.why, str):
        raise InputError(f"{name} {row} with why={decision.why!r}: expected a string.")
    plain = {field: _as_stored(name, field, getattr(decision, field)) for field in _STORED}
    value = plain_value(decision.value)
    return replace(decision, parameters=row, expected_cost=cost, value=value, **plain)


def _is_given(parameter: Parameter, value: Any, given: Any) -> bool:
    """True if a value is the fixed one, up to rounding and the parameter's number of digits."""
    if not isinstance(parameter, Range):
        return is_same(value, given)
    off = abs(float(value) - float(str(parameter.decode(parameter.encode(given)))))
    return off <= _ROUNDING * (parameter.upper - parameter.lower)


def _as_stored(name: str, field: str, value: Any) -> Any:
    """Return the value after a round trip through JSON, as a loaded experiment has it."""
    try:
        return json.loads(json.dumps(dict(value), default=_scalar))
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{name} a trial with {field}={value!r}: expected a dictionary of plain JSON ({error})."
        ) from error


def _scalar(value: Any) -> Any:
    found = plain_value(value)
    if found is value:
        raise TypeError(f"a {type(value).__name__} is none")
    return found


def all_left_out(method: Method, problem: Problem) -> list[str]:
    """Return sentences for the log about data that a decision ignores."""
    lost = [trial.index for trial in problem.trials if trial.has_lost_value]
    said = (
        f"Trials {lost} have a value that a choice no longer has: they stay charged, and the model "
        "is fitted without them."
    )
    return [*([said] if lost else []), *method.omitted(problem).sentences]


def recommended(method: Method, problem: Problem) -> list[Best]:
    """Return the checked result of ``method.recommend``, which may be a user's.

    Raises:
        InputError: If it is not a non-empty list of ``Best``.
    """
    found = method.recommend(problem)
    if not isinstance(found, list) or not found or not all(isinstance(b, Best) for b in found):
        raise InputError(
            f"{type(method).__name__} recommended {found!r}: expected a list of Best, the best "
            "one first."
        )
    if problem.weights and not found[0].means:
        raise InputError(
            f"weights={dict(problem.weights)!r}: expected None, since there is one objective."
        )
    return found


def record_of(method: Method, problem: Problem, decision: Decision) -> dict[str, Any]:
    """Return the stored record of a decision, with the state of the budget.

    Args:
        method: The method.
        problem: Inputs of the decision.
        decision: The decision.
    """
    record = decision.record()
    if method.trial_costs.switching is not None or method.trial_costs.setup:
        batch = decision.extra.get(BATCH)
        record["switching_cost"] = switching_cost(problem, method, decision.parameters, batch)
    if method.trial_costs.metric is not None:
        record = {"cost_metric": method.trial_costs.metric, **record}
    if method.trial_costs.further:
        (costs,) = further_costs(method, problem, [decision.parameters])
        record[FURTHER_COSTS] = costs
        known = [f"{cost:.4g} {unit}" for unit, cost in costs.items() if cost is not None]
        record["why"] += f" It costs {', '.join(known)}, too." if known else ""
    if method.traits.may_skip:
        record["objective"] = problem.objective
    if "spent" not in decision.details:
        state = method.budget_state(problem, initial=decision.phase == "initial")
        record["decision"] = {**state.record(), **decision.details}
    return record


def repeated(method: Method, problem: Problem, decision: Decision | Stop) -> list[Pending]:
    """Return the pending trials that a decision repeats, unless it may, see ``Traits.may_repeat``.

    A repeat is within ``REPEAT`` of the range in every column of the model's space.
    """
    if isinstance(decision, Stop) or not problem.pending:
        return []
    row = decision.parameters
    control_set = method.control_set_of(PastTrial(problem.next_index, row))
    is_random = control_set and not problem.space.columns.keys() <= {*control_set.parameters}
    if is_random or method.traits.may_repeat:
        return []
    near = problem.space.are_near(row, [o.parameters for o in problem.pending], REPEAT)
    return [
        other
        for other, is_near in zip(problem.pending, near, strict=True)
        if is_near and all(other.parameters[name] == row[name] for name in method.traits.hidden)
    ]


def avoiding_repeats(
    method: Method, problem: Problem, decide: Callable[[Problem], Decision | Stop]
) -> Decision | Stop:
    """Return a decision, made again while it repeats a pending trial.

    Args:
        method: The method.
        problem: Inputs of the decision.
        decide: Function that makes the decision.

    Returns:
        A decision without a repeat, if there is one. Otherwise the repeat for the first trial of
        a batch, since at least one trial was asked for, and a stop for a further one. With much
        noise repeats are returned as they are.
    """
    decision = again = decide(problem)
    known = problem.known
    if not repeated(method, problem, decision) or has_much_noise(problem):
        return decision
    while found := [o for o in repeated(method, problem, again) if o not in known]:
        known = (*known, *found)
        again = decide(replace(problem, known=known))
    if not repeated(method, problem, again):
        return again
    if not problem.earlier_in_batch or method.traits.fills_batches:
        return decision
    return Stop(
        "The best trial repeats a pending one of the batch. Whether a repeat is worth its cost is "
        "known better once that one has reported."
    )


def has_much_noise(problem: Problem) -> bool:
    """True if noise explains much of the variation of the outcomes, according to the model."""
    outcomes = [problem.scale.to_model(trial.outcome or 0.0) for trial in problem.observed]
    with torch.no_grad():
        noise = float(problem.posterior.noise)
    return noise > _MUCH_NOISE**2 * statistics.pvariance(outcomes)

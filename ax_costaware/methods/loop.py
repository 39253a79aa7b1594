"""What a loop asks of a method: whether it fits, the next trial, and what is stored of that.

A decision that comes near to a trial that failed, or was given up, is made again by a model that
takes what failed for middling at best, see ``after_failures``.

One that comes back to a point which is under way is made again, too. With noise a second trial at
one point tells something more, and a model that has seen few outcomes seldom takes them for exact:
decision after decision of a batch would be for one point. But whether a little noise makes a repeat
worth its cost is known better when the first trial has reported. So such a decision is made again
as if that point were known, and where it comes back to it nevertheless, as where nothing else is
worth as much, the batch ends before it. Where there is much noise, repeats are what averages it
out, and stay.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from ax_costaware.exceptions import InputError, UnsupportedInputError
from ax_costaware.methods.change_overs import change_over, check_change_cost
from ax_costaware.methods.failures import (
    WARINESS,
    is_near_failures,
    stop_of_failures,
    wary_of_failures,
)
from ax_costaware.methods.method import Method
from ax_costaware.methods.parameters import Range
from ax_costaware.methods.problem import Decision, Pending, Problem, SpaceExhausted, Stop
from ax_costaware.models.point_posterior import PointPosterior
from ax_costaware.queries.change_cost import is_same

REPEAT = 0.01
"""Part of a parameter's range within which a trial repeats another one."""

_MUCH = 0.25
"""Noise, in standard deviations of the outcomes, above which repeats are of use: exact outcomes are
fitted with 0.14 of it in the median of BoTorch's prior, and less as they become more."""


def check_all(method: Method, problem: Problem) -> None:
    """Refuse an experiment that the method cannot run: ``Method.check``, and outcome constraints.

    Raises:
        InputError: As ``Method.check``, or if no parameter has more than one value.
        UnsupportedInputError: If there are outcome constraints, and the method takes none.
    """
    if problem.constraints and method.refuses_constraints is not None:
        named = ", ".join(map(str, problem.constraints))
        raise UnsupportedInputError(
            f"outcome constraints {named}: {method.factory} takes none, since "
            f"{method.refuses_constraints}. Remove them, or let the objective carry a penalty; "
            "gittins_strategy takes them."
        )
    check_change_cost(problem, method)
    method.check(problem)
    if not problem.space.columns:
        raise InputError(
            f"the parameters {problem.space.names} have one value each: expected a range, or a "
            "choice of several values."
        )


def next_trial(method: Method, problem: Problem, initial: bool) -> Decision | Stop:
    """The next trial: by ``method.initial`` or by ``method.decide``.

    A run of which every trial failed is stopped.

    Args:
        method: The method.
        problem: What the decision is made from.
        initial: Whether the initial design goes on.

    Raises:
        InputError: If the limits of cost allow no trial at all, or a decision is no trial.
    """
    stop = stop_of_failures(problem, method.initial_trials)
    if stop is not None:
        return stop

    def wary(problem: Problem) -> Decision | Stop:
        decision = _checked(method, method.decide(problem))
        for most, often in WARINESS:
            if isinstance(decision, Stop):
                break
            row = decision.parameters
            if is_near_failures(problem, (row, method.deployed(row))):
                points = method.failed_points(problem)
                warier = wary_of_failures(problem, points, most, often)
                decision = _checked(method, method.decide(warier))
        return decision

    try:
        if initial:
            decision = _checked(method, method.initial(problem))
        else:
            decision = apart(method, problem, wary)
    except SpaceExhausted:
        return Stop(SpaceExhausted.REASON)
    if not isinstance(decision, Stop):
        decision = _with_given(problem, decision)
        _check_decision(method, problem, decision)
    elif not problem.trials and not problem.undelivered:
        money = method.money(problem, initial)
        name = "max_trial_cost" if money.capped else "budget"
        if money.limit is not None:
            raise InputError(
                f"{name}={getattr(method, name)!r}: expected a larger one. {decision.reason}"
            )
    return decision


def _with_given(problem: Problem, decision: Decision) -> Decision:
    """A decision with what the caller fixed to its last digit, which a log scale rounds."""
    row = decision.parameters
    given = {n: x for n, x in problem.fixed.items() if n in row and is_same(row[n], x)}
    return replace(decision, parameters={**row, **given})


def _checked(method: Method, decision: Decision | Stop) -> Decision | Stop:
    """What a method decided, if it is a decision: a method may be a user's."""
    if not isinstance(decision, Decision | Stop):
        raise InputError(
            f"{type(method).__name__} decided on {decision!r}: expected a Decision or a Stop."
        )
    return decision


def _check_decision(method: Method, problem: Problem, decision: Decision) -> None:
    """Refuse what is no trial, or has no cost that can be added up: a method may be a user's."""
    cost, row = decision.expected_cost, decision.parameters
    known = {**problem.space.parameters, **problem.space.hidden}
    is_trial = known.keys() == row.keys() and all(
        abs(float(row[n]) - (p.lower + p.upper) / 2) <= (0.5 + 1e-6) * (p.upper - p.lower)  # type: ignore[arg-type]
        for n, p in known.items()
        if isinstance(p, Range)
    )
    if not is_trial or (cost is not None and not 0 <= cost < math.inf):
        raise InputError(
            f"{type(method).__name__} decided on {dict(row)} with expected_cost={cost!r}: expected "
            f"a value within bounds for each of {[*known]}, and a finite cost >= 0, or None."
        )


def record_of(method: Method, problem: Problem, decision: Decision) -> dict[str, Any]:
    """What is stored of a decision: what it says, and the money before it if it leaves it out.

    Args:
        method: The method.
        problem: What the decision was made from.
        decision: The decision.
    """
    record = decision.record()
    if method.change_cost is not None:
        record["change_over"] = change_over(problem, method, decision.parameters)
    if method.cost_metric is not None:
        record = {"cost_metric": method.cost_metric, **record}
    if method.may_skip:
        record["objective"] = problem.objective
    if "spent" not in decision.details:
        money = method.money(problem, initial=decision.phase == "initial")
        record["decision"] = {**money.record(), **decision.details}
    return record


def repeated(method: Method, problem: Problem, decision: Decision | Stop) -> list[Pending]:
    """What is under way that a decision repeats: next to it in every column of the model's space.

    What may be repeated is not repeated, see ``Method.may_repeat``.
    """
    if isinstance(decision, Stop) or not problem.pending:
        return []
    row = decision.parameters
    if method.may_repeat(problem, row):
        return []
    near = problem.space.are_near(row, [o.parameters for o in problem.pending], REPEAT)
    return [
        other
        for other, is_near in zip(problem.pending, near, strict=True)
        if is_near and all(other.parameters[name] == row[name] for name in method.hidden)
    ]


def apart(
    method: Method, problem: Problem, decide: Callable[[Problem], Decision | Stop]
) -> Decision | Stop:
    """What is decided, which is decided again as far as it repeats what is under way.

    Args:
        method: The method.
        problem: What the decision is made from.
        decide: Makes it.

    Returns:
        A decision that repeats nothing, unless there is much noise; else, in a batch, that there
        should be none. What repeats a trial that runs is kept: where one trial is asked for, there
        is to be one.
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
    if not problem.undelivered:
        return decision
    return Stop(
        "Nothing but a trial that repeats another one of the batch would be worth as much, and "
        "whether to repeat it is known better once it has reported."
    )


def has_much_noise(problem: Problem) -> bool:
    """Whether the model takes a large part of what outcomes differ by for noise."""
    outcomes = [trial.outcome or 0.0 for trial in problem.observed]
    with torch.no_grad():
        noise = float(PointPosterior.of(problem.model).noise)
    return noise > _MUCH**2 * statistics.pvariance(outcomes)

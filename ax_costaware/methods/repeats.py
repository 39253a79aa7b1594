"""What becomes of a decision that comes back to a point which is under way.

With noise a second trial at one point tells something more, and a model that has seen few outcomes
seldom takes them for exact: decision after decision of a batch would be for one point. But whether
a little noise makes a repeat worth its cost is known better when the first trial has reported. So
such a decision is made again as if that point were known, and where it comes back to it
nevertheless, as where nothing else is worth as much, the batch ends before it. Where there is much
noise, repeats are what averages it out, and stay.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import torch
from botorch.posteriors.gpytorch import GPyTorchPosterior

from ax_costaware.methods.problem import Decision, Pending, Problem, Stop

if TYPE_CHECKING:
    from ax_costaware.methods.method import Method

REPEAT = 0.01
"""Part of a parameter's range within which a trial repeats another one."""

_MUCH = 0.25
"""Noise, in standard deviations of the outcomes, above which repeats are of use: exact outcomes are
fitted with 0.14 of it in the median of BoTorch's prior, and less as they become more."""


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
    X = problem.evaluated[:1]
    with torch.no_grad():
        exact, noisy = (
            cast(GPyTorchPosterior, problem.model.posterior(X, observation_noise=noise))
            for noise in (False, True)
        )
        noise = float((noisy.variance - exact.variance).mean())
    return noise > _MUCH**2 * statistics.pvariance(outcomes)

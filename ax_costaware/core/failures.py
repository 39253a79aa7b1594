"""What a decision makes of trials that failed, or were given up.

A decision that comes near to one is made again by a model that takes what failed for middling at
best, as far as that is plausible beside the data; and if it is still near, however far that is; and
at last as if that had been seen often. So one failure at random does little harm, and a region that
always fails is left after a few. Decisions that do not come near are what they were.

Where failures depend on the parameters they can be learned besides: a model of what failed and what
did not, as of any other outcome, whose bound a trial is likely to keep or not.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import replace
from typing import Literal

import torch
from botorch.models.model import Model
from botorch.posteriors.gpytorch import GPyTorchPosterior
from torch import Tensor

from ax_costaware.acquisition.feasibility import OutcomeConstraint
from ax_costaware.core.history import NEVER_RUN
from ax_costaware.core.model import ModelOptions
from ax_costaware.core.problem import Problem, Stop
from ax_costaware.models.fantasies import fantasized
from ax_costaware.models.outcome_scale import OutcomeScale
from ax_costaware.space.parameters import Row

_NEAR = 0.1
"""Part of a parameter's range within which a trial is near to another one."""

_PLAUSIBLE = 3.0
"""Standard deviations by which a failed point is first taken to be worse than its mean."""


FAILURE_WEIGHTS = ((_PLAUSIBLE, 1), (math.inf, 1), (math.inf, 25))
"""How a decision that comes near to a failed trial is made again, one after the other as long as it
is still near: standard deviations by which the failed point is taken to be worse than its mean,
and how often it counts as observed; of a trial that counts 25 times the noise leaves a fifth."""

BY_FAILURES = "by a model that takes trials that failed for no better than the median outcome"
"""What a decision that was made again says of its numbers."""

_MOST_IN_VAIN = 2
"""Initial designs whose trials may all fail, or tell nothing, before a run is stopped."""


def are_uninformative(number: int, initial_trials: int) -> bool:
    """Whether so many trials of which nothing was learned are enough to stop at."""
    return number >= _MOST_IN_VAIN * max(initial_trials, 5)


def stop_of_failures(problem: Problem, initial_trials: int) -> Stop | None:
    """That every trial failed, of two initial designs or more; None if not."""
    failed = problem.failed
    if not are_uninformative(len(failed), initial_trials):
        return None
    if not all(t.has_failed for t in problem.trials if not (t.is_live or t.is_excluded)):
        return None
    return Stop(
        f"All {len(failed)} trials that came to an end have failed or were abandoned, so that "
        "nothing is known of the objective, and nothing says which trial would do better. See to "
        "why they fail; then attach a trial that succeeds, and complete it: the run goes on from "
        "there."
    )


def is_near_failures(problem: Problem, rows: Iterable[Row]) -> bool:
    """Whether a parameterization is next to a trial that failed, in every column of the model."""
    failed = [trial.parameters for trial in problem.failed]
    return any(any(problem.space.are_near(row, failed, _NEAR)) for row in rows if failed)


def with_failures_as_median(problem: Problem, points: Tensor, most: float, often: int) -> Problem:
    """The problem under a model that takes what failed for the median outcome at best.

    Args:
        problem: The problem.
        points: ``k x d`` points that stand for the trials that failed, in the model's units.
        most: As of ``after_failures``.
        often: How often each of them counts as observed.
    """
    outcome = statistics.median(float(trial.outcome or 0.0) for trial in problem.observed)
    middling = problem.scale.to_model(outcome)
    fitted, X = problem.fit, points.repeat(often, 1)
    return replace(problem, fit=lambda: after_failures(fitted(), X, middling, most))


def failures_as_constraint(
    problem: Problem, learn: bool | Literal["abandoned"]
) -> tuple[OutcomeConstraint, ...]:
    """That a trial does not fail, as an outcome constraint with a model of its own.

    The outcome is 1 for a trial that failed and 0 for one that succeeded, and its bound is halfway:
    a Gaussian process takes failures at random for noise, and those of a region for the region's.

    Args:
        problem: The problem.
        learn: Whether failures are learned; ``"abandoned"``: those that were given up, too.

    Returns:
        One constraint; none if failures are not learned, or there was none yet.
    """
    failed = [
        trial.inputs
        for trial in problem.failed
        if learn == "abandoned" or (learn and trial.status not in NEVER_RUN)
    ]
    if not failed:
        return ()
    X = torch.cat([problem.space.encode(failed), problem.evaluated])
    outcomes = (torch.arange(len(X)) < len(failed)).to(X)

    scale = OutcomeScale.of(outcomes)

    def fit() -> Model:
        return ModelOptions().fitted(X, scale.to_model(outcomes), problem.space.bounds)

    return (OutcomeConstraint("failed", upper=0.5, fit=fit, find_scale=lambda: scale),)


def after_failures(model: Model, X: Tensor, middling: float, most: float) -> Model:
    """The model after points where a trial failed, so that the next one looks elsewhere.

    Each point counts as observed, with the mean noise variance, at its posterior mean or at
    ``middling``, whichever is worse. At the posterior mean alone ("kriging believer", Ginsbourger
    et al. 2010) a region that is thought to be good and always fails would be tried for ever. It is
    worse by some standard deviations at most, since what a model takes for impossible beside its
    data it makes up for elsewhere. Hyperparameters stay as they are.

    Args:
        model: A fitted Gaussian process of one outcome, of which larger values are better.
        X: Points ``k x d``, in the model's units.
        middling: The value that no failed point is taken to be better than, in outcome units.
        most: By how many posterior standard deviations it may be worse than its mean.

    Returns:
        A model of its own; or ``model`` itself if it is of a kind that takes no observations.
    """

    def outcome(posterior: GPyTorchPosterior) -> Tensor:
        mean: Tensor = posterior.mean
        bound = mean.clamp_max(middling)
        if math.isfinite(most):
            far = most * posterior.variance.sqrt()
            bound = bound.clamp(mean - far, mean + far)
        return bound

    return fantasized(model, X, outcome)

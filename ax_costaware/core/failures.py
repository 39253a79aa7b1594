"""Failed and abandoned trials in decisions.

Decisions that are not near a failed trial ignore it. A decision near one is made again by a model
that assigns failed points at most the median outcome, in three steps, see ``FAILURE_WEIGHTS``. A
random failure therefore does little harm, and a region that always fails is left after a few.

Failures that depend on the parameters can also be learned: as a constrained outcome with a model of
its own, see ``failures_as_constraint``.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias

import torch
from botorch.models.model import Model
from botorch.posteriors.gpytorch import GPyTorchPosterior
from torch import Tensor

from ax_costaware.acquisition.feasibility import Feasibility, OutcomeConstraint
from ax_costaware.core.history import NEVER_RUN
from ax_costaware.core.model import ModelOptions
from ax_costaware.core.problem import Problem, Stop
from ax_costaware.models import MaternGP
from ax_costaware.models.fantasies import fantasized
from ax_costaware.models.outcome_scale import OutcomeScale
from ax_costaware.models.posterior import FunctionalPosterior
from ax_costaware.space.parameters import Row

_NEAR = 0.1
"""Part of a parameter's range within which two trials are near each other."""

FAILURE_WEIGHTS = ((3.0, 1), (math.inf, 1), (math.inf, 25))
"""Steps of making a decision again while it is near a failed trial. Each is the number of posterior
standard deviations by which the failed point may be below its mean, and the number of fantasized
observations. Three standard deviations are plausible given the data; 25 observations leave a fifth
of the noise."""

BY_FAILURES = "by a model that takes trials that failed for no better than the median outcome"
"""Remark on the numbers of a decision that was made again."""

_MAX_FAILED_DESIGNS = 2
"""Initial designs without any outcome before a run is stopped."""

_POWER = 8.0
"""Power of the probability that a trial does not fail, in its weight, see ``success_weight``. With
it 8.2 of 30 trials failed in ``benchmarks/failures.py``, of two seeds, and 15 without learning.
Powers of 1 and 3 of the probability itself had 11 and 9 failures."""

LearnFailures: TypeAlias = bool | Literal["auto", "abandoned"]
"""Type of ``learn_failures``."""

_LEAST_LEARNED = 2
"""Least number of failed and of observed trials from which failures are learned by ``"auto"``."""


def is_futile(number: int, initial_trials: int) -> bool:
    """True if a run is to be stopped after a number of trials without any outcome."""
    return number >= _MAX_FAILED_DESIGNS * max(initial_trials, 5)


def stop_of_failures(problem: Problem, initial_trials: int) -> Stop | None:
    """Return a stop if every trial failed, of two initial designs or more; else None."""
    failed = problem.failed
    if not is_futile(len(failed), initial_trials):
        return None
    if not all(t.has_failed for t in problem.trials if not (t.is_live or t.is_excluded)):
        return None
    return Stop(
        f"All {len(failed)} trials that ended have failed or were abandoned, so that no model of "
        "the objective can be fitted. Find out why they fail. Then attach a trial that succeeds, "
        "and complete it: the run continues from there."
    )


def is_near_failures(problem: Problem, rows: Iterable[Row]) -> bool:
    """True if any parameterization is near a failed trial in every column of the model."""
    failed = [trial.parameters for trial in problem.failed]
    return any(any(problem.space.are_near(row, failed, _NEAR)) for row in rows if failed)


def with_failures_as_median(problem: Problem, points: Tensor, most: float, often: int) -> Problem:
    """Return the problem with a model that assigns failed points at most the median outcome.

    Args:
        problem: Inputs of the decision.
        points: The model's points of failed trials, ``k x d``.
        most: As in ``after_failures``.
        often: Number of fantasized observations of each.
    """
    X = points.repeat(often, 1)

    def refitted(fit: Callable[[], Model], scale: OutcomeScale, outcomes: Iterable[float]) -> Any:
        median = scale.to_model(statistics.median(outcomes))
        return lambda: after_failures(fit(), X, median, most)

    outcomes = [float(trial.outcome or 0.0) for trial in problem.observed]
    if not problem.objectives:
        return replace(problem, fit=refitted(problem.fit, problem.scale, outcomes))
    values = [outcomes] + [
        [trial.metrics[each.metric] for trial in problem.trials if each.metric in trial.metrics]
        for each in problem.objectives[1:]
    ]
    again = problem.prepare
    objectives = tuple(
        replace(each, fit=refitted(each.fit, each.scale, known))
        for each, known in zip(problem.objectives, values, strict=True)
    )
    return replace(
        problem,
        fit=objectives[0].fit,
        objectives=objectives,
        prepare=lambda p: with_failures_as_median(again(p), points, most, often),
    )


def failures_as_constraint(problem: Problem, learn: LearnFailures) -> tuple[OutcomeConstraint, ...]:
    """Return the outcome constraint that a trial does not fail, with a model of its own.

    The outcome is 1 for a failed trial and 0 for a successful one, with the upper bound 0.5. The
    Gaussian process (``MaternGP``) explains random failures by noise, and others by their region,
    or by the value of a choice.

    Args:
        problem: Inputs of the decision.
        learn: True to learn failures from the first one on; ``"auto"`` from two failed and two
            observed trials on; ``"abandoned"`` to count abandoned trials as failures, too.

    Returns:
        One constraint, or none without failures to learn from.
    """
    failed = [
        trial.inputs
        for trial in problem.failed
        if learn == "abandoned" or (learn and trial.status not in NEVER_RUN)
    ]
    least = _LEAST_LEARNED if learn == "auto" else 1
    if len(failed) < least or (learn == "auto" and len(problem.evaluated) < least):
        return ()
    X = torch.cat([problem.space.encode(failed), problem.evaluated])
    outcomes = (torch.arange(len(X)) < len(failed)).to(X)
    scale = OutcomeScale.of(outcomes)

    def fit() -> Model:
        options = ModelOptions("MaternGP", MaternGP).within(problem.space)
        return options.fitted(X, scale.to_model(outcomes), problem.space.bounds)

    return (OutcomeConstraint("failed", upper=0.5, fit=fit, find_scale=lambda: scale),)


def success_weight(
    constraints: Sequence[OutcomeConstraint], points: Tensor
) -> tuple[Feasibility[FunctionalPosterior], Callable[[Tensor], Tensor]]:
    r"""Return the probability that a trial does not fail, and the log weight of its value by it.

    With the probability :math:`P`, and its largest value :math:`P^*` at ``points``, the weight is
    :math:`P \min(P / P^*, 1)^{k - 1}`. A trial that fails costs as much as any other, and tells
    nothing of the objective, so :math:`k > 1`. Failures that do not depend on the parameters have
    :math:`P = P^*`, and the weight :math:`P`.

    Args:
        constraints: From ``failures_as_constraint``; none for a weight of one.
        points: Points that are known not to fail, ``n x d``.
    """
    success = Feasibility.of(constraints, FunctionalPosterior.of)
    if not constraints:
        return success, success.log_probability
    with torch.no_grad():
        largest = success.log_probability(points).max()

    def log_weight(X: Tensor) -> Tensor:
        log_probability = success.log_probability(X)
        return log_probability + (_POWER - 1.0) * (log_probability - largest).clamp_max(0.0)

    return success, log_weight


def after_failures(model: Model, X: Tensor, median: float, most: float) -> Model:
    """Return the model with fantasized outcomes at failed points, so that a decision avoids them.

    With the posterior mean ``mu`` and standard deviation ``sigma``, the fantasy is
    ``max(min(mu, median), mu - most * sigma)``. The posterior mean alone ("Kriging believer",
    Ginsbourger et al. 2010) would try a promising region that always fails for ever. The lower
    limit avoids fantasies that contradict the data, which would distort the model elsewhere.
    Noise is the mean noise variance, and hyperparameters stay as they are.

    Args:
        model: A fitted Gaussian process of one outcome, of which larger values are better.
        X: The model's points, ``k x d``.
        median: Median outcome, which no fantasy exceeds, on the scale of the model.
        most: Largest distance below the mean, in posterior standard deviations.

    Returns:
        A new model; or ``model`` itself if it cannot be conditioned on observations.
    """

    def outcome(posterior: GPyTorchPosterior) -> Tensor:
        mean: Tensor = posterior.mean
        bound = mean.clamp_max(median)
        if math.isfinite(most):
            far = most * posterior.variance.sqrt()
            bound = bound.clamp(mean - far, mean + far)
        return bound

    return fantasized(model, X, outcome)

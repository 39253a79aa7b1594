"""Latent points to deploy: the best posterior means among feasible points.

Outcome constraints apply to latent points, which no query measures. The latent process of each
outcome gives the probability that a point satisfies them.
"""

from __future__ import annotations

import math
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor

from ax_costaware.acquisition.feasibility import Feasibility, feasibility_weighted, feasible_first
from ax_costaware.acquisition.latent_optima import LatentSpace, best_latent_points
from ax_costaware.acquisition.optimize import is_flat
from ax_costaware.core.problem import Best, Problem
from ax_costaware.models.posterior import ExactPosterior

_NUM_POINTS = 256
"""Quasi-random points for the range of the posterior mean."""


def best_points(
    problem: Problem,
    now: ExactPosterior,
    space: LatentSpace,
    feasibility_threshold: float,
    seed: int,
) -> list[tuple[list[float], float, float, float | None]]:
    """Return the local optima of the posterior mean over latent points, best first.

    If the mean is constant, they are the points of least variance. With outcome constraints,
    feasible points come first, then the others by their probability of being feasible.

    Args:
        problem: The problem.
        now: The posterior of the objective.
        space: Space of the points.
        feasibility_threshold: Least probability of satisfying all outcome constraints.
        seed: Seed of the search.

    Returns:
        For each: the point; its posterior mean and variance, on the scale of the model; and its
        probability of being feasible, None without constraints.
    """
    with torch.no_grad():
        means = now.latent.mean(space.sobol(_NUM_POINTS, seed))
    if not problem.constraints:
        surest = (lambda X: -now.latent(X)[1]) if is_flat(means) else None
        X, mean, variance = best_latent_points(now, space, seed=seed, function=surest)
        moments = zip(X.tolist(), mean.tolist(), variance.tolist(), strict=True)
        return [(*found, None) for found in moments]
    outcomes = Feasibility.of(problem.constraints, ExactPosterior.of)
    log_probability = outcomes.over(attrgetter("latent")).log_probability
    worst, log_threshold = means.min(), math.log(feasibility_threshold)

    def limited(X: Tensor) -> Tensor:
        value, log_p = now.latent.mean(X), log_probability(X)
        return feasibility_weighted(value, log_p, worst, log_threshold, is_required=True)

    for function in (limited, log_probability):
        X, mean, variance = best_latent_points(now, space, seed=seed, function=function)
        with torch.no_grad():
            log_feasibility = log_probability(X)
        chances = log_feasibility.exp().tolist()
        if max(chances) >= feasibility_threshold:
            break
    rows = list(zip(X.tolist(), mean.tolist(), variance.tolist(), chances, strict=True))
    return [rows[i] for i in feasible_first(mean, log_feasibility, feasibility_threshold)]


def recommendation_record(best: Best) -> dict[str, Any]:
    """Return the record of the point that is recommended at a decision."""
    return {
        "parameters": best.parameters,
        "mean": best.mean,
        "standard_deviation": best.standard_deviation,
        **({} if best.feasibility is None else {"feasibility": best.feasibility}),
    }

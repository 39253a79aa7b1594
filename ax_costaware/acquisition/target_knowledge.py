"""What several queries are worth to the point that is deployed: a batch knowledge gradient.

What is deployed in the end is the point with the best expectation, which no query measures. Answers
move the expectations of points as far as they are correlated with them; what that adds to the best
of them is what the queries are worth (see ``batch_knowledge``). Each query is the one of which the
answer leaves least variance at the optimum of a posterior sample of its own, per unit of cost.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ax_costaware.acquisition.batch_knowledge import expected_gain
from ax_costaware.models.indirect_posterior import IndirectPosterior

_NUM_SAMPLES = 256
"""Samples of what the answers may come to."""

_SLACK = 1e-9
"""Part of the limit by which rounding may pass it."""


def target_knowledge_per_cost(
    posterior: IndirectPosterior,
    optima: Tensor,
    others: Tensor,
    queries: Tensor,
    costs: Tensor,
    counts: Sequence[int],
    limit: float | None,
    seed: int,
) -> float:
    """The expected gain in the value of the best point, per unit of cost, where it is largest.

    Args:
        posterior: The posterior of averages and points, to be maximised.
        optima: ``S x d`` optima of posterior samples.
        others: ``m x d`` further points that may be the best, that of now among them.
        queries: ``n x p`` queries that may be asked.
        costs: What they cost, ``n``.
        counts: Numbers of queries that are looked at.
        limit: What the queries may cost together; None for no limit.
        seed: Seed of what the answers may come to.
    """
    generator = torch.Generator().manual_seed(seed)
    points = torch.cat([optima, others])
    with torch.no_grad():
        mean = posterior.target_mean(points)
        _, variance, cross = posterior.joint_moments(queries, points)
        noise = posterior.noise_of(queries)
        told = cross[:, : len(optima)].square() / (variance + noise).unsqueeze(-1)
        best = (told / costs.unsqueeze(-1)).argmax(dim=0)
        z = torch.randn(max(counts), _NUM_SAMPLES, generator=generator, dtype=torch.double).to(mean)

        def gain_per_cost(chosen: Tensor) -> float:
            cost = float(costs[chosen].sum())
            if limit is not None and cost > limit * (1 + _SLACK):
                return 0.0
            outcomes = posterior.covariance(queries[chosen]) + torch.diag(noise[chosen])
            return expected_gain(mean, cross[chosen].mT, outcomes, z[: len(chosen)]) / cost

        single = [gain_per_cost(one.unsqueeze(0)) for one in best.unique()]
        several = [gain_per_cost(best[:count]) for count in counts if count > 1]
        return max([0.0, *single, *several])

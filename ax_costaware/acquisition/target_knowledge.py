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

from ax_costaware.acquisition.batch_knowledge import LogProbability, Told, expected_gain
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
    bounds: Sequence[tuple[IndirectPosterior, LogProbability]] = (),
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
        bounds: Of each further outcome with bounds its posterior, and these.
    """
    points = torch.cat([optima, others])
    with torch.no_grad():
        asked = [
            _Asked(one, queries, points, max(counts), seed + place)
            for place, one in enumerate([posterior, *(other for other, _ in bounds)])
        ]
        told = torch.stack([one.part_told[:, : len(optima)] for one in asked]).sum(dim=0)
        best = (told / costs.unsqueeze(-1)).argmax(dim=0)

        def gain_per_cost(chosen: Tensor) -> float:
            cost = float(costs[chosen].sum())
            if limit is not None and cost > limit * (1 + _SLACK):
                return 0.0
            objective, *others = (one.told(chosen) for one in asked)
            of_others = [(o, within) for o, (_, within) in zip(others, bounds, strict=True)]
            return expected_gain(objective, of_others) / cost

        single = [gain_per_cost(one.unsqueeze(0)) for one in best.unique()]
        several = [gain_per_cost(best[:count]) for count in counts if count > 1]
        return max([0.0, *single, *several])


class _Asked:
    """What queries tell of an outcome at points.

    Args:
        posterior: The posterior of the outcome.
        queries: ``n x p`` queries that may be asked.
        points: ``m x d`` points.
        most: The most queries that are asked together.
        seed: Seed of what the answers may come to.
    """

    def __init__(
        self, posterior: IndirectPosterior, queries: Tensor, points: Tensor, most: int, seed: int
    ) -> None:
        generator = torch.Generator().manual_seed(seed)
        z = torch.randn(most, _NUM_SAMPLES, generator=generator, dtype=torch.double)
        self._posterior, self._queries, self._z = posterior, queries, z.to(points)
        self._moments = posterior.target_moments(points)
        _, self._variance, self._cross = posterior.joint_moments(queries, points)
        self._noise = posterior.noise_of(queries)

    @property
    def part_told(self) -> Tensor:
        """The part of the variance at each point that the answer of each query tells, ``n x m``."""
        told = self._cross.square() / (self._variance + self._noise).unsqueeze(-1)
        return told / self._moments[1]

    def told(self, chosen: Tensor) -> Told:
        """What the answers of chosen queries tell, by their indices."""
        noise = torch.diag(self._noise[chosen])
        outcomes = self._posterior.covariance(self._queries[chosen]) + noise
        return Told(*self._moments, self._cross[chosen].mT, outcomes, self._z[: len(chosen)])

r"""What several trials of a control set are worth to what is deployed: a batch knowledge gradient.

What is deployed in the end is the query with the best expectation. Of candidates for it, values
:math:`g`, the posterior is jointly Gaussian with mean :math:`a`. Trials that land at points
:math:`X` change that mean to :math:`a + \tilde\Sigma Z` with

.. math:: \tilde\Sigma = \mathrm{Cov}[g, f(X)] \, L^{-\top}, \quad
   L L^\top = \mathrm{Cov}[f(X)] + s^2 I,

and are worth :math:`E \max(a + \tilde\Sigma Z) - \max a` (Wu and Frazier 2016, "The Parallel
Knowledge Gradient Method for Batch Bayesian Optimization"), in the unit of the objective. The
trials set their controlled inputs as posterior samples would have them, each to the best candidate
of a sample of its own, and the rest falls by its law.

Where further outcomes have bounds, each with a model of its own, a candidate that is feasible with
probability :math:`P` counts as :math:`P (a - a_{low})`; :math:`a_{low}` is the least of the means.
The same trials move the posteriors of all outcomes.

With queries that are answered by averages what is deployed is the point with the best expectation,
which no query measures; answers move the expectations of points as far as they are correlated with
them. Each query is the one of which the answer leaves least variance at the optimum of a posterior
sample of its own, per unit of cost.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from ax_costaware.acquisition.feasibility import NO_BOUNDS, Feasibility, OutcomeConstraint
from ax_costaware.acquisition.objectives import some_nodes
from ax_costaware.acquisition.optimize import Region
from ax_costaware.acquisition.starts import raw_points
from ax_costaware.laws.joint.law import NodesGiven
from ax_costaware.models.posterior import ExactPosterior, FunctionalPosterior

_NUM_CANDIDATES, _MOST_NODES = 512, 1024
"""Candidates, as far as they have together no more nodes than that."""

_NUM_NODES = 8
"""Nodes of a candidate that leaves inputs to chance."""

_NUM_NEAR, _NEAR = 5, 0.1
"""Half of the candidates lie around so many of the best evaluated points, within that part of the
range of a column."""

_NUM_SAMPLES = 256
"""Samples of what the trials may come to."""

_SLACK = 1e-9
"""Part of a limit of cost by which rounding may pass it."""

_ROUNDING = 1e-9
"""Directions in which outcomes vary by less of the largest variance tell nothing."""

_EVEN = math.log(0.5)
"""Logarithm of the probability from which on a candidate is rather feasible than not."""


class Told(NamedTuple):
    """What outcomes are expected to tell of values with which they are jointly Gaussian."""

    mean: Tensor
    """Means of the values, ``m``."""

    variance: Tensor
    """Their variances, ``m``."""

    cross: Tensor
    """Their covariances with the outcomes, ``m x n``."""

    outcomes: Tensor
    """Covariances of the outcomes, noise included, ``n x n``."""

    z: Tensor
    """``n x s`` normal numbers for what the outcomes come to."""

    def after(self) -> tuple[Tensor, Tensor]:
        """Means ``m x s`` and variances ``m x 1`` after the outcomes."""
        unit = self.outcomes.diagonal().max().clamp_min(torch.finfo(self.mean.dtype).tiny)
        values, vectors = torch.linalg.eigh(self.outcomes / unit)
        scale = values.clamp_min(_ROUNDING * values[-1]).sqrt()
        moved = self.cross / unit.sqrt() @ vectors / scale
        variance = self.variance - moved.square().sum(dim=-1)
        return self.mean.unsqueeze(-1) + moved @ self.z, _positive(variance).unsqueeze(-1)


def _positive(variance: Tensor) -> Tensor:
    """Variances that rounding has not made nothing."""
    least = _ROUNDING * variance.max().clamp_min(torch.finfo(variance.dtype).tiny)
    return variance.clamp_min(float(least))


@dataclass(frozen=True, eq=False)
class Candidates:
    """Queries of which one may turn out to be the best, and the posterior of their values.

    Attributes:
        posterior: The posterior of the objective, to be maximised.
        points: ``m x d`` points.
        nodes: ``r x d`` nodes of all queries.
        membership: ``r x m``: the weight of each node in each query.
    """

    posterior: FunctionalPosterior
    points: Tensor
    nodes: Tensor
    membership: Tensor

    @cached_property
    def moments(self) -> tuple[Tensor, Tensor]:
        """Means ``m`` and covariances ``m x m`` of the values."""
        mean, covariance = self.posterior.joint(self.nodes)
        return self.membership.mT @ mean, self.membership.mT @ covariance @ self.membership

    def samples(self, z: Tensor) -> Tensor:
        """Samples ``m x n`` of the values, by as many normal numbers."""
        mean, covariance = self.moments
        # A factor of a covariance of points that are close together, in units that have no size.
        unit = covariance.diagonal().max().clamp_min(torch.finfo(mean.dtype).tiny)
        values, vectors = torch.linalg.eigh(covariance / unit)
        samples = vectors @ (values.clamp_min(0.0).sqrt().unsqueeze(-1) * z)
        found: Tensor = mean.unsqueeze(-1) + unit.sqrt() * samples
        return found

    def told(self, landing: Tensor, z: Tensor) -> Told:
        """What trials tell of the values.

        Args:
            landing: ``n x d`` points where trials land.
            z: ``n x s`` normal numbers for what they come to.
        """
        mean, covariance = self.moments
        r, n = len(self.nodes), len(landing)
        _, joint = self.posterior.joint(torch.cat([self.nodes, landing]))
        outcomes = joint[r:, r:] + self.posterior.noise * torch.eye(n).to(joint)
        cross = self.membership.mT @ joint[:r, r:]
        return Told(mean, covariance.diagonal(), cross, outcomes, z)


def expected_gain(told: Told, others: Sequence[tuple[OutcomeConstraint, Told]] = ()) -> float:
    """How much outcomes are expected to add to the best of some values.

    Args:
        told: What they tell of the values.
        others: Bounds of each further outcome, and what is told of it.
    """
    now, (later, _) = told.mean, told.after()
    if others:
        low = now.min()
        chance = torch.stack([b.log_probability(o.mean, _positive(o.variance)) for b, o in others])
        chance_later = torch.stack([b.log_probability(*o.after()) for b, o in others])
        now = chance.sum(dim=0).exp() * (now - low)
        later = chance_later.sum(dim=0).exp() * (later - low)
    # The best of now is the same on average: taking it off leaves less to chance.
    return float((later.max(dim=0).values - later[now.argmax()]).mean())


def batch_knowledge(
    posterior: FunctionalPosterior,
    laws: Sequence[NodesGiven],
    controls: Sequence[list[int]],
    regions: Sequence[Region],
    evaluated: Tensor,
    plays: Sequence[int],
    seed: int,
    feasibility: Feasibility[FunctionalPosterior] = NO_BOUNDS,
) -> list[float]:
    """The expected gain in the value of the best query by trials of each control set.

    Args:
        posterior: The posterior of the objective, to be maximised.
        laws: Per control set, the nodes and weights of a query.
        controls: Per control set, the columns that it controls.
        regions: Per control set, where its values may be.
        evaluated: ``m x d`` evaluated points.
        plays: Per control set, how many trials; 0: none, which gain nothing.
        seed: Seed of the candidates and of all samples.
        feasibility: Posteriors of further outcomes, with their bounds.

    Returns:
        The gains, in units of the objective.

    Raises:
        UnsupportedInputError: If the model gives no joint Gaussian posterior.
    """
    most = max(plays, default=0)
    if most == 0:
        return [0.0] * len(plays)
    generator = torch.Generator().manual_seed(seed)

    def normal(rows: int, columns: int, generator: torch.Generator = generator) -> Tensor:
        return torch.randn(rows, columns, generator=generator, dtype=torch.double).to(evaluated)

    with torch.no_grad():
        candidates = _candidates(posterior, feasibility, laws, controls, regions, evaluated, seed)
        sampled = candidates.samples(normal(len(candidates.points), most))
        z = normal(most, _NUM_SAMPLES)
        others = []
        for place, (bound, other) in enumerate(feasibility.outcomes):
            chance = torch.Generator().manual_seed(seed + 1 + place)
            seen = replace(candidates, posterior=other)
            values = seen.samples(normal(len(candidates.points), most, chance))
            exact = _positive(torch.zeros_like(values))
            sampled = _infeasible_last(sampled, bound.log_probability(values, exact) >= _EVEN)
            others.append((bound, seen, normal(most, _NUM_SAMPLES, chance)))
        best = candidates.points[sampled.argmax(dim=0)]

        def gain(law: NodesGiven, points: Tensor) -> float:
            n = len(points)
            nodes, weights = law(points)
            picked = torch.multinomial(weights.cpu(), 1, generator=generator).squeeze(-1)
            landing = nodes[torch.arange(n), picked]
            of_others = [(bound, seen.told(landing, o[:n])) for bound, seen, o in others]
            return expected_gain(candidates.told(landing, z[:n]), of_others)

        return [
            gain(law, best[:count]) if count else 0.0
            for law, count in zip(laws, plays, strict=True)
        ]


def maximal_controls(controls: Sequence[Sequence[int]]) -> list[int]:
    """Indices of the control sets whose columns are part of no other's."""
    sets = [frozenset(columns) for columns in controls]
    return [i for i, columns in enumerate(sets) if not any(columns < other for other in sets)]


def _candidates(
    posterior: FunctionalPosterior,
    feasibility: Feasibility[FunctionalPosterior],
    laws: Sequence[NodesGiven],
    controls: Sequence[list[int]],
    regions: Sequence[Region],
    evaluated: Tensor,
    seed: int,
) -> Candidates:
    """Points of the largest control sets, all over the space and near the best ones."""
    tops = maximal_controls(controls)
    mean, _ = posterior.joint(evaluated)
    for bound, other in feasibility.outcomes:
        seen, covariance = other.joint(evaluated)
        log_probability = bound.log_probability(seen, _positive(covariance.diagonal()))
        mean = _infeasible_last(mean, log_probability >= _EVEN)
    near = evaluated[mean.topk(min(_NUM_NEAR, len(mean))).indices]
    spread = _NEAR * (regions[0].bounds[1] - regions[0].bounds[0])
    points, nodes, weights = [], [], []
    for top in tops:
        num_nodes = 1 if len(controls[top]) == evaluated.shape[-1] else _NUM_NODES
        count = max(1, min(_NUM_CANDIDATES, _MOST_NODES // num_nodes) // len(tops))
        of_set = raw_points(regions[top], count, near, spread, seed)
        found, weight = some_nodes(*laws[top](of_set), num_nodes)
        points.append(of_set)
        nodes.append(found.flatten(0, 1))
        weights += list(weight.unsqueeze(-1))
    membership = torch.block_diag(*weights)
    return Candidates(posterior, torch.cat(points), torch.cat(nodes), membership)


def _infeasible_last(values: Tensor, is_feasible: Tensor) -> Tensor:
    """Values ``m x ...`` with what is not feasible brought below all others."""
    return torch.where(is_feasible, values, values - (values.max() - values.min()))


def latent_knowledge_per_cost(
    posterior: ExactPosterior,
    optima: Tensor,
    others: Tensor,
    queries: Tensor,
    costs: Tensor,
    counts: Sequence[int],
    limit: float | None,
    seed: int,
    feasibility: Feasibility[ExactPosterior] = NO_BOUNDS,
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
        feasibility: Posteriors of further outcomes, with their bounds.
    """
    points = torch.cat([optima, others])
    with torch.no_grad():
        asked = [
            _Asked(one, queries, points, max(counts), seed + place)
            for place, one in enumerate([posterior, *(o for _, o in feasibility.outcomes)])
        ]
        told = torch.stack([one.part_told[:, : len(optima)] for one in asked]).sum(dim=0)
        best = (told / costs.unsqueeze(-1)).argmax(dim=0)

        def gain_per_cost(chosen: Tensor) -> float:
            cost = float(costs[chosen].sum())
            if limit is not None and cost > limit * (1 + _SLACK):
                return 0.0
            objective, *others = (one.told(chosen) for one in asked)
            bounds = (bound for bound, _ in feasibility.outcomes)
            of_others = list(zip(bounds, others, strict=True))
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
        self, posterior: ExactPosterior, queries: Tensor, points: Tensor, most: int, seed: int
    ) -> None:
        generator = torch.Generator().manual_seed(seed)
        z = torch.randn(most, _NUM_SAMPLES, generator=generator, dtype=torch.double)
        self._posterior, self._queries, self._z = posterior, queries, z.to(points)
        latent = posterior.latent
        self._moments = latent(points)
        beside = posterior.joint_with(latent.functionals(points))
        _, self._variance, self._cross = beside(queries)
        self._noise = posterior.noise_at(queries)

    @property
    def part_told(self) -> Tensor:
        """The part of the variance at each point that the answer of each query tells, ``n x m``."""
        told = self._cross.square() / (self._variance + self._noise).unsqueeze(-1)
        return told / self._moments[1]

    def told(self, chosen: Tensor) -> Told:
        """What the answers of chosen queries tell, by their indices."""
        noise = torch.diag(self._noise[chosen])
        outcomes = self._posterior.joint(self._queries[chosen])[1] + noise
        return Told(*self._moments, self._cross[chosen].mT, outcomes, self._z[: len(chosen)])

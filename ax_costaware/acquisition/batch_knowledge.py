r"""Batch knowledge gradient of trials whose outcomes are not what is deployed.

The query with the best expectation is deployed in the end. The values :math:`g` of candidates for
it have a joint Gaussian posterior with mean :math:`a`. Trials at realized points :math:`X` change
that mean to :math:`a + \tilde\Sigma Z` with

.. math:: \tilde\Sigma = \mathrm{Cov}[g, f(X)] \, L^{-\top}, \quad
   L L^\top = \mathrm{Cov}[f(X)] + s^2 I,

Their value is :math:`E \max(a + \tilde\Sigma Z) - \max a` (Wu and Frazier 2016, "The Parallel
Knowledge Gradient Method for Batch Bayesian Optimization"), in the unit of the objective. Each
trial sets its controlled inputs to the best candidate of a posterior sample of its own (Thompson
sampling); its uncontrolled inputs are drawn from their distribution.

With bounds on further outcomes, each with a model of its own, the value of a candidate is
:math:`P (a - a_{low})`: :math:`P` is its probability of being feasible, and :math:`a_{low}` the
least of the means. The same trials update the posteriors of all outcomes.

With queries that are answered by averages, the latent point with the best expectation is deployed,
which no query measures. An answer updates the points with which it is correlated. Each query is the
one that explains, per unit of cost, most of the variance at the optimum of a posterior sample of
its own.
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
"""Number of candidates, and the most nodes that they have together."""

_NUM_NODES = 8
"""Nodes of a candidate with uncontrolled inputs."""

_NUM_NEAR, _NEAR = 5, 0.1
"""Number of best evaluated points around which half of the candidates lie, and the standard
deviation of their distances, relative to the range of a column."""

_NUM_SAMPLES = 256
"""Samples of the outcomes of trials."""

_SLACK = 1e-9
"""Relative excess over a limit of cost that is rounding only."""

_ROUNDING = 1e-9
"""Least eigenvalue of a covariance that is not rounding, relative to the largest one."""

_EVEN = math.log(0.5)
"""Log probability above which a candidate counts as feasible in a posterior sample."""


class JointMoments(NamedTuple):
    """Joint Gaussian distribution of ``m`` values and the outcomes of ``n`` trials."""

    mean: Tensor
    """Means of the values, ``m``."""

    variance: Tensor
    """Their variances, ``m``."""

    cross: Tensor
    """Their covariances with the outcomes, ``m x n``."""

    outcomes: Tensor
    """Covariances of the outcomes, noise included, ``n x n``."""

    z: Tensor
    """``n x s`` standard normal numbers: base samples of the outcomes."""

    def updated(self) -> tuple[Tensor, Tensor]:
        """Return the means ``m x s`` and variances ``m x 1`` of the values given the outcomes."""
        unit = self.outcomes.diagonal().max().clamp_min(torch.finfo(self.mean.dtype).tiny)
        values, vectors = torch.linalg.eigh(self.outcomes / unit)
        scale = values.clamp_min(_ROUNDING * values[-1]).sqrt()
        moved = self.cross / unit.sqrt() @ vectors / scale
        variance = self.variance - moved.square().sum(dim=-1)
        return self.mean.unsqueeze(-1) + moved @ self.z, _positive(variance).unsqueeze(-1)


def _positive(variance: Tensor) -> Tensor:
    """Return variances, clamped above zero where rounding made them zero or negative."""
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
        """Means ``m`` and covariances ``m x m`` of the values of the queries."""
        mean, covariance = self.posterior.joint(self.nodes)
        return self.membership.mT @ mean, self.membership.mT @ covariance @ self.membership

    def samples(self, z: Tensor) -> Tensor:
        """Return samples ``m x n`` of the values for base samples ``m x n``."""
        mean, covariance = self.moments
        # By eigenvalues, since the covariance of points that are close together is singular;
        # relative to its scale, so that the objective's unit does not matter.
        unit = covariance.diagonal().max().clamp_min(torch.finfo(mean.dtype).tiny)
        values, vectors = torch.linalg.eigh(covariance / unit)
        samples = vectors @ (values.clamp_min(0.0).sqrt().unsqueeze(-1) * z)
        found: Tensor = mean.unsqueeze(-1) + unit.sqrt() * samples
        return found

    def joint_with(self, landing: Tensor, z: Tensor) -> JointMoments:
        """Return the joint distribution of the values and the outcomes of trials.

        Args:
            landing: ``n x d`` realized points of the trials.
            z: ``n x s`` base samples of their outcomes.
        """
        mean, covariance = self.moments
        r, n = len(self.nodes), len(landing)
        _, joint = self.posterior.joint(torch.cat([self.nodes, landing]))
        outcomes = joint[r:, r:] + self.posterior.noise * torch.eye(n).to(joint)
        cross = self.membership.mT @ joint[:r, r:]
        return JointMoments(mean, covariance.diagonal(), cross, outcomes, z)


def expected_gain(
    joint: JointMoments, others: Sequence[tuple[OutcomeConstraint, JointMoments]] = ()
) -> float:
    """Return the expected gain in the best of some values by the outcomes of trials.

    Args:
        joint: Values of the objective and outcomes.
        others: Bounds of each further outcome, and its own joint distribution.
    """
    now, (later, _) = joint.mean, joint.updated()
    if others:
        low = now.min()
        chance = torch.stack([b.log_probability(o.mean, _positive(o.variance)) for b, o in others])
        chance_later = torch.stack([b.log_probability(*o.updated()) for b, o in others])
        now = chance.sum(dim=0).exp() * (now - low)
        later = chance_later.sum(dim=0).exp() * (later - low)
    # The current best keeps its mean on average; subtracting it reduces the variance.
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
    """Return the expected gain in the value of the best query by trials of each control set.

    Args:
        posterior: The posterior of the objective, to be maximised.
        laws: Per control set, the nodes and weights of a query.
        controls: Per control set, the columns that it controls.
        regions: Per control set, the region of its values.
        evaluated: ``m x d`` evaluated points.
        plays: Per control set, the number of trials; 0 gives a gain of 0.
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
            of_others = [(bound, seen.joint_with(landing, o[:n])) for bound, seen, o in others]
            return expected_gain(candidates.joint_with(landing, z[:n]), of_others)

        return [
            gain(law, best[:count]) if count else 0.0
            for law, count in zip(laws, plays, strict=True)
        ]


def maximal_controls(controls: Sequence[Sequence[int]]) -> list[int]:
    """Return the indices of the control sets that are no proper subset of another one."""
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
    """Return candidates of the maximal control sets, over the space and near the best points."""
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
    """Return values ``m x ...`` with infeasible ones shifted below all others."""
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
    """Return the largest expected gain in the value of the best latent point per unit of cost.

    Args:
        posterior: The posterior of averages and latent points, to be maximised.
        optima: ``S x d`` optima of posterior samples.
        others: ``m x d`` further candidates for the best point, the current one among them.
        queries: ``n x p`` queries.
        costs: Their costs, ``n``.
        counts: Batch sizes over which the ratio is maximized.
        limit: Largest cost of a batch; None for no limit.
        seed: Seed of the samples of the answers.
        feasibility: Posteriors of further outcomes, with their bounds.
    """
    points = torch.cat([optima, others])
    with torch.no_grad():
        outcomes = [
            _QueryMoments(one, queries, points, max(counts), seed + place)
            for place, one in enumerate([posterior, *(o for _, o in feasibility.outcomes)])
        ]
        shares = torch.stack([one.explained_share[:, : len(optima)] for one in outcomes])
        best = (shares.sum(dim=0) / costs.unsqueeze(-1)).argmax(dim=0)

        def gain_per_cost(chosen: Tensor) -> float:
            cost = float(costs[chosen].sum())
            if limit is not None and cost > limit * (1 + _SLACK):
                return 0.0
            objective, *others = (one.joint_with(chosen) for one in outcomes)
            bounds = (bound for bound, _ in feasibility.outcomes)
            of_others = list(zip(bounds, others, strict=True))
            return expected_gain(objective, of_others) / cost

        single = [gain_per_cost(one.unsqueeze(0)) for one in best.unique()]
        several = [gain_per_cost(best[:count]) for count in counts if count > 1]
        return max([0.0, *single, *several])


class _QueryMoments:
    """Joint moments of an outcome at latent points and of the answers of queries.

    Args:
        posterior: The posterior of the outcome.
        queries: ``n x p`` queries.
        points: ``m x d`` points.
        most: Largest batch of queries.
        seed: Seed of the samples of the answers.
    """

    def __init__(
        self, posterior: ExactPosterior, queries: Tensor, points: Tensor, most: int, seed: int
    ) -> None:
        generator = torch.Generator().manual_seed(seed)
        z = torch.randn(most, _NUM_SAMPLES, generator=generator, dtype=torch.double)
        self._posterior, self._queries, self._z = posterior, queries, z.to(points)
        latent = posterior.latent
        self._moments = latent(points)
        joint_with_points = posterior.joint_with(latent.functionals(points))
        _, self._variance, self._cross = joint_with_points(queries)
        self._noise = posterior.noise_at(queries)

    @property
    def explained_share(self) -> Tensor:
        """Share of the variance at each point that the answer of each query explains, ``n x m``."""
        explained = self._cross.square() / (self._variance + self._noise).unsqueeze(-1)
        return explained / self._moments[1]

    def joint_with(self, chosen: Tensor) -> JointMoments:
        """Return the joint distribution with the answers of queries, chosen by their indices."""
        noise = torch.diag(self._noise[chosen])
        outcomes = self._posterior.joint(self._queries[chosen])[1] + noise
        return JointMoments(
            *self._moments, self._cross[chosen].mT, outcomes, self._z[: len(chosen)]
        )

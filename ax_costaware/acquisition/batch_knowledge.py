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
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from ax_costaware.acquisition.best_queries import maximal_controls
from ax_costaware.acquisition.objectives import some_nodes
from ax_costaware.acquisition.starts import SearchDomain, raw_points
from ax_costaware.models.point_posterior import PointPosterior
from ax_costaware.queries.joint.law import NodesGiven

_NUM_CANDIDATES, _MOST_NODES = 512, 1024
"""Candidates, as far as they have together no more nodes than that."""

_NUM_NODES = 8
"""Nodes of a candidate that leaves inputs to chance."""

_NUM_NEAR, _NEAR = 5, 0.1
"""Half of the candidates lie around so many of the best evaluated points, within that part of the
range of a column."""

_NUM_SAMPLES = 256
"""Samples of what the trials may come to."""

_ROUNDING = 1e-9
"""Directions in which outcomes vary by less of the largest variance tell nothing."""


@dataclass(frozen=True, eq=False)
class Candidates:
    """Queries of which one may turn out to be the best, and what is believed of their values.

    Attributes:
        posterior: The posterior of the objective, to be maximised.
        points: ``m x d`` points.
        nodes: ``r x d`` nodes of all queries.
        membership: ``r x m``: the weight of each node in each query.
    """

    posterior: PointPosterior
    points: Tensor
    nodes: Tensor
    membership: Tensor

    @cached_property
    def moments(self) -> tuple[Tensor, Tensor]:
        """Means ``m`` and covariances ``m x m`` of the values."""
        mean, covariance = self.posterior.joint(self.nodes)
        return self.membership.mT @ mean, self.membership.mT @ covariance @ self.membership

    def best_of_samples(self, z: Tensor) -> Tensor:
        """The best point, ``n x d``, of each sample of the values by normal numbers ``m x n``."""
        mean, covariance = self.moments
        # A factor of a covariance of points that are close together, in units that have no size.
        unit = covariance.diagonal().max().clamp_min(torch.finfo(mean.dtype).tiny)
        values, vectors = torch.linalg.eigh(covariance / unit)
        samples = vectors @ (values.clamp_min(0.0).sqrt().unsqueeze(-1) * z)
        return self.points[(mean.unsqueeze(-1) + unit.sqrt() * samples).argmax(dim=0)]

    def gain(self, landing: Tensor, z: Tensor) -> float:
        """How much trials are expected to add to the best value.

        Args:
            landing: ``n x d`` points where trials land.
            z: ``n x s`` normal numbers for what they come to.
        """
        mean, _ = self.moments
        r, n = len(self.nodes), len(landing)
        _, joint = self.posterior.joint(torch.cat([self.nodes, landing]))
        outcomes = joint[r:, r:] + self.posterior.noise * torch.eye(n).to(joint)
        return expected_gain(mean, self.membership.mT @ joint[:r, r:], outcomes, z)


def expected_gain(mean: Tensor, cross: Tensor, outcomes: Tensor, z: Tensor) -> float:
    """How much outcomes are expected to add to the best of some values.

    Args:
        mean: Means of the values, ``m``.
        cross: Their covariances with the outcomes, ``m x n``.
        outcomes: Covariances of the outcomes, noise included, ``n x n``.
        z: ``n x s`` normal numbers for what the outcomes come to.
    """
    unit = outcomes.diagonal().max().clamp_min(torch.finfo(mean.dtype).tiny)
    values, vectors = torch.linalg.eigh(outcomes / unit)
    scale = values.clamp_min(_ROUNDING * values[-1]).sqrt()
    after = mean.unsqueeze(-1) + cross / unit.sqrt() @ vectors / scale @ z
    # The best of now is the same on average: taking it off leaves less to chance.
    return float((after.max(dim=0).values - after[mean.argmax()]).mean())


def batch_knowledge(
    posterior: PointPosterior,
    laws: Sequence[NodesGiven],
    controls: Sequence[list[int]],
    domain: SearchDomain,
    evaluated: Tensor,
    plays: Sequence[int],
    seed: int,
) -> list[float]:
    """The expected gain in the value of the best query by trials of each control set.

    Args:
        posterior: The posterior of the objective, to be maximised.
        laws: Per control set, the nodes and weights of a query.
        controls: Per control set, the columns that it controls.
        domain: What the columns of a point may be.
        evaluated: ``m x d`` evaluated points.
        plays: Per control set, how many trials; 0: none, which gain nothing.
        seed: Seed of the candidates and of all samples.

    Returns:
        The gains, in units of the objective.

    Raises:
        UnsupportedInputError: If the model gives no joint Gaussian posterior.
    """
    generator = torch.Generator().manual_seed(seed)
    most = max(plays, default=0)

    def normal(rows: int, columns: int) -> Tensor:
        return torch.randn(rows, columns, generator=generator, dtype=torch.double).to(evaluated)

    with torch.no_grad():
        candidates = _candidates(posterior, laws, controls, domain, evaluated, seed)
        best = candidates.best_of_samples(normal(len(candidates.points), most))
        z = normal(most, _NUM_SAMPLES)
        return [
            candidates.gain(_landing(law, best[:count], generator), z[:count]) if count else 0.0
            for law, count in zip(laws, plays, strict=True)
        ]


def _candidates(
    posterior: PointPosterior,
    laws: Sequence[NodesGiven],
    controls: Sequence[list[int]],
    domain: SearchDomain,
    evaluated: Tensor,
    seed: int,
) -> Candidates:
    """Points of the largest control sets, all over the space and near the best ones."""
    tops = maximal_controls(controls)
    mean, _ = posterior.joint(evaluated)
    near = evaluated[mean.topk(min(_NUM_NEAR, len(mean))).indices]
    spread = _NEAR * (domain.bounds[1] - domain.bounds[0])
    points, nodes, weights = [], [], []
    for top in tops:
        num_nodes = 1 if len(controls[top]) == domain.bounds.shape[-1] else _NUM_NODES
        count = max(1, min(_NUM_CANDIDATES, _MOST_NODES // num_nodes) // len(tops))
        of_set = raw_points(domain, controls[top], count, near, spread, seed)
        found, weight = some_nodes(*laws[top](of_set), num_nodes)
        points.append(of_set)
        nodes.append(found.flatten(0, 1))
        weights += list(weight.unsqueeze(-1))
    membership = torch.block_diag(*weights)
    return Candidates(posterior, torch.cat(points), torch.cat(nodes), membership)


def _landing(law: NodesGiven, points: Tensor, generator: torch.Generator) -> Tensor:
    """Where one trial at each of ``n x d`` points lands: one of its nodes."""
    nodes, weights = law(points)
    picked = torch.multinomial(weights.cpu(), 1, generator=generator).squeeze(-1)
    return nodes[torch.arange(len(points)), picked]

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

import torch
from torch import Tensor

from ax_costaware.acquisition.best_queries import maximal_controls
from ax_costaware.acquisition.node_moments import FactoredNodes, ModelNodes
from ax_costaware.acquisition.objectives import some_nodes
from ax_costaware.acquisition.starts import SearchDomain, raw_points
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


def batch_knowledge(
    posterior: FactoredNodes | ModelNodes,
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
    with torch.no_grad():
        points, nodes, membership = _candidates(posterior, laws, controls, domain, evaluated, seed)
        mean, covariance = posterior.joint(nodes)
        covariance = membership.mT @ covariance @ membership
        # In units of the largest deviation, so that what counts as rounding has no unit.
        unit = covariance.diagonal().max().clamp_min(torch.finfo(mean.dtype).tiny).sqrt()
        a = membership.mT @ (mean / unit)
        values, vectors = torch.linalg.eigh(covariance / unit.square())
        most = max(plays, default=0)
        z = torch.randn(len(a), most, generator=generator, dtype=torch.double).to(a)
        draws = a.unsqueeze(-1) + vectors @ (values.clamp_min(0.0).sqrt().unsqueeze(-1) * z)
        best = points[draws.argmax(dim=0)]
        z = torch.randn(most, _NUM_SAMPLES, generator=generator, dtype=torch.double).to(a)
        gains = []
        for law, count in zip(laws, plays, strict=True):
            if not count:
                gains.append(0.0)
                continue
            landing = _landing(law, best[:count], generator)
            _, joint = posterior.joint(torch.cat([nodes, landing]))
            cross = membership.mT @ joint[: len(nodes), len(nodes) :] / unit.square()
            among = joint[len(nodes) :, len(nodes) :] + posterior.noise * torch.eye(count).to(a)
            values, vectors = torch.linalg.eigh(among / unit.square())
            change = cross @ vectors / values.clamp_min(_ROUNDING * values[-1]).sqrt()
            after = a.unsqueeze(-1) + change @ z[:count]
            # The best of now is the same on average: taking it off leaves less to chance.
            gain = (after.max(dim=0).values - after[a.argmax()]).mean()
            gains.append(float(unit * gain))
    return gains


def _candidates(
    posterior: FactoredNodes | ModelNodes,
    laws: Sequence[NodesGiven],
    controls: Sequence[list[int]],
    domain: SearchDomain,
    evaluated: Tensor,
    seed: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Candidates ``m x d``, nodes of all ``r x d``, and the weight of each in each, ``r x m``."""
    tops = maximal_controls(controls)
    mean, _ = posterior.joint(evaluated)
    near = evaluated[mean.topk(min(_NUM_NEAR, len(mean))).indices]
    spread = _NEAR * (domain.bounds[1] - domain.bounds[0])
    points, nodes, weights = [], [], []
    for top in tops:
        num_nodes = 1 if len(controls[top]) == domain.bounds.shape[-1] else _NUM_NODES
        count = min(_NUM_CANDIDATES, _MOST_NODES // num_nodes)
        of_set = raw_points(domain, controls[top], max(1, count // len(tops)), near, spread, seed)
        found, weight = some_nodes(*laws[top](of_set), num_nodes)
        points.append(of_set)
        nodes.append(found.flatten(0, 1))
        weights += list(weight.unsqueeze(-1))
    return torch.cat(points), torch.cat(nodes), torch.block_diag(*weights)


def _landing(law: NodesGiven, points: Tensor, generator: torch.Generator) -> Tensor:
    """Where one trial at each of ``n x d`` points lands: one of its nodes."""
    nodes, weights = law(points)
    picked = torch.multinomial(weights.cpu(), 1, generator=generator).squeeze(-1)
    return nodes[torch.arange(len(points)), picked]

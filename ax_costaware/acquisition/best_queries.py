"""Samples of the query with the best expectation, by maximising posterior samples of the function.

The best value over all control sets is reached on one that is part of no other, so these alone are
searched. All samples are searched in one batch where the kernel is a product over its inputs.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ax_costaware.acquisition.conditional_objective import (
    ConditionalObjective,
    FactoredNodes,
    part_of,
)
from ax_costaware.acquisition.control_set_search import ControlSetOptima, ControlSetSearch
from ax_costaware.acquisition.information import BestQueries, FixedNodes
from ax_costaware.acquisition.objectives import FastObjective, FourierPath
from ax_costaware.acquisition.partial_query import PartialQuery
from ax_costaware.acquisition.starts import SearchDomain
from ax_costaware.models.cached_posterior import CachedPosterior
from ax_costaware.queries.joint.law import NodesGiven

NUM_SAMPLES = 12
"""Samples of the best query."""

# Effort of one search; where a sample's optimum is missed, another good point takes its place.
_NUM_RESTARTS = 4
_RAW_SAMPLES = 256

# Nodes that stand for the law of a best query that leaves inputs to chance.
_NUM_NODES = 64


def maximal_controls(controls: Sequence[Sequence[int]]) -> list[int]:
    """Indices of the control sets whose columns are part of no other's."""
    sets = [frozenset(columns) for columns in controls]
    return [i for i, columns in enumerate(sets) if not any(columns < other for other in sets)]


def sample_best_queries(
    posterior: CachedPosterior,
    given: Sequence[NodesGiven],
    controls: Sequence[list[int]],
    domain: SearchDomain,
    lengths: Tensor,
    near: Tensor,
    seed: int,
    num_samples: int = NUM_SAMPLES,
) -> BestQueries:
    """Draw best queries and prepare them against the posterior.

    Args:
        posterior: The posterior, whose kernel has Fourier features.
        given: Per control set, the nodes and weights of a query.
        controls: Per control set, the columns that it controls.
        domain: Where to search.
        lengths: ``d`` lengths over which the function varies.
        near: ``n x d`` points near which maxima may lie.
        seed: Seed of the samples.
        num_samples: How many.
    """
    tops = maximal_controls(controls)
    columns = [controls[i] for i in tops]
    laws = [given[i] for i in tops]
    paths = [FourierPath.draw(posterior, seed + i) for i in range(num_samples)]
    optima = _optima(posterior, laws, columns, paths, domain, lengths, near, seed)
    values = optima.values.reshape(num_samples, len(tops))
    chosen = values.argmax(dim=-1)
    rows = torch.arange(num_samples) * len(tops) + chosen
    points = optima.points[rows]
    queries = []
    for point, index in zip(points, chosen.tolist(), strict=True):
        nodes, weights = laws[index](point.unsqueeze(0))
        queries.append(_thinned(nodes[0], weights[0]))
    bounds = None
    if all(len(held) == domain.bounds.shape[-1] for held in columns):
        bounds = (values.max(dim=-1).values - posterior.offset) / posterior.scale
    return BestQueries.prepare(posterior, points, queries, bounds)


def _optima(
    posterior: CachedPosterior,
    laws: Sequence[NodesGiven],
    controls: Sequence[list[int]],
    paths: Sequence[FourierPath],
    domain: SearchDomain,
    lengths: Tensor,
    near: Tensor,
    seed: int,
) -> ControlSetOptima:
    """The optimum of every control set under every sample, samples first."""
    kernel = posterior.separable
    fixed = [law for law in laws if isinstance(law, FixedNodes)]
    if kernel is not None and len(fixed) == len(laws):
        queries = [
            PartialQuery.prepare(posterior, kernel, list(law.controlled), law.nodes, law.weights)
            for law in fixed
        ]
        nodes = posterior.transform(fixed[0].nodes.to(posterior.X))
        objective = FastObjective(
            posterior=posterior,
            kernel=kernel,
            queries=queries * len(paths),
            acquisition="ts",
            beta=0.0,
            best_f=0.0,
            paths=[path.expected(query, nodes) for path in paths for query in queries],
        )
        search = ControlSetSearch(objective, domain, [*controls] * len(paths), lengths)
        return search.run(near, _NUM_RESTARTS, _RAW_SAMPLES, seed)
    parts = []
    for path in paths:
        with torch.no_grad():
            sizes = [law(domain.bounds.mean(dim=0, keepdim=True))[0].shape[1] for law in laws]
        sampled = ConditionalObjective(FactoredNodes(posterior, path), laws, sizes, "ts")
        search = ControlSetSearch(sampled, domain, controls, lengths)
        parts.append(search.run(near, _NUM_RESTARTS, _RAW_SAMPLES, seed))
    return ControlSetOptima(
        torch.cat([part.points for part in parts]), torch.cat([part.values for part in parts])
    )


def _thinned(nodes: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    part = part_of(len(weights), _NUM_NODES)
    if part is None:
        return nodes, weights
    kept = weights[part] + torch.finfo(weights.dtype).tiny
    return nodes[part], kept / kept.sum()

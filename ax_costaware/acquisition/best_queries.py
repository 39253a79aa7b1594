"""Samples of the query with the best expectation, by maximising posterior samples of the function.

The best value over all control sets is reached on one that is part of no other, so these alone are
searched. All samples are searched in one batch where the kernel is a product over its inputs.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ax_costaware.acquisition.control_set_search import ControlSetSearch
from ax_costaware.acquisition.criteria import MEAN
from ax_costaware.acquisition.fourier_path import FourierPath
from ax_costaware.acquisition.information import BestQueries
from ax_costaware.acquisition.node_moments import FactoredNodes
from ax_costaware.acquisition.objectives import (
    ControlSetObjective,
    NodeObjective,
    ProductObjective,
    near_and_lengths,
    some_nodes,
)
from ax_costaware.acquisition.partial_query import FixedNodes, PartialQuery
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
    seed: int,
    num_samples: int = NUM_SAMPLES,
) -> BestQueries:
    """Draw best queries and prepare them against the posterior.

    Args:
        posterior: The posterior, whose kernel has Fourier features.
        given: Per control set, the nodes and weights of a query.
        controls: Per control set, the columns that it controls.
        domain: Where to search.
        seed: Seed of the samples.
        num_samples: How many.
    """
    tops = maximal_controls(controls)
    columns = [controls[i] for i in tops]
    laws = [given[i] for i in tops]
    paths = [FourierPath.draw(posterior, seed + i) for i in range(num_samples)]
    objectives = _sampled_objectives(posterior, laws, paths)
    near, lengths = near_and_lengths(FactoredNodes(posterior), domain.bounds)
    # All samples in one search, or a search for each.
    together = columns * (num_samples // len(objectives))
    optima = [
        ControlSetSearch(objective, domain, together, lengths).run(
            near, _NUM_RESTARTS, _RAW_SAMPLES, seed
        )
        for objective in objectives
    ]
    values = torch.cat([found.values for found in optima]).reshape(num_samples, len(tops))
    chosen = values.argmax(dim=-1)
    rows = torch.arange(num_samples) * len(tops) + chosen
    points = torch.cat([found.points for found in optima])[rows]
    queries = []
    for point, index in zip(points, chosen.tolist(), strict=True):
        nodes, weights = laws[index](point.unsqueeze(0))
        nodes, weights = some_nodes(nodes, weights, _NUM_NODES)
        queries.append((nodes[0], weights[0]))
    bounds = None
    if all(len(held) == domain.bounds.shape[-1] for held in columns):
        bounds = (values.max(dim=-1).values - posterior.offset) / posterior.scale
    return BestQueries.prepare(posterior, points, queries, bounds)


def _sampled_objectives(
    posterior: CachedPosterior, laws: Sequence[NodesGiven], paths: Sequence[FourierPath]
) -> Sequence[ControlSetObjective]:
    """The values of queries under samples: one objective for all samples, or one for each."""
    kernel = posterior.separable
    fixed = [law for law in laws if isinstance(law, FixedNodes)]
    if kernel is None or len(fixed) < len(laws):
        return [NodeObjective(laws, FactoredNodes(posterior, path), MEAN) for path in paths]
    queries = [PartialQuery.prepare(posterior, kernel, law) for law in fixed]
    return [ProductObjective([query.sampled(path) for path in paths for query in queries], MEAN)]

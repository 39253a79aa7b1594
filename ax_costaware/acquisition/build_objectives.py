"""The objectives of a search over control sets, and what the search has to know of their posterior.

Control sets whose nodes do not depend on the point are prepared once, where the kernel is a product
over its inputs; all others are read off their nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from ax_costaware.acquisition.criteria import Criterion
from ax_costaware.acquisition.node_moments import FactoredNodes, NodePosterior
from ax_costaware.acquisition.objectives import (
    ControlSetObjective,
    NodeObjective,
    ProductObjective,
)
from ax_costaware.acquisition.partial_query import FixedNodes, PartialQuery
from ax_costaware.models.block_sums import BlockSums
from ax_costaware.models.separable_kernel import SeparableKernel
from ax_costaware.queries.joint.law import NodesGiven
from ax_costaware.queries.nodes import ProductNodes

# Doubles held for prepared control sets at once (32 MiB), so that memory does not grow with their
# number: each needs an n x n matrix and its nodes' kernel values.
MAX_PREPARED_ELEMENTS = 2**22


def build_objectives(
    posterior: NodePosterior,
    laws: Sequence[NodesGiven],
    criterion: Criterion,
    product: ProductNodes | None = None,
) -> Iterator[tuple[list[int], ControlSetObjective]]:
    """Objectives that together serve all control sets, one after the other to save memory.

    Args:
        posterior: What the moments of the queries are read from.
        laws: For each control set, the nodes and weights of its queries.
        criterion: What is maximised.
        product: One-dimensional rules of independent inputs, which make exact what is linear.

    Returns:
        The indices of control sets that are searched together, and their objective.
    """
    fixed: dict[int, FixedNodes] = {}
    if isinstance(posterior, FactoredNodes) and posterior.posterior.separable is not None:
        fixed = {index: law for index, law in enumerate(laws) if isinstance(law, FixedNodes)}
        yield from _prepared(posterior, posterior.posterior.separable, fixed, criterion, product)
    others = [index for index in range(len(laws)) if index not in fixed]
    if others:
        yield others, NodeObjective([laws[index] for index in others], posterior, criterion)


def _prepared(
    posterior: FactoredNodes,
    kernel: SeparableKernel,
    laws: dict[int, FixedNodes],
    criterion: Criterion,
    product: ProductNodes | None,
) -> Iterator[tuple[list[int], ControlSetObjective]]:
    """The objectives of control sets by their indices, on a product kernel."""
    if not laws:
        return
    cached, path = posterior.posterior, posterior.path
    indices, any_law = list(laws), next(iter(laws.values()))
    blocks = None
    # The two parts of a posterior sample cancel at the data, so both have to be averaged by one
    # rule, and that of the Fourier features is the joint nodes.
    if product is not None and path is None:
        blocks = BlockSums.prepare(cached, kernel, product, any_law.nodes[0].to(cached.X))
    n = len(cached.X)
    size = max(1, MAX_PREPARED_ELEMENTS // (n * (n + len(any_law.weights))))
    for start in range(0, len(indices), size):
        part = indices[start : start + size]
        queries = [PartialQuery.prepare(cached, kernel, laws[index], blocks) for index in part]
        if path is not None:
            queries = [query.sampled(path) for query in queries]
        yield part, ProductObjective(queries, criterion)


def near_and_lengths(posterior: NodePosterior, bounds: Tensor) -> tuple[Tensor, Tensor]:
    """What a search has to know of a function.

    Returns:
        ``n x d`` points near which maxima may lie; and ``d`` lengths over which the function
        varies, at most half the range of a column.
    """
    span = (bounds[1] - bounds[0]).clamp_min(torch.finfo(bounds.dtype).eps)
    if not isinstance(posterior, FactoredNodes) or posterior.posterior.separable is None:
        return bounds[:0], 0.2 * span
    kernel = posterior.posterior.separable
    transformed = posterior.posterior.transform(bounds)
    stretch = (transformed[1] - transformed[0]).abs() / span
    lengths = (kernel.inverse_lengthscale * stretch).clamp_min(1e-6 / span).reciprocal()
    for column, lengthscale, _ in kernel.matern:
        lengths[column] = lengthscale / stretch[column].clamp_min(1e-6)
    return posterior.observed, torch.minimum(lengths, 0.5 * span)

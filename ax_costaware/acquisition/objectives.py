r"""Objectives of partial queries: functions of the values of control sets, for all sets at once.

- ``ControlSetObjective``: the interface, from rows of points, each with the index of its control
  set, to values.
- ``ProductObjective``: for GPs with a product kernel, whose random part is computed once.
- ``NodeObjective``: for any other model, by the nodes of the points.
- ``build_objectives``: makes them for all control sets.
- ``weighted_objective``: weights values by the probability of being feasible.
- ``QueryCosts``: divides values by costs, and penalizes costs beyond a limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from ax_costaware.acquisition.criteria import Criterion, LogProbability
from ax_costaware.acquisition.feasibility import Feasibility
from ax_costaware.acquisition.partial_query import (
    PartialQueries,
    PartialQuery,
    QueryNodes,
    rows_by_set,
)
from ax_costaware.laws import ProductNodes
from ax_costaware.laws.joint.law import NodesGiven
from ax_costaware.models.expectation import BlockSums
from ax_costaware.models.posterior import ExactPosterior, FunctionalPosterior
from ax_costaware.models.rowwise import CHUNK_ELEMENTS, in_chunks

# Added to each weight of a subset of nodes before normalization, so that a subset whose weights
# are all zero has equal weights.
_LEAST_WEIGHT = 1e-12

# Doubles held for prepared control sets at once (32 MiB), so that memory does not grow with their
# number: each needs an n x n matrix and its nodes' kernel values.
MAX_PREPARED_ELEMENTS = 2**22


class ControlSetObjective(Protocol):
    """Values of points under the control sets they belong to."""

    def __call__(self, X: Tensor, sets: Tensor, coarse: bool = False) -> Tensor:
        """Evaluate.

        Args:
            X: ``p x d`` points in the model's input space; random columns are ignored.
            sets: ``p`` indices of control sets.
            coarse: True for a cheaper approximation, for screening.

        Returns:
            ``p`` values, differentiable with respect to ``X``.
        """


@dataclass(frozen=True, eq=False)
class ProductObjective:
    """Criterion on a cached factor with a product kernel.

    Attributes:
        queries: One prepared partial query per control set.
        criterion: The criterion that is maximised.
    """

    queries: PartialQueries
    criterion: Criterion

    def __call__(self, X: Tensor, sets: Tensor, coarse: bool = False) -> Tensor:
        """Evaluate; see ``ControlSetObjective``."""
        t = self.queries.posterior.transform(X)
        return self.criterion(*self.queries.moments(t, sets, self.criterion.spread, coarse))


@dataclass(frozen=True, eq=False)
class NodeObjective:
    """Criterion on the nodes of points, which may depend on the points.

    Attributes:
        laws: For each control set, its nodes and weights.
        posterior: The posterior of the moments.
        criterion: The criterion that is maximised.
    """

    laws: Sequence[NodesGiven]
    posterior: FunctionalPosterior
    criterion: Criterion
    _sizes: dict[int, int] = field(default_factory=dict, init=False, repr=False)

    def __call__(self, X: Tensor, sets: Tensor, coarse: bool = False) -> Tensor:
        """Evaluate; see ``ControlSetObjective``."""
        values = torch.zeros_like(X[:, 0])
        most = self.posterior.most_nodes[coarse]
        for index, rows in rows_by_set(sets):

            def value(points: Tensor, law: NodesGiven = self.laws[index]) -> Tensor:
                nodes, weights = some_nodes(*law(points), most)
                moments = self.posterior.moments(nodes, weights, self.criterion.spread)
                return self.criterion(*moments)

            size = self._num_nodes(index, X[rows[:1]])
            size = size if most is None else min(size, most)
            step = max(1, CHUNK_ELEMENTS // (size * max(size, self.posterior.width)))
            values = values.index_put((rows,), in_chunks(X[rows], value, step))
        return values

    def _num_nodes(self, index: int, point: Tensor) -> int:
        """Return the number of nodes of a control set at any point."""
        if index not in self._sizes:
            with torch.no_grad():
                self._sizes[index] = self.laws[index](point)[0].shape[1]
        return self._sizes[index]


def some_nodes(nodes: Tensor, weights: Tensor, most: int | None) -> tuple[Tensor, Tensor]:
    """Return at most ``most`` of nodes ``p x m x d``, with weights ``p x m`` that sum to one.

    The subset is random: the first ones would not do, as rows of a table may be ordered, nor every
    k-th one, as those of a Sobol sequence lie in one corner.
    """
    num_nodes = nodes.shape[1]
    if most is None or num_nodes <= most:
        return nodes, weights
    shuffled = torch.randperm(num_nodes, generator=torch.Generator().manual_seed(0))
    part = shuffled[:most].sort().values
    chosen = weights[:, part] + _LEAST_WEIGHT
    return nodes[:, part], chosen / chosen.sum(dim=-1, keepdim=True)


def build_objectives(
    posterior: FunctionalPosterior,
    laws: Sequence[NodesGiven],
    criterion: Criterion,
    product: ProductNodes | None = None,
) -> Iterator[tuple[list[int], ControlSetObjective]]:
    """Yield objectives that together serve all control sets, one at a time to save memory.

    Args:
        posterior: The posterior of the moments of the queries.
        laws: For each control set, the nodes and weights of its queries.
        criterion: The criterion that is maximised.
        product: One-dimensional rules of independent inputs, which make exact what is linear.

    Yields:
        The indices of control sets that are searched together, and their objective.
    """
    fixed: dict[int, QueryNodes] = {}
    if isinstance(posterior, ExactPosterior) and posterior.factor.separable is not None:
        fixed = {index: law for index, law in enumerate(laws) if isinstance(law, QueryNodes)}
    if fixed:
        assert isinstance(posterior, ExactPosterior)
        cached, path = posterior.factor, posterior.path
        indices, any_law = list(fixed), next(iter(fixed.values()))
        blocks = None
        # The prior sample and the update of a posterior sample cancel at the data, so one rule has
        # to average both. The Fourier features of the prior sample use the joint nodes.
        if product is not None and path is None:
            blocks = BlockSums(cached, product, any_law.base[0].to(cached.X))
        n = len(cached.X)
        size = max(1, MAX_PREPARED_ELEMENTS // (n * (n + len(any_law.weights))))
        for start in range(0, len(indices), size):
            part = indices[start : start + size]
            queries = [PartialQuery(cached, fixed[index], blocks) for index in part]
            if path is not None:
                queries = [query.sampled(path) for query in queries]
            yield part, ProductObjective(PartialQueries(queries), criterion)
    others = [index for index in range(len(laws)) if index not in fixed]
    if others:
        yield others, NodeObjective([laws[index] for index in others], posterior, criterion)


def near_and_lengths(posterior: FunctionalPosterior, bounds: Tensor) -> tuple[Tensor, Tensor]:
    """Return starting points and length-scales for a search.

    Returns:
        ``n x d`` points near which maxima may lie; and ``d`` lengths over which the function
        varies, at most half the range of a column.
    """
    span = (bounds[1] - bounds[0]).clamp_min(torch.finfo(bounds.dtype).eps)
    if not isinstance(posterior, ExactPosterior) or posterior.factor.separable is None:
        return bounds[:0], 0.2 * span
    kernel = posterior.factor.separable
    transformed = posterior.factor.transform(bounds)
    stretch = (transformed[1] - transformed[0]).abs() / span
    lengths = (kernel.inverse_lengthscale * stretch).clamp_min(1e-6 / span).reciprocal()
    for column, lengthscale, _ in kernel.matern:
        lengths[column] = lengthscale / stretch[column].clamp_min(1e-6)
    return posterior.observed, torch.minimum(lengths, 0.5 * span)


def log_probability_of_queries(
    feasibility: Feasibility[FunctionalPosterior],
    laws: Sequence[NodesGiven],
    product: ProductNodes | None,
) -> ControlSetObjective:
    """Return the log probability that expectations of the constrained outcomes meet their bounds.

    The expectation is over the uncontrolled inputs of a query: a linear functional, so Gaussian.
    See ``build_objectives`` for the other arguments.
    """
    parts = [
        list(build_objectives(moments, laws, LogProbability(bound.log_probability), product))
        for bound, moments in feasibility.outcomes
    ]

    def total(X: Tensor, sets: Tensor, coarse: bool = False) -> Tensor:
        return torch.stack([_joined(part, X, sets, coarse) for part in parts]).sum(dim=0)

    return total


def weighted_objective(
    objective: ControlSetObjective,
    log_probability: ControlSetObjective,
    weighted: Callable[[Tensor, Tensor], Tensor],
) -> ControlSetObjective:
    """Return values of queries, weighted by their probability of being feasible."""

    def weighted_value(X: Tensor, sets: Tensor, coarse: bool = False) -> Tensor:
        return weighted(objective(X, sets, coarse), log_probability(X, sets, coarse))

    return weighted_value


_COST_MARGIN = 0.02
"""Width of the penalty's rise below the limit, in log cost."""


@dataclass(frozen=True, eq=False)
class QueryCosts:
    r"""Value per cost of queries whose cost depends on the values that are set.

    A query of value :math:`v` and cost :math:`c` has the value :math:`(v - v_{low}) / c`, or the
    log of it if values are logarithms. Beyond a limit of the cost, a smooth penalty is subtracted.
    It begins just below the limit and becomes linear in the log of the cost, so that a search has a
    slope everywhere.
    """

    log_costs: Sequence[Callable[[Tensor], Tensor] | None]
    """For each control set the log of the cost of points ``n x d``; None where it is constant."""

    least: float | None = 0.0
    """Baseline :math:`v_{low}` that is subtracted; None if values are logarithms."""

    per_cost: bool = True
    """True to divide by the cost; else costs only matter beyond the limit."""

    log_limit: float | None = None
    """Log of the largest affordable cost; None for no limit."""

    penalties: Sequence[float] = ()
    """With a limit, for each control set the penalty at the limit."""

    def of(self, objective: ControlSetObjective, indices: Sequence[int]) -> ControlSetObjective:
        """Return the objective per cost.

        Args:
            objective: The objective without costs.
            indices: Indices of the control sets that it serves.
        """

        def value_per_cost(X: Tensor, sets: Tensor, coarse: bool = False) -> Tensor:
            values = objective(X, sets, coarse)
            for place, rows in rows_by_set(sets):
                index = indices[place]
                log_cost = self.log_costs[index]
                if log_cost is not None:
                    changed = self._per_cost(values[rows], log_cost(X[rows]), index)
                    values = values.index_put((rows,), changed)
            return values

        return value_per_cost

    def _per_cost(self, value: Tensor, log_cost: Tensor, index: int) -> Tensor:
        if self.per_cost:
            if self.least is None:
                value = value - log_cost
            else:
                value = (value - self.least) * (-log_cost).exp()
        if self.log_limit is None:
            return value
        excess = ((log_cost - self.log_limit) / _COST_MARGIN + 1.0).clamp_min(0.0)
        growth = torch.where(excess < 1.0, excess.square(), 2.0 * excess - 1.0)
        return value - self.penalties[index] * growth


def _joined(
    parts: Sequence[tuple[list[int], ControlSetObjective]], X: Tensor, sets: Tensor, coarse: bool
) -> Tensor:
    """Return values of rows of any control sets, by objectives that together serve all of them."""
    values = torch.zeros_like(X[:, 0])
    for indices, objective in parts:
        is_its = sets.unsqueeze(-1) == sets.new_tensor(indices)
        rows = is_its.any(dim=-1).nonzero().flatten()
        if len(rows):
            places = is_its[rows].int().argmax(dim=-1)
            values = values.index_put((rows,), objective(X[rows], places, coarse))
    return values

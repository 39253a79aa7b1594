r"""GP posterior of a partial query, with the part of the uncontrolled inputs precomputed.

A partial query controls the columns :math:`C`; the columns :math:`R` are random. For a product
kernel :math:`k = s\, k_C k_R` the part of the random inputs does not depend on the controlled
values. With training inputs :math:`X`, and nodes :math:`z_j` and weights :math:`w_j` of the random
inputs,

* :math:`E\,f = m + s \sum_n k_C(x, X_n)\, \bar k_R(X_n)\, \alpha_n` with
  :math:`\bar k_R = \sum_j w_j k_R(z_j, \cdot)`: one plain GP evaluation whatever the nodes;
* :math:`\mathrm{Var}\,[E f] = s \bar{\bar k}_R - v^\top (K + \Sigma)^{-1} v` with
  :math:`v = s\, k_C \bar k_R`;
* :math:`E\,\sigma = \sum_j w_j \sigma(x, z_j)` is not linear and needs the nodes. All of them
  together take one matrix product, which also gives the gradient with respect to :math:`k_C`.

Everything is on the latent scale of the GP (see ``GPFactor``). Source: Tay et al. 2023,
*Bayesian Optimization with Cost-varying Variable Subsets*, section 4.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from functools import cached_property

import torch
from torch import Tensor

from ax_costaware.laws.joint.law import FixedNodes
from ax_costaware.models.expectation import BlockSums
from ax_costaware.models.factor import GPFactor
from ax_costaware.models.fourier_path import FourierPath
from ax_costaware.models.posterior import Spread
from ax_costaware.models.rowwise import (
    CHUNK_ELEMENTS,
    MIN_RELATIVE_VARIANCE,
    left_of,
    quadratic_form,
    remaining_variance,
    rowwise,
)


class QueryNodes(FixedNodes):
    """The nodes of a partial query: a single one where it controls all columns."""

    def __call__(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Return nodes ``p x m x d`` and weights ``p x m``; one node without random columns."""
        if len(self.columns) == points.shape[-1]:
            return points.unsqueeze(-2), torch.ones_like(points[:, :1])
        return super().__call__(points)


class PartialQuery:
    r"""One control set under one posterior, with the random part of the kernel precomputed.

    Args:
        posterior: The posterior, whose kernel is a product.
        law: The controlled columns, and the nodes of the random ones; only the first node is used
            if all columns are controlled.
        blocks: The one-dimensional sums of independent inputs, which make the linear parts exact to
            rounding; None: the joint nodes.

    Attributes:
        mask: ``d``-tensor, one for a controlled column and zero for a random one.
        points: ``m x d`` nodes, transformed.
        weights: ``m`` weights of the nodes, summing to one.
        nodes: ``m x n``: the random part of the kernel between each node and the training inputs,
            times the output scale.
        mean_factor: ``n``: the output scale times :math:`\bar k_R`.
        prior_variance: The prior variance of :math:`E f`.
        path: Expectation of a posterior sample, which replaces the mean.
    """

    path: FourierPath | None = None

    def __init__(
        self, posterior: GPFactor, law: QueryNodes, blocks: BlockSums | None = None
    ) -> None:
        kernel, num_inputs = posterior.separable, posterior.num_inputs
        columns = list(law.columns)
        assert kernel is not None
        nodes, weights = law.base.to(posterior.X), law.weights.to(posterior.X)
        if len(columns) == num_inputs:
            nodes, weights, blocks = nodes[:1], torch.ones_like(weights[:1]), None
        self.posterior, self.kernel, self.weights = posterior, kernel, weights
        self.mask = torch.zeros(num_inputs).to(posterior.X)
        self.mask[columns] = 1.0
        with torch.no_grad():
            self.points = posterior.transform(nodes)
            factors = kernel.log_factor(self.points, posterior.X, 1.0 - self.mask).exp()
            linear = None if blocks is None else blocks.combine(columns, num_inputs)
            if linear is None:
                among = kernel.log_factor(self.points, self.points, 1.0 - self.mask).exp()
                linear = weights @ factors, weights @ among @ weights
        mean_factor, variance = linear
        self.nodes = kernel.outputscale * factors
        self.mean_factor = kernel.outputscale * mean_factor
        self.prior_variance = kernel.outputscale * variance

    @cached_property
    def mean_weights(self) -> Tensor:
        """``n`` weights of the controlled part of the kernel in the mean."""
        return self.mean_factor * self.posterior.alpha

    def sampled(self, path: FourierPath) -> PartialQuery:
        """Return the query with a posterior sample in place of the mean."""
        query = copy(self)
        query.path = path.expected(self.mask, self.points, self.weights, self.mean_factor)
        return query

    @cached_property
    def _explained(self) -> Tensor:
        """``n x n`` inverse times the expected products of the random part of the kernel."""
        return self.posterior.inverse * ((self.nodes.mT * self.weights) @ self.nodes)

    def coarsely_explained(
        self, rows: Tensor, needs_gradient: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Return the explained part of the mean latent variance; see ``expected_std``.

        ``sqrt(E[variance])`` needs one quadratic form for any number of nodes. It is an upper bound
        of ``E[sqrt(variance)]``, with maxima close to those of the latter.
        """
        return quadratic_form(self._explained)(rows, needs_gradient)

    def expected_std(self, rows: Tensor, needs_gradient: bool) -> tuple[Tensor, Tensor | None]:
        """Return latent ``sum_j w_j sqrt(s - k_j' A k_j)`` with ``k_j = c * r_j``, for ``rowwise``.

        The gradient reuses the products of the value.

        Args:
            rows: ``p x n``, the part ``c`` of the kernel of the controlled columns.
            needs_gradient: True to return the gradient, too.
        """
        inverse, prior = self.posterior.inverse, self.kernel.outputscale
        k = rows.unsqueeze(1) * self.nodes  # p x m x n
        solved = (k.view(-1, k.shape[-1]) @ inverse).view_as(k)
        explained = torch.linalg.vecdot(solved, k)
        sigma = (prior - explained).clamp_min(MIN_RELATIVE_VARIANCE * float(prior)).sqrt()  # p x m
        if not needs_gradient:
            return sigma @ self.weights, None
        share = -(self.weights / sigma).unsqueeze(1)  # p x 1 x m
        return sigma @ self.weights, (share @ solved.mul_(self.nodes)).squeeze(1)


def _sorted_by_set(sets: Tensor) -> tuple[Tensor | None, list[int], list[int]]:
    """Return the order of rows by control set, the sets, and their numbers of rows.

    The order is None if rows are sorted already, as in a search.
    """
    order = None if bool((sets[1:] >= sets[:-1]).all()) else sets.argsort(stable=True)
    in_order = sets if order is None else sets[order]
    indices, counts = torch.unique_consecutive(in_order, return_counts=True)
    return order, indices.tolist(), counts.tolist()


def rows_by_set(sets: Tensor) -> Iterator[tuple[int, Tensor]]:
    """Yield ``(index, rows)`` of every control set that occurs in ``sets``."""
    order, indices, counts = _sorted_by_set(sets)
    rows = torch.arange(len(sets), device=sets.device) if order is None else order
    yield from zip(indices, rows.split(counts), strict=True)


class PartialQueries:
    """Several partial queries of one posterior, which share computations.

    Args:
        queries: At least one; all with a posterior sample in place of the mean, or none.
    """

    def __init__(self, queries: Sequence[PartialQuery]) -> None:
        self.queries = queries
        self.posterior, self.kernel = queries[0].posterior, queries[0].kernel
        self._stacked: dict[str, Tensor] = {}

    def moments(
        self, t: Tensor, sets: Tensor, spread: Spread, coarse: bool = False
    ) -> tuple[Tensor, Tensor]:
        """Return means and standard deviations, each ``p``, in units of the transformed posterior.

        Args:
            t: ``p x d`` points, transformed; random columns are ignored.
            sets: ``p`` indices of the points' queries.
            spread: Kind of standard deviation; zeros for ``NONE``.
            coarse: True for a cheaper approximation of it, for screening.
        """
        posterior, kernel = self.posterior, self.kernel
        factors = kernel.log_factor(t, posterior.X, self._of("mask", sets)).exp()
        if self.queries[0].path is None:
            latent = torch.linalg.vecdot(factors, self._of("mean_weights", sets))
        else:
            latent = torch.zeros_like(factors[:, 0])
            for index, rows in rows_by_set(sets):
                path = self.queries[index].path
                assert path is not None
                latent = latent.index_put((rows,), path(t[rows], factors[rows]))
        mean = posterior.outcome(latent)
        if spread is Spread.NONE:
            return mean, torch.zeros_like(mean)
        if spread is Spread.EXPECTATION:
            k, prior = factors * self._of("mean_factor", sets), self._of("prior_variance", sets)
            std = remaining_variance(prior, k, posterior.inverse).sqrt()
        elif coarse:
            explained = self._by_query(factors, sets, PartialQuery.coarsely_explained, 1)
            std = left_of(kernel.outputscale, explained).sqrt()
        else:
            size = max(query.nodes.numel() for query in self.queries)
            std = self._by_query(factors, sets, PartialQuery.expected_std, size)
        return mean, posterior.scale.abs() * std

    def _of(self, name: str, sets: Tensor) -> Tensor:
        """Return an attribute of the query of each row."""
        if name not in self._stacked:
            self._stacked[name] = torch.stack([getattr(query, name) for query in self.queries])
        return self._stacked[name][sets]

    def _by_query(
        self,
        factors: Tensor,
        sets: Tensor,
        function: Callable[[PartialQuery, Tensor, bool], tuple[Tensor, Tensor | None]],
        size: int,
    ) -> Tensor:
        """Apply a function of each row's query, in chunks; ``size`` is the memory of a row."""
        order, indices, counts = _sorted_by_set(sets)
        step = max(1, CHUNK_ELEMENTS // size)

        def joint(rows: Tensor, needs_gradient: bool) -> tuple[Tensor, Tensor | None]:
            parts = (rows if order is None else rows[order]).split(counts)
            found = [
                function(self.queries[index], chunk, needs_gradient)
                for index, part in zip(indices, parts, strict=True)
                for chunk in part.split(step)
            ]
            values = torch.cat([value for value, _ in found])
            slopes = torch.cat([s for _, s in found if s is not None]) if needs_gradient else None
            if order is None:
                return values, slopes
            back = order.argsort()
            return values[back], None if slopes is None else slopes[back]

        return rowwise(factors, joint, len(sets))

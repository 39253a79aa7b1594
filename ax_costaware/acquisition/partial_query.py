r"""What a GP posterior says of a partial query, with everything that can be computed once kept.

A partial query controls the columns :math:`C` and leaves the columns :math:`R` to chance. For a
product kernel :math:`k = s\, k_C k_R` the part that belongs to the random inputs does not depend on
the values that are controlled, so with training inputs :math:`X` and nodes :math:`z_j`,
:math:`w_j` of the random inputs

* :math:`E\,f = m + s \sum_n k_C(x, X_n)\, \bar k_R(X_n)\, \alpha_n` with
  :math:`\bar k_R = \sum_j w_j k_R(z_j, \cdot)`: one plain GP evaluation whatever the nodes;
* :math:`\mathrm{Var}\,[E f] = s \bar{\bar k}_R - v^\top (K + \Sigma)^{-1} v` with
  :math:`v = s\, k_C \bar k_R`;
* :math:`E\,\sigma = \sum_j w_j \sigma(x, z_j)` is not linear and needs the nodes, but all of them
  together are one matrix product, and its gradient with respect to :math:`k_C` comes with it.

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
        """Nodes ``p x m x d`` and weights ``p x m``; one node where all columns are controlled."""
        if len(self.columns) == points.shape[-1]:
            return points.unsqueeze(-2), torch.ones_like(points[:, :1])
        return super().__call__(points)


class PartialQuery:
    r"""One control set, prepared against one posterior: the random part of the kernel is read once.

    Args:
        posterior: The posterior, whose kernel is a product.
        law: What is controlled, and the nodes of what is left to chance; a single one counts where
            nothing is.
        blocks: The one-dimensional sums of independent inputs. Where given, they make the linear
            parts exact to rounding.

    Attributes:
        mask: ``d``-tensor, one for a controlled column and zero for a random one.
        points: ``m x d`` nodes, transformed.
        weights: ``m`` weights of the nodes, summing to one.
        nodes: ``m x n``: the random part of the kernel between each node and the training inputs,
            times the output scale.
        mean_factor: ``n``: the output scale times :math:`\bar k_R`.
        prior_variance: The prior variance of :math:`E f`.
        path: A posterior sample, in expectation, that takes the place of the mean.
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
        """``n``: what the controlled part of the kernel is weighted with in the mean."""
        return self.mean_factor * self.posterior.alpha

    def sampled(self, path: FourierPath) -> PartialQuery:
        """The query under a posterior sample in place of the mean."""
        query = copy(self)
        query.path = path.expected(self.mask, self.points, self.weights, self.mean_factor)
        return query

    @cached_property
    def _explained(self) -> Tensor:
        """``n x n``: the inverse times the expected products of the random part of the kernel."""
        return self.posterior.inverse * ((self.nodes.mT * self.weights) @ self.nodes)

    def coarsely_explained(
        self, rows: Tensor, needs_gradient: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Of the mean latent variance, what the data explain; arguments as of ``expected_std``.

        Its root needs one quadratic form however many nodes there are, and its maxima lie close to
        those of the mean root, which it is never below.
        """
        return quadratic_form(self._explained)(rows, needs_gradient)

    def expected_std(self, rows: Tensor, needs_gradient: bool) -> tuple[Tensor, Tensor | None]:
        """Latent ``sum_j w_j sqrt(s - k_j' A k_j)`` with ``k_j = c * r_j``: for ``rowwise``.

        The gradient needs nothing but the products that the value needs anyway.

        Args:
            rows: ``p x n``, the part ``c`` of the kernel that belongs to the controlled columns.
            needs_gradient: Whether to return the gradient, too.
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
    """The order of rows by control set, None if they have it; the sets, and their numbers of rows.

    Those of a search have it.
    """
    order = None if bool((sets[1:] >= sets[:-1]).all()) else sets.argsort(stable=True)
    in_order = sets if order is None else sets[order]
    indices, counts = torch.unique_consecutive(in_order, return_counts=True)
    return order, indices.tolist(), counts.tolist()


def rows_by_set(sets: Tensor) -> Iterator[tuple[int, Tensor]]:
    """``(index, rows)`` of every control set that occurs in ``sets``."""
    order, indices, counts = _sorted_by_set(sets)
    rows = torch.arange(len(sets), device=sets.device) if order is None else order
    yield from zip(indices, rows.split(counts), strict=True)


class PartialQueries:
    """Several partial queries of one posterior: what is the same for all is computed once.

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
        """Means and standard deviations, each ``p``, in the units of the transformed posterior.

        Args:
            t: ``p x d`` points, transformed; random columns are ignored.
            sets: ``p`` indices of the points' queries.
            spread: Which standard deviation; zeros if none.
            coarse: Whether an approximation of it will do, for screening.
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
        """An attribute of the query of each row."""
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
        """A function of the query of each row, for which a row takes so much space."""
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

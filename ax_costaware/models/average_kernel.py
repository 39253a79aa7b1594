r"""The kernel of averages of a function and of its values at points, over one kind of row.

.. math:: q(a, a') = \iint k(x, x') \, p(x | a) \, p(x' | a') \, dx \, dx'

(Chau, Bouabid and Sejdinovic 2021, "Deconditional Downscaling with Gaussian Processes"; Zhang et
al. 2024, "Indirect Query Bayesian Optimization with Integrated Feedback", equation 3). With it a
Gaussian process over queries is one like any other, and so is the joint one of
:math:`g(a) = E[f(X) | a]` and :math:`f(x)`.
"""

from __future__ import annotations

from typing import Any

import torch
from botorch.models.transforms.input import InputTransform
from gpytorch.kernels import Kernel
from torch import Tensor

from ax_costaware.models.averages import (
    Averages,
    ColumnAverages,
    JointAverages,
    SharedAverages,
    is_squared_exponential,
)
from ax_costaware.models.cached_posterior import acts_columnwise
from ax_costaware.queries.conditionals import Conditional, SharedNodes

_REMEMBERED = 4
"""Rows whose nodes and weights are kept, since a fit asks for those of its data at every step."""


class AverageKernel(Kernel):  # type: ignore[misc]  # GPyTorch is not typed
    """Covariances between averages under a conditional distribution, and points.

    A row has ``p + d + 1`` columns: a query of ``p``, a point of ``d``, and which of the two
    counts: 0 for the average at the query, 1 for the value at the point.

    Args:
        base_kernel: The kernel of the function, over ``d`` columns.
        conditional: The distribution of the inputs given a query.
        target_transform: From inputs in raw units to those of ``base_kernel``.
    """

    def __init__(
        self,
        base_kernel: Kernel,
        conditional: Conditional,
        target_transform: InputTransform | None = None,
    ) -> None:
        super().__init__()
        self.base_kernel = base_kernel
        self.conditional = conditional
        self.target_transform = target_transform
        self.num_target_columns = target_columns(conditional)
        if target_transform is not None:
            target_transform.eval()
        self._remembered: list[tuple[Tensor, Averages]] = []

    @property
    def num_query_columns(self) -> int:
        """The number ``p`` of columns of a query."""
        return self.conditional.num_query_columns

    def query_rows(self, A: Tensor) -> Tensor:
        """Rows of averages at queries ``... x p``."""
        rest = A.new_zeros(*A.shape[:-1], self.num_target_columns + 1)
        return torch.cat([A, rest], dim=-1)

    def point_rows(self, X: Tensor) -> Tensor:
        """Rows of the function at points ``... x d``, in raw units."""
        query = X.new_zeros(*X.shape[:-1], self.num_query_columns)
        return torch.cat([query, X, X.new_ones(*X.shape[:-1], 1)], dim=-1)

    def transform(self, X: Tensor) -> Tensor:
        """Points ``... x d`` in raw units in the space of ``base_kernel``."""
        if self.target_transform is None:
            return X
        transformed: Tensor = self.target_transform.transform(X)
        return transformed

    def averages(self, rows: Tensor) -> Averages:
        """What rows ``... x n x (p + d + 1)`` stand for, as nodes and weights."""
        if rows.requires_grad:
            return self._averages(rows)
        for known, averages in self._remembered:
            if known.shape == rows.shape and known.dtype == rows.dtype and torch.equal(known, rows):
                return averages
        averages = self._averages(rows)
        self._remembered = [(rows.detach().clone(), averages), *self._remembered][:_REMEMBERED]
        return averages

    def _averages(self, rows: Tensor) -> Averages:
        p = self.num_query_columns
        A, X, kind = rows[..., :p], rows[..., p:-1], rows[..., -1]
        points, some = bool((kind != 0).all()), bool((kind != 0).any())
        # Of points alone the conditional says nothing, but what form its averages have.
        asked = A.new_zeros(1, p) if points else A
        columns = None
        if is_squared_exponential(self.base_kernel) and acts_columnwise(self.target_transform):
            columns = self.conditional.column_rule(asked)
        if columns is not None:
            nodes, weights = columns.nodes, columns.weights
            if points:
                nodes, weights = X.unsqueeze(-2), torch.ones_like(X).unsqueeze(-2)
            elif some:
                nodes, weights = _with_points(nodes, weights, X, kind[..., None, None] != 0)
            return ColumnAverages(self.transform(nodes), weights)
        rule = self.conditional.joint_rule(asked)
        if isinstance(rule, SharedNodes):
            weights, errors = rule.weights, rule.errors
            if some and not points:
                weights = weights * (1 - kind).unsqueeze(-1)
                errors = None if errors is None else errors * (1 - kind).unsqueeze(-1)
            return SharedAverages(
                nodes=self.transform(rule.nodes),
                weights=None if points else weights,
                errors=None if points else errors,
                points=self.transform(X),
                is_point=kind if some else None,
            )
        nodes, weights = rule.nodes, rule.weights
        if points:
            nodes, weights = X.unsqueeze(-2), torch.ones_like(kind).unsqueeze(-1)
        elif some:
            nodes, _ = _with_points(nodes, nodes, X, kind[..., None, None] != 0)
            single = torch.zeros_like(weights)
            single[..., 0] = 1.0
            weights = torch.where(kind.unsqueeze(-1) != 0, single, weights)
        return JointAverages(self.transform(nodes), weights)

    def forward(
        self,
        x1: Tensor,
        x2: Tensor,
        diag: bool = False,
        last_dim_is_batch: bool = False,
        **params: Any,
    ) -> Tensor:
        """Covariances between rows, ``... x n x m``, or with ``diag`` their variances."""
        left = self.averages(x1)
        if diag and torch.equal(x1, x2):
            return left.variance(self.base_kernel)
        right = left if x1 is x2 else self.averages(x2)
        covariance = left.covariance(right, self.base_kernel)
        return covariance.diagonal(dim1=-2, dim2=-1) if diag else covariance


def target_columns(conditional: Conditional) -> int:
    """The number ``d`` of columns of the points of a conditional."""
    columns = conditional.num_target_columns
    if columns is None:  # a user's function knows it
        query = torch.zeros(1, conditional.num_query_columns, dtype=torch.double)
        columns = conditional.joint_rule(query).nodes.shape[-1]
    return columns


def _with_points(
    nodes: Tensor, weights: Tensor, X: Tensor, is_point: Tensor
) -> tuple[Tensor, Tensor]:
    """Rules of which those of points have all their weight on one node; all nodes are there."""
    single = torch.zeros_like(weights)
    single[..., 0, :] = 1.0
    return (
        torch.where(is_point, X.unsqueeze(-2), nodes),
        torch.where(is_point, single, weights),
    )

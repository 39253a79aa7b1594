"""Quadrature rules of conditionals: the nodes and weights that stand for the law of x given a.

Nodes are in the raw units of X. ``...`` stands for the leading dimensions of the queries, rows
included: queries ``A`` of shape ``... x p`` give rules of batch shape ``...``.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class ColumnNodes:
    """Independent columns: one rule in one dimension for each column of X."""

    nodes: Tensor
    """Nodes ``... x J x d``: those of column ``l`` are ``nodes[..., l]``."""

    weights: Tensor
    """Weights ``... x J x d``; those of a column sum to one, and some may be zero."""

    def product(self) -> JointNodes:
        """The tensor product, ``J ** d`` joint nodes."""
        num_nodes, num_columns = self.nodes.shape[-2:]
        index = torch.cartesian_prod(
            *[torch.arange(num_nodes, device=self.nodes.device) for _ in range(num_columns)]
        ).reshape(-1, num_columns)

        def picked(values: Tensor) -> Tensor:
            return torch.stack([values[..., index[:, i], i] for i in range(num_columns)], dim=-1)

        return JointNodes(picked(self.nodes), picked(self.weights).prod(dim=-1))


@dataclass(frozen=True, eq=False)
class JointNodes:
    """Joint nodes, other ones for each query."""

    nodes: Tensor
    """Nodes ``... x J x d``."""

    weights: Tensor
    """Weights ``... x J``."""


@dataclass(frozen=True, eq=False)
class PairNodes:
    """Two dependent columns: a rule of the first, and of the second given each of its nodes."""

    first: Tensor
    """Nodes of the first column, ``... x J``."""

    first_weights: Tensor
    """Their weights, ``... x J``."""

    second: Tensor
    """Nodes of the second column, ``... x J x K``."""

    second_weights: Tensor
    """Their weights, ``... x J x K``; those of each node of the first column sum to one."""

    bounds: Tensor
    """What all nodes of all queries are within, ``2 x 2``: lower bounds, upper bounds."""


@dataclass(frozen=True, eq=False)
class NormalLaw:
    """Normal laws that differ in their means only."""

    means: Tensor
    """Means ``... x d``."""

    covariance: Tensor
    """``d x d``."""


@dataclass(frozen=True, eq=False)
class SharedNodes:
    """The same joint nodes for every query; only the weights differ."""

    nodes: Tensor
    """Nodes ``M x d``."""

    weights: Tensor
    """Weights ``... x M``. Learned ones may be negative and need not sum to one."""

    errors: Tensor | None = None
    """``... x r``: what learned weights do not know. The average over the true law differs from
    that over the nodes by a random number; products of these rows are its covariances, in units of
    the variance of the function about its average. None: the weights are exact."""

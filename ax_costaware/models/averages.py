r"""Covariances of averages of a function under a kernel.

An average :math:`g = \sum_j w_j f(x_j)` is a linear functional of :math:`f`, so that
:math:`\mathrm{Cov}[g, g'] = \sum_{jj'} w_j w'_{j'} k(x_j, x'_{j'})`. How that sum is best taken
depends on the nodes. With independent columns and a squared-exponential kernel it is a product of
one-dimensional sums, and in one dimension such a kernel is a short sum of cosines to rounding, so
that averages of these are all it takes, not pairs of nodes. With nodes that all averages share it
is a product of matrices. Else the nodes of every pair of averages are taken together. A point is
an average with a single node.

Nodes are in the kernel's input space here, after the transform of the inputs.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import torch
from gpytorch.kernels import Kernel, RBFKernel, ScaleKernel
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from ax_costaware.models.column_rules import MOST_ENTRIES, ColumnRules

_LEAST_SPREAD = 1e-10
"""The least variance of the function about an average, in prior variances: the root has a gradient
there."""


class Averages(ABC):
    """``... x n`` averages of a function, as nodes and weights."""

    @abstractmethod
    def covariance(self, other: Averages, kernel: Kernel) -> Tensor:
        """Covariances with averages of the same kind, ``... x n x m``, differentiable."""

    @abstractmethod
    def variance(self, kernel: Kernel) -> Tensor:
        """Variances, ``... x n``."""


@dataclass(frozen=True, eq=False)
class ColumnAverages(Averages):
    """Averages over independent columns, for a squared-exponential kernel."""

    nodes: Tensor
    """Nodes of each column, ``... x n x J x d``."""

    weights: Tensor
    """Their weights, ``... x n x J x d``."""

    def covariance(self, other: Averages, kernel: Kernel) -> Tensor:
        """A product over the columns of products of averaged features."""
        assert isinstance(other, ColumnAverages)
        scales = lengthscales(kernel).expand(self.nodes.shape[-1])
        columns = self.rules.sums(other.rules, scales)
        return math.prod(columns.unbind(), start=outputscale(kernel))

    @cached_property
    def rules(self) -> ColumnRules:
        """The rules of the columns, equal ones once."""
        return ColumnRules.of(self.nodes.movedim(-1, 0), self.weights.movedim(-1, 0))

    def variance(self, kernel: Kernel) -> Tensor:
        """The same for each average with itself."""
        if self.nodes.shape[-2] == 1:  # points
            return outputscale(kernel) * self.weights.square().prod(dim=-1).squeeze(-1)
        columns = self.rules.variances(lengthscales(kernel).expand(self.nodes.shape[-1]))
        return math.prod(columns.unbind(), start=outputscale(kernel))


@dataclass(frozen=True, eq=False)
class JointAverages(Averages):
    """Averages with nodes of their own, for any kernel."""

    nodes: Tensor
    """Nodes, ``... x n x J x d``."""

    weights: Tensor
    """Their weights, ``... x n x J``."""

    def covariance(self, other: Averages, kernel: Kernel) -> Tensor:
        """Sums over all pairs of nodes, some rows at a time; their gradients take them again."""
        assert isinstance(other, JointAverages)
        right, w = other.nodes.flatten(-3, -2), other.weights

        def block(nodes: Tensor, weights: Tensor) -> Tensor:
            dense: Tensor = kernel(nodes.flatten(-3, -2), right).to_dense()
            parts = dense.unflatten(-1, (w.shape[-2], w.shape[-1]))
            rows = (parts * w.unsqueeze(-3)).sum(dim=-1)
            pairs = rows.unflatten(-2, (weights.shape[-2], weights.shape[-1]))
            averaged: Tensor = (pairs * weights.unsqueeze(-1)).sum(dim=-2)
            return averaged

        # Of one average with all the others, of all batches.
        entries = self.weights.numel() // max(1, self.weights.shape[-2]) * right.shape[-2]
        rows = max(1, MOST_ENTRIES // max(1, entries))
        blocks = [
            checkpoint(block, nodes, weights, use_reentrant=False)
            for nodes, weights in zip(
                self.nodes.split(rows, dim=-3), self.weights.split(rows, dim=-2), strict=True
            )
        ]
        return torch.cat(blocks, dim=-2)

    def variance(self, kernel: Kernel) -> Tensor:
        """Sums over the pairs of nodes of each average."""
        w = self.weights
        dense: Tensor = kernel(self.nodes).to_dense()
        variance: Tensor = (w.unsqueeze(-2) @ dense @ w.unsqueeze(-1)).squeeze(-1).squeeze(-1)
        return variance


@dataclass(frozen=True, eq=False)
class SharedAverages(Averages):
    """Averages over the same nodes, and points beside them."""

    nodes: Tensor
    """The nodes of all averages, ``M x d``."""

    weights: Tensor | None
    """Weights, ``... x n x M``, zero for a point; None: there are only points."""

    points: Tensor
    """The points, ``... x n x d``; of an average anything."""

    is_point: Tensor | None
    """Which of them are points, ``... x n``, zero or one; None: none."""

    errors: Tensor | None = None
    """What the weights do not know, ``... x n x r``, zero for a point: see ``SharedNodes``."""

    def covariance(self, other: Averages, kernel: Kernel) -> Tensor:
        """Products of the weights with the covariance of the nodes, and the points' parts."""
        assert isinstance(other, SharedAverages)
        parts: list[Tensor] = []
        if self.weights is not None:
            # The nodes may be thousands: their covariance is taken once.
            nodes = None if other.weights is None else kernel(self.nodes).to_dense()
            parts.append(self.weights @ other.at_nodes(kernel, nodes))
            if self.errors is not None and other.errors is not None:
                errors = self.scaled_errors(kernel, nodes)
                others = errors if other is self else other.scaled_errors(kernel, nodes)
                parts.append(errors @ others.mT)
        if self.is_point is not None:
            rows: list[Tensor] = []
            if other.weights is not None:
                rows.append(kernel(self.points, self.nodes).to_dense() @ other.weights.mT)
            if other.is_point is not None:
                both = kernel(self.points, other.points).to_dense()
                rows.append(both if other.weights is None else both * other.is_point.unsqueeze(-2))
            points = sum(rows[1:], rows[0])
            parts.append(points if self.weights is None else points * self.is_point.unsqueeze(-1))
        return sum(parts[1:], parts[0])

    def at_nodes(self, kernel: Kernel, nodes: Tensor | None = None) -> Tensor:
        """Covariances of the function at the nodes with these averages, ``... x M x n``.

        Args:
            kernel: The kernel of the function.
            nodes: Its covariance at the nodes, ``M x M``, if that is at hand.
        """
        parts: list[Tensor] = []
        if self.weights is not None:
            nodes = kernel(self.nodes).to_dense() if nodes is None else nodes
            parts.append(nodes @ self.weights.mT)
        if self.is_point is not None:
            points = kernel(self.nodes, self.points).to_dense()
            parts.append(points if self.weights is None else points * self.is_point.unsqueeze(-2))
        return sum(parts[1:], parts[0])

    def scaled_errors(self, kernel: Kernel, nodes: Tensor | None = None) -> Tensor:
        """The weights' errors in the unit of the function, ``... x n x r``.

        A point drawn from the law of a query differs from the average by as much as the function
        varies there; an average over pairs has the error of a mean of such points.

        Args:
            kernel: The kernel of the function.
            nodes: Its covariance at the nodes, ``M x M``, if that is at hand.
        """
        assert self.errors is not None
        assert self.weights is not None
        nodes = kernel(self.nodes).to_dense() if nodes is None else nodes
        # How much the function varies under the law is asked of weights that are one.
        positive = self.weights.clamp_min(0.0)
        law = positive / positive.sum(dim=-1, keepdim=True).clamp_min(_LEAST_SPREAD)
        average = ((law @ nodes) * law).sum(dim=-1)
        single = law @ nodes.diagonal(dim1=-2, dim2=-1)
        about = (single - average).clamp_min(
            _LEAST_SPREAD * float(nodes.detach().diagonal().mean())
        )
        return self.errors * about.sqrt().unsqueeze(-1)

    def variance(self, kernel: Kernel) -> Tensor:
        """Quadratic forms of the weights; the prior variance for a point."""
        parts: list[Tensor] = []
        if self.is_point is not None:
            parts.append(self.is_point * kernel(self.points, diag=True))
        if self.weights is not None:
            dense: Tensor = kernel(self.nodes).to_dense()
            parts.append(self.average_variance(kernel, dense))
        return sum(parts[1:], parts[0])

    def average_variance(self, kernel: Kernel, nodes: Tensor) -> Tensor:
        """Variances of the averages, ``... x n``, with the nodes' covariance, ``M x M``."""
        assert self.weights is not None
        variance = ((self.weights @ nodes) * self.weights).sum(dim=-1)
        if self.errors is None:
            return variance
        return variance + self.scaled_errors(kernel, nodes).square().sum(dim=-1)


def is_squared_exponential(kernel: Kernel) -> bool:
    """Whether a kernel is a squared-exponential one over all columns, scaled or not."""
    base = kernel.base_kernel if isinstance(kernel, ScaleKernel) else kernel
    unbatched = len(kernel.batch_shape) == 0
    # `type(...) is`: a subclass may compute something else from the same parameters.
    return type(base) is RBFKernel and kernel.active_dims is None and unbatched


def lengthscales(kernel: Kernel) -> Tensor:
    """The length-scales of a squared-exponential kernel: one, or one for each column."""
    base = kernel.base_kernel if isinstance(kernel, ScaleKernel) else kernel
    lengthscale: Tensor = base.lengthscale
    return lengthscale.reshape(-1)


def outputscale(kernel: Kernel) -> Tensor:
    """Prior variance of a squared-exponential kernel."""
    if isinstance(kernel, ScaleKernel):
        scale: Tensor = kernel.outputscale
        return scale
    lengthscale: Tensor = kernel.lengthscale
    return torch.ones((), dtype=lengthscale.dtype, device=lengthscale.device)

r"""Linear functionals of a function, and their covariances under a kernel.

A functional is the value at a point or an average. An average :math:`g = \sum_j w_j f(x_j)` has

.. math:: \mathrm{Cov}[g, g'] = \sum_{jj'} w_j w'_{j'} k(x_j, x'_{j'}).

Each class computes that sum in another way:

- ``Points``: values at points, which have covariances with all other kinds.
- ``ColumnAverages``: independent columns and a squared-exponential kernel. The sum is a product of
  one-dimensional sums. In one dimension the kernel is a short sum of cosines to rounding, so that
  averages of cosines replace pairs of nodes.
- ``SharedAverages``: the same nodes for all averages. The sum is a product of matrices.
- ``GaussianAverages``: normal distributions of dependent columns and a squared-exponential kernel.
  With means :math:`m, m'`, covariances :math:`\Sigma, \Sigma'`, and squared length-scales
  :math:`\Lambda = \mathrm{diag}(\ell^2)` the closed form is exact for any length-scales:

  .. math:: \mathrm{Cov}[g, g'] = s \, |\Lambda|^{1/2} |M|^{-1/2}
     \exp(-\tfrac{1}{2} (m - m')^T M^{-1} (m - m')), \quad M = \Lambda + \Sigma + \Sigma'.

- ``JointAverages``: any nodes and any kernel, by all pairs of nodes.

Nodes are in the kernel's input space, after the transform of the inputs.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import torch
from botorch.sampling.pathwise.features import KernelFeatureMap
from gpytorch.kernels import Kernel, RBFKernel, ScaleKernel
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from ax_costaware.models.column_rules import MOST_ENTRIES, ColumnRules
from ax_costaware.models.kernels import (
    FixedKernel,
    SeparableKernel,
    correlation,
    squared_exponential,
)

PriorKernel: TypeAlias = Kernel | FixedKernel | SeparableKernel
"""Prior covariance of the function; averages need a GPyTorch kernel."""

_MIN_SPREAD = 1e-10
"""Lower limit of the variance of the function about an average, relative to the prior variance, so
that its square root has a finite gradient."""

_FAR = 100.0
"""Distance of means, in length-scales, above which squared distances are computed from differences:
the expanded square would lose digits."""


class Functionals(ABC):
    """``... x n`` linear functionals of a function."""

    @abstractmethod
    def covariance(self, other: Functionals, kernel: Any) -> Tensor:
        """Return prior covariances with others, ``... x n x m``, differentiable.

        Args:
            other: Points, or functionals of the same kind.
            kernel: The prior covariance of the function, a ``PriorKernel``.
        """

    @abstractmethod
    def variance(self, kernel: Any) -> Tensor:
        """Return prior variances, ``... x n``."""

    @abstractmethod
    def features(self, kernel: Kernel, features: KernelFeatureMap) -> Tensor:
        """Return the functionals of random Fourier features of the kernel, ``n x num_features``."""

    @property
    def total(self) -> Tensor | float:
        """The functionals of the constant one, ``... x n``, or 1.0 for all of them."""
        return 1.0


def point_covariances(kernel: PriorKernel, a: Tensor, b: Tensor) -> Tensor:
    """Return prior covariances ``... x p x q`` of points ``... x p x d`` and ``... x q x d``."""
    if not isinstance(kernel, Kernel):
        return kernel.covariances(a, b)
    covariance: Tensor = kernel(a, b).to_dense()
    return covariance


@dataclass(frozen=True, eq=False)
class Points(Functionals):
    """Values of the function at points, or multiples of them."""

    nodes: Tensor
    """The points, ``... x n x d``."""

    factors: Tensor | None = None
    """Factors of the values at the points, ``n``, such as a decay over time; None for ones."""

    def covariance(self, other: Functionals, kernel: PriorKernel) -> Tensor:
        """Return the kernel between points, or the covariances of averages with these points."""
        if not isinstance(other, Points):
            return other.covariance(self, kernel).mT
        covariance = point_covariances(kernel, self.nodes, other.nodes)
        return covariance if other.factors is None else covariance * other.factors

    def variance(self, kernel: PriorKernel) -> Tensor:
        """Return the prior variances at the points."""
        if not isinstance(kernel, Kernel):
            return kernel.variances(self.nodes)
        variance: Tensor = kernel(self.nodes, diag=True)
        return variance

    def features(self, kernel: Kernel, features: KernelFeatureMap) -> Tensor:
        """Return the features at the points."""
        return features(self.nodes)

    @cached_property
    def columns(self) -> ColumnAverages:
        """Points as averages with one node per column."""
        nodes = self.nodes.unsqueeze(-2)
        return ColumnAverages(nodes, torch.ones_like(nodes))


@dataclass(frozen=True, eq=False)
class ColumnAverages(Functionals):
    """Averages over independent columns, for a squared-exponential kernel."""

    nodes: Tensor
    """Nodes of each column, ``... x n x J x d``."""

    weights: Tensor
    """Their weights, ``... x n x J x d``."""

    def covariance(self, other: Functionals, kernel: Kernel) -> Tensor:
        """Return the product over columns of products of averaged features."""
        other = other.columns if isinstance(other, Points) else other
        assert isinstance(other, ColumnAverages)
        columns = self.rules.sums(other.rules, lengthscales(kernel, self.nodes.shape[-1]))
        return math.prod(columns.unbind(), start=outputscale(kernel))

    @cached_property
    def rules(self) -> ColumnRules:
        """Distinct rules of the columns."""
        return ColumnRules.of(self.nodes.movedim(-1, 0), self.weights.movedim(-1, 0))

    def variance(self, kernel: Kernel) -> Tensor:
        """Return the product over columns of the variances of averaged features."""
        columns = self.rules.variances(lengthscales(kernel, self.nodes.shape[-1]))
        return math.prod(columns.unbind(), start=outputscale(kernel))

    def features(self, kernel: Kernel, features: KernelFeatureMap) -> Tensor:
        """Return averaged features, as products over the columns of averaged complex waves."""
        rules, scales = self.rules, lengthscales(kernel, self.nodes.shape[-1])
        nodes = rules.nodes / scales.reshape(-1, *[1] * (rules.nodes.ndim - 1))
        columns = []
        for node, weight, frequency in zip(
            nodes, rules.weights, features.weight.unbind(dim=1), strict=True
        ):
            angle = node.unsqueeze(-1) * frequency
            waves = torch.stack([angle.cos(), angle.sin()])
            columns.append((weight.unsqueeze(-2) @ waves).squeeze(-2))
        cosine, sine = (rules.spread(part) for part in torch.stack(columns, dim=1))
        product = torch.complex(cosine, sine).prod(dim=0)
        scale = (outputscale(kernel) * (2 / features.num_outputs)).sqrt()
        return scale * torch.cat([product.imag, product.real], dim=-1).to(nodes)


@dataclass(frozen=True, eq=False)
class JointAverages(Functionals):
    """Averages with nodes of their own, for any kernel."""

    nodes: Tensor
    """Nodes, ``... x n x J x d``."""

    weights: Tensor
    """Their weights, ``... x n x J``."""

    def covariance(self, other: Functionals, kernel: Kernel) -> Tensor:
        """Return sums over all pairs of nodes, in checkpointed chunks to limit the memory."""
        if isinstance(other, Points):
            right, w = other.nodes, torch.ones_like(other.nodes[..., :1])
        else:
            assert isinstance(other, JointAverages)
            right, w = other.nodes.flatten(-3, -2), other.weights

        def block(nodes: Tensor, weights: Tensor) -> Tensor:
            dense: Tensor = kernel(nodes.flatten(-3, -2), right).to_dense()
            parts = dense.unflatten(-1, (w.shape[-2], w.shape[-1]))
            rows = (parts * w.unsqueeze(-3)).sum(dim=-1)
            pairs = rows.unflatten(-2, (weights.shape[-2], weights.shape[-1]))
            averaged: Tensor = (pairs * weights.unsqueeze(-1)).sum(dim=-2)
            return averaged

        # Entries of one average with all others, over all batches.
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
        """Return sums over the pairs of nodes of each average."""
        w = self.weights
        dense: Tensor = kernel(self.nodes).to_dense()
        variance: Tensor = (w.unsqueeze(-2) @ dense @ w.unsqueeze(-1)).squeeze(-1).squeeze(-1)
        return variance

    def features(self, kernel: Kernel, features: KernelFeatureMap) -> Tensor:
        """Return sums over the nodes of each average, in chunks."""
        parts = zip(self.nodes.split(8), self.weights.split(8), strict=True)
        return torch.cat([(w.unsqueeze(-2) @ features(nodes)).squeeze(-2) for nodes, w in parts])


@dataclass(frozen=True, eq=False)
class SharedAverages(Functionals):
    """Averages over the same nodes."""

    nodes: Tensor
    """The nodes of all averages, ``M x d``."""

    weights: Tensor
    """Weights, ``... x n x M``."""

    errors: Tensor | None = None
    """Errors of the weights, ``... x n x r``: see ``SharedNodes``."""

    gram: Tensor | None = None
    """Cached covariance of the nodes, ``M x M``, for a fixed kernel; None to compute it."""

    @property
    def total(self) -> Tensor:
        """Sums of the weights, ``... x n``."""
        return self.weights.sum(dim=-1)

    def covariance(self, other: Functionals, kernel: Kernel) -> Tensor:
        """Return products of the weights with the covariance of the nodes."""
        if isinstance(other, Points):
            return self.weights @ point_covariances(kernel, self.nodes, other.nodes)
        assert isinstance(other, SharedAverages)
        left = self
        if other.gram is None:
            # The nodes may be thousands: their covariance is computed once.
            gram = kernel(self.nodes).to_dense()
            left, other = (replace(one, gram=gram) for one in (self, other))
            other = left if self.weights is other.weights else other
        covariance = left.weights @ other._products
        if left.errors is None or other.errors is None:
            return covariance
        return covariance + left.function_errors @ other.function_errors.mT

    @cached_property
    def _products(self) -> Tensor:
        """Covariance of the nodes times the weights, ``M x n``."""
        assert self.gram is not None
        return self.gram @ self.weights.mT

    @cached_property
    def function_errors(self) -> Tensor:
        """Errors of the weights in the unit of the function, see ``scaled_errors``."""
        assert self.gram is not None
        return self.scaled_errors(self.gram)

    def prepare(self) -> None:
        """Compute the cached properties now, under the current gradient mode."""
        _ = self._products
        if self.errors is not None:
            _ = self.function_errors

    def scaled_errors(self, nodes: Tensor) -> Tensor:
        """Return the errors of the weights in the unit of the function, ``... x n x r``.

        A point drawn from the distribution of a query differs from the average by the standard
        deviation of the function under the distribution. A weighted average of sampled points has
        the standard error of such a mean.

        Args:
            nodes: Covariance of the function at the nodes, ``M x M``.
        """
        assert self.errors is not None
        # Variance of the function under the distribution, for which weights have to be >= 0.
        positive = self.weights.clamp_min(0.0)
        probabilities = positive / positive.sum(dim=-1, keepdim=True).clamp_min(_MIN_SPREAD)
        average = ((probabilities @ nodes) * probabilities).sum(dim=-1)
        single = probabilities @ nodes.diagonal(dim1=-2, dim2=-1)
        spread = (single - average).clamp_min(_MIN_SPREAD * float(nodes.detach().diagonal().mean()))
        return self.errors * spread.sqrt().unsqueeze(-1)

    def variance(self, kernel: Kernel) -> Tensor:
        """Return quadratic forms of the weights with the covariance of the nodes."""
        nodes = kernel(self.nodes).to_dense() if self.gram is None else self.gram
        variance = ((self.weights @ nodes) * self.weights).sum(dim=-1)
        if self.errors is None:
            return variance
        return variance + self.scaled_errors(nodes).square().sum(dim=-1)

    def features(self, kernel: Kernel, features: KernelFeatureMap) -> Tensor:
        """Return weighted sums of the features at the nodes."""
        return self.weights @ features(self.nodes)


def is_squared_exponential(kernel: Kernel) -> bool:
    """Return True for a squared-exponential kernel over all columns, scaled or not."""
    base = kernel.base_kernel if isinstance(kernel, ScaleKernel) else kernel
    unbatched = len(kernel.batch_shape) == 0
    # `type(...) is`: a subclass may compute something else from the same parameters.
    return type(base) is RBFKernel and kernel.active_dims is None and unbatched


def lengthscales(kernel: Kernel, num_columns: int) -> Tensor:
    """Return the length-scales of a squared-exponential kernel, one for each column."""
    base = kernel.base_kernel if isinstance(kernel, ScaleKernel) else kernel
    lengthscale: Tensor = base.lengthscale.reshape(-1).expand(num_columns)
    return lengthscale


def outputscale(kernel: Kernel) -> Tensor:
    """Return the prior variance of a squared-exponential kernel."""
    is_scaled = isinstance(kernel, ScaleKernel)
    scale: Tensor = kernel.outputscale if is_scaled else kernel.lengthscale.new_ones(())
    return scale


@dataclass(frozen=True, eq=False)
class GaussianAverages(Functionals):
    """Averages over normal distributions that have one covariance."""

    means: Tensor
    """Means of the distributions, ``... x n x d``."""

    covariance_matrix: Tensor
    """Covariance of the distributions, ``d x d``."""

    def covariance(self, other: Functionals, kernel: Kernel) -> Tensor:
        """Return a Gaussian of the difference of means, with both covariances added."""
        if isinstance(other, Points):
            return self._covariance(other.nodes, kernel, 1)
        assert isinstance(other, GaussianAverages)
        variances = self.covariance_matrix.diagonal()
        own = lengthscales(kernel, self.means.shape[-1])
        longer = (own.square() + 2 * variances).sqrt()
        if (
            other is self
            and self.means.ndim == 2
            and len(self.means) > 0
            and bool((self.covariance_matrix == torch.diag(variances)).all())
            and not self.means.requires_grad
            and not self.covariance_matrix.requires_grad
            and bool(((self.means.amax(dim=0) - self.means.amin(dim=0)) / longer).max() <= _FAR)
        ):
            # With independent columns this is a kernel with longer length-scales and less height.
            height = outputscale(kernel) * (own / longer).prod()
            return height * correlation(self.means, longer, squared_exponential)
        return self._covariance(other.means, kernel, 2)

    def _covariance(self, others: Tensor, kernel: Kernel, count: int) -> Tensor:
        """Return covariances with other means; ``count`` covariances are added to the kernel's."""
        factor, height = self._factor(kernel, count)
        left, right = (
            torch.linalg.solve_triangular(factor, means.mT, upper=False).mT
            for means in (self.means, others)
        )
        # By differences: the expanded square loses digits for means many length-scales apart.
        squares = torch.cdist(left, right, compute_mode="donot_use_mm_for_euclid_dist").square()
        return height * squares.mul(-0.5).exp()

    def variance(self, kernel: Kernel) -> Tensor:
        """Return the covariance at distance zero."""
        _, height = self._factor(kernel, 2)
        return height.expand(self.means.shape[:-1])

    def features(self, kernel: Kernel, features: KernelFeatureMap) -> Tensor:
        """Return averages of sines and cosines: these times ``exp(-w' S w / 2)``."""
        scaled = features.weight / lengthscales(kernel, self.means.shape[-1])
        angles = self.means @ scaled.mT
        damping = (scaled @ self.covariance_matrix * scaled).sum(dim=-1).mul(-0.5).exp()
        scale = (outputscale(kernel) * (2 / features.num_outputs)).sqrt()
        return scale * torch.cat([damping * angles.sin(), damping * angles.cos()], dim=-1)

    def _factor(self, kernel: Kernel, count: int) -> tuple[Tensor, Tensor]:
        """Return the factor of ``M`` with ``count`` covariances, and the value at distance 0."""
        own = lengthscales(kernel, self.means.shape[-1])
        factor = torch.linalg.cholesky(torch.diag(own.square()) + count * self.covariance_matrix)
        return factor, outputscale(kernel) * (own / factor.diagonal()).prod()

r"""Functionals over two dependent columns within bounds, for a squared-exponential kernel.

In each column such a kernel is a polynomial to many digits, of low degree unless its length-scale
is short relative to the bounds. An average of the kernel is therefore the average of its
interpolation at the Chebyshev points of one grid for all distributions. A distribution is
represented by its weights of these points, which do not depend on hyperparameters. The covariance
of the grid is a Kronecker product of two small matrices (Trefethen 2013, *Approximation Theory and
Approximation Practice*, chapters 3 and 8).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from botorch.sampling.pathwise.features import KernelFeatureMap
from gpytorch.kernels import Kernel
from torch import Tensor

from ax_costaware.laws import PairNodes
from ax_costaware.models.column_rules import kept_last
from ax_costaware.models.functionals import Functionals, Points, lengthscales, outputscale

MOST_SIDE = 201
"""Largest number of points of a column, enough for length-scales of a hundredth of the bounds.
BoTorch's lower bound of fitted ones is a fortieth. With 256 points a decision takes 6 GB."""


@dataclass(frozen=True, eq=False)
class GridAverages(Functionals):
    """Averages as weights of the points of one grid over two columns."""

    bounds: Tensor
    """Lower and upper bounds of the grid, ``2 x 2``."""

    weights: Tensor
    """Weights ``... x n x m1 x m2`` of the Chebyshev points of both columns; some are negative."""

    def covariance(self, other: Functionals, kernel: Kernel) -> Tensor:
        """Return products of the weights with the covariance of the grid, or of grid and points."""
        if isinstance(other, Points):
            columns = self.points(), other.nodes.unbind(-1), lengthscales(kernel, 2)
            left, right = (_correlation(p, x, h) for p, x, h in zip(*columns, strict=True))
            points = (left.unsqueeze(-2) * right.unsqueeze(-3)).flatten(-3, -2)
            return outputscale(kernel) * self.weights.flatten(-2) @ points
        assert isinstance(other, GridAverages)
        smoothed = self._smoothed(kernel).flatten(-2)
        return outputscale(kernel) * smoothed @ other.weights.flatten(-2).mT

    def variance(self, kernel: Kernel) -> Tensor:
        """Return quadratic forms of the weights."""
        quadratic = (self._smoothed(kernel) * self.weights).sum(dim=(-2, -1))
        return outputscale(kernel) * quadratic

    def features(self, kernel: Kernel, features: KernelFeatureMap) -> Tensor:
        """Return weighted sums of the features at the points of the grid."""
        points = torch.cartesian_prod(*self.points())
        return self.weights.flatten(-2) @ features(points)

    def points(self) -> list[Tensor]:
        """Return the points of the two columns, ``m1`` and ``m2``."""
        return [
            (lower + upper) / 2 + _unit_points(size).to(lower) * (upper - lower) / 2
            for lower, upper, size in zip(*self.bounds, self.weights.shape[-2:], strict=True)
        ]

    def _smoothed(self, kernel: Kernel) -> Tensor:
        """Return correlations of the averages with the points of the grid."""
        scales = lengthscales(kernel, 2)
        if scales.requires_grad or torch.is_inference_mode_enabled():
            return self._products(kernel)
        # A posterior needs it twice, and that of its data on every call.
        return kept_last(self, scales.tolist(), lambda: self._products(kernel))

    def _products(self, kernel: Kernel) -> Tensor:
        points, scales = self.points(), lengthscales(kernel, 2)
        left, right = (_correlation(p, p, h) for p, h in zip(points, scales, strict=True))
        return left @ self.weights @ right


def grid_weights(nodes: PairNodes, sides: Sequence[int]) -> Tensor:
    """Return the weights ``... x n x m1 x m2`` of the points of a grid.

    They are averages of the Lagrange polynomials of the points, computed from averages of Chebyshev
    polynomials.

    Args:
        nodes: Nodes and bounds in the space of the kernel.
        sides: Numbers of points of the first and of the second column.
    """
    lower, upper = nodes.bounds
    middle, half = (lower + upper) / 2, (upper - lower) / 2
    second = _chebyshev((nodes.second - middle[1]) / half[1], nodes.second_weights, sides[1])
    given = torch.stack([part.sum(dim=-1) for part in second], dim=-1)
    first = _chebyshev((nodes.first - middle[0]) / half[0], nodes.first_weights, sides[0])
    moments = torch.stack(list(first), dim=-2) @ given
    left, right = (_lagrange(size).to(moments) for size in sides)
    return left.mT @ moments @ right


def side_of(half_width: float) -> int:
    """Return the number of points for correlations right to 1e-9, at most ``MOST_SIDE``.

    Args:
        half_width: Half-width of the column, in length-scales.
    """
    # In steps of half an octave, so that similar length-scales share a grid.
    stepped = 2.0 ** (math.ceil(2 * math.log2(max(half_width, 1.0))) / 2)
    size: int = math.ceil(9 + 6 * stepped)
    return min(size, MOST_SIDE)


def _correlation(points: Tensor, x: Tensor, lengthscale: Tensor) -> Tensor:
    """Return correlations ``... x m x N`` of ``m`` points of a column with others ``... x N``."""
    distance = (points.unsqueeze(-1) - x.unsqueeze(-2)) / lengthscale
    return distance.square().mul(-0.5).exp()


def _chebyshev(x: Tensor, weights: Tensor, count: int) -> Iterator[Tensor]:
    """Yield the first Chebyshev polynomials of ``x`` in ``[-1, 1]``, times the weights."""
    doubled, last, now = 2 * x, x * weights, weights
    for _ in range(count):
        yield now
        last, now = now, doubled * now - last


@lru_cache(maxsize=32)
def _unit_points(count: int) -> Tensor:
    """Return the Chebyshev points of the first kind in ``[-1, 1]``."""
    return torch.from_numpy(np.cos((2 * np.arange(count) + 1) * np.pi / (2 * count)))


@lru_cache(maxsize=32)
def _lagrange(count: int) -> Tensor:
    """Return the Chebyshev coefficients of the points' Lagrange polynomials, one per column."""
    angles = (2 * np.arange(count) + 1) * np.pi / (2 * count)
    coefficients = np.cos(np.outer(np.arange(count), angles)) * 2 / count
    coefficients[0] /= 2
    return torch.from_numpy(coefficients)

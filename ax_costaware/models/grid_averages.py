r"""Functionals over two dependent columns within bounds, for a squared-exponential kernel.

Such a kernel is a polynomial of each of its columns to many digits, of a low degree unless its
length-scales are short beside the bounds. So the average of one with any law is the average of its
interpolation, at the same Chebyshev points of a grid for all laws, and what a law has of its own is
its weights of these points. They do not depend on the hyperparameters, and the covariance of the
grid is a Kronecker product of two small matrices (Trefethen 2013, *Approximation Theory and
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
"""The most points of a column. BoTorch's bound of a fitted length-scale, a fortieth of the unit
cube, needs fewer, and down to a hundredth these do; with 256 a decision takes 6 GB."""


@dataclass(frozen=True, eq=False)
class GridAverages(Functionals):
    """Averages as weights of the points of one grid over two columns."""

    bounds: Tensor
    """Of the grid, ``2 x 2``: lower bounds, upper bounds."""

    weights: Tensor
    """``... x n x m1 x m2``, for Chebyshev points of the first column and of the second; some are
    negative."""

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
        """The points of the two columns, ``m1`` and ``m2``."""
        return [
            (lower + upper) / 2 + _unit_points(size).to(lower) * (upper - lower) / 2
            for lower, upper, size in zip(*self.bounds, self.weights.shape[-2:], strict=True)
        ]

    def _smoothed(self, kernel: Kernel) -> Tensor:
        """Correlations of the averages with the points of the grid, ``... x n x m1 x m2``."""
        scales = lengthscales(kernel, 2)
        if scales.requires_grad or torch.is_inference_mode_enabled():
            return self._products(kernel)
        # A posterior asks for it twice, and for that of its data again and again.
        return kept_last(self, scales.tolist(), lambda: self._products(kernel))

    def _products(self, kernel: Kernel) -> Tensor:
        points, scales = self.points(), lengthscales(kernel, 2)
        left, right = (_correlation(p, p, h) for p, h in zip(points, scales, strict=True))
        return left @ self.weights @ right


def grid_weights(nodes: PairNodes, sides: Sequence[int]) -> Tensor:
    """Weights ``... x n x m1 x m2`` of the points of a grid.

    They are the averages of the Lagrange polynomials of the points, from the averages of Chebyshev
    polynomials.

    Args:
        nodes: Nodes and bounds in the space of the kernel.
        sides: The numbers of points of the first column and of the second.
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
    """Points of a column for a correlation that is right to 1e-9, as far as they are not too many.

    Args:
        half_width: Of the column, in length-scales.
    """
    # In steps of half an octave: near length-scales share a grid.
    stepped = 2.0 ** (math.ceil(2 * math.log2(max(half_width, 1.0))) / 2)
    size: int = math.ceil(9 + 6 * stepped)
    return min(size, MOST_SIDE)


def _correlation(points: Tensor, x: Tensor, lengthscale: Tensor) -> Tensor:
    """Of ``m`` points of a column with others ``... x N``: ``... x m x N``."""
    distance = (points.unsqueeze(-1) - x.unsqueeze(-2)) / lengthscale
    return distance.square().mul(-0.5).exp()


def _chebyshev(x: Tensor, weights: Tensor, count: int) -> Iterator[Tensor]:
    """The first Chebyshev polynomials of ``x`` in ``[-1, 1]``, each times the weights."""
    doubled, last, now = 2 * x, x * weights, weights
    for _ in range(count):
        yield now
        last, now = now, doubled * now - last


@lru_cache(maxsize=32)
def _unit_points(count: int) -> Tensor:
    """Chebyshev points of the first kind, in ``[-1, 1]``."""
    return torch.from_numpy(np.cos((2 * np.arange(count) + 1) * np.pi / (2 * count)))


@lru_cache(maxsize=32)
def _lagrange(count: int) -> Tensor:
    """Lagrange polynomials of these points as sums of Chebyshev ones, a column for each."""
    angles = (2 * np.arange(count) + 1) * np.pi / (2 * count)
    coefficients = np.cos(np.outer(np.arange(count), angles)) * 2 / count
    coefficients[0] /= 2
    return torch.from_numpy(coefficients)

"""Many points, replaced by few: weights of ``N`` points become weights of ``M`` nodes.

Exact where no more than ``MOST_DISTINCT`` points differ: the weights of equal points are summed.
Else by kernel interpolation: ``sum_j w_j f(x_j)`` becomes ``sum_m v_m f(z_m)`` with
``v = K_zz^-1 K_zx w``, which is exact for the functions ``k(z_m, .)`` and best in the space of the
kernel (an optimal quadrature on the given nodes; Huszar and Duvenaud 2012). The nodes are points of
the data.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import csr_matrix
from typing_extensions import override

from ax_costaware.queries.conditionals.fields import Array
from ax_costaware.queries.conditionals.landmarks import (
    NUM_CANDIDATES,
    half_median_distance,
    landmarks_of,
    rbf_mixture,
    some_rows,
)

MOST_DISTINCT = 2000
"""No more than so many different points are kept as they are."""

_FIRST_LOOK = 10 * MOST_DISTINCT
_JITTER = 1e-8


class Projection(ABC):
    """A linear map from weights of ``N`` points to weights of ``M`` nodes."""

    nodes: Array
    """``M x d``, in raw units."""

    @abstractmethod
    def product(self, rows: slice, values: Array) -> Array:
        """The part ``M x k`` of these points in a sum over all points.

        Args:
            rows: Which points.
            values: Weights of them, ``n x k``.
        """

    def finish(self, sums: Array) -> Array:
        """The weights ``M x k`` of the nodes, from the sum of all products."""
        return sums


class _EqualPoints(Projection):
    def __init__(self, X: Array) -> None:
        self.nodes, position = np.unique(X, axis=0, return_inverse=True)
        self._position = position.ravel()

    @override
    def product(self, rows: slice, values: Array) -> Array:
        position = self._position[rows]
        n = len(position)
        chosen = csr_matrix((np.ones(n), (position, np.arange(n))), shape=(len(self.nodes), n))
        return np.asarray(chosen @ values)


class _Interpolation(Projection):
    def __init__(self, X: Array, spreads: Array, num_nodes: int, seed: int) -> None:
        candidates = X[some_rows(len(X), NUM_CANDIDATES, seed)]
        self._X = X
        self._unit = spreads * half_median_distance(candidates / spreads)
        self.nodes = candidates[landmarks_of(candidates / self._unit, rbf_mixture, num_nodes)]
        self._scaled = self.nodes / self._unit
        kernel = rbf_mixture(self._scaled, self._scaled)
        kernel[np.diag_indices_from(kernel)] += _JITTER
        self._factor = cho_factor(kernel, lower=True, overwrite_a=True)

    @override
    def product(self, rows: slice, values: Array) -> Array:
        return np.asarray(rbf_mixture(self._scaled, self._X[rows] / self._unit) @ values)

    @override
    def finish(self, sums: Array) -> Array:
        return np.asarray(cho_solve(self._factor, sums))


def equal_points(X: Array) -> Projection | None:
    """The exact map where no more than ``MOST_DISTINCT`` of the points ``N x d`` differ."""
    if len(np.unique(X[:_FIRST_LOOK], axis=0)) > MOST_DISTINCT:
        return None
    found = _EqualPoints(X)
    return found if len(found.nodes) <= MOST_DISTINCT else None


def projection_of(X: Array, spreads: Array, num_nodes: int, seed: int) -> Projection:
    """The map to equal points where there are few, else to ``num_nodes`` of the points.

    Args:
        X: Points ``N x d``.
        spreads: What the ``d`` columns are divided by to compare.
        num_nodes: The most nodes of an interpolation.
        seed: Of the candidates for nodes.
    """
    return equal_points(X) or _Interpolation(X, spreads, num_nodes, seed)

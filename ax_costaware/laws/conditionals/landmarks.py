"""Kernels and random subsets of rows of large data."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial.distance import cdist, pdist

from ax_costaware.laws.tables import Array


def rbf(first: Array, second: Array) -> Array:
    """Return ``exp(-|a - b|^2 / 2)`` of rows ``n x p`` and ``m x p``."""
    found: Array = cdist(first, second, "sqeuclidean")
    found *= -0.5
    np.exp(found, out=found)
    return found


def rbf_mixture(first: Array, second: Array) -> Array:
    """Return the mean of RBFs with the length-scales 1/2, 1 and 2, and the weights 1, 10 and 10.

    Interpolation with it works for smooth and rough functions. Half of a length-scale is the fourth
    power of an RBF.
    """
    wide: Array = cdist(first, second, "sqeuclidean")
    wide *= -0.125
    np.exp(wide, out=wide)
    middle = wide * wide
    middle *= middle
    narrow = middle * middle
    narrow *= narrow
    narrow *= 0.1
    narrow += middle
    narrow += wide
    narrow /= 2.1
    return narrow


def spreads_of(X: Array) -> Array:
    """Return the standard deviations of the columns of ``X``; one for constant columns."""
    spreads = X.std(0)
    # Rounding of the mean may make that of equal numbers positive.
    return np.where(spreads > 1e-13 * np.abs(X).max(0), spreads, 1.0)


def half_median_distance(X: Array) -> float:
    """Return half the median distance of about 500 points ``N x d``; one if all are equal."""
    distances = pdist(X[:: -(-len(X) // 500)])
    distances = distances[distances > 0]
    return 0.5 * float(np.median(distances)) if len(distances) else 1.0


def some_rows(num_rows: int, most: int, seed: int) -> Any:
    """Return sorted indices of ``most`` random rows, or a slice of all if there are no more."""
    if num_rows <= most:
        return slice(None)
    return np.sort(np.random.default_rng(seed).choice(num_rows, most, replace=False))


def landmarks_of(rows: Array, most: int, seed: int) -> Array:
    """Return random distinct rows as landmarks (Williams and Seeger 2001, the Nystrom method).

    Args:
        rows: Rows ``n x d``.
        most: Number of rows to draw; fewer are returned if some are equal.
        seed: Seed of the draw.
    """
    return np.unique(rows[some_rows(len(rows), most, seed)], axis=0)

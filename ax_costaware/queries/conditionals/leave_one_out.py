"""Closed-form leave-one-out error of a conditional mean embedding, and the choice it leads to.

Ridge regression of the features ``k(x_j, .)`` on ``a_j`` has the smoother ``H = L (L + c I)^-1``
with ``c = N lambda``. Left out of its own fit, pair ``j`` is predicted with the residual
``[(I - H) F]_j / (1 - H_jj)``, where ``F F' = K_xx`` (for ridge regression this is exact; for
embeddings: Muandet et al. 2017, *Kernel mean embedding of distributions*, section 4).
The error is the mean squared norm of these residuals. One eigendecomposition of ``L`` serves every
``c``.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import eigh
from scipy.spatial.distance import cdist, pdist

from ax_costaware.queries.conditionals.fields import Array

MOST_EXACT = 1000
"""With more pairs, random features stand for ``K_xx``."""

_NUM_FEATURES = 256
_RIDGES = np.logspace(-6, 3, 19)
_LENGTHSCALES = np.geomspace(0.05, 6.4, 8)


def rbf(first: Array, second: Array) -> Array:
    """``exp(-|a - b|^2 / 2)`` of rows ``n x p`` and ``m x p``."""
    found: Array = cdist(first, second, "sqeuclidean")
    found *= -0.5
    np.exp(found, out=found)
    return found


def reference_lengthscale(X: Array) -> float:
    """Half the median distance of (at most 500) points ``N x d``."""
    step = -(-len(X) // 500)
    distances = pdist(X[::step])
    distances = distances[distances > 0]
    return 0.5 * float(np.median(distances)) if len(distances) else 1.0


def target_features(X: Array, seed: int) -> Array:
    """Features ``N x R`` whose products are an RBF of scaled points ``N x d``.

    Exact, from the eigenvectors of the kernel matrix, up to ``MOST_EXACT`` points, else random
    (Rahimi and Recht 2007).
    """
    scaled = X / reference_lengthscale(X)
    if len(X) <= MOST_EXACT:
        values, vectors = eigh(rbf(scaled, scaled), overwrite_a=True, check_finite=False)
        kept = values > 1e-10 * values[-1]
        return np.asarray(vectors[:, kept] * np.sqrt(values[kept]))
    rng = np.random.default_rng(seed)
    frequencies = rng.standard_normal((X.shape[1], _NUM_FEATURES // 2))
    angles = scaled @ frequencies
    found: Array = np.concatenate([np.cos(angles), np.sin(angles)], 1)
    found /= np.sqrt(_NUM_FEATURES // 2)
    return found


def leave_one_out_errors(L: Array, F: Array, ridges: Array) -> Array:
    """The leave-one-out error for each ridge.

    Args:
        L: The kernel matrix ``N x N`` of the queries of the pairs.
        F: Features ``N x R`` of the points of the pairs.
        ridges: Values of ``c = N lambda > 0``.
    """
    values, vectors = eigh(L, check_finite=False)
    values = np.clip(values, 0, None)
    rotated = vectors.T @ F
    squares = vectors**2
    errors = np.empty(len(ridges))
    for i, ridge in enumerate(ridges):
        left = ridge / (values + ridge)
        residual = vectors @ (left[:, None] * rotated)
        own = squares @ left
        errors[i] = np.mean((residual**2).sum(1) / own**2)
    return errors


def choose(
    errors_of: Callable[[float], tuple[Array, Array]], lengthscale: float | None
) -> tuple[float, float]:
    """The length-scale and the ridge of least error: a coarse grid, then a finer one around it.

    Args:
        errors_of: From a length-scale to the ridges tried and their errors.
        lengthscale: Given, or ``None``.
    """
    tried: dict[float, tuple[float, float]] = {}

    def value(scale: float) -> float:
        if scale not in tried:
            ridges, errors = errors_of(scale)
            best = int(np.argmin(errors))
            tried[scale] = (float(errors[best]), float(ridges[best]))
        return tried[scale][0]

    if lengthscale is not None:
        value(lengthscale)
    else:
        best = min(_LENGTHSCALES.tolist(), key=value)
        ratio = float(_LENGTHSCALES[1] / _LENGTHSCALES[0])
        for _ in range(2):
            ratio = ratio**0.5
            best = min([best, best / ratio, best * ratio], key=value)
    scale = min(tried, key=lambda s: tried[s][0])
    return scale, tried[scale][1]


def ridges() -> Array:
    """The ridges that are tried."""
    return _RIDGES

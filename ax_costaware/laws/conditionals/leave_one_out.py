"""Closed-form leave-one-out error of conditional mean embeddings, and hyperparameters by it.

Ridge regression of the features ``k(x_j, .)`` on ``a_j`` has the smoother ``H = L (L + c I)^-1``
with ``c = N lambda``. The leave-one-out residual of pair ``j`` is ``[(I - H) F]_j / (1 - H_jj)``,
where ``F F' = K_xx``. This is exact for ridge regression with a given ``c`` (Allen 1974, the PRESS
statistic). The error is the mean squared norm of these residuals. One eigendecomposition of ``L``
serves every ``c``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import numpy.typing as npt
from scipy.linalg import eigh, null_space

from ax_costaware.laws.conditionals.landmarks import half_median_distance, rbf
from ax_costaware.laws.tables import Array

MOST_WITHOUT_RANDOM_FEATURES = 500
"""Number of pairs above which random features approximate the kernel of the points."""

_NUM_FEATURES = 128
_RIDGES = np.logspace(-6, 3, 10)
_LEAST = 1e-10
_LEAST_LEFT = 1e-20
_LENGTHSCALES = np.geomspace(0.05, 6.4, 8)
_LEAST_LENGTHSCALE = 1e-4


def target_features(X: Array, seed: int) -> Array:
    """Return features ``N x R`` of an RBF kernel of the points.

    They are exact, from the eigenvectors of the kernel matrix, up to
    ``MOST_WITHOUT_RANDOM_FEATURES`` points, else random (Rahimi and Recht 2007). The length-scale
    is half the median distance.

    Args:
        X: Points ``N x d`` with comparable columns.
        seed: Seed of random features.
    """
    scaled = X / half_median_distance(X)
    if len(X) <= MOST_WITHOUT_RANDOM_FEATURES:
        values, vectors = eigh(rbf(scaled, scaled), overwrite_a=True, check_finite=False)
        large = values > 1e-10 * values[-1]
        return np.asarray(vectors[:, large] * np.sqrt(values[large]))
    return random_features(scaled, seed)


def random_features(scaled: Array, seed: int) -> Array:
    """Return random features ``N x R`` of an RBF of points in units of its length-scale."""
    rng = np.random.default_rng(seed)
    angles = scaled @ rng.standard_normal((scaled.shape[1], _NUM_FEATURES // 2))
    found: Array = np.concatenate([np.cos(angles), np.sin(angles)], 1)
    found /= np.sqrt(_NUM_FEATURES // 2)
    return found


class Smoother:
    """Ridge regression on kernels at ``N`` queries, and on a trend without a penalty.

    With a trend this is universal kriging: ``(L + c I)^-1`` becomes ``Z (Z' L Z + c I)^-1 Z'``,
    with a basis ``Z`` of the orthogonal complement of the trend. Leave-one-out residuals include
    the trend (Craven and Wahba 1979). A pair has no residual if the trend is undetermined without
    it, as the only one with another value in some column.
    """

    def __init__(self, L: Array, trend: Array | None = None) -> None:
        """Decompose the kernel matrix.

        Args:
            L: Kernel matrix ``N x N`` of the queries of the pairs.
            trend: Values of the trend's functions at the queries, ``N x q``; None for no trend.
        """
        basis = None if trend is None else null_space(trend.T)
        values, vectors = eigh(L if basis is None else basis.T @ L @ basis, check_finite=False)
        self._values = np.clip(values, 0, None)
        self._vectors = vectors if basis is None else basis @ vectors
        squares = self._vectors**2
        self.is_determined: npt.NDArray[np.bool_] = squares.sum(1) > _LEAST_LEFT
        """Mask of the pairs with a residual: the others determine the trend."""
        self._squares = squares[self.is_determined]

    def errors(self, F: Array) -> Callable[[Array], Array]:
        """Return the leave-one-out error as a function of ridges ``c``.

        Args:
            F: Features ``N x R`` of the points of the pairs.
        """
        rotated = self._vectors.T @ F

        def error(ridge: float) -> float:
            left = ridge / (self._values + ridge)
            residual = (self._vectors @ (left[:, None] * rotated))[self.is_determined]
            return float(np.mean((residual**2).sum(1) / (self._squares @ left) ** 2))

        return lambda ridges: np.array([error(ridge) for ridge in ridges])

    def weights(self, F: Array, ridge: float) -> tuple[Array, Array]:
        """Return the weights of the kernels, and leave-one-out residuals of features.

        Args:
            F: Features ``N x R``.
            ridge: Ridge ``c``, which is added to the diagonal of the kernel matrix.

        Returns:
            ``N x R`` weights, and a row of residuals for each pair in ``is_determined``.
        """
        gain = 1 / (self._values + ridge)
        weights = self._vectors @ (gain[:, None] * (self._vectors.T @ F))
        return weights, weights[self.is_determined] / (self._squares @ gain)[:, None]


def nystrom_errors(gram: Array, cross: Array, psi: Array, F: Array) -> Callable[[Array], Array]:
    """Return the leave-one-out error for ``L = Psi Psi'`` of low rank, over a subset of pairs.

    Args:
        gram: ``Psi' Psi`` over all pairs, ``M x M``.
        cross: ``Psi' F`` over all pairs, ``M x R``.
        psi: ``Psi`` of the pairs that are left out in turn, ``n x M``.
        F: Their features ``n x R``.
    """
    values, vectors = eigh(gram, check_finite=False)
    values = np.clip(values, 0, None)
    rotated, inputs = vectors.T @ cross, psi @ vectors
    squares = inputs**2

    def error(ridge: float) -> float:
        gain = 1 / (values + ridge)
        residual = F - inputs @ (gain[:, None] * rotated)
        own = np.maximum(1 - squares @ gain, _LEAST)
        return float(np.mean((residual**2).sum(1) / own**2))

    return lambda ridges: np.array([error(ridge) for ridge in ridges])


def least_ridge(errors: Callable[[Array], Array]) -> tuple[float, float]:
    """Return the ridge with the smallest error, to half a decade, and the error."""
    found = errors(_RIDGES)
    best = float(_RIDGES[int(found.argmin())])
    near = best * np.array([10**-0.5, 1.0, 10**0.5])
    found = errors(near)
    return float(near[int(found.argmin())]), float(found.min())


def choose(
    errors_of: Callable[[float], Callable[[Array], Array]], ridge: float | None
) -> tuple[float, float]:
    """Return the length-scale and the ridge with the smallest error, by a grid that is refined.

    Args:
        errors_of: Function from a length-scale to the errors as a function of ridges.
        ridge: Ridge, or None to choose it.
    """

    @cache
    def tried(scale: float) -> tuple[float, float]:
        errors = errors_of(scale)
        if ridge is None:
            return least_ridge(errors)
        return ridge, float(errors(np.array([ridge]))[0])

    def value(scale: float) -> float:
        return tried(scale)[1]

    best = min(_LENGTHSCALES.tolist(), key=value)
    ratio = float(_LENGTHSCALES[1] / _LENGTHSCALES[0])
    least = float(_LENGTHSCALES[0])
    if best == least:
        # Outliers among the queries make the standard deviation large, so try smaller ones.
        smaller = np.geomspace(_LEAST_LENGTHSCALE, least, 10).tolist()
        best, least = min([best, *smaller[:-1]], key=value), _LEAST_LENGTHSCALE
    for _ in range(2):
        ratio = ratio**0.5
        near = [best, max(best / ratio, least), min(best * ratio, _LENGTHSCALES[-1])]
        best = min(near, key=value)
    return best, tried(best)[0]

"""Closed-form leave-one-out error of a conditional mean embedding, and the choice it leads to.

Ridge regression of the features ``k(x_j, .)`` on ``a_j`` has the smoother ``H = L (L + c I)^-1``
with ``c = N lambda``. Left out of its own fit, pair ``j`` is predicted with the residual
``[(I - H) F]_j / (1 - H_jj)``, where ``F F' = K_xx``: for ridge regression with a given ``c`` this
is exact (Allen 1974, the PRESS statistic). The error is the mean squared norm of these residuals.
One eigendecomposition of ``L`` serves every ``c``.
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
"""With more pairs, random features stand for the kernel of the points."""

_NUM_FEATURES = 128
_RIDGES = np.logspace(-6, 3, 10)
_LEAST = 1e-10
_LEAST_LEFT = 1e-20
_LENGTHSCALES = np.geomspace(0.05, 6.4, 8)
_LEAST_LENGTHSCALE = 1e-4


def target_features(X: Array, seed: int) -> Array:
    """Features ``N x R`` whose products are an RBF of the points, or tend to it.

    Exact, from the eigenvectors of the kernel matrix, up to ``MOST_WITHOUT_RANDOM_FEATURES``
    points, else random (Rahimi and Recht 2007). The length-scale is half the median distance.

    Args:
        X: Points ``N x d``, scaled so that the columns compare.
        seed: Of the random features.
    """
    scaled = X / half_median_distance(X)
    if len(X) <= MOST_WITHOUT_RANDOM_FEATURES:
        values, vectors = eigh(rbf(scaled, scaled), overwrite_a=True, check_finite=False)
        kept = values > 1e-10 * values[-1]
        return np.asarray(vectors[:, kept] * np.sqrt(values[kept]))
    return random_features(scaled, seed)


def random_features(scaled: Array, seed: int) -> Array:
    """Random features ``N x R`` of an RBF of points whose unit is its length-scale."""
    rng = np.random.default_rng(seed)
    angles = scaled @ rng.standard_normal((scaled.shape[1], _NUM_FEATURES // 2))
    found: Array = np.concatenate([np.cos(angles), np.sin(angles)], 1)
    found /= np.sqrt(_NUM_FEATURES // 2)
    return found


class Smoother:
    """Ridge regression on the kernels about ``N`` queries, and on a trend that costs nothing.

    With a trend it is that of universal kriging: ``(L + c I)^-1`` becomes
    ``Z (Z' L Z + c I)^-1 Z'`` for a basis ``Z`` of what no trend is in, and the leave-one-out
    residuals are exact for the trend, too (Craven and Wahba 1979). A pair without which the trend
    would not be determined, as the only one with another value in some column, has no residual.
    """

    def __init__(self, L: Array, trend: Array | None = None) -> None:
        """Decompose it.

        Args:
            L: The kernel matrix ``N x N`` of the queries of the pairs.
            trend: Values of the trend's functions at the queries, ``N x q``; None: there is none.
        """
        basis = None if trend is None else null_space(trend.T)
        values, vectors = eigh(L if basis is None else basis.T @ L @ basis, check_finite=False)
        self._values = np.clip(values, 0, None)
        self._vectors = vectors if basis is None else basis @ vectors
        squares = self._vectors**2
        self.is_determined: npt.NDArray[np.bool_] = squares.sum(1) > _LEAST_LEFT
        """Which of the pairs have residuals."""
        self._squares = squares[self.is_determined]

    def errors(self, F: Array) -> Callable[[Array], Array]:
        """The leave-one-out error as a function of ridges ``c``.

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
        """Weights of the kernels and leave-one-out residuals of features.

        Args:
            F: Features ``N x R``.
            ridge: What is added to the kernel matrix.

        Returns:
            ``N x R`` weights, and a row of residuals for each pair in ``is_determined``.
        """
        gain = 1 / (self._values + ridge)
        weights = self._vectors @ (gain[:, None] * (self._vectors.T @ F))
        return weights, weights[self.is_determined] / (self._squares @ gain)[:, None]


def nystrom_errors(gram: Array, cross: Array, psi: Array, F: Array) -> Callable[[Array], Array]:
    """The same for ``L = Psi Psi'`` of low rank, over some of the pairs.

    Args:
        gram: ``Psi' Psi`` over all pairs, ``M x M``.
        cross: ``Psi' F`` over all pairs, ``M x R``.
        psi: ``n x M``, of the pairs that are left out in turn.
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
    """The ridge of least error, to half a decade, and the error."""
    found = errors(_RIDGES)
    best = float(_RIDGES[int(found.argmin())])
    near = best * np.array([10**-0.5, 1.0, 10**0.5])
    found = errors(near)
    return float(near[int(found.argmin())]), float(found.min())


def choose(
    errors_of: Callable[[float], Callable[[Array], Array]], ridge: float | None
) -> tuple[float, float]:
    """The length-scale and the ridge of least error: a coarse grid, then a finer one around it.

    Args:
        errors_of: From a length-scale to the errors as a function of ridges.
        ridge: Given, or ``None``.
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
        # A few queries far from the others make the standard deviation a large unit.
        smaller = np.geomspace(_LEAST_LENGTHSCALE, least, 10).tolist()
        best, least = min([best, *smaller[:-1]], key=value), _LEAST_LENGTHSCALE
    for _ in range(2):
        ratio = ratio**0.5
        near = [best, max(best / ratio, least), min(best * ratio, _LENGTHSCALES[-1])]
        best = min(near, key=value)
    return best, tried(best)[0]

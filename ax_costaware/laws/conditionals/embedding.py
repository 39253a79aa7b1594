"""Conditional mean embedding of pairs: weights of points as functions of the query.

Up to ``MOST_EXACT`` pairs it is exact. Above, a random subset of the queries, the landmarks,
represents the queries of all pairs (Nystrom; Williams and Seeger 2001), and points are projected
onto a random subset of their own. After the fit nothing depends on the number of pairs. All passes
over the pairs are in chunks.

Weights of ``N`` points are mapped to weights of ``M`` nodes. If at most ``MOST_DISTINCT`` points
are distinct, the weights of equal points are summed, which is exact. Otherwise by kernel
interpolation: ``sum_j w_j f(x_j)`` becomes ``sum_m v_m f(z_m)`` with ``v = K_zz^-1 K_zx w``, exact
for the functions ``k(z_m, .)`` and optimal in the space of the kernel (Huszar and Duvenaud 2012).
The nodes are points of the data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, TypeAlias

import numpy as np
from scipy.linalg import cho_factor, cho_solve, cholesky, eigh, solve_triangular
from scipy.sparse import csc_matrix

from ax_costaware.laws.conditionals.landmarks import (
    half_median_distance,
    landmarks_of,
    rbf,
    rbf_mixture,
    some_rows,
    spreads_of,
)
from ax_costaware.laws.conditionals.leave_one_out import (
    Smoother,
    choose,
    least_ridge,
    nystrom_errors,
    random_features,
    target_features,
)
from ax_costaware.laws.tables import Array

MOST_DISTINCT = 2000
"""Number of distinct points up to which they are the nodes."""

_FIRST_LOOK = 10 * MOST_DISTINCT

Errors: TypeAlias = Callable[[Array], Array]
ErrorsOf: TypeAlias = Callable[[float], Errors]

MOST_EXACT = 2000
"""Number of pairs above which landmarks represent the queries."""

NUM_LANDMARKS = 500
"""Default number of landmarks."""

_MOST_TO_SEARCH = 1000
_MOST_TO_SEARCH_BY_LANDMARKS = 8000
_LEFT_OUT = 2000
_CHUNK = 4096
_JITTER = 1e-8

_NODE_JITTER = 1e-6
"""Jitter of the nodes' kernel matrix. With less, close nodes have large weights that cancel."""


@dataclass(frozen=True, eq=False)
class Projection:
    """Linear map from weights of ``N`` points to weights of ``M`` nodes."""

    nodes: Array
    """Nodes ``M x d`` in raw units."""

    product: Callable[[slice, Array], Array]
    """Function from a slice of points and their weights ``n x k`` to a term ``M x k`` of a sum."""

    finish: Callable[[Array], Array] = np.asarray
    """Function from the sum of all terms to the weights ``M x k`` of the nodes."""


def equal_points(X: Array) -> Projection | None:
    """Return the exact map if at most ``MOST_DISTINCT`` points ``N x d`` are distinct."""
    if len(np.unique(X[:_FIRST_LOOK], axis=0)) > MOST_DISTINCT:
        return None
    nodes, position = np.unique(X, axis=0, return_inverse=True)
    if len(nodes) > MOST_DISTINCT:
        return None
    places = position.ravel(), np.arange(len(X))
    chosen = csc_matrix((np.ones(len(X)), places), shape=(len(nodes), len(X)))
    return Projection(nodes, lambda rows, values: np.asarray(chosen[:, rows] @ values))


def _interpolation(X: Array, spreads: Array, num_nodes: int, seed: int) -> Projection:
    unit = spreads * half_median_distance(X / spreads)
    nodes = landmarks_of(X, num_nodes, seed)
    scaled = nodes / unit
    kernel = rbf_mixture(scaled, scaled)
    kernel[np.diag_indices_from(kernel)] += _NODE_JITTER
    factor = cho_factor(kernel, lower=True, overwrite_a=True)

    def product(rows: slice, values: Array) -> Array:
        return np.asarray(rbf_mixture(scaled, X[rows] / unit) @ values)

    return Projection(nodes, product, partial(cho_solve, factor))


def projection_of(X: Array, spreads: Array, num_nodes: int, seed: int) -> Projection:
    """Return the map to distinct points if these are few, else to ``num_nodes`` random ones.

    Args:
        X: Points ``N x d``.
        spreads: Scales of the ``d`` columns.
        num_nodes: Largest number of nodes of an interpolation.
        seed: Seed of the random choice of nodes.
    """
    return equal_points(X) or _interpolation(X, spreads, num_nodes, seed)


@dataclass(frozen=True, eq=False)
class Embedding:
    """Fitted embedding: ``weights(a) = projection l(a, centres)``, with an RBF ``l``."""

    nodes: Array
    """Nodes ``M x d`` in raw units."""

    projection: Array
    """Linear map ``M x M_a`` to weights."""

    errors: Array
    """Linear map ``r x M_a`` to factors of the sampling error: products of ``errors l(a, centres)``
    are products of the weights of the pairs, summed over pairs."""

    centres: Array
    """Landmarks of queries ``M_a x p`` in raw units."""

    scales: Array
    """Standard deviations of the ``p`` columns of queries."""

    lengthscale: float
    """Length-scale of ``l``, in standard deviations."""

    regularization: float
    """Regularization ``lambda``."""

    @cached_property
    def origin(self) -> Array:
        """Mean of the landmarks, ``p``."""
        return np.asarray(self.centres.mean(0))

    @cached_property
    def unit(self) -> Array:
        """Length-scale of each column of queries, in its raw unit."""
        return self.scales * self.lengthscale

    @cached_property
    def scaled_centres(self) -> Array:
        """Landmarks minus ``origin``, in units of ``unit``."""
        return np.asarray((self.centres - self.origin) / self.unit)


def fit(
    X: Array,
    A: Array,
    lengthscale: float | None,
    regularization: float | None,
    landmarks: int | None = None,
    seed: int = 0,
    projection: Projection | None = None,
) -> Embedding:
    """Fit an embedding to pairs.

    Args:
        X: Points ``N x d``.
        A: Queries ``N x p``.
        lengthscale: Length-scale in standard deviations of the columns of ``A``; None to choose it.
        regularization: ``lambda``; None to choose it.
        landmarks: Number of landmarks of queries above ``MOST_EXACT`` pairs, with twice as many of
            points; None for ``NUM_LANDMARKS``.
        seed: Seed of random subsets and features.
        projection: Map to nodes above ``MOST_EXACT`` pairs; None for ``projection_of``.
    """
    pairs = _pairs_of(X, A, seed)
    ridge = None if regularization is None else len(A) * regularization
    if len(A) <= MOST_EXACT:
        return _fit_exact(pairs, lengthscale, ridge)
    most = landmarks or NUM_LANDMARKS
    if projection is None:
        projection = projection_of(X, pairs.spreads, 2 * most, seed)
    return _fit_nystrom(pairs, lengthscale, ridge, most, projection)


def leave_one_out(embedding: Embedding, X: Array, A: Array, seed: int) -> float:
    """Return the leave-one-out error of an embedding, on at most ``MOST_EXACT`` of its pairs.

    Args:
        embedding: The embedding, fitted to the pairs.
        X: Points ``N x d``.
        A: Queries ``N x p``.
        seed: Seed of random subsets and features.
    """
    some = _pairs_of(X, A, seed).some(MOST_EXACT)
    ridge = np.array([len(some.A) * embedding.regularization])
    return float(_exact_errors_of(some)(embedding.lengthscale)(ridge)[0])


@dataclass(frozen=True, eq=False)
class _Pairs:
    """Pairs, the scales of their columns, and a seed."""

    X: Array
    A: Array
    scales: Array
    spreads: Array
    seed: int

    def some(self, most: int) -> _Pairs:
        """Return at most ``most`` random pairs, with the same scales."""
        return self.of(some_rows(len(self.A), most, self.seed))

    def of(self, rows: Any) -> _Pairs:
        """Return the pairs of some rows."""
        return _Pairs(self.X[rows], self.A[rows], self.scales, self.spreads, self.seed)

    def scaled(self, lengthscale: float) -> Array:
        """Return the queries in length-scales."""
        return np.asarray(self.A / (self.scales * lengthscale))


def _pairs_of(X: Array, A: Array, seed: int) -> _Pairs:
    return _Pairs(X, A, A.std(0), spreads_of(X), seed)


def _exact_errors_of(pairs: _Pairs) -> ErrorsOf:
    features = target_features(pairs.X / pairs.spreads, pairs.seed)

    def errors_of(lengthscale: float) -> Errors:
        scaled = pairs.scaled(lengthscale)
        return Smoother(rbf(scaled, scaled)).errors(features)

    return errors_of


def _fit_exact(pairs: _Pairs, lengthscale: float | None, ridge: float | None) -> Embedding:
    """Fit ``W(a) = (L + N lambda I)^-1 l(A, a)``, with the weights of equal points summed."""
    num_pairs = len(pairs.A)
    if lengthscale is None:
        some = pairs.some(_MOST_TO_SEARCH)
        lengthscale, found = choose(_exact_errors_of(some), ridge)
        if len(some.A) == num_pairs:
            ridge = found
    if ridge is None:
        ridge, _ = least_ridge(_exact_errors_of(pairs)(lengthscale))
    scaled = pairs.scaled(lengthscale)
    L = rbf(scaled, scaled)
    L[np.diag_indices_from(L)] += ridge
    nodes, position = np.unique(pairs.X, axis=0, return_inverse=True)
    sums = np.zeros((num_pairs, len(nodes)))
    sums[np.arange(num_pairs), position.ravel()] = 1.0
    inverse = cho_solve(cho_factor(L, lower=True, overwrite_a=True), np.eye(num_pairs))
    projection = (inverse @ sums).T
    return Embedding(
        nodes, projection, inverse, pairs.A, pairs.scales, lengthscale, ridge / num_pairs
    )


class _Basis:
    """Nystrom basis ``Psi(a) = R^-1 l(landmarks, a)``, with ``R R' = l(landmarks, landmarks)``.

    Landmarks are ``M_a x p`` queries in raw units, and ``scales`` those of their columns.
    """

    def __init__(self, landmarks: Array, scales: Array, lengthscale: float) -> None:
        self.scaled = landmarks / (scales * lengthscale)
        kernel = rbf(self.scaled, self.scaled)
        kernel[np.diag_indices_from(kernel)] += _JITTER
        self.factor = cholesky(kernel, lower=True)
        self.lengthscale = lengthscale

    def psi(self, pairs: _Pairs) -> Array:
        """Return the basis at the queries of pairs, ``n x M_a``."""
        kernel = rbf(self.scaled, pairs.scaled(self.lengthscale))
        return np.asarray(
            solve_triangular(self.factor, kernel, lower=True, overwrite_b=True, check_finite=False)
        ).T


def _fit_nystrom(
    pairs: _Pairs,
    lengthscale: float | None,
    ridge: float | None,
    most: int,
    projection: Projection,
) -> Embedding:
    """Fit with the Nystrom approximation of ``L``, and points projected onto nodes."""
    landmarks = landmarks_of(pairs.A, most, pairs.seed)
    unit = pairs.spreads * half_median_distance(pairs.X / pairs.spreads)

    def features(some: _Pairs) -> Array:
        return random_features(some.X / unit, pairs.seed)

    if lengthscale is None:
        some = pairs.some(_MOST_TO_SEARCH_BY_LANDMARKS)
        left_out = some_rows(len(some.A), _LEFT_OUT, pairs.seed)
        F = features(some)

        def errors_of(scale: float) -> Errors:
            psi = _Basis(landmarks, pairs.scales, scale).psi(some)
            return nystrom_errors(psi.T @ psi, psi.T @ F, psi[left_out], F[left_out])

        lengthscale, _ = choose(errors_of, ridge)

    basis = _Basis(landmarks, pairs.scales, lengthscale)
    gram: Any = 0.0
    cross: Any = 0.0
    sums: Any = 0.0
    for start in range(0, len(pairs.A), _CHUNK):
        rows = slice(start, start + _CHUNK)
        chunk = pairs.of(rows)
        psi = basis.psi(chunk)
        gram = gram + psi.T @ psi
        sums = sums + projection.product(rows, psi)
        if ridge is None:
            cross = cross + psi.T @ features(chunk)
    if ridge is None:
        out = pairs.some(2 * _LEFT_OUT)
        ridge, _ = least_ridge(nystrom_errors(gram, cross, basis.psi(out), features(out)))
    # Root of W W', with the weights W of the pairs.
    values, vectors = eigh(gram)
    values = values.clip(0.0)
    errors = (vectors * (np.sqrt(values) / (values + ridge))).T
    gram[np.diag_indices_from(gram)] += ridge
    weights = cho_solve(cho_factor(gram, lower=True), projection.finish(sums).T)
    weights = solve_triangular(basis.factor, weights, lower=True, trans="T").T
    errors = solve_triangular(basis.factor, errors.T, lower=True, trans="T").T
    return Embedding(
        nodes=projection.nodes,
        projection=weights,
        errors=errors,
        centres=landmarks,
        scales=pairs.scales,
        lengthscale=lengthscale,
        regularization=ridge / len(pairs.A),
    )

"""The conditional mean embedding of pairs: weights of points as functions of the query.

Up to ``MOST_EXACT`` pairs it is exact. Beyond, a random subset of the queries, the landmarks,
stands for the queries of all pairs (Nystrom; Williams and Seeger 2001), and the points are
projected once on a random subset of their own, so that nothing after the fit depends on the number
of pairs. All passes over the pairs go in chunks.

Weights of ``N`` points become weights of ``M`` nodes: exactly where no more than ``MOST_DISTINCT``
points differ, by summing the weights of equal points. Else by kernel interpolation:
``sum_j w_j f(x_j)`` becomes ``sum_m v_m f(z_m)`` with ``v = K_zz^-1 K_zx w``, exact for the
functions ``k(z_m, .)`` and best in the space of the kernel (an optimal quadrature on the given
nodes; Huszar and Duvenaud 2012). The nodes are points of the data.
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
"""No more than so many different points are kept as they are."""

_FIRST_LOOK = 10 * MOST_DISTINCT

Errors: TypeAlias = Callable[[Array], Array]
ErrorsOf: TypeAlias = Callable[[float], Errors]

MOST_EXACT = 2000
"""With more pairs, landmarks stand for their queries."""

NUM_LANDMARKS = 500
"""Default number of landmarks."""

_MOST_TO_SEARCH = 1000
_MOST_TO_SEARCH_BY_LANDMARKS = 8000
_LEFT_OUT = 2000
_CHUNK = 4096
_JITTER = 1e-8

_NODE_JITTER = 1e-6
"""With less, random nodes that lie close together get large weights that cancel."""


@dataclass(frozen=True, eq=False)
class Projection:
    """A linear map from weights of ``N`` points to weights of ``M`` nodes."""

    nodes: Array
    """``M x d``, in raw units."""

    product: Callable[[slice, Array], Array]
    """The part ``M x k`` of some points, of weights ``n x k``, in a sum over all points."""

    finish: Callable[[Array], Array] = np.asarray
    """The weights ``M x k`` of the nodes, from the sum of all products."""


def equal_points(X: Array) -> Projection | None:
    """The exact map where no more than ``MOST_DISTINCT`` of the points ``N x d`` differ."""
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
    """The map to equal points where there are few, else to ``num_nodes`` of the points.

    Args:
        X: Points ``N x d``.
        spreads: What the ``d`` columns are divided by to compare.
        num_nodes: The most nodes of an interpolation.
        seed: Seed of the random choice of nodes.
    """
    return equal_points(X) or _interpolation(X, spreads, num_nodes, seed)


@dataclass(frozen=True, eq=False)
class Embedding:
    """``weights(a) = projection l(a, centres)``, with an RBF ``l`` of scaled queries."""

    nodes: Array
    """The points ``M x d`` that are weighted, in raw units."""

    projection: Array
    """``M x M_a``."""

    errors: Array
    """``r x M_a``: with one pair's point in its place the average over the nodes would have another
    sampling error; products of ``errors l(a, centres)`` sum those of the weights of the pairs."""

    centres: Array
    """``M_a x p``, in raw units."""

    scales: Array
    """The ``p`` standard deviations of the columns of the queries."""

    lengthscale: float
    """Of ``l``, in standard deviations."""

    regularization: float
    """``lambda``."""

    @cached_property
    def origin(self) -> Array:
        """The middle of the centres, ``p``."""
        return np.asarray(self.centres.mean(0))

    @cached_property
    def unit(self) -> Array:
        """The length-scale of each column of the queries, in its raw unit."""
        return self.scales * self.lengthscale

    @cached_property
    def scaled_centres(self) -> Array:
        """The centres, in this unit from the origin."""
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
        lengthscale: In standard deviations of the columns of ``A``; ``None`` to choose it.
        regularization: ``lambda``; ``None`` to choose it.
        landmarks: The number of landmarks of the queries where there are more than ``MOST_EXACT``
            pairs; there are two times as many of the points. ``None``: ``NUM_LANDMARKS``.
        seed: Of random subsets and features.
        projection: Where more than ``MOST_EXACT`` pairs put their weights; ``None``: as
            ``projection_of`` says.
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
    """The leave-one-out error of an embedding, of no more than ``MOST_EXACT`` of its pairs.

    Args:
        embedding: What was fitted to the pairs.
        X: Points ``N x d``.
        A: Queries ``N x p``.
        seed: Of the choice of pairs, where there are more, and of features.
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
        """These pairs, or random ones of them; the scales stay."""
        return self.of(some_rows(len(self.A), most, self.seed))

    def of(self, rows: Any) -> _Pairs:
        """The pairs of these rows."""
        return _Pairs(self.X[rows], self.A[rows], self.scales, self.spreads, self.seed)

    def scaled(self, lengthscale: float) -> Array:
        """The queries in length-scales."""
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
    """``W(a) = (L + N lambda I)^-1 l(A, a)``, with the weights of equal points summed."""
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
    """``Psi(a) = R^-1 l(landmarks, a)``, with ``R R'`` the kernel matrix of the landmarks.

    The landmarks are ``M_a x p`` queries in raw units, ``scales`` those of their columns.
    """

    def __init__(self, landmarks: Array, scales: Array, lengthscale: float) -> None:
        self.scaled = landmarks / (scales * lengthscale)
        kernel = rbf(self.scaled, self.scaled)
        kernel[np.diag_indices_from(kernel)] += _JITTER
        self.factor = cholesky(kernel, lower=True)
        self.lengthscale = lengthscale

    def psi(self, pairs: _Pairs) -> Array:
        """``n x M_a``."""
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
    """The same with ``L`` of the rank of its landmarks and the points projected on nodes."""
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
    # W W' of the pairs' weights W, as the product of a root with itself.
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

"""The conditional mean embedding of pairs: weights of points as functions of the query."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from ax_costaware.queries.conditionals.fields import Array
from ax_costaware.queries.conditionals.leave_one_out import (
    choose,
    leave_one_out_errors,
    rbf,
    ridges,
    target_features,
)


@dataclass(frozen=True, eq=False)
class Embedding:
    """``weights(a) = projection l(a, centres)``, with an RBF ``l`` of scaled queries."""

    nodes: Array
    """The points ``M x d`` that are weighed, in raw units."""

    projection: Array
    """``M x M_a``."""

    centres: Array
    """``M_a x p``, queries divided by ``scales``."""

    scales: Array
    """The ``p`` standard deviations of the columns of the queries."""

    lengthscale: float
    """Of ``l``, in standard deviations."""

    regularization: float
    """``lambda``."""


def fit_exact(
    X: Array, A: Array, lengthscale: float | None, regularization: float | None, seed: int
) -> Embedding:
    """``W(a) = (L + N lambda I)^-1 l(A, a)``, with the weights of equal points summed.

    Args:
        X: Points ``N x d``.
        A: Queries ``N x p``.
        lengthscale: In standard deviations of the columns of ``A``; ``None`` to choose it.
        regularization: ``lambda``; ``None`` to choose it.
        seed: Of random features.
    """
    scales = A.std(0)
    scaled = A / scales
    nodes, position = np.unique(X, axis=0, return_inverse=True)
    if lengthscale is None or regularization is None:
        spread = X.std(0)
        F = target_features(X / np.where(spread > 0, spread, 1.0), seed)
        tried = ridges() if regularization is None else np.array([len(A) * regularization])

        def errors_of(scale: float) -> tuple[Array, Array]:
            return tried, leave_one_out_errors(rbf(scaled / scale, scaled / scale), F, tried)

        lengthscale, ridge = choose(errors_of, lengthscale)
        regularization = ridge / len(A)
    L = rbf(scaled / lengthscale, scaled / lengthscale)
    L[np.diag_indices_from(L)] += len(A) * regularization
    sums = np.zeros((len(nodes), len(A)))
    sums[position.ravel(), np.arange(len(A))] = 1.0
    projection = cho_solve(cho_factor(L, lower=True), sums.T).T
    return Embedding(nodes, projection, scaled, scales, lengthscale, regularization)

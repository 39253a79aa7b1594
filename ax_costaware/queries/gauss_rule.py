"""Gauss quadrature for an arbitrary law: ``n`` nodes exact for polynomials of degree ``2n - 1``.

The law comes as a fine discretisation (or is discrete to begin with). Its Jacobi matrix follows
from the Lanczos recurrence, which is Stieltjes' procedure for orthonormal polynomials, and the
nodes and weights from the eigenvectors of that matrix (Golub and Welsch 1969, *Calculation of Gauss
Quadrature Rules*; Gautschi 2004, *Orthogonal Polynomials*, sections 2.2 and 3.1). Nodes have the
units of the input, weights sum to one.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.linalg import eigh_tridiagonal
from scipy.special import roots_legendre

Array = npt.NDArray[np.float64]


def gauss_rule(points: Array, masses: Array, n: int) -> tuple[Array, Array]:
    """Gauss rule of a discrete law.

    Args:
        points: The ``N > n`` distinct points of the law.
        masses: Their ``N`` positive masses, of any sum.
        n: Number of nodes.

    Returns:
        ``n`` nodes in increasing order and ``n`` weights that sum to one. Memory is ``N x n``.
    """
    lower, upper = points.min(), points.max()
    # On [-1, 1] neither the recurrence nor the tolerances below depend on units.
    center, half = lower / 2 + upper / 2, upper / 2 - lower / 2
    x = (points - center) / half
    basis = np.zeros((n, len(x)))
    diagonal, off_diagonal = np.zeros(n), np.zeros(n)
    vector = np.sqrt(masses / masses.sum())
    for k in range(n):
        basis[k] = vector / np.linalg.norm(vector)
        vector = x * basis[k]
        diagonal[k] = vector @ basis[k]
        # The three-term recurrence alone loses orthogonality once n exceeds about 2 sqrt(N) (for
        # evenly spaced points; Gautschi 2004, section 2.2.4). Projecting twice keeps it.
        for _ in range(2):
            vector = vector - basis[: k + 1].T @ (basis[: k + 1] @ vector)
        off_diagonal[k] = np.linalg.norm(vector)
    nodes, vectors = eigh_tridiagonal(diagonal, off_diagonal[: n - 1])
    weights = vectors[0] ** 2
    return np.clip(center + half * nodes, lower, upper), weights / weights.sum()


@lru_cache(maxsize=64)
def gauss_legendre(n: int) -> tuple[Array, Array]:
    """Nodes in ``[-1, 1]`` and weights, summing to one, of the uniform law; both read-only."""
    nodes, weights = roots_legendre(n)
    weights = weights / weights.sum()
    nodes.flags.writeable = False
    weights.flags.writeable = False
    return nodes, weights

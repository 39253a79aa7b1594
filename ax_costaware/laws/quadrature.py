"""Quadrature rules in one dimension, and quasi-random points.

A Gauss rule of ``n`` nodes is exact for polynomials of degree ``2n - 1``. The rule of an arbitrary
distribution is computed from a fine discretization. Its Jacobi matrix follows from the Lanczos
recurrence, which is Stieltjes' procedure for orthonormal polynomials. Nodes and weights follow from
the eigenvectors of that matrix (Golub and Welsch 1969, *Calculation of Gauss Quadrature Rules*;
Gautschi 2004, *Orthogonal Polynomials*, sections 2.2 and 3.1). Nodes are in the unit of the input,
and weights sum to one.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from numpy.polynomial.hermite_e import hermegauss
from scipy.linalg import eigh_tridiagonal
from scipy.special import roots_legendre
from torch import Tensor
from torch.quasirandom import SobolEngine

from ax_costaware.argument_checks import integer_at_least
from ax_costaware.laws.tables import Array

NORMAL_REACH = 6.5
"""Half-width of integrals over a normal distribution, in standard deviations; 8e-11 of the mass is
outside."""

_MOST_HERMITE = 16
"""Largest number of Gauss-Hermite nodes."""

_MOST_CACHED = 2**17
"""Size of the largest cached array of uniform draws, a megabyte."""

_LEAST_PROBABILITY = 1e-9
"""Distance of uniform draws from 0 and 1, which have infinite normal scores."""


def gauss_rule(points: Array, masses: Array, n: int) -> tuple[Array, Array]:
    """Return the Gauss rule of a discrete distribution.

    Args:
        points: Distinct points of the distribution, ``N > n``.
        masses: Positive masses of the points, ``N``, of any sum.
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
    """Return nodes in ``[-1, 1]`` and weights of the uniform distribution; both read-only."""
    return _normalized(*roots_legendre(n))


@lru_cache(maxsize=16)
def gauss_hermite(n: int) -> tuple[Array, Array]:
    """Return nodes and weights of the standard normal distribution; both read-only."""
    return _normalized(*hermegauss(n))


@lru_cache(maxsize=16)
def normal_rule(n: int) -> tuple[Array, Array]:
    """Return nodes and weights of the standard normal distribution, both read-only.

    Up to ``_MOST_HERMITE`` nodes are Gauss-Hermite. The spacing of these falls only with the square
    root of their number. More nodes are evenly spaced: the trapezoidal rule is as exact, since the
    density vanishes at both ends.
    """
    if n <= _MOST_HERMITE:
        return gauss_hermite(n)
    nodes = np.linspace(-NORMAL_REACH, NORMAL_REACH, n)
    return _normalized(nodes, np.exp(-0.5 * nodes**2))


def _normalized(nodes: Array, weights: Array) -> tuple[Array, Array]:
    """Return a rule with weights that sum to one, read-only since it is cached."""
    weights = weights / weights.sum()
    nodes.flags.writeable = weights.flags.writeable = False
    return nodes, weights


def uniforms(num_columns: int, n: int, seed: int) -> Tensor:
    """Return ``n x num_columns`` scrambled Sobol points, strictly between 0 and 1, in double.

    Do not change them in place: small ones are cached.

    Raises:
        InputError: If ``seed < 0``.
    """
    draw = _drawn if n * num_columns <= _MOST_CACHED else _drawn.__wrapped__
    return draw(num_columns, n, integer_at_least(seed, 0, "seed"))


@lru_cache(maxsize=16)
def _drawn(num_columns: int, n: int, seed: int) -> Tensor:
    if num_columns == 0:
        return torch.empty(n, 0, dtype=torch.double)
    with torch.inference_mode(False):
        draws = SobolEngine(num_columns, scramble=True, seed=seed).draw(n, dtype=torch.double)
        return draws.clamp(_LEAST_PROBABILITY, 1.0 - _LEAST_PROBABILITY)

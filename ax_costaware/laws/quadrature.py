"""Quadrature rules in one dimension, and quasi-random points.

A Gauss rule of ``n`` nodes is exact for polynomials of degree ``2n - 1``. Of an arbitrary law it is
made from a fine discretisation (or the law is discrete to begin with). Its Jacobi matrix follows
from the Lanczos recurrence, which is Stieltjes' procedure for orthonormal polynomials, and the
nodes and weights from the eigenvectors of that matrix (Golub and Welsch 1969, *Calculation of Gauss
Quadrature Rules*; Gautschi 2004, *Orthogonal Polynomials*, sections 2.2 and 3.1). Nodes have the
units of the input, weights sum to one.
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
"""Normal laws are integrated over this many standard deviations: 8e-11 of the mass is beyond."""

_MOST_HERMITE = 16

_MOST_KEPT = 2**17
"""Numbers of uniform draws that are kept, a megabyte."""

_LEAST_PROBABILITY = 1e-9
"""Uniform draws stay this far from 0 and 1, whose normal scores are infinite."""


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
    return _kept(*roots_legendre(n))


@lru_cache(maxsize=16)
def gauss_hermite(n: int) -> tuple[Array, Array]:
    """Nodes and weights, summing to one, of the standard normal law; both read-only."""
    return _kept(*hermegauss(n))


@lru_cache(maxsize=16)
def normal_rule(n: int) -> tuple[Array, Array]:
    """Nodes and weights of the standard normal law, both read-only.

    Gauss-Hermite ones up to ``_MOST_HERMITE``. More of these would lie closer by the root of their
    number only; evenly spaced ones lie closer by their number, and are as exact (the trapezoidal
    rule of a function that vanishes at both ends).
    """
    if n <= _MOST_HERMITE:
        return gauss_hermite(n)
    nodes = np.linspace(-NORMAL_REACH, NORMAL_REACH, n)
    return _kept(nodes, np.exp(-0.5 * nodes**2))


def _kept(nodes: Array, weights: Array) -> tuple[Array, Array]:
    """A rule of weight one that cannot be changed, since it is kept for the next call."""
    weights = weights / weights.sum()
    nodes.flags.writeable = weights.flags.writeable = False
    return nodes, weights


def uniforms(num_columns: int, n: int, seed: int) -> Tensor:
    """``n x num_columns`` scrambled Sobol points, strictly between 0 and 1, double.

    To be read only: few are kept for the next call, as of the next control set.

    Raises:
        InputError: For ``seed < 0``.
    """
    draw = _drawn if n * num_columns <= _MOST_KEPT else _drawn.__wrapped__
    return draw(num_columns, n, integer_at_least(seed, 0, "seed"))


@lru_cache(maxsize=16)
def _drawn(num_columns: int, n: int, seed: int) -> Tensor:
    if num_columns == 0:
        return torch.empty(n, 0, dtype=torch.double)
    with torch.inference_mode(False):
        draws = SobolEngine(num_columns, scramble=True, seed=seed).draw(n, dtype=torch.double)
        return draws.clamp(_LEAST_PROBABILITY, 1.0 - _LEAST_PROBABILITY)

"""Quadrature rules of normal laws."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from ax_costaware.queries.conditionals.fields import Array
from ax_costaware.queries.conditionals.rules import ColumnNodes
from ax_costaware.queries.gauss_rule import gauss_legendre

_SIZE = 6.5
"""Clipped laws are integrated over this many standard deviations: 8e-11 of the mass is beyond."""

_MOST_HERMITE = 16

_LEAST_WEIGHT = 1e-9
"""Nodes of a rotated grid that weigh less are left out."""


def clipped_normal(
    mean: Tensor, scale: Tensor, lower: Tensor, upper: Tensor, num_nodes: int
) -> ColumnNodes:
    """Rules of normal laws whose mass outside of the bounds is moved to them.

    Atoms at the bounds, and Gauss-Legendre nodes on what is inside, which follow the mean, so that
    nodes and weights are smooth in it. A column of no variance has its node at the bound where the
    mean is outside.
    """
    standard, weights = (torch.tensor(v).to(mean) for v in gauss_legendre(2 * num_nodes))
    moves = scale > 0
    safe = torch.where(moves, scale, torch.ones_like(scale))
    start = torch.minimum(torch.maximum(mean - _SIZE * safe, lower), upper)
    end = torch.minimum(torch.maximum(mean + _SIZE * safe, lower), upper)
    middle, half = (start + end) / 2, (end - start) / 2
    nodes = middle.unsqueeze(-2) + standard[:, None] * half.unsqueeze(-2)
    distance = (nodes - mean.unsqueeze(-2)) / safe
    density = torch.exp(-0.5 * distance**2) / (safe * math.sqrt(2 * math.pi))
    masses = density * weights[:, None] * 2 * half.unsqueeze(-2)
    below = torch.special.ndtr((lower - mean) / safe).unsqueeze(-2)
    above = torch.special.ndtr((mean - upper) / safe).unsqueeze(-2)
    total = below + above + masses.sum(dim=-2, keepdim=True)
    nodes = torch.cat([lower.expand_as(below), nodes, upper.expand_as(above)], dim=-2)
    masses = torch.cat([below, masses, above], dim=-2) / total
    if bool(moves.all()):
        return ColumnNodes(nodes, masses)
    at = torch.minimum(torch.maximum(mean, lower), upper).unsqueeze(-2)
    one = torch.full_like(masses, 1 / masses.shape[-2])
    return ColumnNodes(
        torch.where(moves, nodes, at.expand_as(nodes)), torch.where(moves, masses, one)
    )


@lru_cache(maxsize=16)
def gauss_hermite(n: int) -> tuple[Array, Array]:
    """Nodes and weights, summing to one, of the standard normal law; both read-only."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(n)
    weights = weights / weights.sum()
    nodes.flags.writeable = False
    weights.flags.writeable = False
    return nodes, weights


@lru_cache(maxsize=16)
def normal_rule(n: int) -> tuple[Array, Array]:
    """Nodes and weights of the standard normal law, both read-only.

    Gauss-Hermite ones up to ``_MOST_HERMITE``. More of these would lie closer by the root of their
    number only; evenly spaced ones lie closer by their number, and are as exact (the trapezoidal
    rule of a function that vanishes at both ends).
    """
    if n <= _MOST_HERMITE:
        return gauss_hermite(n)
    nodes = np.linspace(-_SIZE, _SIZE, n)
    weights = np.exp(-0.5 * nodes**2)
    weights /= weights.sum()
    nodes.flags.writeable = False
    weights.flags.writeable = False
    return nodes, weights


@lru_cache(maxsize=16)
def normal_grid(n: int, num_columns: int) -> tuple[Array, Array]:
    """A grid ``m x d`` for the standard normal law, without its least corners, and weights."""
    nodes, weights = gauss_hermite(n)
    grid = np.stack(np.meshgrid(*[nodes] * num_columns, indexing="ij"), -1)
    grid = grid.reshape(-1, num_columns)
    mass = np.prod(np.stack(np.meshgrid(*[weights] * num_columns, indexing="ij"), -1), -1).ravel()
    kept = mass > _LEAST_WEIGHT
    grid, mass = grid[kept], mass[kept] / mass[kept].sum()
    return grid, mass

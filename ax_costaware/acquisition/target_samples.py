"""Samples of the function behind averages, within bounds on further outcomes.

Every outcome has a process of its own behind its averages. What is wanted is the point where the
objective is best of those where the others are within their bounds, and a sample of it is that of
samples of all of them (Eriksson and Poloczek 2021, "Scalable Constrained Bayesian Optimization").
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ax_costaware.models.latent_paths import TargetPaths
from ax_costaware.models.posterior import ExactPosterior

_PENALTY = 100.0
"""What a standard deviation out of bounds takes off a sample, in those of the objective; it is
quadratic, so that a search finds its way, and samples end at most some hundredths out of bounds."""


class TargetBound(NamedTuple):
    """Bounds on the values that an outcome has at points."""

    posterior: ExactPosterior
    """The posterior of the outcome."""

    lower: float = -math.inf
    """Least feasible value."""

    upper: float = math.inf
    """Largest feasible value."""

    def excess(self, values: Tensor) -> Tensor:
        """The square of how much values are out of bounds."""
        over, under = (values - self.upper).clamp_min(0.0), (self.lower - values).clamp_min(0.0)
        return over.square() + under.square()


def penalty(posterior: ExactPosterior, bound: TargetBound, X: Tensor) -> float:
    """What excess takes off the objective, by how much both vary over points ``n x d``."""
    sizes = []
    for one in (posterior, bound.posterior):
        mean, variance = moments_of(one, X)
        sizes.append(float((variance.mean() + mean.var()).sqrt()))
    return _PENALTY * sizes[0] / sizes[1] ** 2


class BoundedPaths:
    """Sample paths of the objective that fall where those of other outcomes are out of bounds.

    Args:
        paths: The paths of the objective, ``S``.
        others: Of each bound as many paths of its outcome, and what excess takes off.
    """

    def __init__(
        self, paths: TargetPaths, others: Sequence[tuple[TargetBound, TargetPaths, float]]
    ) -> None:
        self._paths, self._others = paths, others

    def __call__(self, X: Tensor) -> Tensor:
        """As of ``TargetPaths``."""
        return self._values(lambda paths: paths(X))

    def each_at(self, X: Tensor, path: Tensor) -> Tensor:
        """As of ``TargetPaths``."""
        return self._values(lambda paths: paths.each_at(X, path))

    def _values(self, read: Callable[[TargetPaths], Tensor]) -> Tensor:
        value = read(self._paths)
        for bound, paths, price in self._others:
            value = value - price * bound.excess(read(paths))
        return value


def sample_paths(
    posterior: ExactPosterior,
    bounds: Sequence[TargetBound],
    X: Tensor,
    num_paths: int,
    seed: int,
) -> BoundedPaths:
    """Sample paths of the objective, within bounds on other outcomes.

    Args:
        posterior: The posterior of the objective.
        bounds: The bounds.
        X: ``n x d`` points by which it is told how much outcomes vary.
        num_paths: How many paths.
        seed: Seed of the draw.

    Raises:
        UnsupportedInputError: As ``TargetPaths``.
    """
    paths = TargetPaths(posterior, num_paths, seed)
    others = [
        (bound, TargetPaths(bound.posterior, num_paths, seed + i), penalty(posterior, bound, X))
        for i, bound in enumerate(bounds, start=1)
    ]
    return BoundedPaths(paths, others)


def joint_draws(
    posterior: ExactPosterior,
    bounds: Sequence[TargetBound],
    points: Tensor,
    num_samples: int,
    seed: int,
) -> Tensor:
    """Joint draws of the objective at points ``m x d``, ``m x S``; arguments as of the paths."""
    draws = _draws(posterior, points, num_samples, seed)
    for i, bound in enumerate(bounds, start=1):
        others = _draws(bound.posterior, points, num_samples, seed + i)
        draws = draws - penalty(posterior, bound, points) * bound.excess(others)
    return draws


def moments_of(posterior: ExactPosterior, X: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance of the function at points ``m x d``, each ``m``."""
    parts = [posterior.latent(part) for part in X.split(1024)]
    return torch.cat([mean for mean, _ in parts]), torch.cat([variance for _, variance in parts])


def _draws(posterior: ExactPosterior, points: Tensor, num_samples: int, seed: int) -> Tensor:
    mean, _ = moments_of(posterior, points)
    covariance = posterior.latent.joint(points)[1]
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(len(points), num_samples, generator=generator, dtype=torch.double)
    return mean.unsqueeze(-1) + _root(covariance) @ noise.to(mean)


def _root(covariance: Tensor) -> Tensor:
    """A square root of a covariance that may be singular."""
    scale = covariance.diagonal().mean()
    identity = torch.eye(len(covariance)).to(covariance)
    for jitter in (0.0, 1e-12, 1e-10):
        root: Tensor
        root, failed = torch.linalg.cholesky_ex(covariance + jitter * scale * identity)
        if not int(failed):
            return root
    values, vectors = torch.linalg.eigh((covariance + covariance.mT) / 2)
    root = vectors * values.clamp_min(0.0).sqrt()
    return root

"""Samples of the function behind averages, within bounds on further outcomes.

Every outcome has a process of its own behind its averages. What is wanted is the point where the
objective is best of those where the others are within their bounds, and a sample of it is that of
samples of all of them (Eriksson and Poloczek 2021, "Scalable Constrained Bayesian Optimization").
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor

from ax_costaware.acquisition.feasibility import Feasibility, OutcomeConstraint
from ax_costaware.models.latent_paths import LatentPaths
from ax_costaware.models.posterior import ExactPosterior

_PENALTY = 100.0
"""What a standard deviation out of bounds takes off a sample, in those of the objective; it is
quadratic, so that a search finds its way, and samples end at most some hundredths out of bounds."""

Penalties = Sequence[tuple[OutcomeConstraint, float]]
"""Bounds of each outcome, and the factor of the square of how much a sample is out of them."""


class BoundedPaths:
    """Sample paths of the objective that fall where those of other outcomes are out of bounds.

    Args:
        posterior: The posterior of the objective.
        feasibility: The posteriors of the other outcomes, with their bounds.
        X: ``n x d`` points by which it is told how much outcomes vary.
        num_paths: How many paths, ``S``.
        seed: Seed of the draw.

    Raises:
        UnsupportedInputError: As ``LatentPaths``.
    """

    def __init__(
        self,
        posterior: ExactPosterior,
        feasibility: Feasibility[ExactPosterior],
        X: Tensor,
        num_paths: int,
        seed: int,
    ) -> None:
        posteriors = [posterior, *(other for _, other in feasibility.outcomes)]
        self._paths = [LatentPaths(one, num_paths, seed + i) for i, one in enumerate(posteriors)]
        self._penalties = _penalties(posterior, feasibility, X)

    def __call__(self, X: Tensor) -> Tensor:
        """As of ``LatentPaths``."""
        return self._values(lambda paths: paths(X))

    def each_at(self, X: Tensor, path: Tensor) -> Tensor:
        """As of ``LatentPaths``."""
        return self._values(lambda paths: paths.each_at(X, path))

    def _values(self, read: Callable[[LatentPaths], Tensor]) -> Tensor:
        value, *others = map(read, self._paths)
        return _penalized(value, others, self._penalties)


def joint_draws(
    posterior: ExactPosterior,
    feasibility: Feasibility[ExactPosterior],
    points: Tensor,
    num_samples: int,
    seed: int,
) -> Tensor:
    """Joint draws of the objective at points ``m x d``, ``m x S``; arguments as of the paths."""
    posteriors = [posterior, *(other for _, other in feasibility.outcomes)]
    values = (_draws(one, points, num_samples, seed + i) for i, one in enumerate(posteriors))
    return _penalized(next(values), values, _penalties(posterior, feasibility, points))


def _penalties(
    posterior: ExactPosterior, feasibility: Feasibility[ExactPosterior], X: Tensor
) -> Penalties:
    """The penalties of outcomes, by how much these and the objective vary over points ``n x d``."""

    def size(one: ExactPosterior) -> float:
        mean, variance = moments_of(one, X)
        return float((variance.mean() + mean.var()).sqrt())

    return [
        (bound, _PENALTY * size(posterior) / size(other) ** 2)
        for bound, other in feasibility.outcomes
    ]


def _penalized(value: Tensor, others: Iterable[Tensor], penalties: Penalties) -> Tensor:
    """Values of the objective, less the penalties of those of the other outcomes."""
    for other, (bound, factor) in zip(others, penalties, strict=True):
        value = value - factor * bound.squared_excess(other)
    return value


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

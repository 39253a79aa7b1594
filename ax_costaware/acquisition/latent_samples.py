"""Samples of the latent function of averages, with bounds on further outcomes.

Every outcome has a latent process of its own. A sample of the best feasible point is the best
feasible point of one sample of every process (Eriksson and Poloczek 2021, "Scalable Constrained
Bayesian Optimization").
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor

from ax_costaware.acquisition.feasibility import Feasibility, OutcomeConstraint
from ax_costaware.models.latent_paths import LatentPaths
from ax_costaware.models.posterior import ExactPosterior

_PENALTY = 100.0
"""Penalty of a standard deviation out of bounds, in standard deviations of the objective.

The penalty is quadratic, so that a search can climb it. Optima of samples violate bounds by a few
hundredths of a standard deviation at most.
"""

Penalties = Sequence[tuple[OutcomeConstraint, float]]
"""Bounds of each outcome, and the factor of its squared violation."""


class BoundedPaths:
    """Sample paths of the objective, with penalties where other outcomes violate their bounds.

    Args:
        posterior: The posterior of the objective.
        feasibility: The posteriors of the other outcomes, with their bounds.
        X: ``n x d`` points from which the scales of the outcomes are estimated.
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
        """Return the penalized paths, see ``LatentPaths``."""
        return self._values(lambda paths: paths(X))

    def each_at(self, X: Tensor, path: Tensor) -> Tensor:
        """Return each point's value on its own penalized path, see ``LatentPaths``."""
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
    """Return penalized joint draws at points ``m x d``, ``m x S``; see ``BoundedPaths``."""
    posteriors = [posterior, *(other for _, other in feasibility.outcomes)]
    values = (_draws(one, points, num_samples, seed + i) for i, one in enumerate(posteriors))
    return _penalized(next(values), values, _penalties(posterior, feasibility, points))


def _penalties(
    posterior: ExactPosterior, feasibility: Feasibility[ExactPosterior], X: Tensor
) -> Penalties:
    """Return penalties, scaled by the spread of the objective and outcomes at points ``n x d``."""

    def size(one: ExactPosterior) -> float:
        mean, variance = moments_of(one, X)
        return float((variance.mean() + mean.var()).sqrt())

    return [
        (bound, _PENALTY * size(posterior) / size(other) ** 2)
        for bound, other in feasibility.outcomes
    ]


def _penalized(value: Tensor, others: Iterable[Tensor], penalties: Penalties) -> Tensor:
    """Return values of the objective minus the penalties of other outcomes."""
    for other, (bound, factor) in zip(others, penalties, strict=True):
        value = value - factor * bound.squared_excess(other)
    return value


def moments_of(posterior: ExactPosterior, X: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and variance of the latent function at points ``m x d``, each ``m``."""
    parts = [posterior.latent(part) for part in X.split(1024)]
    return torch.cat([mean for mean, _ in parts]), torch.cat([variance for _, variance in parts])


def _draws(posterior: ExactPosterior, points: Tensor, num_samples: int, seed: int) -> Tensor:
    mean, _ = moments_of(posterior, points)
    covariance = posterior.latent.joint(points)[1]
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(len(points), num_samples, generator=generator, dtype=torch.double)
    return mean.unsqueeze(-1) + _root(covariance) @ noise.to(mean)


def _root(covariance: Tensor) -> Tensor:
    """Return a square root of a covariance that may be singular."""
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

r"""Posterior of points and of weighted sums of points, for inner loops.

An acquisition function needs two numbers per point or query, thousands of times over. On an exact
GP they are products with a cached factor, whatever the kernel; any other model is asked through
``model.posterior``. Units are those of the posterior after the posterior transform.

A query is given by nodes :math:`z_j` with weights :math:`w_j`, one set of nodes for each query.
Where the law of the random inputs depends on the controlled ones, the nodes or their weights move
with the point, nothing of a control set can be prepared, and the parts of a kernel no longer come
apart; nor do they where the kernel is no product. What is left is one matrix of covariances
:math:`k_j` between the nodes of a point and the training inputs. With
:math:`A = (K + \Sigma)^{-1}`, on the latent scale,

* :math:`\mu(z_j) = m + k_j^\top \alpha` and :math:`\sigma^2(z_j) = k(z_j, z_j) - k_j^\top A k_j`;
* :math:`g = \sum_j w_j f(z_j)` is Gaussian with :math:`v = \sum_j w_j k_j`,
  :math:`E\,g = m + v^\top \alpha` and
  :math:`\mathrm{Var}\,g = \sum_{jj'} w_j w_{j'} k(z_j, z_{j'}) - v^\top A v`.

Both hold for every kernel of an exact GP. Gradients go through the nodes and through the weights.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from typing import Any, ClassVar, cast

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.models.model import Model, ModelList
from botorch.posteriors.gpytorch import GPyTorchPosterior
from botorch.utils.transforms import is_ensemble
from torch import Tensor

from ax_costaware.exceptions import UnsupportedInputError
from ax_costaware.models.believed import after_pending
from ax_costaware.models.cached_posterior import (
    CachedPosterior,
    any_unit,
    least,
    only_model,
    untransformed,
)
from ax_costaware.models.conditional_mean_process import ConditionalMeanProcess
from ax_costaware.models.expectation import check_one_outcome, expectation_posterior, joint_moments
from ax_costaware.models.fourier_path import FourierPath
from ax_costaware.models.rowwise import remaining_variance

COARSE_NODES = 64
"""Nodes that are enough for screening, where the best of many points are looked for."""


class Spread(Enum):
    """Which standard deviation of a query a criterion reads."""

    NONE = "none"
    FUNCTION = "function"
    r""":math:`E\,\sigma`, that of the function, averaged over what is left to chance."""
    EXPECTATION = "expectation"
    r""":math:`\mathrm{sd}[E f]`, that of the query's value."""


class QueryMoments(ABC):
    """What a criterion asks of queries. Units are those of the transformed posterior."""

    most_nodes: ClassVar[tuple[int | None, int]] = (None, COARSE_NODES)
    """Nodes that are enough (None for all), and those that are enough for screening."""

    @property
    @abstractmethod
    def width(self) -> int:
        """Numbers that are held for each node."""

    @abstractmethod
    def moments(self, nodes: Tensor, weights: Tensor, spread: Spread) -> tuple[Tensor, Tensor]:
        """Mean and a standard deviation of queries, each ``p``.

        Args:
            nodes: Nodes of each, ``p x m x d``.
            weights: Weights of the nodes that sum to one, ``p x m``.
            spread: Which standard deviation; zeros if none.
        """


class PointPosterior(QueryMoments):
    """Posterior of one outcome at single points, and of weighted sums of points."""

    @staticmethod
    def of(
        model: Model,
        posterior_transform: PosteriorTransform | None = None,
        X_pending: Tensor | None = None,
    ) -> PointPosterior:
        """Read the posterior of a fitted model.

        Args:
            model: A model with one outcome, or with several and a ``posterior_transform``.
            posterior_transform: Applied to the posterior.
            X_pending: ``k x d`` points under evaluation, believed at their posterior mean. That
                is the exact expectation over their fantasies of any function that is linear in
                the posterior mean and otherwise reads the posterior variance only.

        Raises:
            UnsupportedInputError: If there are points under evaluation, and the model neither takes
                observations nor can be fantasised.
        """
        pending = None if X_pending is None or X_pending.shape[-2] == 0 else X_pending
        if not isinstance(only_model(model), ConditionalMeanProcess):  # its rows are no points
            cached = CachedPosterior.from_model(model, posterior_transform, X_pending=pending)
            if cached is not None:
                return FactoredPosterior(cached)
        if pending is not None:
            model = after_pending(model, pending)
        return ModelPosterior(model, posterior_transform)

    @abstractmethod
    def __call__(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance.

        Args:
            X: Points, ``... x d``.

        Returns:
            Two tensors ``...``; ``... x m`` for an ensemble of ``m`` models.
        """

    def mixture(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of points ``... x d``, each ``...``; an ensemble is one mixture."""
        mean, variance = self(X)
        if mean.ndim == X.ndim - 1:
            return mean, variance
        return mean.mean(dim=-1), variance.mean(dim=-1) + mean.var(dim=-1, correction=0)

    @abstractmethod
    def pairs(self, X: Tensor, Z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Means and variances of points, each with another one, and their covariance.

        Args:
            X: Points, ``p x d``.
            Z: The others, ``p x d``.

        Returns:
            Means and variances, ``2 x p`` each, and covariances, ``p``, in raw units.
        """

    @property
    @abstractmethod
    def observed(self) -> Tensor:
        """Training inputs, ``n x d``, not transformed; pending points may be among them."""

    @property
    @abstractmethod
    def noise(self) -> Tensor:
        """Variance of the observation noise, in raw units: what it adds to that of a point."""

    @abstractmethod
    def joint(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean ``p`` and covariance ``p x p`` of points ``p x d``, in raw units."""


class FactoredPosterior(PointPosterior):
    """An exact GP by its cached factor.

    Args:
        posterior: The posterior.
        path: A posterior sample that takes the place of the mean of queries.
    """

    def __init__(self, posterior: CachedPosterior, path: FourierPath | None = None) -> None:
        self.posterior = posterior
        self.path = path

    def __call__(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance, each ``...``, of points ``... x d``."""
        posterior = self.posterior
        points = posterior.transform(X.reshape(-1, X.shape[-1]))
        covariance = posterior.prior_covariance(points, posterior.X)
        mean, variance = posterior.moments_of(covariance, posterior.prior_variance(points))
        return mean.reshape(X.shape[:-1]), variance.reshape(X.shape[:-1])

    def pairs(self, X: Tensor, Z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """See ``PointPosterior``."""
        posterior = self.posterior
        both = posterior.transform(torch.stack([X, Z]))
        k = posterior.prior_covariance(both.flatten(0, 1), posterior.X)
        whitened = (k @ posterior.root).unflatten(0, (2, len(X)))
        variance = posterior.variance_of(whitened, posterior.prior_variance(both))
        x, z = both.unsqueeze(-2)
        prior = posterior.prior_covariance(x, z).flatten()
        covariance = prior - (whitened[0] * whitened[1]).sum(dim=-1)
        mean = posterior.mean_of(k).reshape(2, -1)
        return mean, variance, posterior.scale.square() * covariance

    def beside(self, Z: Tensor) -> Callable[[Tensor], tuple[Tensor, Tensor, Tensor]]:
        """Of points ``p x d``: means and variances, ``p``, and covariances with ``Z``, ``p x q``.

        Args:
            Z: Points ``q x d``, whose part of the work is done once.
        """
        z = self.posterior.transform(Z)
        whitened_z = self.posterior.prior_covariance(z, self.posterior.X) @ self.posterior.root
        # No closure: an acquisition function that keeps it can be pickled, as BoTorch's can.
        return partial(self._at, z, whitened_z)

    def _at(self, z: Tensor, whitened_z: Tensor, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        posterior = self.posterior
        t = posterior.transform(X)
        k = posterior.prior_covariance(t, posterior.X)
        whitened = k @ posterior.root
        variance = posterior.variance_of(whitened, posterior.prior_variance(t))
        prior = posterior.prior_covariance(t, z)
        covariance = posterior.covariance_of(whitened, whitened_z, prior)
        return posterior.mean_of(k), variance, covariance

    def prior_variance(self, X: Tensor) -> Tensor:
        """Prior variances ``p`` of points ``p x d``, in raw units."""
        posterior = self.posterior
        return posterior.scale.square() * posterior.prior_variance(posterior.transform(X))

    @property
    def observed(self) -> Tensor:
        """Training inputs and pending points, ``n x d``, not transformed."""
        return untransformed(self.posterior.input_transform, self.posterior.X)

    @property
    def width(self) -> int:
        """See ``QueryMoments``."""
        n = len(self.posterior.X)
        return n if self.path is None else max(n, len(self.path.sine))

    @property
    def noise(self) -> Tensor:
        """Variance of the observation noise, the mean of that of all outcomes, in raw units."""
        return self.posterior.noise.mean() * self.posterior.scale.square()

    def joint(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean ``p`` and covariance ``p x p`` of points ``p x d``, in raw units."""
        mean, _, covariance = self.beside(X)(X)
        return mean, covariance

    def moments(self, nodes: Tensor, weights: Tensor, spread: Spread) -> tuple[Tensor, Tensor]:
        """See ``QueryMoments``."""
        posterior = self.posterior
        t = posterior.transform(nodes.flatten(0, 1))
        k = posterior.prior_covariance(t, posterior.X)
        latent = k @ posterior.alpha if self.path is None else self.path(t, k)
        latent = torch.linalg.vecdot(weights, latent.reshape(weights.shape))
        mean = posterior.outcome(latent)
        if spread is Spread.NONE:
            return mean, torch.zeros_like(mean)
        if spread is Spread.FUNCTION:
            sigma = remaining_variance(posterior.prior_variance(t), k, posterior.inverse).sqrt()
            std = torch.linalg.vecdot(weights, sigma.reshape(weights.shape))
        else:
            t = t.unflatten(0, weights.shape)  # there may be fewer columns
            among = weighted(weights, posterior.prior_covariance(t, t))
            v = weighted(weights, k.reshape(*weights.shape, -1))
            prior = torch.linalg.vecdot(among, weights)
            std = remaining_variance(prior, v, posterior.inverse).sqrt()
        return mean, posterior.scale.abs() * std


def models_in(model: Model) -> torch.Size:
    """The batch shape of several models in one; none of one model, or of an ensemble."""
    if is_ensemble(model):
        return torch.Size()
    try:
        return model.batch_shape or torch.Size()
    except NotImplementedError:
        return torch.Size()


def check_one_model(model: Model) -> None:
    """Refuse several models in one, of which a point would get any, with an error.

    Raises:
        UnsupportedInputError: If the model is a batch of more than one, and no ensemble.
    """
    if models_in(model).numel() > 1:
        raise UnsupportedInputError(
            f"model: got a {type(model).__name__} of batch shape {tuple(models_in(model))}; it"
            " takes a single model, or an ensemble."
        )


def weighted(weights: Tensor, rows: Tensor) -> Tensor:
    """Sums ``p x n`` of rows ``p x m x n`` with weights ``p x m``."""
    return (weights.unsqueeze(-2) @ rows).squeeze(-2)


class ModelPosterior(PointPosterior):
    """Any model, by its own posterior."""

    width = 64

    def __init__(self, model: Model, posterior_transform: PosteriorTransform | None) -> None:
        self.model = model
        self.posterior_transform = posterior_transform

    def _posterior(self, X: Tensor, **options: Any) -> GPyTorchPosterior:
        options["posterior_transform"] = self.posterior_transform
        return cast(GPyTorchPosterior, self.model.posterior(X, **options))

    def __call__(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance, each ``...`` (``... x m`` for an ensemble), of points ``... x d``."""
        posterior = self._posterior(X.unsqueeze(-2))
        with any_unit():
            mean, variance = posterior.mean, posterior.variance
        check_one_outcome(mean, 1)
        variance = variance.clamp_min(least(variance))
        return mean.squeeze(-1).squeeze(-1), variance.squeeze(-1).squeeze(-1)

    def pairs(self, X: Tensor, Z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """See ``PointPosterior``."""
        mean, covariance = self.joint(torch.stack([X, Z], dim=-2))
        variance = covariance.diagonal(dim1=-2, dim2=-1)
        return mean.mT, variance.mT.clamp_min(least(variance)), covariance[..., 0, 1]

    @property
    def observed(self) -> Tensor:
        """See ``PointPosterior``; of several models those of the first."""
        model = self.model
        while isinstance(model, ModelList):
            model = cast(Model, model.models[0])
        model.eval()  # sets the training inputs to their transformed values
        inputs = cast(Sequence[Tensor] | None, getattr(model, "train_inputs", None))
        if inputs is None:
            raise UnsupportedInputError(
                f"model: got a {type(model).__name__}, which has no training inputs."
            )
        X = untransformed(getattr(model, "input_transform", None), inputs[0])
        return X.reshape(-1, *X.shape[-2:])[0]

    @property
    def noise(self) -> Tensor:
        """Variance of the observation noise, in raw units: what it adds to that of a point."""
        X = self.observed[:1]
        with any_unit():
            noisy = self._posterior(X, observation_noise=True).variance
            added = noisy - self._posterior(X).variance
        return added.mean().clamp_min(0.0)

    def joint(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """See ``PointPosterior``; those of a mixture, if the posterior is one."""
        return joint_moments(self._posterior(X), X.shape[-2])

    def moments(self, nodes: Tensor, weights: Tensor, spread: Spread) -> tuple[Tensor, Tensor]:
        """See ``QueryMoments``."""
        check_one_model(self.model)
        if spread is Spread.EXPECTATION:
            mean, variance = expectation_posterior(
                self.model, nodes, weights, self.posterior_transform
            )
            return mean, variance.clamp_min(least(variance)).sqrt()
        means, variances = self.mixture(nodes)
        mean = torch.linalg.vecdot(weights, means)
        if spread is Spread.NONE:
            return mean, torch.zeros_like(mean)
        return mean, torch.linalg.vecdot(weights, variances.sqrt())

r"""Posterior mean and variance point by point, for inner loops.

An analytic acquisition function needs two numbers per point, thousands of times over. On an exact
GP they are two matrix products with a cached factor, whatever the kernel; any other model is asked
through ``model.posterior``. Units are those of the posterior after the posterior transform.

What is believed of points that failed, or are under way, becomes data of the model itself
(``believed``), so that whatever reads a posterior takes account of it. Hyperparameters stay as they
are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, cast

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.models.gpytorch import BatchedMultiOutputGPyTorchModel
from botorch.models.model import FantasizeMixin, Model
from botorch.models.model_list_gp_regression import ModelListGP
from botorch.posteriors.gpytorch import GPyTorchPosterior
from botorch.posteriors.posterior import Posterior
from botorch.sampling.base import MCSampler
from botorch.utils.transforms import is_ensemble
from gpytorch.likelihoods import FixedNoiseGaussianLikelihood
from torch import Tensor

from ax_costaware.exceptions import UnsupportedInputError
from ax_costaware.models.cached_posterior import CachedPosterior, only_model


class PointPosterior(ABC):
    """Posterior mean and variance of one outcome at single points."""

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
        cached = CachedPosterior.from_model(model, posterior_transform, X_pending=pending)
        if cached is not None:
            return FactoredPosterior(cached)
        if pending is not None:
            model = _after(model, pending)
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


class FactoredPosterior(PointPosterior):
    """An exact GP by its cached factor."""

    def __init__(self, posterior: CachedPosterior) -> None:
        self.posterior = posterior

    def __call__(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance, each ``...``, of points ``... x d``."""
        posterior = self.posterior
        points = posterior.transform(X.reshape(-1, X.shape[-1]))
        covariance = posterior.prior_covariance(points, posterior.X)
        mean = posterior.mean_of(covariance)
        prior = posterior.prior_variance(points)
        variance = posterior.variance_of(covariance @ posterior.root, prior)
        return mean.reshape(X.shape[:-1]), variance.reshape(X.shape[:-1])


class ModelPosterior(PointPosterior):
    """Any model, by its own posterior."""

    def __init__(self, model: Model, posterior_transform: PosteriorTransform | None) -> None:
        self.model = model
        self.posterior_transform = posterior_transform

    def __call__(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance, each ``...`` (``... x m`` for an ensemble), of points ``... x d``."""
        posterior = cast(
            GPyTorchPosterior,
            self.model.posterior(X.unsqueeze(-2), posterior_transform=self.posterior_transform),
        )
        mean, variance = posterior.mean, posterior.variance
        if mean.shape[-1] != 1:
            raise UnsupportedInputError(
                f"model: got one with {mean.shape[-1]} outcomes; it takes one outcome, or a"
                " posterior_transform that leaves one."
            )
        least = torch.finfo(variance.dtype).tiny
        return mean.squeeze(-1).squeeze(-1), variance.clamp_min(least).squeeze(-1).squeeze(-1)


class _MeanSampler(MCSampler):
    """One "sample", the posterior mean."""

    def __init__(self) -> None:
        super().__init__(sample_shape=torch.Size([1]))

    def forward(self, posterior: Posterior) -> Tensor:
        return cast(GPyTorchPosterior, posterior).mean.unsqueeze(0)

    def _construct_base_samples(self, posterior: Posterior) -> None:
        """There are none."""


def _after(model: Model, X_pending: Tensor) -> Model:
    """The model after ``X_pending`` came out at their posterior means.

    Where that is one fantasy it is a leading batch dimension of one, which points with a batch
    dimension of their own broadcast away.

    Raises:
        UnsupportedInputError: If the model, or one of a list, takes no observations.
    """
    if isinstance(model, ModelListGP):
        parts: Any = [_after(cast(Model, part), X_pending) for part in model.models]
        return ModelListGP(*parts)
    if isinstance(model, BatchedMultiOutputGPyTorchModel):
        return believed(model, X_pending)
    if not isinstance(model, FantasizeMixin):
        raise UnsupportedInputError(
            f"X_pending: got {len(X_pending)} points under evaluation with a"
            f" {type(model).__name__}; they take a model that can be fantasised."
        )
    X = X_pending.expand(*model.batch_shape, -1, -1)
    with torch.no_grad():
        model.posterior(X[..., :1, :])  # an exact GP conditions its caches, which this fills
    return cast(Model, model.fantasize(X=X, sampler=_MeanSampler()))


def _mean(posterior: GPyTorchPosterior) -> Tensor:
    mean: Tensor = posterior.mean
    return mean


def believed(
    model: Model, X: Tensor, outcome: Callable[[GPyTorchPosterior], Tensor] = _mean
) -> Model:
    """The model after one observation at each of some points, with the mean noise variance.

    Args:
        model: A fitted Gaussian process; each model of an ensemble is after outcomes of its own.
        X: Points ``k x d``, in the model's units; one that is there several times is observed as
            often, which leaves less of its noise.
        outcome: What is observed, given the posterior at ``X``; by default its mean ("kriging
            believer", Ginsbourger et al. 2010).

    Returns:
        A model of its own; or ``model`` itself if it is of a kind that takes no observations.
    """
    model = only_model(model)
    if not len(X) or not isinstance(model, BatchedMultiOutputGPyTorchModel):
        return model
    with torch.no_grad():
        points = X.expand(*model.batch_shape, *X.shape)
        # The caches that an exact GP conditions are filled by this.
        posterior = model.posterior(X if is_ensemble(model) else points)
        Y = outcome(cast(GPyTorchPosterior, posterior))
        options: dict[str, Any] = {}
        if isinstance(model.likelihood, FixedNoiseGaussianLikelihood):
            noise = model.likelihood.noise.mean(dim=-1, keepdim=True)
            noise = noise.mT if model.num_outputs > 1 else noise.unsqueeze(-1)
            options["noise"] = noise.expand_as(Y)
        return cast(Model, model.condition_on_observations(points, Y, **options))

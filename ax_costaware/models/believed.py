"""A model after observations that were not made, at what is believed of them.

What is believed of points that failed, or are under way, becomes data of the model itself, so that
whatever reads a posterior takes account of it. Hyperparameters stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from botorch.models.gpytorch import BatchedMultiOutputGPyTorchModel
from botorch.models.model import Model
from botorch.posteriors.gpytorch import GPyTorchPosterior
from botorch.utils.transforms import is_ensemble
from gpytorch.likelihoods import FixedNoiseGaussianLikelihood
from torch import Tensor

from ax_costaware.models.cached_posterior import only_model


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

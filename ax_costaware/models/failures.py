"""A model after trials that brought no outcome: they are taken to be no better than middling."""

from __future__ import annotations

from typing import Any, cast

import torch
from botorch.models.gpytorch import BatchedMultiOutputGPyTorchModel
from botorch.models.model import Model
from botorch.models.model_list_gp_regression import ModelListGP
from botorch.utils.transforms import is_ensemble
from gpytorch.likelihoods import FixedNoiseGaussianLikelihood
from torch import Tensor


def after_failures(model: Model, X: Tensor, middling: float, minimize: bool = False) -> Model:
    """The model after points where a trial failed, so that the next one looks elsewhere.

    Each point counts as observed, with the mean noise variance, at its posterior mean or at
    ``middling``, whichever is worse. At the posterior mean alone ("kriging believer", Ginsbourger
    et al. 2010) a region that is thought to be good and always fails would be tried for ever.
    Hyperparameters stay as they are.

    Args:
        model: A fitted Gaussian process of one outcome.
        X: Points ``k x d``, in the model's units.
        middling: The value that no failed point is believed to be better than, in outcome units.
        minimize: Whether smaller outcomes are better.

    Returns:
        A model of its own; or ``model`` itself if it is of a kind that takes no observations.
    """
    if isinstance(model, ModelListGP) and len(model.models) == 1:
        model = cast(Model, model.models[0])
    if not len(X) or not isinstance(model, BatchedMultiOutputGPyTorchModel):
        return model
    with torch.no_grad():
        points = X.expand(*model.batch_shape, *X.shape)
        # The caches that an exact GP conditions are filled by this.
        mean = model.posterior(X if is_ensemble(model) else points).mean
        bound = mean.clamp_min(middling) if minimize else mean.clamp_max(middling)
        options: dict[str, Any] = {}
        if isinstance(model.likelihood, FixedNoiseGaussianLikelihood):
            options["noise"] = model.likelihood.noise.mean().expand(bound.shape)
        return cast(Model, model.condition_on_observations(points, bound, **options))

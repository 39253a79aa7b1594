"""Models conditioned on fantasies: of points that failed, or are pending.

Fantasies become data of the model itself, so that whatever reads a posterior takes account of them.
Hyperparameters stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, cast

import torch
from botorch.models.gpytorch import BatchedMultiOutputGPyTorchModel
from botorch.models.model import FantasizeMixin, Model
from botorch.models.model_list_gp_regression import ModelListGP
from botorch.models.multitask import MultiTaskGP
from botorch.posteriors.gpytorch import GPyTorchPosterior
from botorch.posteriors.posterior import Posterior
from botorch.sampling.base import MCSampler
from botorch.utils.transforms import is_ensemble
from gpytorch.likelihoods import FixedNoiseGaussianLikelihood
from torch import Tensor

from ax_costaware.exceptions import UnsupportedInputError
from ax_costaware.models.factor import only_model


class _MeanSampler(MCSampler):
    """One "sample", the posterior mean."""

    def __init__(self) -> None:
        super().__init__(sample_shape=torch.Size([1]))

    def forward(self, posterior: Posterior) -> Tensor:
        return cast(GPyTorchPosterior, posterior).mean.unsqueeze(0)

    def _construct_base_samples(self, posterior: Posterior) -> None:
        """There are none."""


def with_pending(model: Model, X_pending: Tensor) -> Model:
    """The model after ``X_pending`` came out at their posterior means.

    Where that is one fantasy it is a leading batch dimension of one, which points with a batch
    dimension of their own broadcast away.

    Raises:
        UnsupportedInputError: If the model, or one of a list, takes no observations, or takes them
            with a task that the points do not have.
    """
    if isinstance(model, ModelListGP):
        parts: Any = [with_pending(cast(Model, part), X_pending) for part in model.models]
        return ModelListGP(*parts)
    if isinstance(model, BatchedMultiOutputGPyTorchModel):
        return fantasized(model, X_pending)
    if not isinstance(model, FantasizeMixin):
        raise UnsupportedInputError(
            f"X_pending: got {len(X_pending)} pending points with a"
            f" {type(model).__name__}; they take a model that can be fantasised."
        )
    width = X_pending.shape[-1]
    if isinstance(model, MultiTaskGP) and width == model.num_non_task_features:
        raise UnsupportedInputError(
            f"X_pending: got {width} columns with a {type(model).__name__}; expected {width + 1}, "
            "with the task of each point among them as in the training inputs."
        )
    X = X_pending.expand(*model.batch_shape, -1, -1)
    with torch.no_grad():
        model.posterior(X[..., :1, :])  # an exact GP conditions its caches, which this fills
    return cast(Model, model.fantasize(X=X, sampler=_MeanSampler()))


def fantasized(
    model: Model,
    X: Tensor,
    outcome: Callable[[GPyTorchPosterior], Tensor] = attrgetter("mean"),
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

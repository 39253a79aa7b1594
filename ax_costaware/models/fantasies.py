"""Models conditioned on fantasies, for failed or pending points.

Fantasies become data of the model, so that everything that uses its posterior includes them.
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
    """Sampler that returns the posterior mean as its only sample."""

    def __init__(self) -> None:
        super().__init__(sample_shape=torch.Size([1]))

    def forward(self, posterior: Posterior) -> Tensor:
        return cast(GPyTorchPosterior, posterior).mean.unsqueeze(0)

    def _construct_base_samples(self, posterior: Posterior) -> None:
        """Do nothing: there are no base samples."""


def with_pending(model: Model, X_pending: Tensor) -> Model:
    """Return the model with ``X_pending`` fantasized at the posterior mean.

    ``Model.fantasize`` adds a leading batch dimension of one, which points with a batch dimension
    broadcast away.

    Raises:
        UnsupportedInputError: If the model, or one of a list, cannot be fantasized, or needs a task
            that the points do not have.
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
    """Return the model conditioned on one fantasy per point, with the mean noise variance.

    Args:
        model: A fitted Gaussian process; each model of an ensemble has fantasies of its own.
        X: Points ``k x d``, in the model's units. A repeated point is observed repeatedly, which
            reduces its noise.
        outcome: Function from the posterior at ``X`` to the fantasies; by default its mean
            ("Kriging believer", Ginsbourger et al. 2010).

    Returns:
        A new model; or ``model`` itself if it cannot be conditioned.
    """
    model = only_model(model)
    if not len(X) or not isinstance(model, BatchedMultiOutputGPyTorchModel):
        return model
    with torch.no_grad():
        points = X.expand(*model.batch_shape, *X.shape)
        # This fills the caches from which an exact GP is conditioned.
        posterior = model.posterior(X if is_ensemble(model) else points)
        Y = outcome(cast(GPyTorchPosterior, posterior))
        options: dict[str, Any] = {}
        if isinstance(model.likelihood, FixedNoiseGaussianLikelihood):
            noise = model.likelihood.noise.mean(dim=-1, keepdim=True)
            noise = noise.mT if model.num_outputs > 1 else noise.unsqueeze(-1)
            options["noise"] = noise.expand_as(Y)
        return cast(Model, model.condition_on_observations(points, Y, **options))

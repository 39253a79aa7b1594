r"""The expected upper confidence bound of a partial query.

.. math:: \alpha(x_C) = E_{X_R}\left[\mu(x_C, X_R) + \beta\, \sigma(x_C, X_R)\right],

the acquisition function of UCB-CVS (Tay et al. 2023, *Bayesian Optimization with Cost-varying
Variable Subsets*, Algorithm 1). In the units of the model's posterior after the posterior
transform; larger is better.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from botorch.acquisition.input_constructors import acqf_input_constructor
from botorch.acquisition.objective import PosteriorTransform
from botorch.models.model import Model
from botorch.posteriors.gpytorch import GPyTorchPosterior
from torch import Tensor

from ax_costaware.acquisition.check import check_beta
from ax_costaware.acquisition.partial_query import PartialQuery
from ax_costaware.acquisition.partial_query_acquisition import PartialQueryAcquisition
from ax_costaware.models.cached_posterior import CachedPosterior


class ExpectedUpperConfidenceBound(PartialQueryAcquisition):
    r"""Expected upper confidence bound over the inputs that are left to chance.

    With ``beta=0`` this is the posterior mean of the query's expected value.

    Example:
        >>> nodes, weights = sobol_nodes([Uniform(0, 1)] * 3, 128)
        >>> acqf = ExpectedUpperConfidenceBound(model, [0], nodes, weights, beta=2.0)
        >>> optimize_acqf(acqf, bounds, q=1, num_restarts=4, raw_samples=64,
        ...               fixed_features={1: 0.5, 2: 0.5})

    Args:
        model: A single-output model.
        controlled: The controlled columns.
        nodes: ``m x d`` nodes of the inputs, in the model's input space; the controlled columns
            are ignored.
        weights: ``m`` non-negative weights that sum to one.
        beta: Weight of the posterior standard deviation, at least zero.
        posterior_transform: Applied to the posterior; the result is maximised.
        X_pending: ``k x d`` points under evaluation. The expectation over their fantasies is
            exact on an exact GP: the mean stays and the standard deviation does not depend on
            the fantasised outcome.

    Raises:
        InputError: For controlled columns, nodes, weights or a beta out of range.
    """

    def __init__(
        self,
        model: Model,
        controlled: Sequence[int],
        nodes: Tensor,
        weights: Tensor,
        beta: float = 2.0,
        posterior_transform: PosteriorTransform | None = None,
        X_pending: Tensor | None = None,
    ) -> None:
        check_beta(beta)
        super().__init__(model, controlled, nodes, weights, posterior_transform, X_pending)
        self.beta = beta

    def _from_factor(
        self, points: Tensor, posterior: CachedPosterior, query: PartialQuery
    ) -> Tensor:
        factor = self._controlled_factor(points, posterior, query)
        mean = posterior.prior_mean + query.mean(factor)
        value = posterior.offset + posterior.scale * mean
        if self.beta == 0:
            return value
        std = query.expected_std(factor)
        return value + self.beta * posterior.scale.abs() * std

    def _from_posterior(self, points: Tensor) -> Tensor:
        # A t-batch of single points: the joint covariance of the nodes is not needed.
        X = points.unsqueeze(-2)
        if self._fantasies is not None:
            X = X.unsqueeze(-3)
        model = self.model if self._fantasies is None else self._fantasies
        posterior = cast(
            GPyTorchPosterior,
            model.posterior(X, posterior_transform=self.posterior_transform),
        )
        value: Tensor = posterior.mean
        if self.beta != 0:
            value = value + self.beta * posterior.variance.clamp_min(1e-12).sqrt()
        value = value.squeeze(-1).squeeze(-1)
        if self._fantasies is not None:
            value = value.mean(dim=-1)
        return value @ self.weights.to(value)


class ExpectedLowerConfidenceBound(ExpectedUpperConfidenceBound):
    r"""Expected lower confidence bound, :math:`E_{X_R}[\mu - \beta\, \sigma]`.

    Arguments and errors as for ``ExpectedUpperConfidenceBound``.
    """

    def __init__(
        self,
        model: Model,
        controlled: Sequence[int],
        nodes: Tensor,
        weights: Tensor,
        beta: float = 2.0,
        posterior_transform: PosteriorTransform | None = None,
        X_pending: Tensor | None = None,
    ) -> None:
        super().__init__(model, controlled, nodes, weights, beta, posterior_transform, X_pending)
        self.beta = -beta


@acqf_input_constructor(ExpectedUpperConfidenceBound)
def construct_inputs_expected_ucb(
    model: Model,
    controlled: Sequence[int],
    nodes: Tensor | list[list[float]],
    weights: Tensor | list[float],
    beta: float = 2.0,
    posterior_transform: PosteriorTransform | None = None,
    X_pending: Tensor | None = None,
) -> dict[str, Any]:
    """Inputs of ``ExpectedUpperConfidenceBound`` from BoTorch's common arguments."""
    return {
        "model": model,
        "controlled": controlled,
        "nodes": torch.as_tensor(nodes, dtype=torch.double),
        "weights": torch.as_tensor(weights, dtype=torch.double),
        "beta": beta,
        "posterior_transform": posterior_transform,
        "X_pending": X_pending,
    }

r"""Expected improvement of a partial query.

The value of a partial query is :math:`g(x_C) = E_{X_R} f(x_C, X_R)`, a linear functional of the GP,
so :math:`g` is Gaussian and its expected improvement over an incumbent has the usual closed form.
This replaces the nested Monte Carlo of EI-PSQ (Tay et al. 2023, appendix C.2; Hayashi et al. 2022).
Evaluated as a logarithm with BoTorch's helper (Ament et al. 2023), since its values underflow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from botorch.acquisition.analytic import _log_ei_helper
from botorch.acquisition.input_constructors import acqf_input_constructor
from botorch.acquisition.objective import PosteriorTransform
from botorch.models.model import Model
from torch import Tensor

from ax_costaware.acquisition.partial_query import PartialQuery
from ax_costaware.acquisition.partial_query_acquisition import PartialQueryAcquisition
from ax_costaware.exceptions import InputError
from ax_costaware.models.cached_posterior import CachedPosterior
from ax_costaware.models.expectation import expectation_posterior


class PartialQueryLogExpectedImprovement(PartialQueryAcquisition):
    r"""Log of the expected improvement of a query's expected value.

    Args:
        model: A single-output model.
        best_f: The incumbent: the best value so far of any query, in the posterior's units.
        controlled: The controlled columns.
        nodes: ``m x d`` nodes of the inputs; the controlled columns are ignored.
        weights: ``m`` non-negative weights that sum to one.
        posterior_transform: Applied to the posterior; the result is maximised.
        X_pending: ``k x d`` points under evaluation, believed at their posterior mean.

    Raises:
        InputError: For controlled columns, nodes, weights or an incumbent out of range.
    """

    def __init__(
        self,
        model: Model,
        best_f: float,
        controlled: Sequence[int],
        nodes: Tensor,
        weights: Tensor,
        posterior_transform: PosteriorTransform | None = None,
        X_pending: Tensor | None = None,
    ) -> None:
        if not math.isfinite(best_f):
            raise InputError(f"best_f: got {best_f!r}; it takes a finite number.")
        super().__init__(model, controlled, nodes, weights, posterior_transform, X_pending)
        self.best_f = best_f

    def _from_factor(
        self, points: Tensor, posterior: CachedPosterior, query: PartialQuery
    ) -> Tensor:
        factor = self._controlled_factor(points, posterior, query)
        latent = posterior.prior_mean + query.mean(factor)
        mean = posterior.offset + posterior.scale * latent
        std = posterior.scale.abs() * query.variance(factor).sqrt()
        return std.log() + _log_ei_helper((mean - self.best_f) / std)

    def _from_posterior(self, points: Tensor) -> Tensor:
        X = points if self._fantasies is None else points.unsqueeze(-3)
        model = self.model if self._fantasies is None else self._fantasies
        mean, variance = expectation_posterior(
            model, X, self.weights.to(X), self.posterior_transform
        )
        std = variance.clamp_min(1e-18).sqrt()
        value = std.log() + _log_ei_helper((mean - self.best_f) / std)
        if self._fantasies is None:
            return value
        return torch.logsumexp(value, dim=-1) - math.log(value.shape[-1])


@acqf_input_constructor(PartialQueryLogExpectedImprovement)
def construct_inputs_partial_query_ei(
    model: Model,
    best_f: float,
    controlled: Sequence[int],
    nodes: Tensor | list[list[float]],
    weights: Tensor | list[float],
    posterior_transform: PosteriorTransform | None = None,
    X_pending: Tensor | None = None,
) -> dict[str, Any]:
    """Inputs of ``PartialQueryLogExpectedImprovement`` from BoTorch's common arguments."""
    return {
        "model": model,
        "best_f": best_f,
        "controlled": controlled,
        "nodes": torch.as_tensor(nodes, dtype=torch.double),
        "weights": torch.as_tensor(weights, dtype=torch.double),
        "posterior_transform": posterior_transform,
        "X_pending": X_pending,
    }

r"""Confidence bounds of a partial query's expected value.

.. math:: \alpha(x_C) = E\,\mu(x_C, X_R) \pm \beta\, \mathrm{sd}[E_R f(x_C, X_R)],

a bound of the Gaussian :math:`E f` itself. The expected bounds of Tay et al. 2023, *Bayesian
Optimization with Cost-varying Variable Subsets*, average the standard deviation of the function,
which is never smaller. In the units of the model's posterior after the posterior transform.
"""

from __future__ import annotations

from collections.abc import Sequence

from botorch.acquisition.objective import PosteriorTransform
from botorch.models.model import Model
from torch import Tensor

from ax_costaware.acquisition.check import check_beta
from ax_costaware.acquisition.partial_query import PartialQuery
from ax_costaware.acquisition.partial_query_acquisition import PartialQueryAcquisition
from ax_costaware.models.cached_posterior import CachedPosterior
from ax_costaware.models.expectation import expectation_posterior


class ConfidenceBoundOfExpectation(PartialQueryAcquisition):
    """The upper, or the lower, confidence bound of a query's expected value.

    Args:
        model: A single-output model.
        controlled: The controlled columns.
        nodes: ``m x d`` nodes of the inputs; the controlled columns are ignored.
        weights: ``m`` non-negative weights that sum to one.
        beta: Weight of the standard deviation, at least zero.
        upper: Which of the two.
        posterior_transform: Applied to the posterior; the result is maximised.
        X_pending: ``k x d`` points under evaluation, believed at their posterior mean.

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
        upper: bool = True,
        posterior_transform: PosteriorTransform | None = None,
        X_pending: Tensor | None = None,
    ) -> None:
        check_beta(beta)
        super().__init__(model, controlled, nodes, weights, posterior_transform, X_pending)
        self.signed_beta = beta if upper else -beta

    def _from_factor(
        self, points: Tensor, posterior: CachedPosterior, query: PartialQuery
    ) -> Tensor:
        factor = self._controlled_factor(points, posterior, query)
        mean = posterior.offset + posterior.scale * (posterior.prior_mean + query.mean(factor))
        return mean + self.signed_beta * posterior.scale.abs() * query.variance(factor).sqrt()

    def _from_posterior(self, points: Tensor) -> Tensor:
        X = points if self._fantasies is None else points.unsqueeze(-3)
        model = self.model if self._fantasies is None else self._fantasies
        mean, variance = expectation_posterior(
            model, X, self.weights.to(X), self.posterior_transform
        )
        value = mean + self.signed_beta * variance.clamp_min(1e-18).sqrt()
        return value if self._fantasies is None else value.mean(dim=-1)

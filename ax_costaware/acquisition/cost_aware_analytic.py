"""What the analytic acquisition functions that know a cost have in common.

Each is a formula of three numbers per point: posterior mean, posterior standard deviation, and the
logarithm of the expected cost. This base finds the three, for maximisation or minimisation, for
exact GPs by their cached factor, for any other model (ensembles included) by its posterior, and
with points under evaluation believed at their posterior mean.
"""

from __future__ import annotations

from abc import abstractmethod

from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.acquisition.analytic import AnalyticAcquisitionFunction
from botorch.acquisition.objective import PosteriorTransform
from botorch.models.model import Model
from botorch.utils.transforms import (
    average_over_ensemble_models,
    is_ensemble,
    t_batch_mode_transform,
)
from torch import Tensor

from ax_costaware.acquisition.log_cost import CostFunction, log_cost_function
from ax_costaware.exceptions import InputError
from ax_costaware.models.point_posterior import PointPosterior


class CostAwareAnalyticAcquisitionFunction(AnalyticAcquisitionFunction):
    """Base of the analytic acquisition functions that know what a point costs.

    Args:
        model: A fitted model; with several outcomes it needs a ``posterior_transform``.
        cost: A number > 0, a callable from points ``n x d`` to ``n`` costs > 0, or an object with
            ``log_expected_cost`` such as ``LogNormalCostModel``.
        maximize: Whether large values of the objective are good.
        posterior_transform: Applied to the posterior.
        X_pending: ``k x d`` points under evaluation, believed at their posterior mean.

    Raises:
        InputError: If ``cost`` or ``X_pending`` is not of that kind.
        UnsupportedError: If the model has several outcomes and there is no transform.
    """

    def __init__(
        self,
        model: Model,
        cost: CostFunction,
        maximize: bool = True,
        posterior_transform: PosteriorTransform | None = None,
        X_pending: Tensor | None = None,
    ) -> None:
        super().__init__(model=model, posterior_transform=posterior_transform)
        self.maximize = maximize
        self.cost = cost
        self._log_cost = log_cost_function(cost)
        self.set_X_pending(X_pending)

    def set_X_pending(self, X_pending: Tensor | None = None) -> None:
        """Condition on points under evaluation, instead of those given before.

        A sequence of these is how ``optimize_acqf(..., q > 1, sequential=True)`` builds a batch.

        Args:
            X_pending: ``k x d`` points, or None.
        """
        if X_pending is not None and (not isinstance(X_pending, Tensor) or X_pending.ndim != 2):
            got = tuple(X_pending.shape) if isinstance(X_pending, Tensor) else X_pending
            raise InputError(f"X_pending: got {got!r}; expected a tensor of shape (k, d).")
        # Past the analytic base class, which knows no points under evaluation.
        AcquisitionFunction.set_X_pending(self, X_pending)
        self._posterior = PointPosterior.of(self.model, self.posterior_transform, X_pending)

    @t_batch_mode_transform(expected_q=1)
    @average_over_ensemble_models  # type: ignore[arg-type]
    def forward(self, X: Tensor) -> Tensor:
        """Evaluate the acquisition function.

        Args:
            X: ``batch_shape x 1 x d`` points.

        Returns:
            A ``batch_shape``-tensor of values.
        """
        points = X.squeeze(-2)
        mean, variance = self._posterior(points)
        log_cost = self._log_cost(points)
        if is_ensemble(self.model):
            log_cost = log_cost.unsqueeze(-1)
        return self._value(mean if self.maximize else -mean, variance.sqrt(), log_cost)

    @abstractmethod
    def _value(self, mean: Tensor, sigma: Tensor, log_cost: Tensor) -> Tensor:
        """The formula, for a mean whose larger values are good; shapes broadcast."""

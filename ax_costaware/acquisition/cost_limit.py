"""Acquisition functions for a limit of the cost: a penalty beyond it, and the least cost.

The optimizers of mixed spaces take boxes and linear constraints only. A bound on the expected cost
therefore enters as a smooth penalty, which begins just below the bound and reaches the range of the
acquisition function there (``CostLimited``).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.models.model import Model
from torch import Tensor

from ax_costaware.acquisition.pointwise import PointwiseAcquisition
from ax_costaware.costs import CostFunction, log_cost_function

_MARGIN = 0.02
"""Width of the penalty's rise below the limit, in log cost."""


class CostLimited(PointwiseAcquisition):
    """Acquisition function with a penalty on points that cost more than a limit.

    Args:
        acquisition: The acquisition function.
        cost: A cost, see ``log_cost_function``.
        limit: The largest cost, > 0.
        points: ``n x d`` points from which the range of the acquisition function is estimated.
    """

    def __init__(
        self, acquisition: AcquisitionFunction, cost: CostFunction, limit: float, points: Tensor
    ) -> None:
        super().__init__(model=acquisition.model)
        self.acquisition = acquisition
        self._log_cost = log_cost_function(cost)
        self._log_limit = math.log(limit)
        with torch.no_grad():
            values = acquisition(points.unsqueeze(-2))
        values = values[values.isfinite()]
        self.spread: float = float(values.max() - values.min()) if len(values) else 1.0

    def _values(self, points: Tensor) -> Tensor:
        excess = (self._log_cost(points) - self._log_limit) / _MARGIN + 1.0
        value: Tensor = self.acquisition(points.unsqueeze(-2))
        return value - self.spread * excess.clamp_min(0.0).square()


class NegativeLogCost(PointwiseAcquisition):
    """Negative logarithm of the expected cost, for the cheapest point.

    Args:
        model: The model of the objective, which is not used.
        cost: A cost, see ``log_cost_function``.
        log_weight: A function from points ``n x d`` to ``n`` logarithms that are added, such as
            that of the probability that the trial is feasible; None for none.
    """

    def __init__(
        self,
        model: Model,
        cost: CostFunction,
        log_weight: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        super().__init__(model=model)
        self._log_cost, self._log_weight = log_cost_function(cost), log_weight

    def _values(self, points: Tensor) -> Tensor:
        # Adding zero keeps X in the graph, so that a constant cost has a gradient.
        value = 0.0 * points.sum(dim=-1) - self._log_cost(points)
        return value if self._log_weight is None else value + self._log_weight(points)

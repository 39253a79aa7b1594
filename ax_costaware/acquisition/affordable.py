"""Searching among what is left of a budget pays for, and for the cheapest point there is.

A bound on the expected cost is no box and no linear constraint, and the optimisers of mixed spaces
know no other. So it enters as an exact penalty: nothing below the bound, and above it a slope in
the logarithm of the cost that is steep beside what the acquisition function varies.
"""

from __future__ import annotations

import math

import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.utils.transforms import t_batch_mode_transform
from torch import Tensor

from ax_costaware.acquisition.log_cost import CostFunction, log_cost_function

_STEEPNESS = 10.0
"""Slope of the penalty, in spreads of the acquisition function per unit of log cost."""


class Affordable(AcquisitionFunction):
    """An acquisition function that falls where a point costs more than a limit.

    Args:
        acquisition: The acquisition function.
        cost: A number > 0, a callable of the points, or a model of the cost.
        limit: The largest cost that can be paid, > 0.
        points: ``n x d`` points that show how much the acquisition function varies.
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
        spread = float(values.max() - values.min()) if len(values) else 0.0
        self.slope: float = _STEEPNESS * spread + torch.finfo(points.dtype).eps

    @t_batch_mode_transform(expected_q=1)  # type: ignore[arg-type]
    def forward(self, X: Tensor) -> Tensor:
        """Evaluate at ``batch_shape x 1 x d`` points; ``batch_shape`` values."""
        excess = (self._log_cost(X.squeeze(-2)) - self._log_limit).clamp_min(0.0)
        value: Tensor = self.acquisition(X) - self.slope * excess
        return value


class Cheapness(AcquisitionFunction):
    """The negative logarithm of the expected cost.

    Args:
        acquisition: An acquisition function, for its model.
        cost: A number > 0, a callable of the points, or a model of the cost.
    """

    def __init__(self, acquisition: AcquisitionFunction, cost: CostFunction) -> None:
        super().__init__(model=acquisition.model)
        self._log_cost = log_cost_function(cost)

    @t_batch_mode_transform(expected_q=1)  # type: ignore[arg-type]
    def forward(self, X: Tensor) -> Tensor:
        """Evaluate at ``batch_shape x 1 x d`` points; ``batch_shape`` values."""
        points = X.squeeze(-2)
        # The zero gives a cost that is the same everywhere the gradient that it has.
        return 0.0 * points.sum(dim=-1) - self._log_cost(points)

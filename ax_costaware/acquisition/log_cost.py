"""What a point costs, as the logarithm of its expected cost, and searching among what can be paid.

Acquisition functions take a cost as a number, a callable of the points, or a model that knows the
logarithm of an expected cost. In logs a learned cost neither over- nor underflows, whatever the
unit.

A bound on the expected cost is no box and no linear constraint, and the optimisers of mixed spaces
know no other. So it enters as a smooth penalty that begins just below the bound, and exceeds there
all that the acquisition function varies (``Affordable``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from numbers import Real
from typing import Protocol, TypeAlias, runtime_checkable

import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.acquisition.cost_aware import CostAwareUtility
from botorch.models.deterministic import DeterministicModel
from botorch.models.model import Model
from torch import Tensor

from ax_costaware.acquisition.pointwise import PointwiseAcquisition
from ax_costaware.exceptions import InputError
from ax_costaware.queries.argument_checks import first_bad, positive_number

_MARGIN = 0.02
"""Log of the cost, below the limit, over which the penalty grows to the acquisition function's
spread."""


@runtime_checkable
class LogExpectedCost(Protocol):
    """A model of the cost, such as ``LogNormalCostModel``."""

    def log_expected_cost(self, X: Tensor) -> Tensor:
        """Logarithm of the expected cost at points ``... x d``, of shape ``...``."""


CostFunction: TypeAlias = float | Callable[[Tensor], Tensor] | LogExpectedCost | DeterministicModel
"""A number, a callable from points ``... x d`` to costs ``...``, a model of the cost, or a
deterministic model of BoTorch with the cost as its one output, such as
``AffineFidelityCostModel``."""


def log_cost_function(cost: CostFunction) -> Callable[[Tensor], Tensor]:
    """The logarithm of a cost as a function of points.

    Args:
        cost: A number > 0; a callable from points ``n x d`` to ``n`` costs > 0; an object with
            ``log_expected_cost``; or a ``DeterministicModel`` with one output, the cost > 0.

    Returns:
        A function from points ``... x d`` to the logarithms of their costs, ``...``. It raises
        ``InputError`` where a callable returns the wrong shape, or a cost that is not a finite
        number > 0.

    Raises:
        InputError: If ``cost`` is none of these.
    """
    if isinstance(cost, Real):
        return partial(_constant, math.log(positive_number(cost, "cost")))
    if isinstance(cost, LogExpectedCost) and not isinstance(cost, type):
        return cost.log_expected_cost
    if isinstance(cost, DeterministicModel) and cost.num_outputs == 1:
        return partial(_checked_log, partial(_only_output, cost))
    # BoTorch's modules are callables, but of other arguments, or with other results.
    is_other = isinstance(cost, type | Model | CostAwareUtility)
    if is_other or not callable(cost):
        raise InputError(
            f"cost={_shown(cost)}: expected a number > 0, a callable of the points, a model with"
            " log_expected_cost such as LogNormalCostModel, or a DeterministicModel with one output"
            " such as AffineFidelityCostModel."
        )
    return partial(_checked_log, cost)


def _shown(cost: object) -> str:
    """Text of what is no cost; of a module its class alone, of which the rest takes many lines."""
    if isinstance(cost, DeterministicModel):
        return f"a {type(cost).__name__} with {cost.num_outputs} outputs"
    return f"a {type(cost).__name__}" if isinstance(cost, torch.nn.Module) else repr(cost)


# No lambdas: an acquisition function with these can be pickled, as BoTorch's can.
def _constant(log_cost: float, X: Tensor) -> Tensor:
    return X.new_full(X.shape[:-1], log_cost)


def _only_output(model: DeterministicModel, X: Tensor) -> Tensor:
    found: Tensor = model(X.unsqueeze(-2))  # a point is a batch of one
    return found.squeeze(-1).squeeze(-1)


def _checked_log(cost: Callable[[Tensor], Tensor], X: Tensor) -> Tensor:
    points = X.reshape(-1, X.shape[-1])
    costs = cost(points)
    if not isinstance(costs, Tensor) or costs.shape != points.shape[:1]:
        got = f"shape {tuple(costs.shape)}" if isinstance(costs, Tensor) else repr(costs)
        raise InputError(
            f"cost: for points of shape {tuple(points.shape)} the callable returned {got};"
            f" expected a tensor of shape {tuple(points.shape[:1])}."
        )
    # One comparison finds NaN, too, and infinity is not below the bound.
    if (row := first_bad((costs > 0) & (costs < torch.inf))) is not None:
        raise InputError(
            f"cost: the callable returned {float(costs[row])!r} at {points[row].tolist()};"
            " expected finite costs > 0."
        )
    return costs.reshape(X.shape[:-1]).log()


class Affordable(PointwiseAcquisition):
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
        self.spread: float = float(values.max() - values.min()) if len(values) else 1.0

    def _values(self, points: Tensor) -> Tensor:
        excess = (self._log_cost(points) - self._log_limit) / _MARGIN + 1.0
        value: Tensor = self.acquisition(points.unsqueeze(-2))
        return value - self.spread * excess.clamp_min(0.0).square()


class Cheapness(PointwiseAcquisition):
    """The negative logarithm of the expected cost.

    Args:
        model: The model of the objective, which is not asked.
        cost: A number > 0, a callable of the points, or a model of the cost.
    """

    def __init__(self, model: Model, cost: CostFunction) -> None:
        super().__init__(model=model)
        self._log_cost = log_cost_function(cost)

    def _values(self, points: Tensor) -> Tensor:
        # The zero gives a cost that is the same everywhere the gradient that it has.
        return 0.0 * points.sum(dim=-1) - self._log_cost(points)

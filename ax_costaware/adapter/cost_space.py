"""What a trial costs as a function of the model's input space.

A cost is declared in raw values of the parameters, and a search runs in the model's space. Value
objects become differentiable functions of it; a user's own function is called row by row on decoded
parameterizations, with finite differences for its gradient. Costs are in the user's own unit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, cast

import torch
from ax.core.parameter import ChoiceParameter
from ax.exceptions.core import UserInputError
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from ax_costaware.adapter.decoded_space import Column, DecodedSpace
from ax_costaware.queries.costs import Cost, TableCost

CostOfPoints: TypeAlias = Callable[[Tensor], Tensor]
"""From points ``... x d`` of the model's space to costs ``...``."""

_STEP = 1e-5
"""Step of the finite differences of a user's own function, relative to a column's range."""

_LEAST = 1e-300
"""A declared cost is kept above this during a search: an affine one may fall below zero outside
the constraints, where the search may look on its way. A point that is chosen is checked."""


class KnownCost(Protocol):
    """Settings of a method that knows what a trial costs."""

    @property
    def cost(self) -> object:
        """A number, a value object by parameter names, or a function of a parameterization."""
        ...

    def cost_at(self, parameters: Mapping[str, Any]) -> float:
        """The cost of one parameterization."""
        ...


def known_cost(settings: KnownCost, space: DecodedSpace) -> CostOfPoints:
    """A declared cost as a function of points of the model's space.

    Args:
        settings: The settings, whose cost is no metric.
        space: How the parameters are encoded.

    Raises:
        UserInputError: If the cost reads a parameter that the experiment does not have, or a table
            lacks a value of its parameter. The function raises it where a user's own function
            gives no finite number > 0.
    """
    cost = settings.cost
    if isinstance(cost, float):
        return lambda X: X.new_full(X.shape[:-1], cost)
    if not isinstance(cost, Cost):
        return _row_by_row(settings, space)
    names = cast(Sequence[str], cost.parameters)
    if unknown := [name for name in names if name not in space.names]:
        raise UserInputError(
            f"cost={cost!r} reads {unknown}, which the experiment does not have: expected names "
            f"out of {space.names}."
        )
    if isinstance(cost, TableCost):
        column = space.columns.get(str(cost.parameter))
        if column is not None and isinstance(column.parameter, ChoiceParameter):
            return _table(settings, column)
    if not all(space.is_numeric(name) for name in names):
        return _row_by_row(settings, space)

    def evaluate(X: Tensor) -> Tensor:
        costs = cost.evaluate({name: space.raw(name, X) for name in names})
        return costs.to(X).expand(X.shape[:-1]).clamp_min(_LEAST)

    return evaluate


def _table(settings: KnownCost, column: Column) -> CostOfPoints:
    """A table over a choice parameter: one cost for each of its values."""
    assert isinstance(column.parameter, ChoiceParameter)
    name = column.parameter.name
    costs = [settings.cost_at({name: value}) for value in column.parameter.values]
    # The zero keeps the point in the graph, with the gradient that a step has.
    return lambda X: column.weights(X) @ X.new_tensor(costs) + 0.0 * X.sum(dim=-1)


def _row_by_row(settings: KnownCost, space: DecodedSpace) -> CostOfPoints:
    smooth = [column.indices[0] for column in space.columns.values() if column.is_smooth]

    def costs(X: Tensor) -> Tensor:
        rows = space.decode(X.reshape(-1, X.shape[-1]))
        return X.new_tensor([settings.cost_at(row) for row in rows]).reshape(X.shape[:-1])

    def evaluate(X: Tensor) -> Tensor:
        found = _FiniteDifferences.apply(X, costs, space.bounds, smooth)  # type: ignore[no-untyped-call]
        return cast(Tensor, found)

    return evaluate


class _FiniteDifferences(Function):
    """A function of points whose gradient is taken by differences that stay within the bounds."""

    @staticmethod
    def forward(
        ctx: Any, X: Tensor, costs: CostOfPoints, bounds: Tensor, smooth: list[int]
    ) -> Tensor:
        ctx.save_for_backward(X)
        ctx.arguments = costs, bounds, smooth
        return costs(X.detach())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        (X,) = ctx.saved_tensors
        costs, bounds, smooth = ctx.arguments
        slopes = torch.zeros_like(X)
        for i in smooth:
            step = _STEP * (bounds[1, i] - bounds[0, i])
            above, below = X.clone(), X.clone()
            above[..., i] = (X[..., i] + step).clamp(max=bounds[1, i])
            below[..., i] = (X[..., i] - step).clamp(min=bounds[0, i])
            width = above[..., i] - below[..., i]
            difference = costs(above) - costs(below)
            slopes[..., i] = torch.where(width > 0, difference / width, 0.0)
        return gradient.unsqueeze(-1) * slopes, None, None, None

"""Declared costs: of parameterizations, and of points of the model's space.

A cost is declared on raw values, and an optimizer works in the model's space. Value objects become
differentiable functions of points. A user's function is called on decoded parameterizations, one by
one, and has finite differences as its gradient. Costs are in the user's unit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, TypeAlias, cast

import torch
from torch import Tensor

from ax_costaware.argument_checks import plain_value, positive_number
from ax_costaware.costs.cost import Cost, SumCost, TableCost
from ax_costaware.costs.cost_model import ANY_TRIAL, TrialContext, checked_log
from ax_costaware.exceptions import InputError
from ax_costaware.space.listed import ListedCosts
from ax_costaware.space.parameters import Choice, Row, Value
from ax_costaware.space.space import Space

CostOfRow: TypeAlias = Callable[[dict[str, Any]], float]
"""A user's own function from a parameterization in raw units to its cost."""

Declared: TypeAlias = float | Cost | CostOfRow
"""A declared cost: a number, a value object by parameter names, or a user's own function."""

_STEP = 1e-5
"""Step of finite differences, relative to a column's range."""

_MIN_COST = 1e-300
"""Lower limit of declared costs during a search, which may pass points outside the constraints
where an affine cost is negative. The cost of the chosen point is checked."""


def cost_of(cost: Declared, parameters: Row) -> float:
    """Return the declared cost of a trial.

    Args:
        cost: A number, a value object by parameter names, or a user's function.
        parameters: The trial's parameterization in raw units.

    Raises:
        InputError: If that is no finite number > 0.
    """
    if isinstance(cost, Cost):
        try:
            return cost.at(parameters)
        except InputError as error:
            raise InputError(f"cost={cost!r} at {dict(parameters)}: {error}") from error
    value = cost(dict(parameters)) if callable(cost) else cost
    try:
        return positive_number(plain_value(value), "cost")
    except InputError as error:
        raise InputError(
            f"cost gave {value!r} for {dict(parameters)}: expected a finite number > 0."
        ) from error


def part_of(term: Cost, parameters: Row) -> float:
    """Return a term of the cost of a trial, which may be zero.

    Raises:
        InputError: If the term is not defined for the trial.
    """
    try:
        return term.part_at(parameters)
    except InputError as error:
        raise InputError(f"cost={term!r} at {dict(parameters)}: {error}") from error


@dataclass(frozen=True, eq=False)
class DeclaredCost:
    """Declared cost at points of the model's space; a ``CostModel``.

    Raises:
        InputError: When it is evaluated, if a table lacks a value of its parameter, or a user's
            function does not return a finite number > 0.
    """

    cost: Declared
    """A number, a value object by parameter names, or a user's function."""

    space: Space
    """Search space, which encodes parameters as columns."""

    def log_cost(self, X: Tensor, trial: TrialContext = ANY_TRIAL) -> Tensor:
        """Return the log of the cost at points ``... x d``, ``...``."""
        return checked_log(self.costs, X)

    def costs(self, X: Tensor) -> Tensor:
        """Return the cost at points ``... x d``, ``...``."""
        first, *others = (part(X) for part in self._parts)
        return sum(others, first).clamp_min(_MIN_COST)

    @cached_property
    def _parts(self) -> tuple[Callable[[Tensor], Tensor], ...]:
        """Terms of the cost, as functions of points."""
        cost = self.cost
        if isinstance(cost, SumCost):
            return tuple(self._part(term, partial(part_of, term)) for term in cost.terms)
        if isinstance(cost, Cost):
            return (self._part(cost, partial(cost_of, cost)),)
        if isinstance(cost, ListedCosts) and self.space.listed is not None:
            return (partial(self._of_listed, cost),)
        if callable(cost):
            return (_row_by_row(partial(cost_of, cost), self.space),)
        return (lambda X: X.new_full(X.shape[:-1], cost),)

    def _of_listed(self, cost: ListedCosts, X: Tensor) -> Tensor:
        """Return the costs of the rows of the table at points, or nearest to them."""
        rows, space = self.space.listed, self.space
        assert rows is not None
        found = rows.index(X.reshape(-1, X.shape[-1]), space.bounds[1] - space.bounds[0])
        costs = X.new_tensor(cost.candidates.costs)[rows.positions[found]].reshape(X.shape[:-1])
        return costs + 0.0 * X.sum(dim=-1)  # a gradient of zero, and not no gradient

    def _part(self, cost: Cost, cost_at: Callable[[Row], float]) -> Callable[[Tensor], Tensor]:
        """Return a value object, or a term of a sum, as a function of points."""
        names, space = cast(Sequence[str], cost.parameters), self.space
        if isinstance(cost, TableCost):
            column = space.columns.get(str(cost.parameter))
            if column is not None and isinstance(choice := column.parameter, Choice):
                prices = [cost_at({choice.name: value}) for value in choice.values]
                # Adding zero times X gives a gradient of zero, and not no gradient.
                return lambda X: column.weights(X) @ X.new_tensor(prices) + 0.0 * X.sum(dim=-1)
        if not all(space.parameters[name].is_numeric for name in names):
            return _row_by_row(cost_at, space)

        def evaluate(X: Tensor) -> Tensor:
            costs = cost.evaluate({name: space.raw(name, X) for name in names})
            return costs.to(X).expand(X.shape[:-1])

        return evaluate


def _row_by_row(cost_at: Callable[[Row], float], space: Space) -> Callable[[Tensor], Tensor]:
    """Return a function of rows as a function of points, with finite differences as gradient."""
    known: dict[tuple[Value, ...], float] = {}

    def cost_of_row(row: Row) -> float:
        if space.smooth:
            return cost_at(row)
        # A search of a finite space evaluates the same points again and again.
        key = tuple(row.values())
        if key not in known:
            known[key] = cost_at(row)
        return known[key]

    def costs(X: Tensor) -> Tensor:
        rows = space.decode(X.reshape(-1, X.shape[-1]))
        return X.new_tensor([cost_of_row(row) for row in rows]).reshape(X.shape[:-1])

    smooth = torch.tensor(sorted(space.smooth), dtype=torch.long)
    order = torch.arange(len(smooth))
    lower, upper = space.bounds[:, smooth]
    steps = _STEP * (upper - lower)

    def evaluate(X: Tensor) -> Tensor:
        at = X.detach()
        if not (X.requires_grad and torch.is_grad_enabled()):
            return costs(at)
        # The points moved in each smooth column, within the bounds, then the points themselves.
        step = torch.where(at[..., smooth] + steps > upper, -steps, steps).movedim(-1, 0)
        moved = at.repeat(len(smooth) + 1, *[1] * at.dim())
        moved[order, ..., smooth] += step
        found = costs(moved)
        slopes = torch.zeros_like(at)
        slopes[..., smooth] = ((found[:-1] - found[-1]) / step).movedim(0, -1)
        # The tangent plane has the value and the gradient of the cost.
        return found[-1] + (slopes * (X - at)).sum(dim=-1)

    return evaluate

"""Checks that a known cost fits the parameters of an experiment, before anything is spent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from ax.core.parameter import ChoiceParameter, FixedParameter, Parameter, RangeParameter
from ax.core.search_space import SearchSpace
from ax.core.types import TParamValue
from ax.exceptions.core import UserInputError

from ax_costaware.adapter.experiment_checks import free_parameters
from ax_costaware.adapter.model_space import discrete_values
from ax_costaware.queries.costs import AffineCost, Cost, TableCost

CostOf: TypeAlias = Callable[[Mapping[str, Any]], float]
"""The cost of a parameterization, which raises UserInputError where there is none."""


def check_cost(search_space: SearchSpace, cost: object, cost_at: CostOf) -> None:
    """Check that a cost fits the parameters of a search space.

    Args:
        search_space: The search space.
        cost: What the user gave; what is no value object is not looked at.
        cost_at: The cost of a parameterization.

    Raises:
        UserInputError: If the cost reads a parameter that there is not, or that it cannot read, or
            is no finite number > 0 somewhere.
    """
    parameters = search_space.parameters
    if not isinstance(cost, Cost):
        return
    if unknown := [name for name in cost.parameters if name not in parameters]:
        raise UserInputError(
            f"cost={cost!r} reads {unknown}, which the experiment does not have: expected names "
            f"out of {list(parameters)}."
        )
    if isinstance(cost, TableCost):
        _check_table(parameters[str(cost.parameter)], cost, cost_at)
    if isinstance(cost, AffineCost):
        for name in cost.parameters:
            if not parameters[str(name)].is_numeric:
                raise UserInputError(
                    f"cost={cost!r} multiplies parameter {name!r}, whose values are no numbers: "
                    "expected numeric parameters, or a TableCost over this one."
                )
        if not search_space.parameter_constraints:
            cost_at(_cheapest(cost, search_space))


def _check_table(parameter: Parameter, cost: TableCost, cost_at: CostOf) -> None:
    """Every value of the parameter has a cost."""
    values: tuple[TParamValue, ...] | None = None
    if isinstance(parameter, FixedParameter):
        values = (parameter.value,)
    elif isinstance(parameter, ChoiceParameter | RangeParameter):
        values = discrete_values(parameter)
    if values is None:
        raise UserInputError(
            f"cost={cost!r}: parameter {parameter.name!r} has more values than a table "
            "holds; expected a choice or a short range of integers, or an AffineCost."
        )
    for value in values:
        cost_at({parameter.name: value})


def _cheapest(cost: AffineCost, search_space: SearchSpace) -> dict[str, object]:
    """The corner of a search space without constraints at which an affine cost is least."""
    corner: dict[str, object] = {}
    free = free_parameters(search_space)
    for name, weight in cost.weights:
        parameter = search_space.parameters[str(name)]
        if isinstance(parameter, FixedParameter):
            corner[str(name)] = parameter.value
            continue
        choice = free[str(name)]
        ends = (
            choice.values if isinstance(choice, ChoiceParameter) else [choice.lower, choice.upper]
        )
        numbers = [float(str(end)) for end in ends]
        corner[str(name)] = min(numbers) if weight > 0 else max(numbers)
    return corner

"""Validation of realized inputs."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from ax.core.parameter import ChoiceParameter, Parameter, ParameterType, RangeParameter
from ax.core.search_space import SearchSpace
from ax.core.types import TParamValue
from ax.exceptions.core import UserInputError

from ax_costaware.argument_checks import finite_number, instance_of
from ax_costaware.ax_bridge.checks import ax_errors
from ax_costaware.ax_bridge.search_space import parameter_of
from ax_costaware.core.traits import CONTROL_SET
from ax_costaware.exceptions import InputError
from ax_costaware.space.parameters import Choice

_MAX_DISTANCE = 1e6
"""Largest distance of a realized input from its bounds, in widths of the range; a larger one is
taken for a mistake."""


class OutOfBoundsWarning(UserWarning):
    """Warning of a realized input beyond its bounds; it is recorded and learned from."""


@ax_errors()
def read_realized(
    realized: Mapping[str, Any] | None,
    search_space: SearchSpace,
    controlled: Sequence[str] | None,
) -> dict[str, TParamValue]:
    """Return the realized inputs as plain Python values.

    Args:
        realized: By parameter name. Uncontrolled parameters are required. Controlled ones may be
            given, if they differ from the plan.
        search_space: The experiment's search space.
        controlled: Names of the parameters that the trial controls; None for all of them.

    Raises:
        UserInputError: If an uncontrolled parameter is missing, a name is unknown, or a value does
            not fit its parameter.

    Warns:
        OutOfBoundsWarning: If a value lies outside its parameter's bounds.
    """
    instance_of(realized, "realized", Mapping | None, "a mapping from parameter to value")
    given = dict(realized or {})
    inputs = {
        name: parameter
        for name, parameter in search_space.parameters.items()
        if isinstance(parameter, RangeParameter | ChoiceParameter)
        # If trials control everything, it is a parameter like any other.
        and (controlled is None or name != CONTROL_SET)
    }
    if unknown := [name for name in given if name not in inputs]:
        raise UserInputError(
            f"realized names {unknown}, which are not inputs of the experiment: expected names "
            f"from {list(inputs)}."
        )
    controlled = list(inputs if controlled is None else controlled)
    if missing := [name for name in inputs if name not in given and name not in controlled]:
        raise UserInputError(
            f"realized lacks {missing}: the trial controls only {controlled}. Give the realized "
            "value of each other parameter."
        )
    return {
        name: read_value(given[name], inputs[name], f"realized[{name!r}]")
        for name in inputs
        if name in given
    }


def warn_out_of_bounds(realized: Mapping[str, TParamValue], search_space: SearchSpace) -> None:
    """Warn of each realized value outside the bounds of its range parameter."""
    for name, value in realized.items():
        parameter = search_space.parameters[name]
        if isinstance(parameter, RangeParameter) and value != within_bounds(value, parameter):
            warnings.warn(
                f"realized[{name!r}]={value!r} lies outside the bounds [{parameter.lower}, "
                f"{parameter.upper}]: it is recorded and learned from; nothing beyond the bounds "
                "is recommended.",
                OutOfBoundsWarning,
                stacklevel=4,  # beyond the decorator of complete_trial
            )


def within_bounds(value: TParamValue, parameter: Parameter) -> TParamValue:
    """Return the value clipped to the bounds of its parameter."""
    if not isinstance(parameter, RangeParameter) or not isinstance(value, int | float):
        return value
    return min(max(value, parameter.lower), parameter.upper)


@ax_errors()
def read_value(value: Any, parameter: RangeParameter | ChoiceParameter, what: str) -> TParamValue:
    """Return the realized value of a parameter as a plain Python value, maybe beyond its bounds.

    Args:
        value: The user's value.
        parameter: The parameter.
        what: Name of the value in an error.

    Raises:
        UserInputError: If the value does not fit the parameter.
    """
    if isinstance(parameter, ChoiceParameter):
        choice = parameter_of(parameter)
        assert isinstance(choice, Choice)
        try:
            return choice.values[choice.index(value)]
        except InputError as error:
            expected = f"expected one of {parameter.values}"
            raise UserInputError(f"{what}={value!r}: {expected}.") from error
    number = finite_number(value, what)
    width = parameter.upper - parameter.lower
    if not -_MAX_DISTANCE * width <= number - parameter.lower <= _MAX_DISTANCE * width:
        raise UserInputError(
            f"{what}={value!r}: the parameter ranges over [{parameter.lower}, {parameter.upper}]; "
            "expected a number within a million range widths of them."
        )
    if parameter.log_scale and number <= 0:
        raise UserInputError(
            f"{what}={value!r}: the parameter is on a log scale, expected a number > 0."
        )
    if parameter.logit_scale and not 0 < number < 1:
        raise UserInputError(
            f"{what}={value!r}: the parameter is on a logit scale, expected a number in (0, 1)."
        )
    if parameter.parameter_type is not ParameterType.INT:
        return number
    if not number.is_integer():
        raise UserInputError(f"{what}={value!r}: the parameter is an integer.")
    return int(value)

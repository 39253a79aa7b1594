"""Reading which values the inputs of a trial took, where these were not what was asked for."""

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
from ax_costaware.exceptions import InputError
from ax_costaware.methods.control_sets.checks import CONTROL_SET
from ax_costaware.space.parameters import Choice

_FARTHEST = 1e6
"""In widths of a range: a realised input beyond its bounds by more is taken for a mistake."""


class OutOfBoundsWarning(UserWarning):
    """A realised input lies beyond its bounds; it is recorded and learned from."""


@ax_errors()
def read_realized(
    realized: Mapping[str, Any] | None,
    search_space: SearchSpace,
    controlled: Sequence[str] | None,
) -> dict[str, TParamValue]:
    """The realised inputs as plain Python values.

    Args:
        realized: By parameter name; every parameter that is not controlled must be there, a
            controlled one may be, if it came out differently from plan.
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
        # Where trials control everything, it is a parameter like any other.
        and (controlled is None or name != CONTROL_SET)
    }
    if unknown := [name for name in given if name not in inputs]:
        raise UserInputError(
            f"realized names {unknown}, which are no inputs of the experiment: expected names from "
            f"{list(inputs)}."
        )
    controlled = list(inputs if controlled is None else controlled)
    if missing := [name for name in inputs if name not in given and name not in controlled]:
        raise UserInputError(
            f"realized lacks {missing}: the trial controls only {controlled}, so give the value "
            "that each other parameter took."
        )
    return {
        name: read_value(given[name], inputs[name], f"realized[{name!r}]")
        for name in inputs
        if name in given
    }


def warn_out_of_bounds(realized: Mapping[str, TParamValue], search_space: SearchSpace) -> None:
    """Warn of every realised value outside the bounds of its range parameter."""
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
    """The value within the bounds of its parameter that is next to one."""
    if not isinstance(parameter, RangeParameter) or not isinstance(value, int | float):
        return value
    return min(max(value, parameter.lower), parameter.upper)


@ax_errors()
def read_value(value: Any, parameter: RangeParameter | ChoiceParameter, what: str) -> TParamValue:
    """The value that a parameter took, as a plain Python value; it may lie beyond the bounds.

    Args:
        value: What the user gave.
        parameter: The parameter.
        what: How a refusal names the value.

    Raises:
        UserInputError: If it does not fit the parameter.
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
    if not -_FARTHEST * width <= number - parameter.lower <= _FARTHEST * width:
        raise UserInputError(
            f"{what}={value!r}: the parameter ranges over [{parameter.lower}, {parameter.upper}]; "
            "expected a number that is not a million times as far off."
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

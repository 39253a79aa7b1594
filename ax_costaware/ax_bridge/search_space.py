"""Conversion of Ax's parameters and search spaces."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from ax.core.observation import ObservationFeatures
from ax.core.parameter import (
    ChoiceParameter,
    DerivedParameter,
    FixedParameter,
    Parameter,
    ParameterType,
    RangeParameter,
)
from ax.core.search_space import SearchSpace
from ax.exceptions.core import UnsupportedError, UserInputError

from ax_costaware.argument_checks import instance_of, sequence_of
from ax_costaware.ax_bridge.checks import ax_errors
from ax_costaware.core.traits import Traits
from ax_costaware.space.candidates import Candidates
from ax_costaware.space.hierarchy import Condition
from ax_costaware.space.parameter_constraints import WeightedSum
from ax_costaware.space.parameters import Choice, Fixed, FreeParameter, Range, Value
from ax_costaware.space.parameters import Parameter as OurParameter
from ax_costaware.space.space import Space

_MAX_INTEGERS = 10**8, 10**7
"""Largest number of integers of a range, on a linear and on a log scale; their lists take eight
gigabytes."""


_PLAIN = Traits()
"""Traits of a method that hides, restricts and describes no parameters."""


def parameter_of(parameter: Parameter) -> OurParameter:
    """Return a parameter of Ax as a value object.

    Raises:
        UnsupportedError: If no method supports its kind.
    """
    if isinstance(parameter, DerivedParameter):
        raise UnsupportedError(
            f"parameter {parameter.name!r} is derived from others: it has no value of its own to "
            "control or to realise. Compute it where the trial is run."
        )
    if isinstance(parameter, FixedParameter):
        return Fixed(parameter.name, parameter.value)
    for kind in ("task", "fidelity"):
        if getattr(parameter, f"is_{kind}", False):
            raise UnsupportedError(
                f"parameter {parameter.name!r} is a {kind} parameter, which is not supported."
            )
    if isinstance(parameter, RangeParameter):
        is_integer = parameter.parameter_type is ParameterType.INT
        most = _MAX_INTEGERS[bool(parameter.log_scale)]
        if is_integer and parameter.upper - parameter.lower > most:
            raise UnsupportedError(
                f"parameter {parameter.name!r} has the bounds ({parameter.lower}, "
                f"{parameter.upper}): Ax keeps a list of all integers between them; expected at "
                f"most {most:g}. Make it a float, and round it where the trial is run."
            )
        return Range(
            parameter.name,
            parameter.lower,
            parameter.upper,
            is_integer=is_integer,
            log_scale=parameter.log_scale,
            logit_scale=parameter.logit_scale,
            digits=parameter.digits,
        )
    assert isinstance(parameter, ChoiceParameter)
    is_ordered = bool(parameter.is_ordered and parameter.is_numeric)
    # For Ax two values are ordered, also if a larger choice was reduced to them.
    is_ranked = not is_ordered and (parameter.is_ordered or len(parameter.values) == 2)
    return Choice(
        parameter.name,
        tuple(parameter.values),
        is_ordered=is_ordered,
        log_scale=parameter.log_scale,
        is_ranked=is_ranked,
    )


@ax_errors()
def parameters_of_configs(configs: Any) -> tuple[FreeParameter, ...]:
    """Return Ax's configurations of parameters outside of the experiment as value objects.

    Raises:
        UserInputError: If it is not a list, or an item is of another kind or invalid.
    """
    expected = "a list of RangeParameterConfig and ChoiceParameterConfig"
    found = sequence_of(configs, "target_parameters", expected)
    return tuple(_parameter_of_config(config) for config in found)


def _parameter_of_config(config: Any) -> FreeParameter:
    if isinstance(config, Range | Choice):
        return config
    if isinstance(config, RangeParameterConfig):
        lower, upper = config.bounds
        if (step := config.step_size) is not None:
            # As in Ax, with values that rounding does not change.
            width = upper - lower
            count = round(width / step) if step > 0 else 0
            if config.scaling == "log" or not count or not math.isclose(count * step, width):
                raise UserInputError(
                    f"target_parameters has {config!r}: expected a step_size > 0 that divides the "
                    "range, on a linear scale."
                )
            kind = round if config.parameter_type == "int" else float
            values = tuple(kind(lower + width * i / count) for i in range(count + 1))
            return Choice(config.name, values, is_ordered=True)
        return Range(
            config.name,
            lower,
            upper,
            is_integer=config.parameter_type == "int",
            log_scale=config.scaling == "log",
        )
    if isinstance(config, ChoiceParameterConfig) and not config.dependent_parameters:
        is_number = config.parameter_type in ("int", "float")
        is_ordered = bool(config.is_ordered and is_number)
        # Later versions of Ax have it; None: unspecified.
        on_log_scale = bool(getattr(config, "log_scale", None))
        return Choice(config.name, tuple(config.values), is_ordered, on_log_scale)
    raise UserInputError(
        f"target_parameters has {config!r}: expected RangeParameterConfig or ChoiceParameterConfig "
        "objects, without dependent parameters."
    )


@ax_errors()
def parameters_of(
    candidates: Candidates,
) -> list[RangeParameterConfig | ChoiceParameterConfig]:
    """Return the parameters of an experiment with a table of candidates.

    A column of numbers becomes a range between its extremes. Any other column, and one with a
    single value, becomes a choice of its values without an order. For a log scale, or a choice with
    an order, declare that parameter yourself.

    Args:
        candidates: The table.

    Returns:
        Configurations for the ``parameters`` of ``Client.configure_experiment``.

    Raises:
        UserInputError: If ``candidates`` is no ``Candidates``.
    """
    instance_of(candidates, "candidates", Candidates, "a Candidates")
    return [_config_of(name, candidates.table[name]) for name in candidates.names]


def _config_of(name: str, column: Sequence[Value]) -> RangeParameterConfig | ChoiceParameterConfig:
    values: list[Any] = list(dict.fromkeys(column))
    kind: Any = {str: "str", bool: "bool", int: "int", float: "float"}[type(values[0])]
    if kind == "int" and any(isinstance(value, float) for value in values):
        kind = "float"
    if kind in ("int", "float") and len(values) > 1:
        return RangeParameterConfig(name, bounds=(min(values), max(values)), parameter_type=kind)
    return ChoiceParameterConfig(name, values=values, parameter_type=kind, is_ordered=False)


def space_of(search_space: SearchSpace, traits: Traits = _PLAIN) -> Space:
    """Return a search space as a method sees it before there is a model.

    Args:
        search_space: The search space of an experiment.
        traits: Traits of the method, which hide parameters, and restrict or describe others.

    Raises:
        UnsupportedError: If no method supports it.
        UserInputError: If its equality constraints cannot be satisfied, or a table of the method
            does not fit its parameters.
    """
    constraints: dict[bool, list[WeightedSum]] = {False: [], True: []}
    for constraint in search_space.parameter_constraints:
        constraints[constraint.is_equality].append((constraint.constraint_dict, constraint.bound))
        for name in constraint.constraint_dict if constraint.is_equality else ():
            if (digits := getattr(search_space.parameters[name], "digits", None)) is not None:
                raise UnsupportedError(
                    f"equality constraint {constraint}: {name!r} is rounded to digits={digits}, "
                    "with which it would not hold. Leave out digits."
                )
    with ax_errors():
        space = Space.of(
            [parameter_of(p) for p in search_space.parameters.values()],
            constraints[False],
            [name for name in traits.hidden if name in search_space.parameters],
            constraints[True],
            _conditions(search_space),
        )
        return traits.restricted(space)


def _conditions(search_space: SearchSpace) -> dict[str, Condition]:
    """Return the condition of each dependent parameter, which Ax takes for one value only."""
    return {
        child: Condition(name, (value,))
        for name, parameter in search_space.parameters.items()
        for value, children in (parameter.dependents if parameter.is_hierarchical else {}).items()
        for child in children
    }


def completed(search_space: SearchSpace, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a parameterization with the middle value of inactive parameters."""
    return space_of(search_space).pinned(row) if search_space.is_hierarchical else dict(row)


def active_parameters(search_space: SearchSpace, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the active parameters of a parameterization, as Ax keeps them in an arm."""
    if not search_space.is_hierarchical:
        return dict(row)
    features = ObservationFeatures(parameters=dict(row))
    return dict(search_space.cast_observation_features(features).parameters)

"""The space in which the best point is wanted, where trials are queries of another space.

An Ax experiment holds the parameters of the queries. Those of the points are value objects beside
it, read from the same configurations that Ax takes, and are kept with the strategy. To the model a
point is a row of numbers, one column for each parameter: the raw value of a number, the position of
the value for a choice without an order.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from ax.core.types import TParamValue
from ax.exceptions.core import UserInputError

MOST_VALUES = 10_000
"""An integer of more values is searched as if it were real."""


@dataclass(frozen=True)
class TargetRange:
    """A number between two bounds.

    Raises:
        UserInputError: If the bounds are not finite numbers, the lower one first, and above zero
            on a log scale; or not integers for an integer.
    """

    name: str
    """Name of the parameter."""

    lower: float
    """Its least value."""

    upper: float
    """Its greatest value."""

    is_integer: bool = False
    """Whether it takes whole numbers only."""

    log_scale: bool = False
    """Whether the model sees its logarithm."""

    def __post_init__(self) -> None:
        _check_name(self.name)
        for side in ("lower", "upper"):
            value = getattr(self, side)
            if isinstance(value, bool) or not isinstance(value, int | float | np.number):
                raise UserInputError(
                    f"target_parameters: {self.name!r} has the bound {value!r}: expected a number."
                )
            object.__setattr__(self, side, float(value))
        bounds = f"target_parameters: {self.name!r} has the bounds ({self.lower}, {self.upper})"
        if not (-math.inf < self.lower < self.upper < math.inf):
            raise UserInputError(f"{bounds}: expected finite numbers, the lower one first.")
        if self.log_scale and self.lower <= 0:
            raise UserInputError(f"{bounds} on a log scale: expected numbers > 0.")
        if self.is_integer and not (self.lower.is_integer() and self.upper.is_integer()):
            raise UserInputError(f"{bounds}: expected whole numbers, as its values are.")

    @property
    def is_numeric(self) -> bool:
        """Whether the model's column is the raw value: always."""
        return True

    @property
    def grid(self) -> tuple[float, ...] | None:
        """The values in the model's column; None where these are a continuum, or many."""
        if not self.is_integer or self.upper - self.lower >= MOST_VALUES:
            return None
        return tuple(float(v) for v in range(int(self.lower), int(self.upper) + 1))

    def decode(self, column: float) -> TParamValue:
        """The raw value for a number in the model's column."""
        value = min(max(float(column), self.lower), self.upper)
        return round(value) if self.is_integer else value

    def encode(self, value: Any) -> float:
        """The number in the model's column for a raw value, also one beyond the bounds."""
        if isinstance(value, bool | str) or not isinstance(value, int | float | np.number):
            raise UserInputError(
                f"target parameter {self.name!r} has the value {value!r}: expected a number."
            )
        return float(value)


@dataclass(frozen=True)
class TargetChoice:
    """One of several values.

    Raises:
        UserInputError: For fewer than two values, values that are not all numbers or all strings
            or all booleans, one of them twice, or an order of values that are no numbers.
    """

    name: str
    """Name of the parameter."""

    values: tuple[TParamValue, ...]
    """Its values."""

    is_ordered: bool = False
    """Whether they are numbers on a scale: then the model sees the number."""

    def __post_init__(self) -> None:
        _check_name(self.name)
        found = tuple(v.item() if isinstance(v, np.generic) else v for v in self.values)
        object.__setattr__(self, "values", found)
        kinds = {
            bool if isinstance(v, bool) else str if isinstance(v, str) else float for v in found
        }
        what = f"target_parameters: {self.name!r} has the values {list(found)}"
        if len(found) < 2 or len(set(found)) < len(found) or len(kinds) != 1:
            raise UserInputError(f"{what}: expected two or more different ones of one kind.")
        if self.is_ordered:
            if kinds != {float}:
                raise UserInputError(f"{what}, in order: expected numbers, or no order.")
            object.__setattr__(self, "values", tuple(sorted(found, key=float)))

    @property
    def is_numeric(self) -> bool:
        """Whether the model's column is the raw value, not a code."""
        return self.is_ordered

    @property
    def log_scale(self) -> bool:
        """Whether the model sees a logarithm: never."""
        return False

    @property
    def grid(self) -> tuple[float, ...]:
        """The values in the model's column."""
        if self.is_ordered:
            return tuple(float(str(v)) for v in self.values)
        return tuple(float(i) for i in range(len(self.values)))

    @property
    def lower(self) -> float:
        """The least number in the model's column."""
        return self.grid[0]

    @property
    def upper(self) -> float:
        """The greatest number in the model's column."""
        return self.grid[-1]

    def decode(self, column: float) -> TParamValue:
        """The raw value for a number in the model's column."""
        grid = self.grid
        return self.values[min(range(len(grid)), key=lambda i: abs(grid[i] - column))]

    def encode(self, value: Any) -> float:
        """The number in the model's column for a raw value."""
        plain = value.item() if isinstance(value, np.generic) else value
        for known, number in zip(self.values, self.grid, strict=True):
            if known == plain and isinstance(known, bool) == isinstance(plain, bool):
                return number
        raise UserInputError(
            f"target parameter {self.name!r} has the value {value!r}: expected one of "
            f"{list(self.values)}."
        )


TargetParameter: TypeAlias = TargetRange | TargetChoice


def target_parameters(configs: Any) -> tuple[TargetParameter, ...]:
    """The value objects for Ax's configurations of parameters.

    Args:
        configs: ``RangeParameterConfig`` and ``ChoiceParameterConfig`` objects, or value objects.

    Raises:
        UserInputError: If there is none, one is of another kind, two have one name, or one cannot
            be used.
    """
    if not isinstance(configs, Iterable) or isinstance(configs, str | Mapping):
        raise UserInputError(
            f"target_parameters={configs!r}: expected a list of RangeParameterConfig and "
            "ChoiceParameterConfig."
        )
    found = tuple(_target_parameter(config) for config in configs)
    if not found:
        raise UserInputError("target_parameters=[]: expected at least one parameter.")
    names = [parameter.name for parameter in found]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise UserInputError(f"target_parameters has {repeated} more than once.")
    return found


def _target_parameter(config: Any) -> TargetParameter:
    if isinstance(config, TargetRange | TargetChoice):
        return config
    if isinstance(config, RangeParameterConfig):
        lower, upper = config.bounds
        if config.step_size is not None:
            # As Ax does, with values that rounding leaves alone.
            count = round((upper - lower) / config.step_size)
            values = tuple(lower + (upper - lower) * i / count for i in range(count + 1))
            return TargetChoice(config.name, values, is_ordered=True)
        return TargetRange(
            config.name,
            lower,
            upper,
            is_integer=config.parameter_type == "int",
            log_scale=config.scaling == "log",
        )
    if isinstance(config, ChoiceParameterConfig):
        if config.dependent_parameters:
            raise UserInputError(
                f"target_parameters: {config.name!r} has dependent parameters, and every "
                "parameter is needed in every point."
            )
        is_number = config.parameter_type in ("int", "float")
        return TargetChoice(
            config.name, tuple(config.values), bool(config.is_ordered and is_number)
        )
    raise UserInputError(
        f"target_parameters has {config!r}: expected RangeParameterConfig or "
        "ChoiceParameterConfig objects."
    )


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not name:
        raise UserInputError(f"target_parameters: name={name!r}: expected a string.")

"""Parameters of an experiment as value objects: ranges of numbers, choices, and fixed ones."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch

from ax_costaware.exceptions import InputError

Value: TypeAlias = float | int | str | bool | None
"""A raw value of a parameter."""

Row: TypeAlias = Mapping[str, Value]
"""A parameterization in raw units, by the names of the parameters."""

MOST_INTEGERS = 10_000
"""An integer of more values is searched as if it were real."""


@dataclass(frozen=True)
class Range:
    """A number between two bounds.

    Raises:
        InputError: If the bounds are not finite numbers, the lower one first, and above zero
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

    logit_scale: bool = False
    """Whether the model sees its logit."""

    def __post_init__(self) -> None:
        _check_name(self.name)
        for side in ("lower", "upper"):
            value = getattr(self, side)
            if isinstance(value, bool) or not isinstance(value, int | float | np.number):
                raise InputError(f"{self.name!r} has the bound {value!r}: expected a number.")
            object.__setattr__(self, side, float(value))
        bounds = f"{self.name!r} has the bounds ({self.lower}, {self.upper})"
        if not (-math.inf < self.lower < self.upper < math.inf):
            raise InputError(f"{bounds}: expected finite numbers, the lower one first.")
        if self.log_scale and self.lower <= 0:
            raise InputError(f"{bounds} on a log scale: expected numbers > 0.")
        if self.is_integer and not (self.lower.is_integer() and self.upper.is_integer()):
            raise InputError(f"{bounds}: expected whole numbers, as its values are.")

    @property
    def is_numeric(self) -> bool:
        """Whether raw values are numbers: always."""
        return True

    @property
    def grid(self) -> tuple[float, ...] | None:
        """All raw values; None where these are a continuum, or many."""
        values = self.values_up_to(MOST_INTEGERS)
        return None if values is None else tuple(float(str(v)) for v in values)

    def values_up_to(self, most: int) -> tuple[Value, ...] | None:
        """The raw values, if they are integers and no more than ``most``; else None."""
        if not self.is_integer or self.upper - self.lower >= most:
            return None
        return tuple(range(int(self.lower), int(self.upper) + 1))

    def at(self, u: float) -> Value:
        """The raw value at the fraction ``u`` in [0, 1) of the range, on its own scale."""
        lower, upper = self.lower, self.upper
        value: float
        if self.is_integer and not self.log_scale:
            return min(math.floor(lower + u * (upper - lower + 1)), int(upper))
        if self.log_scale:
            value = lower * (upper / lower) ** u
        elif self.logit_scale:
            low, high = _logit(lower), _logit(upper)
            value = float(torch.tensor(low + u * (high - low), dtype=torch.double).sigmoid())
        else:
            value = lower + u * (upper - lower)
        return self.decode(value)

    def decode(self, column: float) -> Value:
        """The valid raw value that is nearest to a number."""
        value = min(max(float(column), self.lower), self.upper)
        return round(value) if self.is_integer else value

    def encode(self, value: Any) -> float:
        """A raw value as a number, also one beyond the bounds."""
        if isinstance(value, bool | str) or not isinstance(value, int | float | np.number):
            raise InputError(f"{self.name!r} has the value {value!r}: expected a number.")
        return float(value)

    def to_column(self, value: float) -> float:
        """A raw value on the scale of the model."""
        if self.log_scale:
            return math.log10(value)
        return _logit(value) if self.logit_scale else float(value)


@dataclass(frozen=True)
class Choice:
    """One of several values.

    Raises:
        InputError: For values that are not all numbers or all strings or all booleans, one of them
            twice, or an order of values that are no numbers.
    """

    name: str
    """Name of the parameter."""

    values: tuple[Value, ...]
    """Its values."""

    is_ordered: bool = False
    """Whether they are numbers on a scale."""

    log_scale: bool = False
    """Whether the model sees their logarithms."""

    is_ranked: bool = False
    """Whether they are no numbers, but have an order: then the model sees their positions."""

    def __post_init__(self) -> None:
        _check_name(self.name)
        found = tuple(v.item() if isinstance(v, np.generic) else v for v in self.values)
        object.__setattr__(self, "values", found)
        kinds = {_kind(v) for v in found}
        what = f"{self.name!r} has the values {list(found)}"
        if not found or len(set(found)) < len(found) or len(kinds) != 1:
            raise InputError(f"{what}: expected two or more different ones of one kind.")
        if self.is_ordered:
            if kinds != {float}:
                raise InputError(f"{what}, in order: expected numbers, or no order.")
            object.__setattr__(self, "values", tuple(sorted(found, key=lambda v: float(str(v)))))

    @property
    def is_numeric(self) -> bool:
        """Whether raw values are numbers."""
        return _kind(self.values[0]) is float

    @property
    def is_integer(self) -> bool:
        """Whether raw values are whole numbers; False: a choice says itself which there are."""
        return False

    @property
    def grid(self) -> tuple[float, ...]:
        """The values as numbers: themselves if they are ordered, else their positions."""
        if self.is_ordered:
            return tuple(float(str(v)) for v in self.values)
        return tuple(float(i) for i in range(len(self.values)))

    @property
    def lower(self) -> float:
        """The least number of ``grid``."""
        return self.grid[0]

    @property
    def upper(self) -> float:
        """The greatest number of ``grid``."""
        return self.grid[-1]

    @property
    def codes(self) -> list[list[float]]:
        """The columns of a model for each value: one number if there is an order, else one-hot."""
        if self.is_ordered:
            return [[math.log10(v) if self.log_scale else v] for v in self.grid]
        if self.is_ranked:
            return [[position] for position in self.grid]
        return [[float(i == j) for j in range(len(self.values))] for i in range(len(self.values))]

    def values_up_to(self, most: int) -> tuple[Value, ...]:
        """The raw values, however many."""
        return self.values

    def at(self, u: float) -> Value:
        """The raw value at the fraction ``u`` in [0, 1) of all."""
        return self.values[min(int(u * len(self.values)), len(self.values) - 1)]

    def decode(self, column: float) -> Value:
        """The raw value whose number in ``grid`` is nearest."""
        grid = self.grid
        return self.values[min(range(len(grid)), key=lambda i: abs(grid[i] - column))]

    def encode(self, value: Any) -> float:
        """The number in ``grid`` of a raw value."""
        return self.grid[self.index(value)]

    def index(self, value: Any) -> int:
        """The position of a raw value among all; a boolean is no number, and 2.0 is 2.

        Raises:
            InputError: If it is none of them.
        """
        plain = value.item() if isinstance(value, np.generic) else value
        for position, known in enumerate(self.values):
            if known == plain and _kind(known) is _kind(plain):
                return position
        raise InputError(
            f"{self.name!r} has the value {value!r}: expected one of {list(self.values)}."
        )


@dataclass(frozen=True)
class Fixed:
    """A parameter with one value."""

    name: str
    """Name of the parameter."""

    value: Value
    """Its value."""

    @property
    def is_numeric(self) -> bool:
        """Whether the value is a number."""
        return _kind(self.value) is float

    def values_up_to(self, most: int) -> tuple[Value, ...]:
        """The value."""
        return (self.value,)


FreeParameter: TypeAlias = Range | Choice
Parameter: TypeAlias = Range | Choice | Fixed


def _kind(value: object) -> type:
    return bool if isinstance(value, bool) else str if isinstance(value, str) else float


def _logit(value: float) -> float:
    return float(torch.logit(torch.tensor(value, dtype=torch.double)))


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not name:
        raise InputError(f"name={name!r}: expected a string.")

"""Parameters of an experiment as value objects, and as columns of a model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import Any, ClassVar, TypeAlias

import numpy as np
import torch
from scipy.special import logit
from torch import Tensor

from ax_costaware.argument_checks import LARGEST, nonempty_string, plain_value
from ax_costaware.exceptions import InputError

Value: TypeAlias = float | int | str | bool | None
"""A raw value of a parameter."""

Row: TypeAlias = Mapping[str, Value]
"""A parameterization in raw units, by the names of the parameters."""

MOST_INTEGERS = 10_000
"""Number of values of an integer from which on it is searched as a real number."""

_MOST_ON_GRID = 1_000
"""Number of values of a parameter with ``digits`` from which on it is searched as a real number,
and rounded within the constraints."""

_MIN_WEIGHT = 1e-12
"""Added weight of every value of a one-hot block, so that a block of zeros has a mean, too."""


@dataclass(frozen=True)
class Range:
    """A range of numbers.

    Raises:
        InputError: If ``-1e100 <= lower < upper <= 1e100`` does not hold; if there are two scales;
            or if the bounds are not on the scale (> 0 for log, in (0, 1) for logit), are not whole
            numbers for an integer, or have more digits than ``digits``.
    """

    is_numeric: ClassVar[bool] = True
    """True if raw values are numbers."""

    name: str
    """Name of the parameter."""

    lower: float
    """Lower bound."""

    upper: float
    """Upper bound."""

    is_integer: bool = False
    """True if its values are whole numbers."""

    log_scale: bool = False
    """True if the model sees its logarithm."""

    logit_scale: bool = False
    """True if the model sees its logit."""

    digits: int | None = None
    """Decimals to which the values of trials are rounded; None for no rounding."""

    def __post_init__(self) -> None:
        nonempty_string(self.name, "name", "a string")
        for side in ("lower", "upper"):
            object.__setattr__(self, side, self._number(getattr(self, side), "bound"))
        bounds = f"{self.name!r} has the bounds ({self.lower}, {self.upper})"
        if not -LARGEST <= self.lower < self.upper <= LARGEST:
            raise InputError(
                f"{bounds}: expected finite numbers, at most {LARGEST:g} in size, the lower "
                "one first."
            )
        if self.log_scale and self.logit_scale:
            raise InputError(f"{self.name!r} has log_scale=True, logit_scale=True: expected one.")
        if self.log_scale and self.lower <= 0:
            raise InputError(f"{bounds} on a log scale: expected numbers > 0.")
        if self.logit_scale and not 0 < self.lower < self.upper < 1:
            raise InputError(f"{bounds} on a logit scale: expected numbers between 0 and 1.")
        if self.is_integer and not (self.lower.is_integer() and self.upper.is_integer()):
            raise InputError(f"{bounds}: expected whole numbers, as its values are.")
        digits, ends = self.digits, (self.lower, self.upper)
        if digits is not None and not (
            isinstance(digits, int) and all(round(end, digits) == end for end in ends)
        ):
            raise InputError(
                f"{bounds} and digits={digits!r}: expected an integer, and bounds of no more "
                "digits, as its values are."
            )

    @property
    def step(self) -> float | None:
        """Distance of adjacent values on a grid that a search keeps to; None for real numbers."""
        if self.is_integer:
            return 1.0
        if self.digits is None or self._width_in_steps >= _MOST_ON_GRID:
            return None
        return 10.0**-self.digits

    @property
    def _width_in_steps(self) -> int:
        return round((self.upper - self.lower) * 10.0 ** (self.digits or 0))

    @property
    def grid(self) -> tuple[float, ...] | None:
        """All raw values; None for real numbers, or too many values."""
        values = self.values_up_to(MOST_INTEGERS)
        return None if values is None else tuple(float(str(v)) for v in values)

    def values_up_to(self, most: int) -> tuple[Value, ...] | None:
        """Return the raw values if they are on a grid and at most ``most``; else None."""
        if self.step is None or self._width_in_steps >= most:
            return None
        if self.is_integer:
            return tuple(range(int(self.lower), int(self.upper) + 1))
        places = range(self._width_in_steps + 1)
        return tuple(self.decode(self.lower + i * self.step) for i in places)

    def at(self, u: float) -> Value:
        """Return the raw value at the fraction ``u`` in [0, 1) of the range, on its scale."""
        if self.is_integer and not self.log_scale:
            count = self.upper - self.lower + 1
            return min(math.floor(self.lower + u * count), int(self.upper))
        low, high = self.to_column(self.lower), self.to_column(self.upper)
        value = self.raw(torch.tensor(low + u * (high - low), dtype=torch.double))
        return self.decode(float(value))

    def decode(self, column: float) -> Value:
        """Return the valid raw value nearest to a number, and exact bounds despite rounding."""
        value = min(max(float(column), self.lower), self.upper)
        value = value if self.digits is None else round(value, self.digits)
        ends = (end for end in (self.lower, self.upper) if math.isclose(value, end, rel_tol=1e-12))
        return round(value) if self.is_integer else next(ends, value)

    def encode(self, value: Any) -> float:
        """Return a raw value as a number, even outside of the bounds."""
        return self._number(value, "value")

    def to_column(self, value: float) -> float:
        """Return a raw value on the scale of the model, even outside of the bounds.

        Raises:
            InputError: If it is not on that scale.
        """
        expected = ""
        if self.log_scale and not value > 0:
            expected = "log scale: expected a number > 0"
        elif self.logit_scale and not 0 < value < 1:
            expected = "logit scale: expected a number between 0 and 1"
        if expected:
            raise InputError(f"{self.name!r} has the value {value!r} on a {expected}.")
        if self.log_scale:
            return math.log10(value)
        return float(logit(value)) if self.logit_scale else float(value)

    def raw(self, column: Tensor) -> Tensor:
        """Return the raw values of numbers on the scale of the model, differentiable."""
        if self.log_scale:
            return torch.pow(10.0, column)
        return column.sigmoid() if self.logit_scale else column

    def nearest(self, column: Tensor, step: int = 0) -> Tensor:
        """Return the nearest grid values on the scale of the model, moved by ``step`` steps."""
        assert self.step is not None
        if self.is_integer:
            value = (self.raw(column).round() + step).clamp(self.lower, self.upper)
        else:
            places = ((self.raw(column) - self.lower) / self.step).round() + step
            value = (self.lower + places * self.step).clamp(self.lower, self.upper)
            value = torch.round(value, decimals=self.digits or 0)
        if self.logit_scale:
            return value.logit()
        return value.log10() if self.log_scale else value

    def _number(self, value: Any, what: str) -> float:
        if isinstance(value, bool) or not isinstance(value, Real):
            raise InputError(f"{self.name!r} has the {what} {value!r}: expected a number.")
        return float(value)


@dataclass(frozen=True)
class Choice:
    """A choice of one of several values.

    Raises:
        InputError: If values are not distinct, or not all numbers, all strings or all booleans; if
            ordered values are not numbers; or if a log scale has no order or values not > 0.
    """

    is_integer: ClassVar[bool] = False
    """False: a choice is no range of whole numbers."""

    name: str
    """Name of the parameter."""

    values: tuple[Value, ...]
    """All values."""

    is_ordered: bool = False
    """True if values are numbers on a scale, which the model sees."""

    log_scale: bool = False
    """True if the model sees their logarithms."""

    is_ranked: bool = False
    """True if values are not numbers but have an order, and the model sees their positions."""

    descriptors: tuple[tuple[float, ...], ...] | None = None
    """Numbers that the model sees in place of each value; None for none."""

    def __post_init__(self) -> None:
        nonempty_string(self.name, "name", "a string")
        found = tuple(plain_value(v) for v in self.values)
        object.__setattr__(self, "values", found)
        kinds = {_kind(v) for v in found}
        what = f"{self.name!r} has the values {list(found)}"
        if not found or len(set(found)) < len(found) or len(kinds) != 1:
            raise InputError(f"{what}: expected different ones of one kind.")
        if self.is_ordered:
            if kinds != {float}:
                raise InputError(f"{what}, in order: expected numbers, or no order.")
            object.__setattr__(self, "values", tuple(sorted(found, key=lambda v: float(str(v)))))
            if self.log_scale and self.lower <= 0:
                raise InputError(f"{what} on a log scale: expected numbers > 0.")
        elif self.log_scale:
            raise InputError(f"{what} and log_scale=True: expected is_ordered=True with it.")

    @property
    def is_numeric(self) -> bool:
        """True if raw values are numbers."""
        return _kind(self.values[0]) is float

    @property
    def is_one_hot(self) -> bool:
        """True if the model has a column for every value."""
        return not (self.is_ordered or self.is_ranked) and self.descriptors is None

    @property
    def grid(self) -> tuple[float, ...]:
        """Values as numbers: themselves if they are ordered, else their positions."""
        if self.is_ordered:
            return tuple(float(str(v)) for v in self.values)
        return tuple(float(i) for i in range(len(self.values)))

    @property
    def lower(self) -> float:
        """Smallest number of ``grid``."""
        return self.grid[0]

    @property
    def upper(self) -> float:
        """Largest number of ``grid``."""
        return self.grid[-1]

    @cached_property
    def codes(self) -> Tensor:
        """Columns of the model for each value, ``m x k``.

        They are its descriptors if it has some, a number if it is ordered, and else one-hot.
        """
        if len(self.values) < 2:
            what = f"{self.name!r} has the values {list(self.values)}"
            raise InputError(f"{what} in a model: expected two or more, or a Fixed.")
        if self.descriptors is not None:
            return torch.tensor(self.descriptors, dtype=torch.double)
        if self.is_one_hot:
            return torch.eye(len(self.values), dtype=torch.double)
        codes = torch.tensor(self.grid, dtype=torch.double).unsqueeze(-1)
        return codes.log10() if self.is_ordered and self.log_scale else codes

    def values_up_to(self, most: int) -> tuple[Value, ...]:
        """Return all raw values, for any ``most``."""
        return self.values

    def at(self, u: float) -> Value:
        """Return the raw value at the fraction ``u`` in [0, 1) of all."""
        return self.values[min(int(u * len(self.values)), len(self.values) - 1)]

    def decode(self, column: float) -> Value:
        """Return the raw value whose number in ``grid`` is nearest."""
        return self.values[int(np.abs(np.subtract(self.grid, column)).argmin())]

    def encode(self, value: Any) -> float:
        """Return the number in ``grid`` of a raw value."""
        return self.grid[self.index(value)]

    def index(self, value: Any) -> int:
        """Return the position of a raw value; a boolean is not a number, and 2.0 equals 2.

        Raises:
            InputError: If it is none of them.
        """
        plain = plain_value(value)
        position = self._positions.get((_kind(plain), plain)) if _is_hashable(plain) else None
        if position is not None:
            return position
        for position, known in enumerate(self.values):
            if _is_equal(known, value):
                return position
        raise InputError(
            f"{self.name!r} has the value {value!r}: expected one of {list(self.values)}."
        )

    @cached_property
    def _positions(self) -> dict[tuple[type, Value], int]:
        return {(_kind(value), value): i for i, value in enumerate(self.values)}


@dataclass(frozen=True)
class Fixed:
    """A parameter with one value."""

    name: str
    """Name of the parameter."""

    value: Value
    """Its value."""

    @property
    def is_numeric(self) -> bool:
        """True if the value is a number."""
        return _kind(self.value) is float

    def values_up_to(self, most: int) -> tuple[Value, ...]:
        """Return the value, for any ``most``."""
        return (self.value,)


FreeParameter: TypeAlias = Range | Choice
Parameter: TypeAlias = Range | Choice | Fixed


def _kind(value: object) -> type:
    return bool if isinstance(value, bool) else str if isinstance(value, str) else float


def _is_hashable(value: object) -> bool:
    return isinstance(value, str | bool | Real)


def _is_equal(known: object, value: Any) -> bool:
    """True if two values are equal up to rounding, such as 0.3 and 3 * 0.1."""
    plain = plain_value(value)
    if _kind(known) is not _kind(plain):
        return False
    if isinstance(known, float) and isinstance(plain, float):
        return math.isclose(known, plain, rel_tol=1e-12)
    return bool(known == plain)


def takes(parameter: Parameter, value: Any, rounding: float = 0.0) -> bool:
    """True if a parameter has a raw value; a boolean is not a number, and 2.0 equals 2.

    Args:
        parameter: The parameter.
        value: The value.
        rounding: Tolerance beyond the bounds, relative to the width of the range.
    """
    if not isinstance(parameter, Range):
        return any(_is_equal(known, value) for known in parameter.values_up_to(0))
    plain = plain_value(value)
    if isinstance(plain, bool) or not isinstance(plain, Real):
        return False
    is_whole = not parameter.is_integer or float(plain).is_integer()
    slack = rounding * (parameter.upper - parameter.lower)
    return is_whole and parameter.lower - slack <= float(plain) <= parameter.upper + slack


def check_fixed(
    given: Row,
    parameters: Mapping[str, Parameter],
    names: Sequence[str],
    of: str = "the experiment",
) -> None:
    """Refuse fixed parameters with an unknown name or an invalid value.

    Args:
        given: Fixed values by name.
        parameters: The parameters by name.
        names: All names that may be fixed. Values of those not in ``parameters`` are not checked.
        of: Owner of the parameters, for the message.

    Raises:
        InputError: With the first such name.
    """
    for name, value in given.items():
        if name not in names:
            raise InputError(
                f"fixed_parameters={dict(given)}: {name!r} is no parameter of {of}: "
                f"expected names out of {list(names)}."
            )
        if name not in parameters or takes(parameter := parameters[name], value):
            continue
        expected = f"one of {list(parameter.values_up_to(0) or ())}"
        if isinstance(parameter, Range):
            expected = f"a {'whole ' if parameter.is_integer else ''}number from "
            expected += f"{parameter.lower:g} to {parameter.upper:g}"
        raise InputError(f"fixed_parameters[{name!r}]={value!r}: expected {expected}.")


@dataclass(frozen=True)
class Column:
    """Columns of a free parameter in the model's space."""

    parameter: FreeParameter
    """The parameter."""

    indices: tuple[int, ...]
    """Indices of its columns; several if it is one-hot encoded or has descriptors."""

    def weights(self, X: Tensor) -> Tensor:
        """Return the weights of a choice's values at points ``... x d``: ``... x m``, sum one.

        In a one-hot block they are proportional to its columns, so that a cost by value is smooth
        between the corners. Any other choice has weight one at the nearest value.
        """
        assert isinstance(self.parameter, Choice)
        codes, block = self.parameter.codes.to(X), X[..., list(self.indices)]
        if self.parameter.is_one_hot:
            parts = block.clamp_min(0.0) @ codes.T + _MIN_WEIGHT
            shares: Tensor = parts / parts.sum(dim=-1, keepdim=True)
            return shares
        nearest = (block.unsqueeze(-2) - codes).square().sum(dim=-1).argmin(dim=-1)
        return torch.nn.functional.one_hot(nearest, len(codes)).to(X)

    def raw(self, X: Tensor) -> Tensor:
        """Return raw values of a numeric parameter at points ``... x d``, differentiable."""
        parameter, first = self.parameter, X[..., self.indices[0]]
        if isinstance(parameter, Range):
            return parameter.raw(first)
        if parameter.is_one_hot or parameter.descriptors is not None:
            return self.weights(X) @ X.new_tensor([float(str(v)) for v in parameter.values])
        return torch.pow(10.0, first) if parameter.log_scale else first

    def decode(self, X: Tensor) -> list[Value]:
        """Return the valid raw values at points ``n x d``."""
        parameter = self.parameter
        if isinstance(parameter, Choice):
            return [parameter.values[i] for i in self.weights(X).argmax(dim=-1).tolist()]
        return [parameter.decode(value) for value in self.raw(X).tolist()]

    def encode(self, value: Any) -> list[float]:
        """Return the columns of a raw value."""
        parameter = self.parameter
        if isinstance(parameter, Range):
            return [parameter.to_column(value)]
        found: list[float] = parameter.codes[parameter.index(value)].tolist()
        return found

    def spread(self, u: Tensor, bounds: Tensor) -> Tensor:
        """Return the columns of valid values at fractions ``u``, ``n``, in [0, 1) of the range.

        The shape is ``n x len(indices)``.
        """
        parameter = self.parameter
        if isinstance(parameter, Choice):
            codes = parameter.codes.to(u.device)
            return codes[(u * len(codes)).long().clamp_max(len(codes) - 1)]
        lower, upper = bounds[:, self.indices[0]]
        values: Tensor = (lower + u * (upper - lower)).unsqueeze(-1)
        return values if parameter.step is None else parameter.nearest(values)

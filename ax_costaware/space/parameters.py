"""Parameters of an experiment as value objects, and as columns of a model.

They are ranges of numbers, choices, and fixed ones.
"""

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
"""An integer of more values is searched as if it were real."""

_MOST_ON_GRID = 1_000
"""A number of few digits has no more values on its grid; one of more is searched as a real number,
and rounded within the constraints."""

_EMPTY = 1e-12
"""Weight of a value whose one-hot column is zero, so that a block of zeros has a mean, too."""


@dataclass(frozen=True)
class Range:
    """A number between two bounds.

    Raises:
        InputError: If the bounds are not numbers up to 1e100, the lower one first, and above zero
            on a log scale or between 0 and 1 on a logit scale, of which there is one at most; not
            integers for an integer; or of more digits than ``digits``.
    """

    is_numeric: ClassVar[bool] = True
    """Whether raw values are numbers."""

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

    digits: int | None = None
    """Digits after the point that trials have of it; None: all. The model sees what they have."""

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
        """Distance of the values: one of whole numbers, or that of few digits; None: a continuum.

        A search keeps to such a grid.
        """
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
        """All raw values; None where these are a continuum, or many."""
        values = self.values_up_to(MOST_INTEGERS)
        return None if values is None else tuple(float(str(v)) for v in values)

    def values_up_to(self, most: int) -> tuple[Value, ...] | None:
        """The raw values, if they are on a grid and no more than ``most``; else None."""
        if self.step is None or self._width_in_steps >= most:
            return None
        if self.is_integer:
            return tuple(range(int(self.lower), int(self.upper) + 1))
        places = range(self._width_in_steps + 1)
        return tuple(self.decode(self.lower + i * self.step) for i in places)

    def at(self, u: float) -> Value:
        """The raw value at the fraction ``u`` in [0, 1) of the range, on its own scale."""
        if self.is_integer and not self.log_scale:
            count = self.upper - self.lower + 1
            return min(math.floor(self.lower + u * count), int(self.upper))
        low, high = self.to_column(self.lower), self.to_column(self.upper)
        value = self.raw(torch.tensor(low + u * (high - low), dtype=torch.double))
        return self.decode(float(value))

    def decode(self, column: float) -> Value:
        """The valid raw value that is nearest to a number; a bound where rounding left it."""
        value = min(max(float(column), self.lower), self.upper)
        value = value if self.digits is None else round(value, self.digits)
        ends = (end for end in (self.lower, self.upper) if math.isclose(value, end, rel_tol=1e-12))
        return round(value) if self.is_integer else next(ends, value)

    def encode(self, value: Any) -> float:
        """A raw value as a number, also one beyond the bounds."""
        return self._number(value, "value")

    def to_column(self, value: float) -> float:
        """A raw value on the scale of the model, also one beyond the bounds.

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
        """Raw values on the scale of the model, back again, differentiable."""
        if self.log_scale:
            return torch.pow(10.0, column)
        return column.sigmoid() if self.logit_scale else column

    def nearest(self, column: Tensor, step: int = 0) -> Tensor:
        """The scale of the model at the nearest values of the grid, or some steps from them."""
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
    """One of several values.

    Raises:
        InputError: For values that are not all numbers or all strings or all booleans, one of them
            twice, an order of values that are no numbers, or on a log scale not > 0, or a log scale
            without an order.
    """

    is_integer: ClassVar[bool] = False
    """Whether it is a range of whole numbers: a choice says itself which there are."""

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
            raise InputError(f"{what} and log_scale=True: expected is_ordered=True beside it.")

    @property
    def is_numeric(self) -> bool:
        """Whether raw values are numbers."""
        return _kind(self.values[0]) is float

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

    @cached_property
    def codes(self) -> Tensor:
        """The columns of a model for each value, ``m x k``: a number if ordered, else one-hot."""
        if len(self.values) < 2:
            what = f"{self.name!r} has the values {list(self.values)}"
            raise InputError(f"{what} in a model: expected two or more, or a Fixed.")
        if not (self.is_ordered or self.is_ranked):
            return torch.eye(len(self.values), dtype=torch.double)
        codes = torch.tensor(self.grid, dtype=torch.double).unsqueeze(-1)
        return codes.log10() if self.is_ordered and self.log_scale else codes

    def values_up_to(self, most: int) -> tuple[Value, ...]:
        """The raw values, however many."""
        return self.values

    def at(self, u: float) -> Value:
        """The raw value at the fraction ``u`` in [0, 1) of all."""
        return self.values[min(int(u * len(self.values)), len(self.values) - 1)]

    def decode(self, column: float) -> Value:
        """The raw value whose number in ``grid`` is nearest."""
        return self.values[int(np.abs(np.subtract(self.grid, column)).argmin())]

    def encode(self, value: Any) -> float:
        """The number in ``grid`` of a raw value."""
        return self.grid[self.index(value)]

    def index(self, value: Any) -> int:
        """The position of a raw value among all; a boolean is no number, and 2.0 is 2.

        Raises:
            InputError: If it is none of them.
        """
        for position, known in enumerate(self.values):
            if _are_one(known, value):
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


def _are_one(known: object, value: Any) -> bool:
    """Whether a value is a known one, but for rounding, as of steps of 0.1: 0.3 is 3 * 0.1."""
    plain = plain_value(value)
    if _kind(known) is not _kind(plain):
        return False
    if isinstance(known, float) and isinstance(plain, float):
        return math.isclose(known, plain, rel_tol=1e-12)
    return bool(known == plain)


def takes(parameter: Parameter, value: Any, rounding: float = 0.0) -> bool:
    """Whether a raw value is one of a parameter's; a boolean is no number, and 2.0 is 2.

    A number may be beyond its range by ``rounding``, a part of that.
    """
    if not isinstance(parameter, Range):
        return any(_are_one(known, value) for known in parameter.values_up_to(0))
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
    """Refuse what the caller fixes if it is no parameter, or none of the values of one.

    Args:
        given: Values by name.
        parameters: The parameters, by name.
        names: All names that may be fixed; those of no parameter take any value here.
        of: What has these parameters.

    Raises:
        InputError: By its name.
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
    """One free parameter in the model's space."""

    parameter: FreeParameter
    """The parameter."""

    indices: tuple[int, ...]
    """Its columns; several for a one-hot encoded one."""

    def weights(self, X: Tensor) -> Tensor:
        """How much of each value of a choice is in points ``... x d``: ``... x m``, sum one.

        Between the corners of a one-hot block they follow its columns, which keeps what depends on
        them smooth; an ordered choice takes the nearest value.
        """
        assert isinstance(self.parameter, Choice)
        codes, block = self.parameter.codes.to(X), X[..., list(self.indices)]
        if len(self.indices) > 1:
            parts = block.clamp_min(0.0) @ codes.T + _EMPTY
            shares: Tensor = parts / parts.sum(dim=-1, keepdim=True)
            return shares
        nearest = (block - codes.flatten()).abs().argmin(dim=-1)
        return torch.nn.functional.one_hot(nearest, len(codes)).to(X)

    def raw(self, X: Tensor) -> Tensor:
        """Raw values of a numeric parameter at points ``... x d``, differentiable: ``...``."""
        parameter, first = self.parameter, X[..., self.indices[0]]
        if isinstance(parameter, Range):
            return parameter.raw(first)
        if len(self.indices) > 1:
            return self.weights(X) @ X.new_tensor([float(str(v)) for v in parameter.values])
        return torch.pow(10.0, first) if parameter.log_scale else first

    def decode(self, X: Tensor) -> list[Value]:
        """Valid raw values at points ``n x d``."""
        parameter = self.parameter
        if isinstance(parameter, Choice):
            return [parameter.values[i] for i in self.weights(X).argmax(dim=-1).tolist()]
        return [parameter.decode(value) for value in self.raw(X).tolist()]

    def encode(self, value: Any) -> list[float]:
        """The columns of a raw value."""
        parameter = self.parameter
        if isinstance(parameter, Range):
            return [parameter.to_column(value)]
        found: list[float] = parameter.codes[parameter.index(value)].tolist()
        return found

    def spread(self, u: Tensor, bounds: Tensor) -> Tensor:
        """The columns of valid values spread like ``u``, ``n``, in [0, 1): ``n x len(indices)``."""
        parameter = self.parameter
        if isinstance(parameter, Choice):
            codes = parameter.codes.to(u.device)
            return codes[(u * len(codes)).long().clamp_max(len(codes) - 1)]
        lower, upper = bounds[:, self.indices[0]]
        values: Tensor = (lower + u * (upper - lower)).unsqueeze(-1)
        return values if parameter.step is None else parameter.nearest(values)

"""Checks of arguments that the value objects of this layer and the rules above it share.

Each returns the argument as a plain Python value, so that a frozen dataclass built from numpy
scalars or read back from JSON compares equal to one built from Python numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor

from ax_costaware.exceptions import InputError

_LARGEST_WIDTH = 1e100


def finite_number(value: Any, name: str, expected: str = "a finite number") -> float:
    """``value`` as a ``float``.

    Args:
        value: What was given.
        name: How the refusal names it.
        expected: What the refusal says the argument takes.

    Raises:
        InputError: If ``value`` is a ``bool``, not a real number, infinite or NaN.
    """
    if not isinstance(value, bool) and isinstance(value, Real):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number
    raise InputError(f"{name}={value!r}: expected {expected}.")


def positive_number(value: Any, name: str, expected: str = "a finite number > 0") -> float:
    """As ``finite_number``, and greater than zero."""
    return _bounded_number(value, name, expected, exclusive=True)


def nonnegative_number(value: Any, name: str) -> float:
    """As ``finite_number``, and at least zero."""
    return _bounded_number(value, name, "a finite number >= 0", exclusive=False)


def _bounded_number(value: Any, name: str, expected: str, exclusive: bool) -> float:
    number = finite_number(value, name, expected)
    if number < 0 or (exclusive and number == 0):
        raise InputError(f"{name}={value!r}: expected {expected}.")
    return number


def number_between_zero_and_one(value: Any, name: str) -> float:
    """As ``finite_number``, and strictly between zero and one."""
    expected = "a number strictly between 0 and 1"
    number = finite_number(value, name, expected)
    if not 0 < number < 1:
        raise InputError(f"{name}={value!r}: expected {expected}.")
    return number


def probability(value: Any, name: str) -> float:
    """As ``finite_number``, and in ``[0, 1]``."""
    expected = "a number in [0, 1]"
    number = finite_number(value, name, expected)
    if not 0 <= number <= 1:
        raise InputError(f"{name}={value!r}: expected {expected}.")
    return number


def integer_at_least(value: Any, least: int, name: str) -> int:
    """``value`` as an ``int``.

    Raises:
        InputError: If ``value`` is a ``bool``, not an integer, or below ``least``.
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise InputError(f"{name}={value!r}: expected an integer >= {least}.")
    return int(value)


def interval(lower: Any, upper: Any) -> tuple[float, float]:
    """Bounds as finite ``float``s.

    Raises:
        InputError: Unless both are finite, ``lower < upper``, and the square of their difference,
            which variances need, neither overflows nor underflows.
    """
    low, high = finite_number(lower, "lower"), finite_number(upper, "upper")
    if not low < high:
        raise InputError(f"lower={lower!r}, upper={upper!r}: expected lower < upper.")
    if not 1 / _LARGEST_WIDTH <= high - low <= _LARGEST_WIDTH:
        raise InputError(
            f"lower={lower!r}, upper={upper!r}: expected a difference between "
            f"{1 / _LARGEST_WIDTH:g} and {_LARGEST_WIDTH:g}."
        )
    return low, high


def sequence_of(values: Any, name: str, expected: str) -> tuple[Any, ...]:
    """The elements of a list, tuple, array or one-dimensional tensor, as Python values.

    Raises:
        InputError: If ``values`` is a string or not iterable.
    """
    if hasattr(values, "tolist"):  # a tensor, a numpy array or a pandas series
        values = values.tolist()
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise InputError(f"{name}={values!r}: expected {expected}.")
    return tuple(values)


def unit_interval(u: Tensor) -> Tensor:
    """``u`` unchanged.

    Raises:
        InputError: If an entry is outside ``[0, 1]`` or NaN, or ``u`` is not of floating point.
    """
    if not isinstance(u, Tensor) or not u.is_floating_point():
        raise InputError(f"u={u!r}: expected a floating-point tensor of probabilities.")
    outside = ~((u >= 0) & (u <= 1))
    if bool(outside.any()):
        raise InputError(f"u has the entry {float(u[outside][0])!r}: expected values in [0, 1].")
    return u


def column(nodes: Tensor) -> Tensor:
    """``nodes`` as a double tensor on the CPU.

    Raises:
        InputError: Unless ``nodes`` has one dimension.
    """
    if not isinstance(nodes, Tensor) or nodes.ndim != 1:
        shape = tuple(nodes.shape) if isinstance(nodes, Tensor) else nodes
        raise InputError(f"nodes of shape {shape!r}: expected a tensor with one dimension.")
    return nodes.detach().to(device="cpu", dtype=torch.double)

"""Reading a number that the user reports: finite, real, and no ``bool``."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

from ax.exceptions.core import UserInputError


def finite_number(value: Any, what: str) -> float:
    """``value`` as a Python float; numpy scalars are accepted.

    Args:
        value: What the user gave.
        what: How the refusal names it, for example ``realized['wind']``.

    Raises:
        UserInputError: If ``value`` is not a real number, or not finite.
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise UserInputError(
            f"{what}={value!r} is a {type(value).__name__}: expected a finite number."
        )
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise UserInputError(f"{what}={value!r}: expected a finite number.")
    return number


def nonnegative_number(value: Any, what: str) -> float:
    """As ``finite_number``, and at least zero."""
    number = finite_number(value, what)
    if number < 0:
        raise UserInputError(f"{what}={value!r}: expected a finite number >= 0.")
    return number


def positive_number(value: Any, what: str) -> float:
    """As ``finite_number``, and above zero."""
    number = finite_number(value, what)
    if number <= 0:
        raise UserInputError(f"{what}={value!r}: expected a finite number > 0.")
    return number

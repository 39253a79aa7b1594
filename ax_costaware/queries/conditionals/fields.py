"""Checks of the fields of conditionals, which return them as plain, nested tuples of floats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
from torch import Tensor

from ax_costaware.exceptions import InputError
from ax_costaware.queries.argument_checks import finite_number, sequence_of, set_fields

Numbers: TypeAlias = tuple[float, ...]
Matrix: TypeAlias = tuple[Numbers, ...]
Array: TypeAlias = npt.NDArray[np.float64]
Outside: TypeAlias = Literal["refuse", "clip", "keep"]

LARGEST = 1e100
"""Larger numbers are refused in tables: their squares would overflow."""


def numbers(
    values: Any,
    name: str,
    length: int | None = None,
    check: Callable[[Any, str], float] = finite_number,
) -> Numbers:
    """A vector of finite numbers.

    Args:
        values: A sequence, array or tensor.
        name: How the refusal names it.
        length: How many numbers it has to have; ``None`` for any number but zero.
        check: What each number has to pass.

    Raises:
        InputError: For anything else.
    """
    expected = f"a sequence of {'one or more' if length is None else length} finite numbers"
    found = tuple(
        check(value, f"{name}[{i}]") for i, value in enumerate(sequence_of(values, name, expected))
    )
    if not found or (length is not None and len(found) != length):
        raise InputError(f"{name}={values!r}: expected {expected}.")
    return found


def matrix(values: Any, name: str, num_columns: int | None = None) -> Matrix:
    """A matrix of finite numbers, as a tuple of rows.

    Args:
        values: A sequence of sequences, array or tensor.
        name: How the refusal names it.
        num_columns: The length of each row; ``None`` for that of the first.

    Raises:
        InputError: For anything else.
    """
    rows = sequence_of(values, name, "a matrix of finite numbers: a sequence of rows")
    if not rows:
        raise InputError(f"{name}={values!r}: expected one or more rows of finite numbers.")
    found: list[Numbers] = []
    for i, row in enumerate(rows):
        found.append(numbers(row, f"{name}[{i}]", num_columns))
        num_columns = len(found[0])
    return tuple(found)


def table(values: Any, name: str) -> Array:
    """An array-like of rows as a read-only, finite double array; a vector is one column.

    Raises:
        InputError: For anything else, or no rows or columns.
    """
    if isinstance(values, Tensor):
        values = values.detach().cpu().numpy()
    expected = "expected rows of numbers, all of the same length"
    try:
        found = np.array(values)
        if found.dtype.kind not in "fiuO":
            raise TypeError
        found = found.astype(np.float64, copy=False)
    except (TypeError, ValueError):
        raise InputError(f"{name} is not numeric ({type(values).__name__}): {expected}.") from None
    if found.ndim == 1:
        found = found[:, None]
    if found.ndim != 2 or 0 in found.shape:
        raise InputError(f"{name} of shape {found.shape}: expected (number of pairs, columns).")
    bad = ~(np.abs(found) <= LARGEST)
    if bad.any():
        row, column = np.argwhere(bad)[0].tolist()
        raise InputError(
            f"{name} has {found[row, column]} in row {row}, column {column}: expected finite "
            f"numbers, at most {LARGEST:g} in size."
        )
    found.flags.writeable = False
    return found


def bounds(
    lower: Any, upper: Any, num_columns: int | None
) -> tuple[Numbers | None, Numbers | None]:
    """Bounds of X: both, or neither.

    Raises:
        InputError: For one without the other, another length, or ``lower >= upper`` in a column.
    """
    if lower is None and upper is None:
        return None, None
    if lower is None or upper is None:
        raise InputError(f"lower={lower!r}, upper={upper!r}: expected both bounds or neither.")
    low = numbers(lower, "lower", num_columns)
    high = numbers(upper, "upper", len(low))
    if any(a >= b for a, b in zip(low, high, strict=True)):
        raise InputError(f"lower={low!r}, upper={high!r}: expected lower < upper in each column.")
    return low, high


def check_bounds(conditional: Any, num_columns: int | None) -> None:
    """Check the fields ``lower``, ``upper`` and ``outside`` of a conditional.

    Raises:
        InputError: As ``bounds``, or for another word than those of ``Outside``.
    """
    lower, upper = bounds(conditional.lower, conditional.upper, num_columns)
    set_fields(conditional, lower=lower, upper=upper)
    if conditional.outside not in get_args(Outside):
        choices = ", ".join(map(repr, get_args(Outside)))
        raise InputError(f"outside={conditional.outside!r}: expected one of {choices}.")


def is_sequence(value: Any) -> bool:
    """Whether a field that takes a number or several was given several."""
    return isinstance(value, list | tuple) or getattr(value, "ndim", 0) > 0

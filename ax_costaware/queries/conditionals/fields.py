"""Checks of the fields of conditionals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
from torch import Tensor

from ax_costaware.exceptions import InputError
from ax_costaware.queries.argument_checks import Numbers, numbers, one_of, set_fields

Array: TypeAlias = npt.NDArray[np.float64]
Outside: TypeAlias = Literal["refuse", "clip", "keep"]

LARGEST = 1e100
"""Larger numbers are refused in tables: their squares would overflow."""


def column_names(values: Any) -> tuple[str, ...] | None:
    """Names of the columns of a data frame; None where they are no strings, or it is none."""
    names = tuple(getattr(values, "columns", ()))
    return names if names and all(isinstance(name, str) for name in names) else None


def table(values: Any, name: str, names: Sequence[str] | None = None) -> Array:
    """An array-like of rows as a read-only, finite double array; a vector is one column.

    Args:
        values: The rows.
        name: How the refusal names them.
        names: Names of the columns, in whose order those of a data frame are read; None for its
            own.

    Raises:
        InputError: For anything else, no rows or columns, or a data frame with other columns.
    """
    own = column_names(values)
    if own is not None and names is not None:
        if sorted(own) != sorted(names):
            raise InputError(f"{name} has the columns {list(own)}: expected {list(names)}.")
        values = values[list(names)]
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
    one_of(conditional.outside, "outside", get_args(Outside))


def is_sequence(value: Any) -> bool:
    """Whether a field that takes a number or several was given several."""
    return isinstance(value, list | tuple) or getattr(value, "ndim", 0) > 0

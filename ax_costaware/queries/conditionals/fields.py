"""Checks of the fields of conditionals."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from ax_costaware.exceptions import InputError
from ax_costaware.queries.argument_checks import Numbers, numbers, one_of, set_fields

Array: TypeAlias = npt.NDArray[np.float64]
Outside: TypeAlias = Literal["refuse", "clip", "keep"]


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

"""Tables of numbers from lists, arrays, tensors and data frames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from torch import Tensor

from ax_costaware.argument_checks import LARGEST
from ax_costaware.exceptions import InputError

Array: TypeAlias = npt.NDArray[np.float64]


def column_names(values: Any) -> tuple[str, ...] | None:
    """Return the column names of a data frame; None if they are not strings, or for other types."""
    names = tuple(getattr(values, "columns", ()))
    return names if names and all(isinstance(name, str) for name in names) else None


def table(values: Any, name: str, names: Sequence[str] | None = None) -> Array:
    """Return an array-like of rows as a read-only, finite double array; a vector is one column.

    Args:
        values: The rows.
        name: Name of the argument, for messages.
        names: Column names, which order the columns of a data frame; None for its own order.

    Raises:
        InputError: If values are not numeric or not finite, there are no rows or columns, or a data
            frame has other columns.
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
        raise InputError(f"{name} of shape {found.shape}: expected (rows, columns).")
    bad = ~(np.abs(found) <= LARGEST)
    if bad.any():
        row, column = np.argwhere(bad)[0].tolist()
        raise InputError(
            f"{name} has {found[row, column]} in row {row}, column {column}: expected finite "
            f"numbers, at most {LARGEST:g} in size."
        )
    found.flags.writeable = False
    return found

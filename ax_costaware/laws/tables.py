"""Rows of numbers, from lists, arrays, tensors and data frames."""

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

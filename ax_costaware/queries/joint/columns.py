"""Checks of a sample of several inputs, which return it as plain, named tuples."""

from __future__ import annotations

from numbers import Integral
from typing import Any, TypeAlias

import numpy as np

from ax_costaware.exceptions import InputError
from ax_costaware.queries.argument_checks import finite_number, sequence_of
from ax_costaware.queries.marginals import Discrete, Empirical, Marginal, RawValue

Column: TypeAlias = tuple[RawValue, ...]

LEAST_ROWS = 10
"""Fewer rows say nothing about how inputs depend on each other."""

_EXPECTED_FRAME = "a data frame, or a mapping from names to lists of values of equal length"
_EXPECTED_VALUES = "finite numbers, strings or booleans, one kind in each column"


def named_pairs(values: Any, name: str, expected: str) -> tuple[tuple[str, Any], ...]:
    """The items of a mapping, a data frame or a sequence of pairs.

    Raises:
        InputError: For anything else, no items, or names that are no distinct, non-empty strings.
    """
    items = values.items() if hasattr(values, "items") else values
    pairs = sequence_of(items, name, expected)
    if not pairs or any(not isinstance(p, list | tuple) or len(p) != 2 for p in pairs):
        raise InputError(f"{name}={values!r}: expected {expected}.")
    names = [key for key, _ in pairs]
    for key in names:
        if not isinstance(key, str) or not key:
            raise InputError(f"{name} has the name {key!r}: expected non-empty strings.")
        if names.count(key) > 1:
            raise InputError(f"{name} has {key!r} more than once: expected distinct names.")
    return tuple((str(key), value) for key, value in pairs)


def columns_of(frame: Any) -> tuple[tuple[str, Column], ...]:
    """A sample of several inputs, one column for each.

    Args:
        frame: A data frame, a mapping from names to values, or pairs of both.

    Returns:
        Pairs of a name and its values: all strings, all booleans, all integers or all floats.

    Raises:
        InputError: For anything else, values that are missing, mixed or not finite, columns of
            different lengths, or fewer than 10 rows.
    """
    pairs = named_pairs(frame, "frame", _EXPECTED_FRAME)
    columns = tuple((key, _column(values, f"frame[{key!r}]")) for key, values in pairs)
    first, reference = columns[0]
    for key, column in columns:
        if len(column) != len(reference):
            raise InputError(
                f"frame[{key!r}] has {len(column)} values and frame[{first!r}] {len(reference)}: "
                f"expected {_EXPECTED_FRAME}."
            )
    if len(reference) < LEAST_ROWS:
        raise InputError(
            f"frame has {len(reference)} rows: expected {LEAST_ROWS} or more, to tell how inputs "
            "depend on each other."
        )
    return columns


def marginal_of(column: Column) -> Marginal:
    """The law of one column on its own: ``Empirical`` for floats, ``Discrete`` for the rest."""
    if isinstance(column[0], float):
        return Empirical([float(value) for value in column])
    values = sorted(set(column))
    return Discrete(values, [column.count(value) / len(column) for value in values])


def _column(values: Any, name: str) -> Column:
    items = sequence_of(values, name, f"a list of {_EXPECTED_VALUES}")
    items = tuple(item.item() if isinstance(item, np.generic) else item for item in items)
    for kind in (str, bool):
        if any(isinstance(item, kind) for item in items):
            for i, item in enumerate(items):
                if not isinstance(item, kind):
                    raise InputError(f"{name}[{i}]={item!r}: expected {_EXPECTED_VALUES}.")
            return items
    numbers = tuple(
        finite_number(item, f"{name}[{i}]", _EXPECTED_VALUES) for i, item in enumerate(items)
    )
    if all(isinstance(item, Integral) for item in items):
        return tuple(int(item) for item in items)
    return numbers

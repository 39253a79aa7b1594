"""Checks of a sample of several inputs, which return it as plain, named tuples."""

from __future__ import annotations

from typing import Any, TypeAlias

from ax_costaware.exceptions import InputError
from ax_costaware.queries.argument_checks import distinct, pairs_of, values_of_one_kind
from ax_costaware.queries.marginals import Discrete, Empirical, Marginal, RawValue

Column: TypeAlias = tuple[RawValue, ...]

LEAST_ROWS = 10
"""Fewer rows say nothing about how inputs depend on each other."""

_EXPECTED_FRAME = "a data frame, or a mapping from names to lists of values of equal length"
_EXPECTED_VALUES = "a list of finite numbers, strings or booleans, all of one kind"


def named_pairs(values: Any, name: str, expected: str) -> tuple[tuple[str, Any], ...]:
    """The items of a mapping, a data frame or a sequence of pairs.

    Raises:
        InputError: For anything else, no items, or names that are no distinct, non-empty strings.
    """
    pairs = pairs_of(values, name, expected)
    for key, _ in pairs:
        if not isinstance(key, str) or not key:
            raise InputError(f"{name} has the name {key!r}: expected non-empty strings.")
    distinct([key for key, _ in pairs], name, "distinct names")
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
    columns = tuple(
        (key, values_of_one_kind(values, f"frame[{key!r}]", _EXPECTED_VALUES))
        for key, values in pairs
    )
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

"""Tables that users give: the only possible combinations of values, and descriptors of a choice."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, TypeAlias

import numpy as np

from ax_costaware.argument_checks import (
    distinct,
    instance_of,
    nonempty_string,
    one_of,
    plain_value,
    sequence_of,
    set_fields,
)
from ax_costaware.exceptions import InputError
from ax_costaware.space.parameters import Row, Value

Columns: TypeAlias = Mapping[str, tuple[Value, ...]]
"""Values of each column of a table, by name."""

_EXPECTED = "a data frame, a list of dictionaries, or a mapping from names to columns"

_DIGITS = 10
"""Significant digits by which numbers of a table are compared with those of a trial."""


@dataclass(frozen=True, init=False, repr=False)
class Candidates:
    """Table of the only possible trials: combinations of values, with a column per parameter.

    Only its rows are proposed and recommended. Parameters of the experiment without a column are
    free. Past trials with other combinations are learned from, and never deployed. Stores keep up
    to 100,000 rows.
    """

    table: Columns
    """Columns by name, those of costs and descriptors included."""

    cost: str | None
    """Name of the column with the cost of each row; None without one."""

    descriptors: Mapping[str, tuple[str, ...]]
    """Names of descriptor columns of a parameter, which the model sees in place of its values."""

    def __init__(
        self,
        table: Any,
        cost: str | None = None,
        descriptors: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """Make a table of candidates.

        Args:
            table: A data frame, a list of dictionaries, or a mapping from names to columns.
            cost: Name of the column with the cost of each row. A method takes it as its cost if its
                ``cost`` is that name, too.
            descriptors: Columns that describe a parameter, such as ``{"ligand": ["mass",
                "angle"]}``: numbers, the same in all rows with the same value.

        Raises:
            InputError: By row and column, if there are fewer than two rows, a value is missing, a
                column has values of several kinds, two rows are equal, a cost is no finite number
                > 0, or a descriptor is no finite number or differs between rows with one value.
        """
        columns = _columns_of(json.loads(table) if isinstance(table, str) else table, "table")
        if cost is not None:
            one_of(cost, "cost", columns)
        expected = "a mapping from parameters to names of columns"
        given = {
            one_of(parameter, "descriptors", columns): tuple(
                one_of(name, f"descriptors[{parameter!r}]", columns)
                for name in sequence_of(names, f"descriptors[{parameter!r}]", "names of columns")
            )
            for parameter, names in dict(
                instance_of(descriptors or {}, "descriptors", Mapping, expected)
            ).items()
        }
        set_fields(self, table=columns, cost=cost, descriptors=given)
        if not self.names or any(name not in self.names for name in given):
            raise InputError(
                f"table has the columns {list(columns)}, cost={cost!r} and descriptors={given}: "
                "expected columns of parameters besides those of costs and descriptors."
            )
        if len(self) < 2:
            raise InputError(f"table has {len(self)} rows: expected two or more.")
        seen: dict[tuple[Value, ...], int] = {}
        for i, key in enumerate(self._keys()):
            if (first := seen.setdefault(key, i)) != i:
                raise InputError(
                    f"rows {first} and {i} of table have the same values "
                    f"{self.row(i)}: expected different rows."
                )
        if cost is not None:
            for i, value in enumerate(columns[cost]):
                if isinstance(value, bool | str) or not float(str(value)) > 0:
                    raise InputError(
                        f"table has the cost {value!r} in row {i} of {cost!r}: expected a finite "
                        "number > 0."
                    )
        _ = self.described

    def __repr__(self) -> str:
        more = "" if self.cost is None else f", cost={self.cost!r}"
        if self.descriptors:
            more += f", descriptors={dict(self.descriptors)}"
        return f"Candidates({len(self)} rows of {', '.join(self.names)}{more})"

    def __len__(self) -> int:
        return len(next(iter(self.table.values())))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the columns that are parameters."""
        others = {self.cost, *chain(*self.descriptors.values())}
        return tuple(name for name in self.table if name not in others)

    def row(self, i: int) -> dict[str, Value]:
        """Return the parameters of a row by its position."""
        return {name: self.table[name][i] for name in self.names}

    def find(self, row: Row) -> int | None:
        """Return the position of the row with the parameters of a trial; None if there is none.

        Numbers are equal if their first ten digits are. Other names are ignored.
        """
        if not row.keys() >= {*self.names}:
            return None
        return self._positions.get(tuple(_rounded(plain_value(row[name])) for name in self.names))

    @cached_property
    def costs(self) -> tuple[float, ...]:
        """Costs of the rows; none without a column of costs."""
        column = () if self.cost is None else self.table[self.cost]
        return tuple(float(str(cost)) for cost in column)

    @cached_property
    def text(self) -> str:
        """The table as JSON, from which ``Candidates`` can be made again."""
        return json.dumps(self.table)

    @cached_property
    def described(self) -> tuple[Descriptors, ...]:
        """Descriptors of each parameter that has some."""
        found = []
        for name, columns in self.descriptors.items():
            first: dict[Value, int] = {}
            for i, value in enumerate(self.table[name]):
                at = first.setdefault(value, i)
                for column in columns:
                    if self.table[column][i] != self.table[column][at]:
                        raise InputError(
                            f"table has {column!r} {self.table[column][at]!r} in row {at} and "
                            f"{self.table[column][i]!r} in row {i}, both with {name}={value!r}: "
                            "expected one value of a descriptor."
                        )
            rows = first.values()
            table = {c: [self.table[c][i] for i in rows] for c in (name, *columns)}
            found.append(Descriptors(name, table))
        return tuple(found)

    @cached_property
    def _positions(self) -> dict[tuple[Value, ...], int]:
        return {key: i for i, key in enumerate(self._keys())}

    def _keys(self) -> Iterator[tuple[Value, ...]]:
        columns = []
        for name in self.names:
            known = {value: _rounded(value) for value in set(self.table[name])}
            columns.append([known[value] for value in self.table[name]])
        return zip(*columns, strict=True)


@dataclass(frozen=True, init=False)
class Descriptors:
    """Numbers that describe the values of a choice, which the model sees in their place.

    Values with similar descriptors then have similar outcomes, and an untried value is predicted
    from those like it. The model standardizes them.
    """

    parameter: str
    """Name of the choice."""

    table: Columns
    """Columns by name: the values of the choice, and its descriptors."""

    def __init__(self, parameter: str, table: Any) -> None:
        """Make descriptors of a choice.

        Args:
            parameter: Name of the choice.
            table: A data frame, a list of dictionaries, or a mapping from names to columns: the
                column ``parameter`` with its values, and columns of numbers.

        Raises:
            InputError: If the column of values is missing or repeats one, there are no descriptors,
                a descriptor is no finite number, or two values have the same descriptors.
        """
        nonempty_string(parameter, "parameter", "the name of a choice")
        columns = _columns_of(table, "table")
        if parameter not in columns or len(columns) < 2:
            raise InputError(
                f"table has the columns {list(columns)}: expected {parameter!r}, with the values "
                "of the choice, and one or more descriptors."
            )
        distinct(columns[parameter], f"table[{parameter!r}]", "each value once")
        for name, column in columns.items():
            if name != parameter and isinstance(column[0], str | bool):
                raise InputError(f"table has {column[0]!r} in {name!r}: expected finite numbers.")
        set_fields(self, parameter=parameter, table=columns)
        _ = self.codes_of(columns[parameter])

    def codes_of(self, values: Sequence[Value]) -> tuple[tuple[float, ...], ...]:
        """Return the standardized descriptors of values; those that are constant are left out.

        Raises:
            InputError: If a value has none, or two have the same.
        """
        known = self.table[self.parameter]
        missing = [value for value in values if value not in known]
        if missing:
            raise InputError(
                f"Descriptors({self.parameter!r}): the parameter has the values {missing}, which "
                "the table lacks: expected descriptors of every value."
            )
        rows = [known.index(value) for value in values]
        numbers = np.array(
            [c for name, c in self.table.items() if name != self.parameter], dtype=float
        ).T[rows]
        spread = numbers.std(axis=0)
        varies = spread > 1e-12 * np.abs(numbers).max(axis=0)
        codes = (numbers[:, varies] - numbers[:, varies].mean(axis=0)) / spread[varies]
        found = tuple(map(tuple, codes.tolist()))
        if len({*found}) < len(found):
            first, other = next(
                (values[found.index(code)], values[i])
                for i, code in enumerate(found)
                if found.index(code) < i
            )
            raise InputError(
                f"Descriptors({self.parameter!r}): {first!r} and {other!r} have the same "
                "descriptors: expected one that tells them apart."
            )
        return found


def _rounded(value: Value) -> Value:
    """Return a number with ``_DIGITS`` digits, and any other value as it is."""
    if isinstance(value, bool | str) or value is None:
        return value
    return float(f"{value:.{_DIGITS}g}")


def _columns_of(table: Any, name: str) -> dict[str, tuple[Value, ...]]:
    """Return the columns of a table, each of strings, of booleans, or of finite numbers.

    Raises:
        InputError: By row and column.
    """
    if hasattr(table, "columns") and hasattr(table, "to_dict"):
        distinct([*table.columns], f"the columns of {name}", "different names")
        given = {column: table[column].tolist() for column in table.columns}
    elif isinstance(table, Mapping):
        given = {key: [*sequence_of(c, f"{name}[{key!r}]", _EXPECTED)] for key, c in table.items()}
    else:
        rows = sequence_of(table, name, _EXPECTED)
        names = list(rows[0]) if rows and isinstance(rows[0], Mapping) else []
        for i, row in enumerate(rows):
            if not isinstance(row, Mapping) or {*row} != {*names}:
                raise InputError(f"{name}[{i}]={row!r}: expected a value of each of {names}.")
        given = {key: [row[key] for row in rows] for key in names}
    if not given or not all(isinstance(key, str) and key for key in given):
        raise InputError(
            f"{name} has the columns {list(given)}: expected names. It is {_EXPECTED}."
        )
    lengths = {key: len(column) for key, column in given.items()}
    if len({*lengths.values()}) > 1:
        raise InputError(f"{name} has columns of the lengths {lengths}: expected the same.")
    if not next(iter(lengths.values())):
        raise InputError(f"{name} has no rows: expected one or more.")
    return {key: _column(column, f"{name}[{key!r}]") for key, column in given.items()}


def _column(values: Sequence[Any], name: str) -> tuple[Value, ...]:
    """Return values of one kind as plain ones."""
    found = tuple(map(plain_value, values))
    kinds = {type(value) for value in found}
    is_number = kinds <= {int, float}
    if kinds in ({str}, {bool}) or (is_number and all(map(math.isfinite, found))):
        return found
    for i, value in enumerate(found):
        if value is None or value != value:
            raise InputError(f"{name} has no value in row {i}: expected one in every row.")
        if type(value) not in (str, bool, int, float) or value in (math.inf, -math.inf):
            raise InputError(
                f"{name} has {value!r} in row {i}: expected strings, booleans or finite numbers."
            )
    some = [next(value for value in found if type(value) is kind) for kind in kinds]
    raise InputError(f"{name} has the values {some}: expected values of one kind.")

"""Restriction of the number of parts that are present in a trial."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, islice, product
from typing import Any

import torch

from ax_costaware.argument_checks import (
    distinct,
    integer_at_least,
    nonempty_string,
    plain_value,
    sequence_of,
    set_fields,
)
from ax_costaware.exceptions import InputError
from ax_costaware.space.parameters import Fixed, Parameter, Row, Value, takes

_EXPECTED = "names of two or more parameters, or a mapping from names to their values if absent"

_SAME = 1e-6
"""Tolerance of the value of an absent part, relative to its range: stores and log scales round."""

_MAX_FACES = 256
"""Largest number of selections of parts that a search looks at."""


@dataclass(frozen=True, init=False)
class AtMost:
    """At most so many of some parts are present in a trial, such as two of five salts."""

    number: int
    """Largest number of parts that are present."""

    parts: Mapping[str, Value]
    """Names of the parameters, with their values if the part is absent."""

    def __init__(self, number: int, parts: Any) -> None:
        """Make a restriction.

        Args:
            number: Largest number of parts that are present.
            parts: Names of parameters that are zero if a part is absent; or a mapping from names to
                the values that mean absent, such as ``{"salt": 0, "solvent": "none"}``.

        Raises:
            InputError: If ``number`` is not an integer from 1 to less than the number of parts, or
                names are not distinct strings.
        """
        given = parts if isinstance(parts, Mapping) else None
        names = sequence_of(parts, "parts", _EXPECTED)
        for name in names:
            nonempty_string(name, "parts", _EXPECTED)
        distinct(names, "parts", _EXPECTED)
        if not 1 <= integer_at_least(number, 1, "number") < len(names):
            raise InputError(f"number={number} of parts={list(names)}: expected fewer than these.")
        absent = {name: 0 if given is None else plain_value(given[name]) for name in names}
        set_fields(self, number=int(number), parts=absent)

    def check(self, parameters: Mapping[str, Parameter]) -> None:
        """Refuse parts that are no parameters, or do not take the value that means absent.

        Raises:
            InputError: With the first such part.
        """
        for name, value in self.parts.items():
            if name not in parameters:
                raise InputError(f"{self}: {name!r} is no parameter out of {list(parameters)}.")
            if not takes(parameters[name], value):
                raise InputError(
                    f"{self}: {name!r} does not take {value!r}: expected the value that means "
                    f"absent, as in a mapping, of {parameters[name]}."
                )

    def present(self, row: Row, parameters: Mapping[str, Parameter]) -> list[str]:
        """Return the names of the parts that are present in a (possibly partial) row."""
        return [
            name
            for name, value in self.parts.items()
            if name in row and not _is_same(parameters[name], row[name], value)
        ]

    def faces(self, fixed: Row, parameters: Mapping[str, Parameter]) -> list[dict[str, Value]]:
        """Return the values of absent parts for each selection of ``number`` parts.

        Args:
            fixed: Given values by name; a part that is present there is part of every selection.
            parameters: All parameters by name.
        """
        here = self.present(fixed, parameters)
        others = [name for name in self.parts if name not in here]
        count = len(self.parts) - self.number
        return [{n: self.parts[n] for n in names} for names in combinations(others, count)]


def all_faces(
    rules: Sequence[AtMost], fixed: Row, parameters: Mapping[str, Parameter], seed: int
) -> list[dict[str, Value]]:
    """Return the values of absent parts for selections that satisfy all rules, in random order.

    At most ``_MAX_FACES`` of them.
    """
    each = [rule.faces(fixed, parameters) for rule in rules]
    generator = torch.Generator().manual_seed(seed)
    for faces in each:
        order = torch.randperm(len(faces), generator=generator).tolist()
        faces[:] = [faces[i] for i in order]
    merged: Iterator[dict[str, Value]] = (
        {name: value for face in faces for name, value in face.items()} for faces in product(*each)
    )
    return list(islice(merged, _MAX_FACES))


def _is_same(parameter: Parameter, value: Any, absent: Value) -> bool:
    plain = plain_value(value)
    if isinstance(plain, bool | str) or isinstance(absent, bool | str):
        return bool(plain == absent)
    width = 0.0 if isinstance(parameter, Fixed) else parameter.upper - parameter.lower
    return abs(float(plain) - float(str(absent))) <= _SAME * width

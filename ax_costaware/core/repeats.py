"""Repeated measurements of one trial: their mean, standard error and number."""

from __future__ import annotations

import math
import statistics
from typing import Any

from ax_costaware.argument_checks import number_with_square, sequence_of
from ax_costaware.exceptions import InputError
from ax_costaware.space.parameters import Row

_EXPECTED = "a list of numbers, one for each repeat"


def is_repeated(value: Any) -> bool:
    """True for the values of repeats: a list, or an array. A tuple is a mean with its error."""
    return isinstance(value, list) or getattr(value, "ndim", 0) > 0


def repeated_values(value: Any, name: str) -> list[float]:
    """Return the values of repeats, checked.

    Raises:
        InputError: If there is none, or one is no finite number.
    """
    values = sequence_of(value, name, _EXPECTED)
    if not values:
        raise InputError(f"{name}={value!r}: expected {_EXPECTED}.")
    return [number_with_square(one, f"{name}[{i}]") for i, one in enumerate(values)]


def realized_repeats(name: str | None, planned: Row, count: int | None) -> dict[str, int]:
    """Return the number of repeats as a realized input, if it is known and not as planned.

    Args:
        name: The parameter that counts repeats; None without one.
        planned: Planned parameterization.
        count: Number of reported repeats; None if it is unknown.
    """
    if name is None or count is None or planned.get(name) == count:
        return {}
    return {name: count}


def mean_and_error(values: list[float]) -> tuple[float, float | None]:
    """Return the mean of repeats and its standard error; None for a single one."""
    mean = math.fsum(values) / len(values)
    if len(values) == 1:
        return mean, None
    return mean, statistics.stdev(values, mean) / math.sqrt(len(values))

"""Conditions of hierarchical search spaces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ax_costaware.space.parameters import Fixed, Value, takes


class Condition(NamedTuple):
    """Condition under which a parameter is active: another one has one of some values."""

    parent: str
    """Name of the choice on which the parameter depends."""

    values: tuple[Value, ...]
    """Values of the choice with which it is active."""

    def __str__(self) -> str:
        return " or ".join(f"{self.parent}={value!r}" for value in self.values)


def takes_any(value: Value, values: Sequence[Value]) -> bool:
    """True if a value is one of others, to rounding."""
    return any(takes(Fixed("", known), value) for known in values)

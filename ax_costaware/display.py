"""Formats of numbers and parameter values in answers, reasons and logs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def display_number(value: float) -> str:
    """Return a number with six significant digits, without trailing zeros."""
    return f"{value:.6g}"


def display_cost(control_set: str | None, expected_cost: float | None) -> str:
    """Return cost and control set as ``[control set a, expected cost 2]``."""
    cost = "cost not known yet"
    if expected_cost is not None:
        cost = f"expected cost {display_number(expected_cost)}"
    return f"[{cost}]" if control_set is None else f"[control set {control_set}, {cost}]"


def display_values(values: Mapping[str, Any]) -> str:
    """Return parameter values as ``a = 1, b = red``."""
    return ", ".join(
        f"{name} = {display_number(value) if isinstance(value, float) else value}"
        for name, value in values.items()
    )

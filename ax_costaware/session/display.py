"""How the session's answers print numbers and parameter values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def display_number(value: float) -> str:
    """A number to six significant digits, without trailing zeros."""
    return f"{value:.6g}"


def display_values(values: Mapping[str, Any]) -> str:
    """Parameter values as ``a = 1, b = red``."""
    return ", ".join(
        f"{name} = {display_number(value) if isinstance(value, float) else value}"
        for name, value in values.items()
    )

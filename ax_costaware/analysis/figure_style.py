"""What the figures have in common: colours, and axes whose numbers read well at any scale.

The first colours are Okabe and Ito's, which can be told apart by all readers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from plotly import graph_objects as go

COLORS = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#CC79A7",
    "#56B4E9",
    "#8C564B",
    "#B8A800",
    "#7F7F7F",
    "#332288",
    "#117733",
    "#882255",
    "#AA4499",
)
"""Colours of groups, in turn."""

LINE = "#333333"
"""Colour of what belongs to no group."""

LOST = "#D55E00"
"""Colour of what brought nothing."""

_DECADES = 4
"""Powers of ten up to which the numbers between them are written, too."""

_LONG_NAME = 34
"""Characters of a name in a legend or at an axis; a hover text has all of them."""


_LONG_METRIC = 20
"""Characters of a metric's name along an axis."""


def write_plain_numbers(figure: go.Figure) -> None:
    """Let the axes write 1e-6 and 1e6 as powers of ten, not as 1μ and 1M."""
    for update in (figure.update_xaxes, figure.update_yaxes):
        update(exponentformat="power", minexponent=4)


def log_ticks(low: float, high: float) -> dict[str, Any]:
    """Options of a logarithmic axis that writes its numbers out: 0.5, 1, 2, 5, 10.

    Args:
        low: The least number on the axis, > 0.
        high: The largest.
    """
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if len(decades) <= _DECADES else (1,)
    ticks = [step * 10.0**power for power in decades for step in steps]
    return {"type": "log", "tickvals": ticks, "ticktext": [f"{tick:.6g}" for tick in ticks]}


def value_title(metric: str, minimize: bool, before: str = "") -> str:
    """Title of a value axis: the objective's name, and which values are good.

    Args:
        metric: Name of the objective.
        minimize: Whether lower values are better.
        before: What comes before the name.
    """
    name = before + short_name(metric, _LONG_METRIC)
    better = f"({'lower' if minimize else 'higher'} is better)"
    return name + (" " if len(name + better) <= _LONG_NAME else "<br>") + better


def short_name(name: str, most: int = _LONG_NAME) -> str:
    """A name with its middle left out if it has more than ``most`` characters."""
    if len(name) <= most:
        return name
    half = (most - 1) // 2
    return f"{name[:half].rstrip()}…{name[-half:].lstrip()}"


def short_names(names: Sequence[str]) -> dict[str, str]:
    """Short forms of names, numbered where two would be the same."""
    found: dict[str, str] = {}
    for name in names:
        short, number = short_name(name), 1
        while short in found.values():
            number += 1
            short = f"{short_name(name)} ({number})"
        found[name] = short
    return found

"""What the figures have in common: colours, panels, bands, texts over points, and axes.

The first colours are Okabe and Ito's, which can be told apart by all readers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from string import Formatter
from typing import Any

import pandas as pd
from plotly import graph_objects as go
from plotly.colors import hex_to_rgb
from plotly.subplots import make_subplots

from ax_costaware.analysis.run import Objective

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

BLUE, GREEN, RED = COLORS[0], COLORS[2], "#D55E00"
"""Colours of what a model says, of what is well, and of what is not."""

DARK, GREY = "#333333", "#999999"
"""Colours of what belongs to no group."""

PALE = 0.45
"""Opacity of the bars of initial trials."""

UPPER, LOWER = {"row": 1, "col": 1}, {"row": 2, "col": 1}
"""The panels of a figure of two."""

BUDGET: dict[str, Any] = {
    "line": {"color": DARK, "dash": "dash", "width": 1},
    "annotation_text": "budget",
}
"""Options of the line where the budget ends."""

_SHORT = 10
"""Trials below which each has a tick of its own."""

_OF_POINT = ("x", "y")
"""What a text over a point may name beside columns."""

_DECADES = 4
"""Powers of ten up to which the numbers between them are written, too."""

_LONG_NAME = 34
"""Characters of a name in a legend or at an axis; a hover text has all of them."""

_LONG_METRIC = 20
"""Characters of a metric's name along an axis."""


def panels(height: int, legend: float = -0.16, top: int = 60, **options: Any) -> go.Figure:
    """An empty figure of two panels, one above the other, or of what else ``options`` say.

    Args:
        height: In pixels.
        legend: Where its legend begins, below the panels, as a part of their height.
        top: Pixels above the panels.
        options: Of ``make_subplots``.
    """
    figure = make_subplots(**{"rows": 2, "cols": 1, **options})
    figure.update_layout(
        height=height,
        margin={"t": top, "b": 50, "r": 20},
        hovermode="closest",
        legend={"orientation": "h", "y": legend, "yanchor": "top"},
    )
    for update in (figure.update_xaxes, figure.update_yaxes):
        # As powers of ten: plotly would write 1e-6 and 1e6 as 1μ and 1M.
        update(exponentformat="power", minexponent=4)
    return figure


def hover(text: str, rows: pd.DataFrame | None = None, **names: str) -> dict[str, Any]:
    """Options of a trace for what appears over its points.

    Args:
        text: With fields such as ``{trial_index}`` or ``{y:.3g}``: ``x`` and ``y`` are the
            point's own, one of ``names`` stands for its text, any other is a column of ``rows``.
            The format of a number is d3's.
        rows: One row per point.
        names: Texts that are the same for all points.
    """
    template = ""
    columns: list[str] = []
    for literal, field, form, _ in Formatter().parse(text):
        template += literal
        if field in names:
            template += names[field]
        elif field is not None:
            if field not in (*_OF_POINT, *columns):
                columns.append(field)
            place = field if field in _OF_POINT else f"customdata[{columns.index(field)}]"
            template += f"%{{{place}:{form}}}" if form else f"%{{{place}}}"
    data = {} if rows is None or not columns else {"customdata": rows[columns]}
    return {"hovertemplate": f"{template}<extra></extra>", **data}


def add_band(
    figure: go.Figure,
    x: Any,
    mean: Any,
    deviation: Any,
    color: str,
    *,
    panel: dict[str, int],
    group: str = "band",
    in_legend: bool = True,
    shape: str = "linear",
) -> None:
    """An area of two standard deviations on either side of a line."""
    for edge, fill in ((mean + 2 * deviation, None), (mean - 2 * deviation, "tonexty")):
        figure.add_scatter(
            x=x,
            y=edge,
            mode="lines",
            line={"width": 0, "shape": shape},
            fill=fill,
            fillcolor=pale(color),
            hoverinfo="skip",
            name="± 2 standard deviations",
            legendgroup=group,
            showlegend=in_legend and fill is not None,
            **panel,
        )


def legend_entry(name: str, **options: Any) -> dict[str, Any]:
    """Options of a trace that is in the legend only, which would show others as their first point.

    Args:
        name: Its name, which is that of its group, too.
        options: How it looks.
    """
    return {"x": [None], "y": [None], "name": name, "legendgroup": name, **options}


def pale(color: str) -> str:
    """A colour of areas, through which the axes are seen."""
    return f"rgba{(*hex_to_rgb(color), 0.15)}"


def hollow(is_hollow: pd.Series) -> list[str]:
    """Symbols of dots."""
    return ["circle-open" if one else "circle" for one in is_hollow]


def trial_ticks(trials: int) -> dict[str, Any]:
    """Options of an axis of trials: left alone, a short one would have ticks between them."""
    return {"dtick": 1 if trials < _SHORT else None}


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


def value_title(objective: Objective, before: str = "") -> str:
    """Title of a value axis: the objective's name after ``before``, and which values are good."""
    name = before + short_name(objective.metric, _LONG_METRIC)
    better = f"({objective.better} is better)"
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
        short = short_name(name)
        same = sum(short_name(other) == short for other in found)
        found[name] = f"{short} ({same + 1})" if same else short
    return found

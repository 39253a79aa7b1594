"""Common parts of the figures: colours, panels, bands, hover texts, and axes.

The first colours are those of Okabe and Ito, which colour-blind readers can distinguish.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import Formatter
from typing import Any

import pandas as pd
from plotly import graph_objects as go
from plotly.colors import hex_to_rgb
from plotly.subplots import make_subplots

from ax_costaware.analysis.method_analysis import Objective

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
"""Colours of groups, in order."""

BLUE, GREEN, RED = COLORS[0], COLORS[2], "#D55E00"
"""Colours of model results, of good and of bad states."""

DARK, GREY = "#333333", "#999999"
"""Colours without a group."""

PALE = 0.45
"""Opacity of the bars of initial trials."""

BUDGET: dict[str, Any] = {
    "line": {"color": DARK, "dash": "dash", "width": 1},
    "annotation_text": "budget",
}
"""Options of the budget line."""

_FILLED = {"fill": "tonexty"}

_SHORT = 10
"""Number of trials below which each has a tick."""

_OF_POINT = ("x", "y")
"""Fields of a hover text besides the columns."""

_DECADES = 4
"""Largest number of decades with intermediate tick labels."""

_MIN_TICKS = 2
"""Smallest number of tick labels of an axis."""

_LONG_NAME = 34
"""Largest length of a name in a legend or at an axis; a hover text has all of it."""

LONG_METRIC = 20
"""Largest length of a metric's name along an axis."""

_LONG_TITLE = 24
"""Largest length of a title along the vertical axis of a low panel."""

_MIN_PART = 0.25
"""Fraction of a budget that must be spent before the axis extends to the budget."""


def panels(height: int, legend: float = -0.16, top: int = 60, **options: Any) -> go.Figure:
    """Return an empty figure of two panels, one above the other, or as ``options`` say.

    Args:
        height: Height in pixels.
        legend: Position of the legend below the panels, as a fraction of their height.
        top: Pixels above the panels.
        options: Options of ``make_subplots``.
    """
    figure = make_subplots(**{"rows": 2, "cols": 1, **options})
    figure.update_layout(
        height=height,
        margin={"t": top, "b": 50, "r": 20},
        hovermode="closest",
        legend={"orientation": "h", "y": legend, "yanchor": "top"},
    )
    for update in (figure.update_xaxes, figure.update_yaxes):
        # Powers of ten, since plotly would write 1e-6 and 1e6 as 1μ and 1M.
        update(exponentformat="power", minexponent=4)
    return figure


def hover(text: str, rows: pd.DataFrame | None = None, **words: str) -> dict[str, Any]:
    """Return the options of a trace for its hover text.

    Args:
        text: Text with fields such as ``{trial_index}`` or ``{y:.3g}``: ``x`` and ``y`` are the
            point's own, names of ``words`` are replaced by their text, all others are columns of
            ``rows``. The format of a number is d3's.
        rows: One row per point.
        words: Texts that are the same for all points.
    """
    template = ""
    columns: list[str] = []
    for literal, field, form, _ in Formatter().parse(text):
        template += literal
        if field in words:
            template += words[field]
        elif field is not None:
            if field not in (*_OF_POINT, *columns):
                columns.append(field)
            place = field if field in _OF_POINT else f"customdata[{columns.index(field)}]"
            template += f"%{{{place}:{form}}}" if form else f"%{{{place}}}"
    found = {"hovertemplate": f"{template}<extra></extra>"}
    if rows is None or not columns:
        return found
    # A missing number in a column of texts would become null, which plotly writes as zero.
    return {**found, "customdata": rows[columns].astype(object).fillna("NaN")}


@dataclass(frozen=True)
class Panel:
    """Panel of a figure, in which the rows of a table are drawn.

    Methods that draw traces share these arguments: ``rows`` is the table, or None; ``x`` and ``y``
    are names of its columns, or values; ``text`` and ``words`` are those of ``hover``, None for no
    hover text; other options are plotly's, such as ``marker_size``. An empty table is not drawn.
    """

    figure: go.Figure
    row: int = 1
    col: int = 1

    @property
    def place(self) -> dict[str, int]:
        """Return the options that place plotly's own calls."""
        return {"row": self.row, "col": self.col}

    def xaxis(self, **options: Any) -> None:
        """Change the horizontal axis."""
        self.figure.update_xaxes(**options, **self.place)

    def yaxis(self, **options: Any) -> None:
        """Change the vertical axis."""
        self.figure.update_yaxes(**options, **self.place)

    def spent_axis(self, title: str, costs: pd.Series, budget: float | None) -> float | None:
        """Make the horizontal axis one of spent cost, with room at zero.

        Returns:
            The budget; None if there is none, or it is beyond the axis, as the title says then.
        """
        spent = float(costs.max())
        if budget is not None and 0 < spent < _MIN_PART * budget:
            title += f"<br>The budget, {budget:.6g}, is beyond the axis"
            budget = None
        most = max(spent, budget or 0.0) or 1.0
        self.xaxis(title_text=title, range=[-0.02 * most, 1.05 * most])
        return budget

    def add(
        self,
        kind: str,
        rows: pd.DataFrame | None,
        x: Any,
        y: Any,
        name: str | None,
        text: str | None = None,
        words: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        """Draw one trace of plotly's ``kind``."""
        if rows is not None and rows.empty:
            return
        x, y = (rows[at] if rows is not None and isinstance(at, str) else at for at in (x, y))
        over = {"hoverinfo": "skip"} if text is None else hover(text, rows, **words or {})
        add_trace = getattr(self.figure, f"add_{kind}")
        add_trace(x=x, y=y, name=name, **over, **options, **self.place)

    def dots(self, *what: Any, color: str, **options: Any) -> None:
        """Draw a dot for each row."""
        style = {"mode": "markers", "marker_color": color, "marker_line_color": color}
        self.add("scatter", *what, **{**style, **options})

    def line(self, *what: Any, color: str, **options: Any) -> None:
        """Draw a line through the rows; a single row becomes a dot."""
        rows, x = what[:2]
        mode = "lines+markers" if len(x if rows is None else rows) == 1 else "lines"
        style = {"mode": mode, "line_color": color, "line_width": 2}
        self.add("scatter", *what, **{**style, **options})

    def band(
        self, x: Any, mean: Any, deviation: Any, color: str, group: str = "band", **options: Any
    ) -> None:
        """Draw a band of two standard deviations around a line; around a dot an error bar."""
        name = "± 2 standard deviations"
        if len(x) == 1:
            bar = {"array": 2 * deviation, "color": pale(color), "thickness": 6, "width": 0}
            shown = {"showlegend": options.get("showlegend", True), "legendgroup": group}
            self.dots(None, x, mean, name, color=pale(color), error_y=bar, **shown)
            return
        style = {"line_width": 0, "fillcolor": pale(color), "legendgroup": group, **options}
        for edge, end in ((2 * deviation, {"showlegend": False}), (-2 * deviation, _FILLED)):
            self.line(None, x, mean + edge, name, color=color, **{**style, **end})

    def entry(self, kind: str, name: str, **options: Any) -> None:
        """Add a legend entry for the group ``name``."""
        self.add(kind, None, [None], [None], name, legendgroup=name, **options)


def pale(color: str, part: float = 0.15) -> str:
    """Return a transparent colour for areas."""
    return f"rgba{(*hex_to_rgb(color), part)}"


def cost_title(title: str, cost_metric: str | None, upright: bool = False) -> str:
    """Return the title of a cost axis: ``title``, then the metric of the costs."""
    if cost_metric is None:
        return title
    unit = f"({short_name(cost_metric, LONG_METRIC)})"
    return title + ("<br>" if upright and len(title + unit) > _LONG_TITLE else " ") + unit


def hollow(is_hollow: pd.Series) -> list[str]:
    """Return the symbols of dots."""
    return ["circle-open" if one else "circle" for one in is_hollow]


def trial_ticks(trials: int) -> dict[str, Any]:
    """Return the options of an axis of trials: plotly would put ticks between few trials."""
    return {"dtick": 1 if trials < _SHORT else None}


def log_ticks(low: float, high: float) -> dict[str, Any]:
    """Return the options of a logarithmic axis with plain numbers: 0.5, 1, 2, 5, 10.

    Args:
        low: Smallest number on the axis, > 0.
        high: Largest number.
    """
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if len(decades) <= _DECADES else (1,)
    ticks = [step * 10.0**power for power in decades for step in steps]
    if sum(low <= tick <= high for tick in ticks) < _MIN_TICKS:
        return {"type": "log"}  # plotly finds numbers between these
    return {"type": "log", "tickvals": ticks, "ticktext": [f"{tick:.6g}" for tick in ticks]}


def value_title(objective: Objective, before: str = "") -> str:
    """Return the title of a value axis, with the direction of better values."""
    name = before + short_name(objective.metric, LONG_METRIC)
    better = f"({objective.better} is better)"
    return name + (" " if len(name + better) <= _LONG_NAME else "<br>") + better


def short_name(name: str, most: int = _LONG_NAME) -> str:
    """Return a name, with its middle left out if it has more than ``most`` characters."""
    if len(name) <= most:
        return name
    half = (most - 1) // 2
    return f"{name[:half].rstrip()}…{name[-half:].lstrip()}"


def short_names(names: Sequence[str]) -> dict[str, str]:
    """Return short forms of names, numbered if two would be the same."""
    found: dict[str, str] = {}
    for name in names:
        short = short_name(name)
        same = sum(short_name(other) == short for other in found)
        found[name] = f"{short} ({same + 1})" if same else short
    return found

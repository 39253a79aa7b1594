"""The figure of indirect queries: the objective behind the averages, and the recommendation.

Above: its posterior, as a line with a band for one parameter and as a map for two, with the
queries. Below: what was recommended over time. Values are in the objective's unit and sign.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy.typing as npt
import pandas as pd
from plotly import graph_objects as go
from plotly.subplots import make_subplots

from ax_costaware.analysis.figure_style import log_ticks, short_name, write_plain_numbers

_LINE = "#0072B2"
_BAND = "rgba(0, 114, 178, 0.15)"
_QUERY = "#333333"
_BEST = "#D55E00"

_HEIGHT_PIXELS = 560

_LOWER = 0.3
"""Part of the height that is for the lower panel."""

_GAP = 0.2
"""Part of the height that is between them."""

_SHORT = 10
"""Trials below which each has a tick of its own."""


@dataclass(frozen=True)
class Axis:
    """A target parameter as an axis."""

    name: str
    """Its name."""

    values: npt.NDArray[Any]
    """Where the posterior was taken, in the model's column."""

    is_log: bool
    """Whether the axis is logarithmic."""

    is_discrete: bool
    """Whether there is nothing in between."""

    names: tuple[str, ...] | None
    """What to call the values where they are codes."""


@dataclass(frozen=True)
class Shown:
    """What the upper panel shows."""

    axes: tuple[Axis, ...]
    """One or two axes."""

    mean: npt.NDArray[Any]
    """Posterior mean of the objective, an array with a dimension for each axis."""

    standard_deviation: npt.NDArray[Any]
    """Its standard deviation."""

    best: tuple[float, ...]
    """The recommended point on the axes."""

    best_value: float
    """What is expected there."""

    queries: pd.DataFrame
    """One row per answered query: ``trial_index``, ``outcome``, and for each axis ``centre_<i>``
    and ``spread_<i>``."""

    are_cells: bool
    """Whether queries are boxes."""


@dataclass(frozen=True)
class IndirectLabels:
    """What the figure has to know beside its data."""

    metric: str
    """Name of the objective."""

    minimize: bool
    """Whether lower values are better."""


def indirect_figure(shown: Shown, frame: pd.DataFrame, labels: IndirectLabels) -> go.Figure:
    """The figure.

    Args:
        shown: The posterior and the queries.
        frame: One row per trial, with the columns that ``IndirectQueryAnalysis`` documents.
        labels: Names and direction.
    """
    better = "lower" if labels.minimize else "higher"
    figure = make_subplots(
        rows=2,
        cols=1,
        row_heights=[1 - _LOWER, _LOWER],
        vertical_spacing=_GAP,
        subplot_titles=(
            f"{short_name(labels.metric)} at a point",
            f"{short_name(labels.metric)} at the recommended point ({better} is better)",
        ),
    )
    if len(shown.axes) == 1:
        _add_line(figure, shown, labels)
    else:
        _add_map(figure, shown, labels)
    _add_recommended(figure, frame)
    for axis, update in zip(shown.axes, (figure.update_xaxes, figure.update_yaxes), strict=False):
        update(title_text=axis.name, row=1, col=1)
        if axis.is_log:
            update(**log_ticks(axis.values[0], axis.values[-1]), row=1, col=1)
        if axis.names is not None:
            update(tickvals=list(axis.values), ticktext=list(axis.names), row=1, col=1)
    short = len(frame) < _SHORT
    figure.update_xaxes(title_text="Before trial", dtick=1 if short else None, row=2, col=1)
    figure.update_yaxes(title_text=short_name(labels.metric), row=2, col=1)
    figure.update_layout(
        height=_HEIGHT_PIXELS,
        margin={"t": 60, "b": 50, "r": 20},
        hovermode="closest",
        legend={"orientation": "h", "y": -0.16, "yanchor": "top"},
    )
    write_plain_numbers(figure)
    return figure


def _add_line(figure: go.Figure, shown: Shown, labels: IndirectLabels) -> None:
    """Posterior over one parameter, and the queries at their answers."""
    (axis,) = shown.axes
    band = 2 * shown.standard_deviation
    if axis.is_discrete:
        figure.add_trace(
            go.Scatter(
                x=axis.values,
                y=shown.mean,
                mode="markers",
                marker={"color": _LINE, "size": 9},
                error_y={"array": band, "color": _LINE, "thickness": 1.5},
                name="posterior ± 2 standard deviations",
                hovertemplate="%{x}: %{y:.6g}<extra></extra>",
            ),
            row=1,
            col=1,
        )
    else:
        _add_band(figure, axis.values, shown.mean, band, "posterior", row=1)
    queries = shown.queries
    figure.add_trace(
        go.Scatter(
            x=queries["centre_0"],
            y=queries["outcome"],
            mode="markers",
            marker={"color": _QUERY, "size": 6},
            error_x={"array": queries["spread_0"], "color": _QUERY, "thickness": 1, "width": 0},
            customdata=queries[["trial_index"]],
            hovertemplate="trial %{customdata[0]}: answer %{y:.6g}<extra></extra>",
            name="measured cells" if shown.are_cells else "queries and their answers",
        ),
        row=1,
        col=1,
    )
    _add_star(figure, [shown.best[0]], [shown.best_value])
    figure.update_yaxes(title_text=short_name(labels.metric), row=1, col=1)


def _add_map(figure: go.Figure, shown: Shown, labels: IndirectLabels) -> None:
    """Posterior mean over two parameters, and where the queries went."""
    first, second = shown.axes
    figure.add_trace(
        go.Heatmap(
            x=first.values,
            y=second.values,
            z=shown.mean.T,
            customdata=shown.standard_deviation.T,
            colorscale="Viridis",
            colorbar={
                "thickness": 12,
                "len": (1 - _LOWER) * (1 - _GAP),
                "lenmode": "fraction",
                "y": 1,
                "yanchor": "top",
            },
            hovertemplate=(
                f"{first.name} %{{x:.6g}}, {second.name} %{{y:.6g}}<br>{labels.metric} "
                "%{z:.6g}, standard deviation %{customdata:.3g}<extra></extra>"
            ),
            name="posterior mean",
        ),
        row=1,
        col=1,
    )
    queries = shown.queries
    if shown.are_cells:
        _add_boxes(figure, queries)
    figure.add_trace(
        go.Scatter(
            x=queries["centre_0"],
            y=queries["centre_1"],
            mode="markers",
            marker={
                "color": "white",
                "size": 5 if shown.are_cells else 7,
                "line": {"color": _QUERY, "width": 1},
            },
            error_x=_no_bar(shown) or {"array": queries["spread_0"], **_BAR},
            error_y=_no_bar(shown) or {"array": queries["spread_1"], **_BAR},
            customdata=queries[["trial_index", "outcome"]],
            hovertemplate="trial %{customdata[0]}: answer %{customdata[1]:.6g}<extra></extra>",
            name="measured cells" if shown.are_cells else "queries",
        ),
        row=1,
        col=1,
    )
    _add_star(figure, [shown.best[0]], [shown.best[1]])
    # The map fills its panel.
    for axis, update in ((first, figure.update_xaxes), (second, figure.update_yaxes)):
        if not axis.is_log and not axis.is_discrete:
            update(range=[axis.values[0], axis.values[-1]], row=1, col=1)


_BAR = {"color": "rgba(255, 255, 255, 0.6)", "thickness": 1, "width": 0}


def _no_bar(shown: Shown) -> dict[str, Any] | None:
    return {"visible": False} if shown.are_cells else None


def _add_boxes(figure: go.Figure, queries: pd.DataFrame) -> None:
    """The outline of every measured cell, as one trace."""
    x: list[float | None] = []
    y: list[float | None] = []
    for row in queries.itertuples():
        left, right = row.centre_0 - row.spread_0, row.centre_0 + row.spread_0
        low, high = row.centre_1 - row.spread_1, row.centre_1 + row.spread_1
        x += [left, right, right, left, left, None]
        y += [low, low, high, high, low, None]
    figure.add_trace(
        go.Scatter(
            x=x,
            y=y,
            mode="lines",
            line={"color": "rgba(255, 255, 255, 0.7)", "width": 1},
            hoverinfo="skip",
            showlegend=False,
        ),
        row=1,
        col=1,
    )


def _add_recommended(figure: go.Figure, frame: pd.DataFrame) -> None:
    """What the recommended point was expected to be worth, before each trial."""
    rows = frame.dropna(subset=["recommended_value"])
    band = 2 * rows["recommended_standard_deviation"]
    mode = "lines+markers" if len(rows) == 1 else "lines"
    _add_band(
        figure, rows["trial_index"], rows["recommended_value"], band, "recommended", 2, mode=mode
    )


def _add_band(
    figure: go.Figure, x: Any, mean: Any, band: Any, name: str, row: int, mode: str = "lines"
) -> None:
    color = _LINE if row == 1 else _BEST
    fillcolor = _BAND if row == 1 else "rgba(213, 94, 0, 0.15)"
    for edge, fill in ((mean + band, None), (mean - band, "tonexty")):
        figure.add_trace(
            go.Scatter(
                x=x,
                y=edge,
                mode="lines",
                line={"width": 0},
                fill=fill,
                fillcolor=fillcolor,
                hoverinfo="skip",
                name="± 2 standard deviations",
                legendgroup=name,
                showlegend=False,
            ),
            row=row,
            col=1,
        )
    figure.add_trace(
        go.Scatter(
            x=x,
            y=mean,
            mode=mode,
            line={"color": color, "width": 2},
            hovertemplate="%{x:.6g}: %{y:.6g}<extra></extra>",
            name=f"{name} ± 2 standard deviations",
            legendgroup=name,
        ),
        row=row,
        col=1,
    )


def _add_star(figure: go.Figure, x: list[float], y: list[float]) -> None:
    figure.add_trace(
        go.Scatter(
            x=x,
            y=y,
            mode="markers",
            marker={
                "symbol": "star",
                "size": 15,
                "color": _BEST,
                "line": {"color": "white", "width": 1},
            },
            hovertemplate="recommended now<extra></extra>",
            name="recommended now",
        ),
        row=1,
        col=1,
    )

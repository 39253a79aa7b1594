"""The figure of spending: the sum of all charges so far, and what each trial was charged.

Costs are in the user's own unit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from ax.core.trial_status import TrialStatus
from plotly import graph_objects as go
from plotly.subplots import make_subplots

from ax_costaware.analysis.figure_style import COLORS, LINE, LOST, short_names, write_plain_numbers

INITIAL = "initial"
"""What an initial trial is spent on, where nothing else is known of it."""

_HEIGHT_PIXELS = 480
"""A card shows as much without scrolling."""

_SHORT = 10
"""Trials below which each has a tick of its own."""

_MANY = 60
"""Trials above which marks are smaller."""

_GREY = "#999999"

_PALE = 0.45
"""Opacity of initial trials."""

_RESERVED, _FAILED, _STOPPED = ".", "x", "/"
"""Patterns of bars."""

_PATTERNS = {_RESERVED: "reserved", _FAILED: "failed", _STOPPED: "stopped early"}


def spending_figure(
    frame: pd.DataFrame, groups: Sequence[str], budget: float | None, cost_metric: str | None
) -> go.Figure:
    """The figure of a frame made by ``SpendingAnalysis``.

    Args:
        frame: One row per trial, with the columns that ``SpendingAnalysis`` documents.
        groups: What trials were spent on, in the order of the colours.
        budget: Total budget, drawn as a horizontal line; None for none.
        cost_metric: The metric in which costs are reported; None where they are known beforehand.
    """
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, vertical_spacing=0.07)
    _add_total(figure, frame)
    patterns = [_pattern(status) for status in frame["status"]]
    names = short_names(groups)
    colors = {names[group]: COLORS[i % len(COLORS)] for i, group in enumerate(groups)}
    for group in groups:
        chosen = frame["spent_on"] == group
        mine = [pattern for pattern, is_mine in zip(patterns, chosen, strict=True) if is_mine]
        _add_group(figure, frame[chosen], mine, names[group], colors[names[group]])
    _explain(figure, frame, patterns, colors)
    _add_lost(figure, frame)
    _add_expected(figure, frame)
    _add_free(figure, frame)
    if budget is not None:
        figure.add_hline(
            y=budget,
            line={"color": LINE, "dash": "dash", "width": 1},
            annotation_text="budget",
            annotation_position="top left",
            row=1,
            col=1,
        )
    unit = "" if cost_metric is None else f" ({cost_metric})"
    # Room for the name of the line.
    top = 1.12 * max(float(frame["cumulative_cost"].max()), budget or 0.0)
    figure.update_yaxes(
        title_text=f"Spent so far{unit}",
        range=[0, top] if top > 0 else None,
        row=1,
        col=1,
    )
    largest = float(frame[["charged", "expected_cost"]].max().max())
    figure.update_yaxes(
        title_text=f"Charged{unit}",
        # Room for the marks of trials that were charged nothing.
        range=[-0.06 * largest, 1.06 * largest] if largest > 0 else None,
        row=2,
        col=1,
    )
    figure.update_xaxes(title_text="Trial", dtick=1 if len(frame) < _SHORT else None, row=2, col=1)
    figure.update_layout(
        height=_HEIGHT_PIXELS,
        margin={"t": 40, "b": 50, "r": 20},
        barmode="stack",
        bargap=0.15,
        hovermode="closest",
        legend={"orientation": "h", "y": -0.15, "yanchor": "top", "traceorder": "normal"},
    )
    write_plain_numbers(figure)
    return figure


def _pattern(status: str) -> str:
    if status == TrialStatus.FAILED.name:
        return _FAILED
    if status == TrialStatus.EARLY_STOPPED.name:
        return _STOPPED
    return "" if TrialStatus[status].is_terminal else _RESERVED


def _add_total(figure: go.Figure, frame: pd.DataFrame) -> None:
    """The sum of all charges by the end of each trial."""
    first, last = frame["trial_index"].iloc[0], frame["trial_index"].iloc[-1]
    figure.add_trace(
        go.Scatter(
            # A step at the left side of each bar below.
            x=[first - 0.5, *(frame["trial_index"] - 0.5), last + 0.5],
            y=[0.0, *frame["cumulative_cost"], frame["cumulative_cost"].iloc[-1]],
            mode="lines",
            line={"color": LINE, "width": 2, "shape": "hv"},
            customdata=[first, *frame["trial_index"], last],
            hovertemplate="with trial %{customdata}: %{y:.6g} spent<extra></extra>",
            name="spent",
            showlegend=False,
        ),
        row=1,
        col=1,
    )


def _add_group(
    figure: go.Figure, rows: pd.DataFrame, patterns: list[str], name: str, color: str
) -> None:
    """A bar for each trial that was spent on one thing."""
    figure.add_trace(
        go.Bar(
            x=rows["trial_index"],
            y=rows["charged"] - rows["lost"],
            marker={
                "color": color,
                "opacity": [_PALE if pale else 1.0 for pale in _pale(rows)],
                "pattern": {"shape": patterns, "fgcolor": "white", "size": 6, "solidity": 0.35},
            },
            customdata=rows[["spent_on", "status", "expected_cost", "reported_cost", "charged"]],
            hovertemplate="trial %{x}: %{customdata[0]}, %{customdata[1]}<br>"
            "charged %{customdata[4]:.6g} "
            "(expected %{customdata[2]:.6g}, reported %{customdata[3]:.6g})<extra></extra>",
            name=name,
            legendgroup=name,
            # The legend would show it as its first trial is, pale or with a pattern.
            showlegend=False,
        ),
        row=2,
        col=1,
    )


def _pale(rows: pd.DataFrame) -> pd.Series:
    """Initial trials, unless what they were spent on says so already."""
    return rows["initial"].astype(bool) & (rows["spent_on"] != INITIAL)


def _add_lost(figure: go.Figure, frame: pd.DataFrame) -> None:
    """On top of a trial's bar, what its failed attempts were charged."""
    rows = frame[frame["lost"] > 0]
    if rows.empty:
        return
    figure.add_trace(
        go.Bar(
            x=rows["trial_index"],
            y=rows["lost"],
            marker={"color": LOST},
            customdata=rows[["charged"]],
            hovertemplate="trial %{x}: %{y:.6g} of the %{customdata[0]:.6g} charged went into "
            "attempts that failed<extra></extra>",
            name="failed attempts",
        ),
        row=2,
        col=1,
    )


def _add_expected(figure: go.Figure, frame: pd.DataFrame) -> None:
    """What was expected of each trial that reported another cost."""
    differs = ~np.isclose(frame["expected_cost"], frame["reported_cost"], rtol=1e-6)
    rows = frame[differs & frame["reported_cost"].notna() & frame["expected_cost"].notna()]
    if rows.empty:
        return
    figure.add_trace(
        go.Scatter(
            x=rows["trial_index"],
            y=rows["expected_cost"],
            mode="markers",
            marker={
                "symbol": "line-ew",
                "size": 12 if len(frame) <= _MANY else 6,
                "line": {"color": LINE, "width": 2},
            },
            customdata=rows[["reported_cost"]],
            hovertemplate="trial %{x}: expected to cost %{y:.6g}, reported %{customdata[0]:.6g}"
            "<extra></extra>",
            name="expected cost",
        ),
        row=2,
        col=1,
    )


def _add_free(figure: go.Figure, frame: pd.DataFrame) -> None:
    """A mark on the axis for each trial that was charged nothing."""
    free = frame["charged"] == 0
    for name, chosen, symbol in (
        ("not measured", free & frame["skipped"], "line-ns"),
        ("not charged", free & ~frame["skipped"], "circle-open"),
    ):
        if not chosen.any():
            continue
        rows = frame[chosen]
        figure.add_trace(
            go.Scatter(
                x=rows["trial_index"],
                y=rows["charged"],
                mode="markers",
                marker={
                    "symbol": symbol,
                    "size": 8,
                    "color": LOST,
                    "line": {"color": LOST, "width": 1.5},
                },
                customdata=rows[["status"]],
                hovertemplate=f"trial %{{x}}: {name}, %{{customdata[0]}}<extra></extra>",
                name=name,
            ),
            row=2,
            col=1,
        )


def _explain(
    figure: go.Figure, frame: pd.DataFrame, patterns: list[str], colors: Mapping[str, str]
) -> None:
    """An entry of the legend for each colour, each pattern, and pale bars, if there are any."""
    entries = [(name, "", color, 1.0) for name, color in colors.items()]
    entries += [(name, shape, _GREY, 1.0) for shape, name in _PATTERNS.items() if shape in patterns]
    if _pale(frame).any():
        entries.append(("initial (pale)", "", _GREY, _PALE))
    for name, shape, color, opacity in entries:
        figure.add_trace(
            go.Bar(
                x=[None],
                y=[None],
                marker={
                    "color": color,
                    "opacity": opacity,
                    "pattern": {"shape": shape, "fgcolor": "white", "size": 6, "solidity": 0.35},
                },
                hoverinfo="skip",
                name=name,
                legendgroup=name,
            ),
            row=2,
            col=1,
        )

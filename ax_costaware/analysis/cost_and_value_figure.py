"""The figure of cost against value: what the recommendation was worth after each trial.

Upper panel: the expected value of the recommendation, and of every trial's own query, over the
cost spent. Lower panel: which control set was chosen when, a bar as long as the trial was dear.
Costs are in the user's own unit, values in the objective's.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from plotly import graph_objects as go
from plotly.subplots import make_subplots

from ax_costaware.analysis.figure_style import (
    COLORS,
    LINE,
    short_names,
    value_title,
    write_plain_numbers,
)

_BAND = "rgba(51, 51, 51, 0.12)"

_VALUE_PANEL_PIXELS = 240
_LANE_PIXELS = 26
_TOP_PIXELS = 50
_BOTTOM_PIXELS = 120
_LEGEND_PIXELS = 72
"""Distance of the legend below the lower panel."""

_LEAST_PART = 0.25
"""Part of a budget that has to be spent before the axis reaches as far as the budget."""

_WIDE_BAR = 0.01
"""Bars wider than this part of the axis are set apart by a white border, which would cover the
colour of narrower ones."""


def cost_and_value_figure(
    frame: pd.DataFrame,
    control_sets: Sequence[str],
    metric: str,
    minimize: bool,
    budget: float | None,
) -> go.Figure:
    """The figure of a frame made by ``CostAndValueAnalysis``.

    Args:
        frame: One row per trial, with the columns that ``CostAndValueAnalysis`` documents.
        control_sets: Names of the control sets in declared order; those that no trial used are
            left out.
        metric: Name of the objective.
        minimize: Whether lower values are better.
        budget: Total budget, drawn as a vertical line if it is near; None for none.
    """
    used = [name for name in control_sets if (frame["control_set"] == name).any()]
    names = short_names(used)
    lanes = max(len(used), 4) * _LANE_PIXELS
    total_cost = float(frame["cumulative_cost"].max())
    figure = make_subplots(
        rows=2,
        cols=1,
        shared_xaxes=True,
        row_heights=[_VALUE_PANEL_PIXELS, lanes],
        vertical_spacing=0.05,
    )
    _add_recommendation(figure, frame)
    for position, name in enumerate(used):
        color = COLORS[position % len(COLORS)]
        rows = frame[frame["control_set"] == name]
        _add_control_set(figure, rows, names[name], color, total_cost)
    unit = "Cost spent (in the unit of the control sets' costs)"
    if budget is not None and total_cost < _LEAST_PART * budget:
        unit += f"<br>The budget, {budget:.6g}, is beyond the axis"
    elif budget is not None:
        figure.add_vline(x=budget, line={"color": LINE, "dash": "dash", "width": 1})
        figure.add_annotation(
            x=budget, y=1, yref="paper", text="budget", showarrow=False, yanchor="bottom"
        )
    figure.update_yaxes(title_text=value_title(metric, minimize, "Expected "), row=1, col=1)
    figure.update_yaxes(
        title_text="Control set",
        categoryorder="array",
        categoryarray=[names[name] for name in used[::-1]],
        row=2,
        col=1,
    )
    figure.update_xaxes(
        title_text=unit,
        rangemode="tozero",
        row=2,
        col=1,
    )
    figure.update_layout(
        barmode="overlay",
        bargap=0.25,
        height=_VALUE_PANEL_PIXELS + lanes + _TOP_PIXELS + _BOTTOM_PIXELS,
        margin={"t": _TOP_PIXELS, "b": _BOTTOM_PIXELS, "r": 20},
        hovermode="closest",
        legend={
            "groupclick": "togglegroup",
            "orientation": "h",
            "y": -_LEGEND_PIXELS / (_VALUE_PANEL_PIXELS + lanes),
            "yanchor": "top",
        },
    )
    write_plain_numbers(figure)
    return figure


def _add_recommendation(figure: go.Figure, frame: pd.DataFrame) -> None:
    """The recommendation's value as a step line with its band; the latest one as a star."""
    steps = frame.dropna(subset=["recommendation_value"])
    if steps.empty:
        return
    cost, value = steps["cumulative_cost"], steps["recommendation_value"]
    band = 2 * steps["recommendation_sd"]
    for edge, fill in ((value + band, None), (value - band, "tonexty")):
        figure.add_trace(
            go.Scatter(
                x=cost,
                y=edge,
                mode="lines",
                line={"width": 0, "shape": "hv"},
                fill=fill,
                fillcolor=_BAND,
                hoverinfo="skip",
                name="± 2 standard deviations",
                legendgroup="band",
                showlegend=fill is not None,
            ),
            row=1,
            col=1,
        )
    figure.add_trace(
        go.Scatter(
            x=cost,
            y=value,
            mode="lines",
            line={"color": LINE, "width": 2, "shape": "hv"},
            customdata=steps[["trial_index", "recommended_control_set", "recommendation_sd"]],
            hovertemplate="after trial %{customdata[0]}: recommended %{customdata[1]}<br>"
            "cost %{x:.6g}, expected value %{y:.6g} ± %{customdata[2]:.3g}<extra></extra>",
            name="recommendation",
        ),
        row=1,
        col=1,
    )
    figure.add_trace(
        go.Scatter(
            x=cost.iloc[-1:],
            y=value.iloc[-1:],
            mode="markers",
            marker={"symbol": "star", "size": 15, "color": LINE},
            customdata=steps[["recommended_control_set", "recommendation_sd"]].iloc[-1:],
            hovertemplate="current recommendation: %{customdata[0]}<br>expected value %{y:.6g} ± "
            "%{customdata[1]:.3g}<extra></extra>",
            name="current recommendation",
        ),
        row=1,
        col=1,
    )


def _add_control_set(
    figure: go.Figure, rows: pd.DataFrame, name: str, color: str, total_cost: float
) -> None:
    """The trials of one control set: their queries above, their bars below."""
    initial = rows["initial"].astype(bool)
    is_wide = rows["charged"] > _WIDE_BAR * total_cost
    figure.add_trace(
        go.Scatter(
            x=rows["cumulative_cost"],
            y=rows["query_value"],
            mode="markers",
            marker={
                "color": color,
                "size": 8,
                "symbol": ["circle-open" if first else "circle" for first in initial],
                "line": {"width": 1.5, "color": color},
            },
            customdata=rows[["trial_index", "charged", "query_sd", "control_set"]],
            hovertemplate="trial %{customdata[0]}: %{customdata[3]}<br>charged "
            "%{customdata[1]:.6g}, expected value of its query %{y:.6g} ± %{customdata[2]:.3g}"
            "<extra></extra>",
            name=name,
            legendgroup=name,
            showlegend=False,
        ),
        row=1,
        col=1,
    )
    # Without it the legend would show the first trial, which is hollow.
    figure.add_trace(
        go.Scatter(
            x=[None],
            y=[None],
            mode="markers",
            marker={"color": color, "size": 8},
            name=name,
            legendgroup=name,
        ),
        row=1,
        col=1,
    )
    figure.add_trace(
        go.Bar(
            orientation="h",
            base=rows["cumulative_cost"] - rows["charged"],
            x=rows["charged"],
            y=[name] * len(rows),
            marker={
                "color": color,
                "opacity": [0.45 if first else 1.0 for first in initial],
                "line": {"color": ["white" if wide else color for wide in is_wide], "width": 1},
            },
            customdata=rows[["trial_index", "status", "control_set"]],
            hovertemplate="trial %{customdata[0]}: %{customdata[2]}, %{customdata[1]}<br>"
            "charged %{x:.6g}<extra></extra>",
            name=name,
            legendgroup=name,
            showlegend=False,
        ),
        row=2,
        col=1,
    )

"""The figure of costly feedback: what was used and measured over time, and how much was saved.

Upper panel: the expected objective at the point of each trial, by the model of its time, with the
outcomes that were measured and ticks where none was. Lower panel: measurements so far, beside the
trials so far. Values are in the objective's unit and sign, times in their own unit.
"""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import wrap

import pandas as pd
from plotly import graph_objects as go
from plotly.subplots import make_subplots

from ax_costaware.analysis.figure_style import value_title, write_plain_numbers

_EXPECTED = "#0072B2"
_BAND = "rgba(0, 114, 178, 0.15)"
_MEASURED = "#333333"
_SKIPPED = "#D55E00"
_ALL = "#999999"

_HEIGHT_PIXELS = 480
"""A card shows as much without scrolling."""

_SHORT = 10
"""Trials below which each has a tick of its own."""

_HOVER_CHARACTERS = 70
"""Width of the text that appears over a point."""


@dataclass(frozen=True)
class FeedbackLabels:
    """What the figure has to know beside its frame."""

    metric: str
    """Name of the objective."""

    minimize: bool
    """Whether lower values are better."""

    time: str | None
    """The metric in which times are reported; None where the index of a trial is its time."""


def feedback_figure(frame: pd.DataFrame, labels: FeedbackLabels) -> go.Figure:
    """The figure of a frame made by ``FeedbackAnalysis``.

    Args:
        frame: One row per trial, with the columns that ``FeedbackAnalysis`` documents.
        labels: Names and direction.
    """
    frame = frame.sort_values("time", kind="stable")
    figure = make_subplots(
        rows=2, cols=1, shared_xaxes=True, row_heights=[0.68, 0.32], vertical_spacing=0.06
    )
    _add_expected(figure, frame)
    _add_skipped(figure, frame)
    _add_measured(figure, frame, labels)
    _add_counts(figure, frame)
    figure.update_yaxes(title_text=value_title(labels.metric, labels.minimize), row=1, col=1)
    figure.update_yaxes(title_text="Number so far", rangemode="tozero", row=2, col=1)
    dtick = 1 if labels.time is None and len(frame) < _SHORT else None
    figure.update_xaxes(title_text=labels.time or "Trial", dtick=dtick, row=2, col=1)
    figure.update_layout(
        height=_HEIGHT_PIXELS,
        margin={"t": 40, "b": 50, "r": 20},
        hovermode="closest",
        legend={"orientation": "h", "y": -0.18, "yanchor": "top"},
    )
    write_plain_numbers(figure)
    return figure


def _add_expected(figure: go.Figure, frame: pd.DataFrame) -> None:
    """Posterior mean at the point of each trial, as it was before the trial, with its band."""
    rows = frame.dropna(subset=["mean", "standard_deviation"])
    if rows.empty:
        return
    mean, band = rows["mean"], 2 * rows["standard_deviation"]
    for edge, fill in ((mean + band, None), (mean - band, "tonexty")):
        figure.add_trace(
            go.Scatter(
                x=rows["time"],
                y=edge,
                mode="lines",
                line={"width": 0},
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
            x=rows["time"],
            y=mean,
            mode="lines" if len(rows) > 1 else "markers",
            line={"color": _EXPECTED, "width": 2},
            # A single one has neither a line nor a band.
            marker={"color": _EXPECTED, "symbol": "line-ew-open", "size": 14},
            error_y={"array": band, "visible": len(rows) == 1, "color": _BAND, "thickness": 6},
            customdata=rows[["trial_index", "standard_deviation"]],
            hovertemplate="before trial %{customdata[0]}: expected %{y:.6g} ± "
            "%{customdata[1]:.3g}<extra></extra>",
            name="expected at the point in use",
        ),
        row=1,
        col=1,
    )


def _add_skipped(figure: go.Figure, frame: pd.DataFrame) -> None:
    """A tick on the line for every trial that was used without a measurement."""
    rows = frame[frame["skipped"] & frame["mean"].notna()]
    if rows.empty:
        return
    figure.add_trace(
        go.Scatter(
            x=rows["time"],
            y=rows["mean"],
            mode="markers",
            marker={
                "symbol": "line-ns",
                "size": 9,
                "color": _SKIPPED,
                "line": {"color": _SKIPPED, "width": 1.5},
            },
            customdata=rows[["trial_index"]].assign(why=_reasons(rows)),
            hovertemplate="trial %{customdata[0]}: not measured<br>%{customdata[1]}<extra></extra>",
            name="not measured",
        ),
        row=1,
        col=1,
    )


def _add_measured(figure: go.Figure, frame: pd.DataFrame, labels: FeedbackLabels) -> None:
    """Outcomes as they were reported."""
    rows = frame.dropna(subset=["outcome"])
    figure.add_trace(
        go.Scatter(
            x=rows["time"],
            y=rows["outcome"],
            mode="markers",
            marker={
                "color": _MEASURED,
                "size": 7,
                "symbol": ["circle" if known else "circle-open" for known in rows["mean"].notna()],
            },
            customdata=rows[["trial_index", "charged"]].assign(why=_reasons(rows)),
            hovertemplate=f"trial %{{customdata[0]}}: {labels.metric} %{{y:.6g}}, charged "
            "%{customdata[1]:.6g}<br>%{customdata[2]}<extra></extra>",
            name="measured (hollow: initial)",
        ),
        row=1,
        col=1,
    )


def _add_counts(figure: go.Figure, frame: pd.DataFrame) -> None:
    """Trials that were used so far, and how many of them were measured."""
    measured = frame["outcome"].notna()
    for name, counted, color, dash in (
        ("trials", measured | frame["skipped"], _ALL, "dot"),
        ("measurements", measured, _MEASURED, None),
    ):
        figure.add_trace(
            go.Scatter(
                x=frame["time"],
                y=counted.cumsum(),
                mode="lines",
                line={"color": color, "width": 2, "shape": "hv", "dash": dash},
                hovertemplate=f"%{{y}} {name} by %{{x:.6g}}<extra></extra>",
                name=name,
            ),
            row=2,
            col=1,
        )


def _reasons(rows: pd.DataFrame) -> pd.Series:
    """The reason of each decision, broken into lines."""
    return rows["why"].map(lambda why: "<br>".join(wrap(why, _HOVER_CHARACTERS)))

"""The figure of stopping: whether the next trial was worth its price, and what had been found.

Upper panel: before each decision, the largest Gittins index of any trial that could be run, beside
the incumbent. The index is the value at which a trial would only just repay its cost, so the search
pays for as long as it is the better of the two. Lower left: outcomes over the cost spent. Lower
right, where costs are learned: the interval in which the cost of each trial was predicted to lie,
beside what was reported. Costs are in the user's own unit, values in the objective's unit and sign.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from plotly import graph_objects as go
from plotly.subplots import make_subplots

from ax_costaware.analysis.figure_style import log_ticks, value_title, write_plain_numbers

_INDEX = "#0072B2"
_INCUMBENT = "#333333"
_TRIAL = "#999999"
_STOPS = "#D55E00"
_GOES_ON = "#009E73"

_HEIGHT_PIXELS = 660

_SHORT = 10
"""Decisions below which each has a tick of its own."""

_MANY = 60
"""Decisions above which a line has no dot for each."""

_REACH = 1.5
"""How far a value axis extends to outlying values, in multiples of the span that matters."""


@dataclass(frozen=True)
class StoppingLabels:
    """What the figure has to know beside its frame."""

    metric: str
    """Name of the objective."""

    minimize: bool
    """Whether lower values are better."""

    cost_metric: str | None
    """The metric in which costs are reported; None where costs are known beforehand."""

    budget: float | None
    """Total budget, drawn as a vertical line; None for none."""

    stop: bool
    """Whether there should be no further trial."""

    @property
    def value(self) -> str:
        """Title of a value axis."""
        return value_title(self.metric, self.minimize)

    @property
    def cost(self) -> str:
        """What cost is called: the metric's name, or just ``cost``."""
        return self.cost_metric or "cost"


def stopping_figure(frame: pd.DataFrame, labels: StoppingLabels) -> go.Figure:
    """The figure of a frame made by ``StoppingAnalysis``.

    Args:
        frame: One row per trial and one for the next, with the columns that ``StoppingAnalysis``
            documents.
        labels: Names, direction, budget and verdict.
    """
    predicted = frame.dropna(subset=["cost_lower", "cost_upper", "reported_cost"])
    learned = not predicted.empty
    figure = make_subplots(
        rows=2,
        cols=2 if learned else 1,
        specs=[[{"colspan": 2}, None], [{}, {}]] if learned else [[{}], [{}]],
        vertical_spacing=0.26,
        horizontal_spacing=0.2,
        subplot_titles=[
            "Is another trial worth its price?",
            f"What was found{'<br>' if learned else ' '}for the cost",
            *([_calibration_title(predicted)] if learned else []),
        ],
    )
    _add_decisions(figure, frame, labels)
    _add_outcomes(figure, frame, labels)
    if learned:
        _add_calibration(figure, predicted, labels)
    figure.update_annotations(font={"size": 14})
    figure.update_layout(
        height=_HEIGHT_PIXELS,
        margin={"t": 60, "b": 50, "r": 20},
        hovermode="closest",
        legend={"orientation": "h", "y": -0.16, "yanchor": "top"},
    )
    write_plain_numbers(figure)
    return figure


def _add_decisions(figure: go.Figure, frame: pd.DataFrame, labels: StoppingLabels) -> None:
    """Index and incumbent before each decision, and as they are now."""
    rows = frame.dropna(subset=["incumbent"])
    for name, column, color in (
        ("largest Gittins index", "index", _INDEX),
        ("incumbent", "incumbent", _INCUMBENT),
    ):
        figure.add_trace(
            go.Scatter(
                x=rows["trial_index"],
                y=rows[column],
                mode="lines+markers" if len(rows) <= _MANY else "lines",
                line={"color": color, "width": 2},
                marker={"color": color, "size": 6},
                customdata=rows[["lambda", "expected_cost"]],
                hovertemplate=f"before trial %{{x}}: {name} %{{y:.6g}}<br>price of one "
                f"unit of {labels.cost} %{{customdata[0]:.3g}}, expected cost of the trial "
                "%{customdata[1]:.4g}<extra></extra>",
                name=name,
            ),
            row=1,
            col=1,
        )
    now = rows[rows["status"] == "NEXT"]
    if not now.empty:
        value = now[["index", "incumbent"]].bfill(axis=1).iloc[0, 0]
        color = _STOPS if labels.stop else _GOES_ON
        verdict = "now: stop" if labels.stop else "now: go on"
        figure.add_trace(
            go.Scatter(
                x=now["trial_index"],
                y=[value],
                mode="markers",
                marker={"color": color, "size": 18, "symbol": "diamond-open", "line": {"width": 3}},
                hovertemplate=f"{verdict}<extra></extra>",
                name=verdict,
            ),
            row=1,
            col=1,
        )
    span = rows[["index", "incumbent"]].stack()
    late = rows[["index", "incumbent"]].iloc[len(rows) // 2 :].stack()
    figure.update_yaxes(
        title_text=labels.value,
        range=_value_range(span, late),
        row=1,
        col=1,
    )
    # Left alone, a short axis would have ticks between the trials.
    short = len(rows) < _SHORT
    figure.update_xaxes(title_text="Before trial", dtick=1 if short else None, row=1, col=1)


def _add_outcomes(figure: go.Figure, frame: pd.DataFrame, labels: StoppingLabels) -> None:
    """Outcomes and the best of them so far over the cost spent."""
    rows = frame.dropna(subset=["outcome"])
    initial = rows["initial"].astype(bool)
    figure.add_trace(
        go.Scatter(
            x=rows["cumulative_cost"],
            y=rows["outcome"],
            mode="markers",
            marker={
                "color": _TRIAL,
                "size": 7,
                "symbol": ["circle-open" if first else "circle" for first in initial],
            },
            customdata=rows[["trial_index", "charged"]],
            hovertemplate=f"trial %{{customdata[0]}}: {labels.metric} %{{y:.6g}}<br>charged "
            "%{customdata[1]:.4g}<extra></extra>",
            name="trial (hollow: initial)",
        ),
        row=2,
        col=1,
    )
    figure.add_trace(
        go.Scatter(
            x=rows["cumulative_cost"],
            y=rows["best_outcome"],
            mode="lines",
            line={"color": _INCUMBENT, "width": 2, "shape": "hv", "dash": "dot"},
            hovertemplate="best so far %{y:.6g} at cost %{x:.4g}<extra></extra>",
            name="best outcome so far",
        ),
        row=2,
        col=1,
    )
    # What matters is how the better half of the trials compares.
    middle = rows["outcome"].median()
    good = rows["outcome"] <= middle if labels.minimize else rows["outcome"] >= middle
    axis = _value_range(rows["outcome"], rows.loc[good, "outcome"])
    figure.update_yaxes(title_text=labels.value, range=axis, row=2, col=1)
    hidden = 0 if axis is None else int((~rows["outcome"].between(*axis)).sum())
    title = "Cost spent" if labels.cost_metric is None else f"Cost spent: {labels.cost_metric}"
    if hidden:
        title += f"<br>({hidden} outcome{'' if hidden == 1 else 's'} beyond the axis)"
    figure.update_xaxes(title_text=title, rangemode="tozero", row=2, col=1)
    if labels.budget is not None:
        figure.add_vline(
            x=labels.budget,
            line={"color": _INCUMBENT, "dash": "dash", "width": 1},
            annotation_text="budget",
            annotation_position="bottom left",
            row=2,
            col=1,
        )


def _add_calibration(figure: go.Figure, rows: pd.DataFrame, labels: StoppingLabels) -> None:
    """The predicted 95 % interval of each trial's cost over the reported cost."""
    lower, upper = rows["cost_lower"], rows["cost_upper"]
    middle = np.sqrt(lower * upper)
    inside = _inside(rows)
    for name, chosen, color in (("inside", inside, _INDEX), ("outside", ~inside, _STOPS)):
        if not chosen.any():
            continue
        figure.add_trace(
            go.Scatter(
                x=rows.loc[chosen, "reported_cost"],
                y=middle[chosen],
                mode="markers",
                error_y={
                    "type": "data",
                    "symmetric": False,
                    "array": (upper - middle)[chosen],
                    "arrayminus": (middle - lower)[chosen],
                    "width": 0,
                    "thickness": 1.5,
                },
                marker={"color": color, "size": 6},
                customdata=pd.concat([rows["trial_index"], lower, upper], axis=1)[chosen],
                hovertemplate="trial %{customdata[0]}: reported %{x:.4g}<br>predicted %{y:.4g}, "
                "95 % between %{customdata[1]:.4g} and %{customdata[2]:.4g}<extra></extra>",
                name=f"predicted cost, reported {name}",
            ),
            row=2,
            col=2,
        )
    ends = [
        float(min(rows["reported_cost"].min(), lower.min())),
        float(max(rows["reported_cost"].max(), upper.max())),
    ]
    figure.add_trace(
        go.Scatter(
            x=ends,
            y=ends,
            mode="lines",
            line={"color": _INCUMBENT, "dash": "dot", "width": 1},
            hoverinfo="skip",
            showlegend=False,
        ),
        row=2,
        col=2,
    )
    ticks = log_ticks(*ends)
    figure.update_xaxes(title_text=f"Reported {labels.cost}", **ticks, row=2, col=2)
    figure.update_yaxes(title_text=f"Predicted {labels.cost}", **ticks, row=2, col=2)


def _calibration_title(rows: pd.DataFrame) -> str:
    return f"Learned cost: {int(_inside(rows).sum())} of {len(rows)}<br>within the predicted 95 %"


def _inside(rows: pd.DataFrame) -> pd.Series:
    return rows["reported_cost"].between(rows["cost_lower"], rows["cost_upper"])


def _value_range(values: pd.Series, matter: pd.Series) -> list[float] | None:
    """An axis that shows all that matters, and of the other values what fits at that scale.

    One classifier that learned nothing would otherwise press all the others into one line.
    """
    values, matter = values.dropna(), matter.dropna()
    if matter.empty:
        return None
    low, high = float(matter.min()), float(matter.max())
    span = (high - low) or abs(high) or 1.0
    low = max(float(values.min()), low - _REACH * span)
    high = min(float(values.max()), high + _REACH * span)
    margin = 0.1 * ((high - low) or span)
    return [low - margin, high + margin]

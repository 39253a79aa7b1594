"""The figure from a hand-made frame: what is drawn where."""

from __future__ import annotations

import math

import pandas as pd
from plotly import graph_objects as go

from ax_costaware.analysis.cost_and_value import cost_and_value_figure
from ax_costaware.analysis.method_analysis import Objective

FRAME = pd.DataFrame(
    {
        "trial_index": [0, 1, 2],
        "control_set": ["a", "a+b", "a"],
        "initial": [True, False, False],
        "status": ["COMPLETED", "COMPLETED", "RUNNING"],
        "charged": [0.0, 3.0, 1.0],
        "cumulative_cost": [0.0, 3.0, 4.0],
        "query_value": [1.0, 2.0, math.nan],
        "query_sd": [0.1, 0.2, math.nan],
        "recommended_control_set": ["a+b", "a+b", "a+b"],
        "recommendation_value": [1.5, 2.5, 2.5],
        "recommendation_sd": [0.5, 0.25, 0.25],
    }
)


def _figure(frame: pd.DataFrame = FRAME, budget: float | None = 10.0) -> go.Figure:
    objective = Objective("growth", minimize=True)
    return cost_and_value_figure(frame, objective, ["b", "a", "a+b"], budget)


def _traces(figure: go.Figure, name: str) -> list[go.Scatter | go.Bar]:
    named = [trace for trace in figure.data if trace.name == name]
    return [trace for trace in named if tuple(trace.x) != (None,)]  # one is for the legend


def test_recommendation_with_its_band() -> None:
    figure = _figure()
    (line,) = _traces(figure, "recommendation")
    assert (list(line.x), list(line.y)) == ([0.0, 3.0, 4.0], [1.5, 2.5, 2.5])
    upper, lower = _traces(figure, "± 2 standard deviations")
    assert (list(upper.y), list(lower.y)) == ([2.5, 3.0, 3.0], [0.5, 2.0, 2.0])
    (star,) = _traces(figure, "current recommendation")
    assert (list(star.x), list(star.y)) == ([4.0], [2.5])


def test_bars_span_what_was_charged() -> None:
    figure = _figure()
    dots, bars = _traces(figure, "a")
    assert list(dots.marker.symbol) == ["circle-open", "circle"]
    assert (list(bars.base), list(bars.x)) == ([0.0, 3.0], [0.0, 1.0])
    assert (list(bars.y), bars.xaxis, dots.xaxis) == (["a", "a"], "x2", "x")
    assert "%{x" not in bars.hovertemplate  # where the bar ends, to plotly
    assert not _traces(figure, "b")
    assert list(figure.layout.yaxis2.categoryarray) == ["a+b", "a"]


def test_a_budget_far_away_is_named() -> None:
    figure = _figure(budget=1000.0)
    assert not figure.layout.shapes
    assert figure.layout.xaxis2.title.text.endswith("The budget, 1000, is beyond the axis")

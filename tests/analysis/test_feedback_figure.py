"""The figure from a hand-made frame: what is drawn where."""

from __future__ import annotations

import math

import pandas as pd
import pytest
from plotly import graph_objects as go

from ax_costaware.analysis.feedback import feedback_figure
from ax_costaware.analysis.method_analysis import Objective

NAN = math.nan
FRAME = pd.DataFrame(
    {
        "trial_index": [0, 1, 2, 3, 4],
        "time": [0.0, 1.0, 2.0, 3.0, 4.0],
        "initial": [True, False, False, False, False],
        "status": ["COMPLETED", "COMPLETED", "COMPLETED", "COMPLETED", "RUNNING"],
        "skipped": [False, False, True, False, False],
        "outcome": [0.2, 0.9, NAN, 0.8, NAN],
        "mean": [NAN, 0.5, 0.7, 0.75, 0.6],
        "standard_deviation": [NAN, 0.2, 0.1, 0.15, 0.25],
        "charged": [1.0, 1.0, 0.0, 1.0, 1.0],
        "why": ["Quasi-random."] + ["It has the largest upper confidence bound. " * 3] * 4,
    }
)
GROWTH = Objective("growth", minimize=False)


def _trace(figure: go.Figure, name: str) -> go.Scatter:
    (trace,) = [t for t in figure.data if t.name == name and t.showlegend is not False]
    return trace


def test_what_was_expected_before_each_trial() -> None:
    figure = feedback_figure(FRAME, GROWTH, None)
    expected = _trace(figure, "expected at the point in use")
    assert (list(expected.x), list(expected.y)) == ([1, 2, 3, 4], [0.5, 0.7, 0.75, 0.6])
    upper, lower = (t for t in figure.data if t.name == "± 2 standard deviations")
    assert list(upper.y) == pytest.approx([0.9, 0.9, 1.05, 1.1])
    assert list(lower.y) == pytest.approx([0.1, 0.5, 0.45, 0.1])
    assert lower.fill == "tonexty"
    assert figure.layout.yaxis.title.text == "growth (higher is better)"
    assert figure.layout.xaxis2.title.text == "Trial"


def test_measured_and_skipped_trials_are_told_apart() -> None:
    figure = feedback_figure(FRAME, GROWTH, None)
    measured = _trace(figure, "measured (hollow: initial)")
    assert (list(measured.x), list(measured.y)) == ([0, 1, 3], [0.2, 0.9, 0.8])
    assert list(measured.marker.symbol) == ["circle-open", "circle", "circle"]
    skipped = _trace(figure, "not measured")
    assert (list(skipped.x), list(skipped.y)) == ([2], [0.7])
    assert skipped.customdata[0][1].count("<br>") == 1


def test_in_the_order_of_time_whatever_the_unit() -> None:
    shuffled = FRAME.assign(time=[0.0, 30.0, 10.0, 20.0, 40.0])
    figure = feedback_figure(shuffled, Objective("growth", minimize=True), "hours")
    assert list(_trace(figure, "expected at the point in use").x) == [10, 20, 30, 40]
    assert list(_trace(figure, "measurements").y) == [1, 1, 2, 3, 3]
    assert figure.layout.xaxis2.title.text == "hours"
    assert figure.layout.yaxis.title.text == "growth (lower is better)"

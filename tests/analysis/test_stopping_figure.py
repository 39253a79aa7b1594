"""The figure from a hand-made frame: what is drawn where."""

from __future__ import annotations

import math

import pandas as pd
import pytest
from plotly import graph_objects as go

from ax_costaware.analysis.method_analysis import Objective
from ax_costaware.analysis.stopping import stopping_figure
from ax_costaware.methods.cost_aware import CostAware

NAN = math.nan
FRAME = pd.DataFrame(
    {
        "trial_index": [0, 1, 2, 3],
        "initial": [True, False, False, False],
        "status": ["COMPLETED", "COMPLETED", "COMPLETED", "NEXT"],
        "charged": [1.0, 2.0, 4.0, 0.0],
        "reported_cost": [1.0, 2.0, 4.0, NAN],
        "cumulative_cost": [1.0, 3.0, 7.0, 7.0],
        "outcome": [0.5, 0.9, 0.8, NAN],
        "best_outcome": [0.5, 0.9, 0.9, 0.9],
        "index": [NAN, 1.2, 1.0, 0.85],
        "incumbent": [NAN, 0.5, 0.9, 0.9],
        "lambda": [NAN, 0.1, 0.1, 0.1],
        "expected_cost": [NAN, 2.0, 2.0, NAN],
        "cost_median": [NAN, 2.5, 1.5, NAN],
        "cost_lower": [NAN, 1.0, 1.0, NAN],
        "cost_upper": [NAN, 4.0, 3.0, NAN],
    }
)
KNOWN = FRAME.assign(cost_lower=NAN, cost_upper=NAN)
LEARNED = CostAware(cost="hours", budget=10.0)


def _figure(
    frame: pd.DataFrame = FRAME,
    minimize: bool = False,
    method: CostAware = LEARNED,
    stop: bool = True,
) -> go.Figure:
    return stopping_figure(frame, Objective("growth", minimize), method, stop)


def _trace(figure: go.Figure, name: str) -> go.Scatter:
    (trace,) = [trace for trace in figure.data if trace.name == name]
    return trace


def _texts(figure: go.Figure) -> list[str]:
    return [annotation.text for annotation in figure.layout.annotations]


def test_index_beside_incumbent_before_each_decision() -> None:
    figure = _figure()
    index, incumbent = _trace(figure, "largest Gittins index"), _trace(figure, "incumbent")
    assert (list(index.x), list(index.y)) == ([1, 2, 3], [1.2, 1.0, 0.85])
    assert list(incumbent.y) == [0.5, 0.9, 0.9]
    now = _trace(figure, "now: stop")
    assert (list(now.x), list(now.y)) == ([3], [0.85])
    assert _trace(_figure(stop=False), "now: go on")
    assert figure.layout.yaxis.title.text == "growth (higher is better)"


@pytest.mark.parametrize(("minimize", "outlier"), [(False, -100.0), (True, 100.0)])
def test_an_outlier_does_not_press_the_others_together(minimize: bool, outlier: float) -> None:
    frame = FRAME.assign(outcome=[outlier, 0.9, 0.8, NAN])
    figure = _figure(frame, minimize)
    low, high = figure.layout.yaxis2.range
    assert low < 0.8 < 0.9 < high
    assert high - low < 1
    assert figure.layout.xaxis2.title.text == "Cost spent (hours)<br>(1 outcome beyond the axis)"


def test_calibration_tells_inside_from_outside() -> None:
    figure = _figure()
    inside = _trace(figure, "predicted cost, reported inside")
    outside = _trace(figure, "predicted cost, reported outside")
    assert (list(inside.x), list(inside.y)) == ([2.0], [2.5])
    assert inside.y[0] - inside.error_y.arrayminus[0] == pytest.approx(1.0)
    assert inside.y[0] + inside.error_y.array[0] == pytest.approx(4.0)
    assert list(outside.x) == [4.0]
    assert (figure.layout.xaxis3.type, figure.layout.yaxis3.type) == ("log", "log")
    assert "Learned cost: 1 of 2<br>within the predicted 95 %" in _texts(figure)

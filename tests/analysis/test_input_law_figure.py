"""The figure from hand-made panels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ax_costaware.analysis.input_law import InputPanel, input_law_figure
from ax_costaware.laws.input_fit import InputFit

PANEL = InputPanel(
    fit=InputFit(
        "storeys",
        n=4,
        statistic=9.0,
        p_value=0.0,
        test="chi-square",
        realised_mean=3.0,
        realised_std=2.7,
        assumed_mean=1.75,
        assumed_std=0.83,
    ),
    agrees=False,
    trial_indices=[0, 2, 3, 5],
    values=[1, 2, 2, 7],
    label="assumed",
    x=[1, 2, 3],
    heights=[0.5, 0.25, 0.25],
    is_shares=True,
    band=(1.0, 3.0),
)


def test_values_that_the_law_lacks_have_a_bar() -> None:
    figure = input_law_figure([PANEL])
    assumed, realised, course = figure.data
    assert list(assumed.x) == list(realised.x) == ["1", "2", "3", "7"]
    assert list(assumed.y) == [0.5, 0.25, 0.25, 0.0]
    assert list(realised.y) == [0.25, 0.5, 0.0, 0.25]
    assert (realised.marker.color, course.marker.color) == ("#D55E00", "#D55E00")
    low, high = figure.layout.yaxis2.range
    assert low < 1
    assert high > 7
    assert figure.layout.xaxis2.dtick == 1


def test_a_long_name_is_shortened() -> None:
    fit = replace(PANEL.fit, name="the temperature of the first furnace in hall B by night")
    layout = input_law_figure([replace(PANEL, fit=fit)]).layout
    short = "the tempe…by night"
    assert layout.annotations[0].text == f"{short}: NOT as assumed (p = 0)"
    assert (layout.xaxis.title.text, layout.xaxis2.title.text) == (short, f"{short} by trial")


def test_every_entry_of_the_legend_comes_once() -> None:
    law: dict[str, Any] = {"x": ["a", "b"], "heights": [0.5, 0.5], "band": None}
    other = replace(PANEL, values=["a", "b", "b", "a"], agrees=True, **law)
    figure = input_law_figure([PANEL, other])
    shown = [trace.name for trace in figure.data if trace.showlegend]
    assert sorted(shown) == ["assumed", "realised", "realised, not as assumed"]
    assert list(figure.data[-1].y) == ["a", "b", "b", "a"]
    assert figure.layout.yaxis4.type == "category"
    named = replace(other, values=["a", "the name of a value that is long"])
    layout = input_law_figure([named]).layout
    assert list(layout.xaxis.ticktext) == ["a", "b", "the na…s long"]
    assert list(layout.yaxis2.ticktext) == ["a", "the nam…is long"]
    assert len(figure.layout.shapes) == 1


@pytest.mark.parametrize("rows", [1, 2, 12])
def test_any_number_of_inputs_fits(rows: int) -> None:
    figure = input_law_figure([PANEL] * rows)
    assert len(figure.layout.annotations) == rows
    assert figure.layout.height == 135 + 190 * rows

"""The cards of what was spent and decided: their frames, texts and figures."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from ax.analysis.markdown.markdown_analysis import MarkdownAnalysisCard
from ax.api.client import Client
from ax.api.configs import RangeParameterConfig

from ax_costaware import AffineCost, fidelity_strategy
from ax_costaware.analysis import DecisionAnalysis, SpendingAnalysis
from ax_costaware.analysis.figures import hover, short_names
from ax_costaware.analysis.spending import spending_figure
from ax_costaware.ax_bridge.records import RECORD
from ax_costaware.session import query, spending

NAN = float("nan")
FRAME = pd.DataFrame(
    {
        "trial_index": [0, 1, 2, 3, 4],
        "spent_on": ["a", "b", "a", "b", "a"],
        "charged": [1.0, 5.0, 1.0, 0.0, 1.0],
        "lost": [0.0, 2.0, 0.0, 0.0, 0.0],
        "expected_cost": [1.0, 4.0, 1.0, 3.0, 1.0],
        "reported_cost": [NAN, 3.0, NAN, NAN, NAN],
        "status": ["COMPLETED", "COMPLETED", "FAILED", "ABANDONED", "RUNNING"],
        "initial": [True, False, False, False, False],
        "skipped": [False] * 5,
        "cumulative_cost": [1.0, 6.0, 7.0, 7.0, 8.0],
    }
)


def traces(figure: Any) -> dict[str, Any]:
    """The first trace of each name; after that of a group there is one for the legend."""
    return {trace.name: trace for trace in reversed(figure.data)}


def test_figure() -> None:
    figure = spending_figure(FRAME, ["b", "a"], budget=10.0, cost_metric="hours")
    found = traces(figure)
    assert set(found) == {
        *("spent", "a", "b", "failed attempts", "not charged", "expected cost"),
        *("failed", "reserved", "initial (pale)"),
    }
    assert list(found["spent"].x) == [-0.5, -0.5, 0.5, 1.5, 2.5, 3.5, 4.5]
    assert list(found["spent"].y) == [0.0, 1.0, 6.0, 7.0, 7.0, 8.0, 8.0]
    assert list(found["b"].y) == [3.0, 0.0]
    assert list(found["failed attempts"].y) == [2.0]
    assert (list(found["expected cost"].x), list(found["expected cost"].y)) == ([1], [4.0])
    assert list(found["a"].marker.pattern.shape) == ["", "x", "."]
    assert list(found["not charged"].x) == [3]
    assert found["initial (pale)"].marker.color.startswith("rgba")  # a legend has no opacity
    assert figure.layout.yaxis.title.text == "Spent so far (hours)"
    assert figure.layout.yaxis.range[1] > 10.0
    assert [shape.y0 for shape in figure.layout.shapes] == [10.0]


def test_more_groups_than_colours() -> None:
    """Sixty control sets, of which the most expensive have a name and a colour each."""
    names = [f"set {i}" for i in range(60)]
    rows = pd.concat([FRAME.iloc[:1]] * 60, ignore_index=True).assign(
        trial_index=range(60), spent_on=names, charged=range(1, 61), initial=False
    )
    figure = spending_figure(rows, names, budget=None, cost_metric=None)
    bars = [trace for trace in figure.data if trace.type == "bar" and trace.x[0] is not None]
    assert [bar.name for bar in bars] == [*names[-11:], "49 others"]
    assert len({bar.marker.color for bar in bars}) == len(bars)
    assert sorted(x for bar in bars for x in bar.x) == list(range(60))


def test_spending(client: Client) -> None:
    (card,) = client.compute_analyses([SpendingAnalysis()], display=False)
    paid = spending(client)
    pd.testing.assert_frame_equal(card.df[list(paid.to_frame())], paid.to_frame())
    assert list(card.df["spent_on"]) == ["water", "water+acid", "water", "water", "water+acid"]
    assert card.df["cumulative_cost"].iloc[-1] == paid.spent == 9.0
    assert card.subtitle.startswith(
        "Spent 9 of 20 (3 of it reserved for unfinished trials), 11 remaining. By purpose: "
        "6 in 2 trials (water+acid); 3 in 3 trials (water). Above, "
    )


def test_a_trial_that_came_less_far_was_not_spent_at_the_target() -> None:
    client = Client()
    inputs = [
        RangeParameterConfig("x", bounds=(0, 1), parameter_type="float"),
        RangeParameterConfig("epochs", bounds=(1, 50), parameter_type="int", scaling="log"),
    ]
    client.configure_experiment(parameters=inputs)
    client.configure_optimization(objective="score")
    cost = AffineCost({"epochs": 0.1}, fixed=0.5)
    client.set_generation_strategy(fidelity_strategy(cost, target={"epochs": 50}))
    for status in ("completed", "running"):
        index = client.attach_trial({"x": 0.3, "epochs": 50})
        client.attach_data(index, {"score": 0.2}, progression=7)
        if status == "completed":
            client.complete_trial(index)
    (card,) = client.compute_analyses([SpendingAnalysis()], display=False)
    assert list(card.df["spent_on"]) == ["at other fidelities", "at the target"]
    assert list(card.df["charged"]) == pytest.approx([1.2, 5.5])


def test_decisions(client: Client) -> None:
    trial = client._experiment.trials[4].mark_failed()
    attempt = {"attempt": 1, "state": "failed", "error": "ValueError: <no water>"}
    trial.update_run_metadata({RECORD: {"attempts": [attempt]}})
    (card,) = client.compute_analyses([DecisionAnalysis()], display=False)
    assert isinstance(card, MarkdownAnalysisCard)
    assert list(card.df["trial_index"]) == [0, 1, 2, 3, 4]
    assert list(card.df["set"])[:2] == ["water = 5", "water = 60, acid = 0.4"]
    assert list(card.df["why"]) == [query(client, i).why for i in range(5)]
    assert list(card.df["error"]) == ["", "", "", "", "ValueError: <no water>"]
    assert list(card.df["outcome"].notna()) == [True, False, True, True, False]
    assert "failed: ValueError: &lt;no water&gt;" in card.get_markdown()
    assert f"The last decision, on trial 4: {query(client, 4).why}" in card.subtitle


def test_short_names_stay_apart() -> None:
    long = "only the temperature of the first furnace in hall {} (by night)"
    names = [long.format("A"), long.format("B") + " ", "everything"]
    names[1] = names[0].replace("first", "third")
    short = short_names(names)
    assert len(set(short.values())) == 3
    assert short["everything"] == "everything"
    assert all(len(name) <= 38 for name in short.values())


def test_texts_over_points() -> None:
    text = "{trial_index}: {metric} {y:.3g} {charged:.4g}<br>{trial_index}"
    options = hover(text, FRAME, metric="{growth}")
    assert options["hovertemplate"] == (
        "%{customdata[0]}: {growth} %{y:.3g} %{customdata[1]:.4g}<br>%{customdata[0]}"
        "<extra></extra>"
    )
    assert list(options["customdata"]) == ["trial_index", "charged"]
    assert list(hover("now: stop", FRAME)) == ["hovertemplate"]
    # As null, plotly would write what is missing as zero.
    told = hover("{status} {reported_cost:.6g}", FRAME)["customdata"]
    assert told.values.tolist()[:2] == [["COMPLETED", "NaN"], ["COMPLETED", 3.0]]

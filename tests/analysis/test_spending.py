"""The cards of what was spent and decided: their frames, texts and figures."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from ax.analysis.markdown.markdown_analysis import MarkdownAnalysisCard
from ax.analysis.plotly.plotly_analysis import PlotlyAnalysisCard
from ax.api.client import Client
from ax.api.configs import RangeParameterConfig

from ax_costaware import AffineCost, fidelity_strategy
from ax_costaware.analysis import DecisionAnalysis, RecommendationAnalysis, SpendingAnalysis
from ax_costaware.analysis.figures import hover, log_ticks, short_names, value_title
from ax_costaware.analysis.method_analysis import Objective
from ax_costaware.analysis.spending import spending_figure
from ax_costaware.analysis.tables import html_table
from ax_costaware.ax_bridge.records import RECORD
from ax_costaware.session import query, recommend, report_cost, spending

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


def test_figure_without_a_budget_or_a_charge() -> None:
    rows = FRAME.iloc[3:4].assign(cumulative_cost=0.0)
    figure = spending_figure(rows, ["b"], budget=None, cost_metric=None)
    assert set(traces(figure)) == {"spent", "b", "not charged"}
    assert figure.layout.yaxis.range is None
    assert not figure.layout.shapes


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
    assert isinstance(card, PlotlyAnalysisCard)
    paid = spending(client)
    pd.testing.assert_frame_equal(card.df[list(paid.to_frame())], paid.to_frame())
    assert list(card.df["spent_on"]) == ["water", "water+acid", "water", "water", "water+acid"]
    assert card.df["cumulative_cost"].iloc[-1] == paid.spent == 9.0
    assert card.subtitle.startswith(
        "Spent 9 of 20 (3 of it reserved for unfinished trials), 11 remaining. By purpose: "
        "6 in 2 trials (water+acid); 3 in 3 trials (water). Above, "
    )


def test_a_cost_that_differs_by_rounding_is_no_other_one(client: Client) -> None:
    dash = "A dash is the expected cost"
    report_cost(client, 0, 1.0 + 1e-8)
    (card,) = client.compute_analyses([SpendingAnalysis()], display=False)
    assert dash not in card.subtitle
    report_cost(client, 0, 1.1)
    (card,) = client.compute_analyses([SpendingAnalysis()], display=False)
    assert dash in card.subtitle


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


def test_recommendation(client: Client) -> None:
    (card,) = client.compute_analyses([RecommendationAnalysis()], display=False)
    best = recommend(client)
    first = card.df.iloc[0]
    assert first["control_set"] == best.control_set
    assert first["expected_value"] == best.expected_value
    assert len(card.df) == 1 + len(best.alternatives)
    assert "greatest expected growth" in card.subtitle
    again = RecommendationAnalysis().compute(client._experiment, client._generation_strategy)
    pd.testing.assert_frame_equal(card.df, again.df)


def test_table_escapes_and_stays_one_block() -> None:
    table = html_table(pd.DataFrame({"<a>": ["x\n\n<script>", "y" * 100]}))
    assert "&lt;a&gt;" in table
    assert "x &lt;script&gt;" in table
    assert "\n\n" not in table
    assert "overflow-wrap:anywhere;min-width:22em" in table


def test_short_names_stay_apart() -> None:
    long = "only the temperature of the first furnace in hall {} (by night)"
    names = [long.format("A"), long.format("B") + " ", "everything"]
    names[1] = names[0].replace("first", "third")
    short = short_names(names)
    assert len(set(short.values())) == 3
    assert short["everything"] == "everything"
    assert all(len(name) <= 38 for name in short.values())


def test_value_title() -> None:
    assert value_title(Objective("growth", minimize=False)) == "growth (higher is better)"
    long = value_title(Objective("days_to_the_second_germination", minimize=True), "Expected ")
    assert long == "Expected days_to_t…rmination<br>(lower is better)"


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (0.4, 6.0, ["0.1", "0.2", "0.5", "1", "2", "5", "10", "20", "50"]),
        (1e-6, 1e2, ["1e-06", "1e-05", "0.0001", "0.001", "0.01", "0.1", "1", "10", "100"]),
    ],
)
def test_log_ticks(low: float, high: float, text: list[str]) -> None:
    assert log_ticks(low, high)["ticktext"] == text


def test_a_short_log_axis_has_numbers_too() -> None:
    assert log_ticks(24.4, 37.2) == {"type": "log"}


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


def test_all_of_it_at_any_scale() -> None:
    for scale in (1e-6, 1e6):
        rows = FRAME.assign(**{c: FRAME[c] * scale for c in ("charged", "lost", "cumulative_cost")})
        figure = spending_figure(rows, ["a", "b"], budget=10 * scale, cost_metric=None)
        assert figure.layout.yaxis.exponentformat == "power"
        assert figure.layout.yaxis.range[1] == pytest.approx(11.2 * scale)

"""The card of ``IndirectQueryAnalysis``: its frame, its figure, and when it can be computed."""

from __future__ import annotations

import base64
import math
from typing import Any

import numpy as np
import pytest
from ax.analysis.plotly.plotly_analysis import PlotlyAnalysisCard
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig

from ax_costaware import (
    FiniteConditional,
    GaussianConditional,
    complete_trial,
    indirect_query_strategy,
    recommend,
)
from ax_costaware.analysis import IndirectQueryAnalysis
from tests.ax import tree_toy
from tests.ax.indirect_toy import FAST, make_client, record, run_trials

pytestmark = pytest.mark.usefixtures("short_searches")


def card_of(client: Client) -> PlotlyAnalysisCard:
    """The card, by way of the client."""
    (card,) = client.compute_analyses([IndirectQueryAnalysis()])
    assert isinstance(card, PlotlyAnalysisCard)
    return card


def values(data: Any) -> Any:
    """An array of a figure that has been stored, in which Plotly encodes arrays."""
    if not isinstance(data, dict):
        return np.array(data)
    found = np.frombuffer(base64.b64decode(data["bdata"]), dtype=data["dtype"])
    shape = data.get("shape")
    return found if shape is None else found.reshape([int(n) for n in shape.split(",")])


def traces(card: PlotlyAnalysisCard) -> dict[str, Any]:
    """The traces of the figure by name."""
    return {trace.name: trace for trace in card.get_figure().data}


def test_two_parameters() -> None:
    client = make_client(budget=20.0)
    run_trials(client, 5)
    client.mark_trial_failed(next(iter(client.get_next_trials(max_trials=1))))
    card, best = card_of(client), recommend(client)
    frame = card.df
    assert list(frame["trial_index"]) == list(range(7))
    assert list(frame["status"]) == 5 * ["COMPLETED"] + ["FAILED", "NEXT"]
    assert list(frame["initial"]) == 3 * [True] + 4 * [False]
    assert list(frame["cumulative_cost"]) == [1, 2, 3, 4, 5, 6, 6]
    for row in frame.iloc[3:6].itertuples():
        decision = record(client, row.trial_index)["decision"]
        assert row.mean == decision["mean"]
        assert row.information == decision["information"]
        assert row.recommended_value == decision["recommendation"]["mean"]
        assert row.recommended_x1 == decision["recommendation"]["parameters"]["x1"]
    last = frame.iloc[-1]
    assert last["recommended_value"] == best.expected_value
    assert last["recommended_standard_deviation"] == best.standard_deviation
    assert {n: last[f"recommended_{n}"] for n in ("x1", "x2")} == best.parameters
    assert "Spent 6 of 20." in card.subtitle
    drawn = traces(card)
    heat = drawn["posterior mean"]
    assert values(heat.z).shape == (61, 61)
    # With a format of its own plotly would write the number of a choice, and not its name.
    assert "x1 %{x}, x2 %{y}<br>" in heat.hovertemplate
    assert values(heat.z).max() == pytest.approx(best.expected_value, abs=0.01)
    # A query is where its points are on average, with their standard deviation.
    arm = client._experiment.trials[0].arms[0].parameters
    assert values(drawn["queries"].x)[0] == pytest.approx(10 * float(str(arm["a1"])))
    assert values(drawn["queries"].error_x.array)[0] == pytest.approx(0.5)
    assert len(values(drawn["queries"].x)) == 5
    (star,) = drawn["recommended now"].x
    assert star == best.parameters["x1"]
    assert drawn["recommended now"].cliponaxis is False  # a star at the border is seen whole


def test_what_was_expected_of_another_objective_is_not_drawn() -> None:
    client = make_client()
    run_trials(client, 4)
    frame = card_of(client).df
    assert list(frame["mean"].notna()) == [False] * 3 + [True, False]
    client.configure_optimization(objective="-z")
    frame = card_of(client).df
    assert frame[["mean", "information"]].isna().all(axis=None)
    assert list(frame["recommended_value"].notna()) == [False] * 4 + [True]


def test_cells() -> None:
    client = tree_toy.make_client(minimize=True)
    tree_toy.run_trials(client, 6, sign=-1.0)
    card = card_of(client)
    lines = [trace for trace in card.get_figure().data if trace.type == "scatter"]
    boxes = next(trace for trace in lines if trace.mode == "lines" and None in list(trace.x))
    assert list(boxes.x[:5]) == [0, 10, 10, 0, 0]
    assert list(boxes.y[:5]) == [-5, -5, 5, 5, -5]
    assert len(boxes.x) == 6 * 6
    assert "measured cell is drawn in its extent." in card.subtitle
    assert values(traces(card)["posterior mean"].z).min() == pytest.approx(
        recommend(client).expected_value, abs=0.01
    )


def one_parameter(target: Any, conditional: Any, query: Any) -> Client:
    """An experiment with one parameter on either side."""
    client = Client()
    client.configure_experiment(parameters=[query])
    client.configure_optimization(objective="z")
    client.set_generation_strategy(indirect_query_strategy([target], conditional, **FAST))
    for step in range(4):
        ((index, _),) = client.get_next_trials(max_trials=1).items()
        complete_trial(client, index, {"z": math.sin(step)})
    return client


def test_one_parameter() -> None:
    client = one_parameter(
        RangeParameterConfig("x", (1, 100), "float", scaling="log"),
        GaussianConditional(((1.0,),), covariance=0.1),
        RangeParameterConfig("a", (3, 90), "float"),
    )
    card = card_of(client)
    line = traces(card)["posterior ± 2 standard deviations"]
    assert len(values(line.x)) == 201
    assert list(values(line.x)[[0, -1]]) == pytest.approx([1, 100])
    assert card.get_figure().layout.xaxis.type == "log"
    queries = traces(card)["queries and their answers"]
    assert list(values(queries.y)) == [math.sin(step) for step in range(4)]
    assert max(values(line.y)) == pytest.approx(recommend(client).expected_value, abs=0.01)


def test_one_choice() -> None:
    client = one_parameter(
        ChoiceParameterConfig("drug", ["a", "b"], "str"),
        FiniteConditional(((0.7, 0.3), (0.2, 0.8)), queries=("north", "south")),
        ChoiceParameterConfig("provider", ["north", "south"], "str", is_ordered=False),
    )
    card = card_of(client)
    points = traces(card)["posterior ± 2 standard deviations"]
    assert len(values(points.y)) == 2
    assert list(card.get_figure().layout.xaxis.ticktext) == ["a", "b"]
    assert list(card.df["recommended_drug"])[-1] == recommend(client).parameters["drug"]

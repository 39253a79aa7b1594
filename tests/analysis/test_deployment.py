"""Value against the cost of what is deployed."""

from __future__ import annotations

import pytest
from ax.analysis.plotly.plotly_analysis import PlotlyAnalysisCard
from ax.exceptions.core import UserInputError

from ax_costaware import recommend
from ax_costaware.analysis import DeploymentAnalysis
from ax_costaware.analysis.deployment import deployment_figure
from ax_costaware.analysis.method_analysis import Objective
from tests.ax import feedback_toy, gittins_toy, toy


@pytest.mark.parametrize("method", [toy, gittins_toy])
def test_what_is_worth_its_cost_is_what_is_recommended_within_it(method) -> None:  # type: ignore[no-untyped-def]
    client = method.make_client(initial_trials=3, budget=30.0)
    method.run_trials(client, 5)
    (card,) = client.compute_analyses([DeploymentAnalysis()], display=False)
    assert isinstance(card, PlotlyAnalysisCard)
    frame = card.df
    assert frame["expected_cost"].is_monotonic_increasing
    assert frame["worth_it"].any()
    for row in frame[frame["worth_it"]].itertuples():
        best = recommend(client, max_cost=row.expected_cost)
        assert best.expected_value == pytest.approx(row.expected_value, rel=1e-6)
        assert best.expected_cost == pytest.approx(row.expected_cost, rel=1e-9)
    figure = deployment_figure(frame, Objective("y", minimize=False))
    line = figure.data[-1]
    assert list(line.y) == frame[frame["worth_it"]]["expected_value"].tolist()
    assert sum(len(trace.x) for trace in figure.data[:-1]) == len(frame)


def test_where_the_best_is_the_cheapest_there_is_no_line_to_speak_of() -> None:
    client = gittins_toy.make_client(cost=2.0, initial_trials=2, budget=30.0)
    gittins_toy.run_trials(client, 3)
    (card,) = client.compute_analyses([DeploymentAnalysis()], display=False)
    assert list(card.df["worth_it"]) == [True, False, False]
    best = card.df["expected_value"].max()
    start = f"What is expected to be best, y = {best:.6g}, costs 2, and nothing costs less. Bars"
    assert card.subtitle.startswith(start)


def test_what_has_no_cost_of_its_own_has_no_such_card() -> None:
    client = feedback_toy.make_client(initial_trials=2, budget=30.0)
    feedback_toy.run_trials(client, 3)
    with pytest.raises(UserInputError, match="What is deployed has no cost of its own"):
        DeploymentAnalysis().compute(client._experiment, client._generation_strategy)

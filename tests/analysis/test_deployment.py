"""Expected value against the cost of a deployment."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig

from ax_costaware import AffineCost, attach_table, fidelity_strategy, recommend
from ax_costaware.analysis import DeploymentAnalysis, RecommendationAnalysis
from ax_costaware.analysis.deployment import deployment_figure
from ax_costaware.analysis.method_analysis import Objective
from tests.ax import gittins_toy, toy


@pytest.mark.parametrize("method", [toy, gittins_toy])
def test_what_is_worth_its_cost_is_what_is_recommended_within_it(method) -> None:  # type: ignore[no-untyped-def]
    client = method.make_client(initial_trials=3, budget=30.0)
    method.run_trials(client, 5)
    (card,) = client.compute_analyses([DeploymentAnalysis()], display=False)
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


def test_what_is_recommended_comes_before_what_is_expected_to_be_better_but_less_known() -> None:
    client = Client()
    client.configure_experiment(
        parameters=[
            RangeParameterConfig("x", (0, 1), "float"),
            RangeParameterConfig("epochs", (1, 50), "int", scaling="log"),
            ChoiceParameterConfig("data", ["half", "all"], "str", is_ordered=False),
        ]
    )
    client.configure_optimization(objective="score")
    cost, target = AffineCost({"epochs": 0.1}, fixed=0.5), {"epochs": 50, "data": "all"}
    options: dict[str, Any] = {
        "budget": 30.0,
        "num_restarts": 2,
        "raw_samples": 32,
        "initial_trials": 3,
    }
    client.set_generation_strategy(fidelity_strategy(cost, target=target, **options))
    runs = [(0.1, 50), (0.5, 50), (0.6, 10), (0.0, 20), (0.1, 30)]
    table = [
        {
            "x": x,
            "epochs": epochs,
            "data": "all",
            "score": -((x - 0.3) ** 2) - 0.4 * (1 - epochs / 50) * (1 + x),
        }
        for x, epochs in runs
    ]
    attach_table(client, pd.DataFrame(table))
    analyses = [DeploymentAnalysis(), RecommendationAnalysis()]
    deployed, recommended = client.compute_analyses(analyses, display=False)
    values = recommended.df["expected_value"]
    assert values[0] < values.max()
    assert "the greatest expected score less 0.5 standard deviations" in recommended.subtitle
    assert deployed.df.loc[deployed.df["worth_it"], "expected_value"].tolist() == [values[0]]
    assert deployed.subtitle.startswith(f"The recommendation, score = {values[0]:.6g}, costs 5.5")

"""Whole runs of ``fidelity_strategy`` on Ax's Client: asked and told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from ax.exceptions.core import (
    DataRequiredError,
    OptimizationShouldStop,
    UnsupportedError,
    UserInputError,
)

from ax_costaware import (
    AffineCost,
    attach_table,
    complete_trial,
    fidelity_strategy,
    query,
    recommend,
    set_budget,
    should_stop,
    spending,
)
from ax_costaware.analysis import overview

pytestmark = pytest.mark.usefixtures("short_searches")

COST = AffineCost({"epochs": 0.1}, fixed=0.5)
FAST: dict[str, Any] = {"num_restarts": 2, "raw_samples": 32, "initial_trials": 3}


def score(x: Any) -> float:
    """A hill, lower after fewer epochs, and lower on the smaller part of the data."""
    short = 1 - float(x["epochs"]) / 50
    small = 0.2 if x["data"] == "half" else 0.0
    return -((float(x["x"]) - 0.3) ** 2) - 0.4 * short * (1 + float(x["x"])) - small


def make_client(**strategy: Any) -> Client:
    client = Client()
    client.configure_experiment(
        name="toy",
        parameters=[
            RangeParameterConfig("x", bounds=(0, 1), parameter_type="float"),
            RangeParameterConfig("epochs", bounds=(1, 50), parameter_type="int", scaling="log"),
            ChoiceParameterConfig(
                "data", values=["half", "all"], parameter_type="str", is_ordered=False
            ),
        ],
    )
    client.configure_optimization(objective="score")
    settings = {"target": {"epochs": 50, "data": "all"}, "budget": 30.0, **FAST, **strategy}
    client.set_generation_strategy(fidelity_strategy(settings.pop("cost", COST), **settings))
    return client


def step(client: Client, cost: bool = False) -> int:
    ((index, arm),) = client.get_next_trials(max_trials=1).items()
    complete_trial(client, index, score(arm), cost=COST.at(arm) if cost else None)
    return index


def test_what_is_asked_of_a_run(tmp_path: Path) -> None:
    client = make_client()
    attach_table(client, pd.DataFrame([{"x": 0.8, "epochs": 50, "data": "all", "score": -0.25}]))
    for _ in range(5):
        index = step(client)
    found = query(client, index)
    assert found.expected_cost == pytest.approx(COST.at(found.controlled))
    assert "at epochs=50, data='all'" in found.why
    (candidate,) = found.candidates
    assert candidate.value == found.decision["improvement_per_cost"]
    best = recommend(client)
    for ranked in (best, *best.alternatives):
        assert ranked.parameters["epochs"] == 50
        assert ranked.parameters["data"] == "all"
    # A trial was run there for one of them, the attached.
    run = [r for r in (best, *best.alternatives) if r.trial_index == 0]
    assert [r.parameters["x"] for r in run] == [0.8]
    assert spending(client).spent < 30
    overview(client, str(tmp_path / "run.html"))
    # Several at once differ, and what is pending is counted.
    batch = client.get_next_trials(max_trials=2)
    first, *others = ((p["x"], p["epochs"], p["data"]) for p in batch.values())
    assert first not in others
    set_budget(client, spending(client).spent + 0.1)
    with pytest.raises(OptimizationShouldStop, match=r"Deploy x=.*epochs=50, data='all'"):
        client.get_next_trials(max_trials=1)


def test_costs_are_learned_and_a_price_stops(tmp_path: Path) -> None:
    client = make_client(cost="seconds", lmbda=100.0)
    client.configure_tracking_metrics(["seconds"])
    for _ in range(3):
        step(client, cost=True)
    with pytest.raises(OptimizationShouldStop, match="not above the price of 100"):
        client.get_next_trials(max_trials=1)
    client.attach_trial(client._experiment.trials[0].arm.parameters)
    with pytest.raises(DataRequiredError, match=r"price of 100.* Trials \[3\] are pending"):
        client.get_next_trials(max_trials=1)


def test_the_stop_of_another_method_says_nothing_here() -> None:
    """The best outcome need not be at the target."""
    client = make_client()
    step(client)
    with pytest.raises(UnsupportedError, match=r"are of several fidelities\. The rule is about"):
        should_stop(client, cost=1.0, lmbda=0.1)


def test_what_does_not_fit_is_refused_at_once() -> None:
    with pytest.raises(UserInputError, match="target="):
        make_client(target={})
    client = make_client(target={"rounds": 5})
    with pytest.raises(UserInputError, match="'rounds' is no parameter"):
        client.get_next_trials(max_trials=1)

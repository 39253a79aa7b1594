"""Outcome constraints through Ax's client: data, decisions, what to deploy, and stores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ax.api.client import Client
from ax.api.configs import RangeParameterConfig, StorageConfig
from ax.exceptions.core import OptimizationShouldStop, UserInputError

import ax_costaware as ac
from tests.ax.gittins_toy import COST, FAST, record
from tests.resuming import decide

pytestmark = pytest.mark.usefixtures("short_searches")


def outcomes(x: dict[str, Any]) -> dict[str, float]:
    """The sum of the inputs, and a waste that is small around (0.8, 0.3)."""
    x1, x2 = float(x["x1"]), float(x["x2"])
    return {"y": x1 + x2, "waste": (x1 - 0.8) ** 2 + (x2 - 0.3) ** 2}


def make_client(
    storage_config: StorageConfig | None = None,
    bounds: tuple[str, ...] = ("waste <= 0.1",),
    **more: Any,
) -> Client:
    client = Client(storage_config=storage_config)
    client.configure_experiment(
        name="toy",
        parameters=[RangeParameterConfig(name, (0, 1), "float") for name in ("x1", "x2")],
    )
    client.configure_optimization(objective="y", outcome_constraints=list(bounds))
    settings = {**FAST, "lmbda": 0.02, "budget": 40.0, "stop": False, **more}
    client.set_generation_strategy(ac.cost_aware_strategy(COST, **settings))
    return client


def run(client: Client, count: int) -> None:
    for _ in range(count):
        for index, arm in client.get_next_trials(max_trials=1).items():
            ac.complete_trial(client, index, outcomes(arm))


def test_bounds_that_come_change_and_go() -> None:
    """An experiment may be given others while it runs."""
    client = make_client(bounds=())
    client.configure_tracking_metrics(["waste"])
    run(client, 5)
    free = ac.recommend(client)
    chances = []
    for bound in ("waste <= 0.2", "waste <= 0.1"):
        client.configure_optimization(objective="y", outcome_constraints=[bound])
        ((index, _),) = client.get_next_trials(max_trials=1).items()
        assert "feasibility" in record(client, index)["decision"]
        client.mark_trial_abandoned(index)
        best = ac.recommend(client)
        assert outcomes(best.parameters)["waste"] < 0.2
        chances.append(best.feasibility or 0.0)
    assert chances[1] < chances[0]
    client.configure_optimization(objective="y")
    assert ac.recommend(client) == free
    ((index, _),) = client.get_next_trials(max_trials=1).items()
    assert "feasibility" not in record(client, index)["decision"]
    client.configure_optimization(objective="y", outcome_constraints=["smell <= 1"])
    # Nothing is known of it, so that the initial design goes on until something is.
    ((index, _),) = client.get_next_trials(max_trials=1).items()
    assert record(client, index)["phase"] == "initial"
    for index in (0, 1):
        client.attach_data(index, {"smell": 0.5})
    ((index, _),) = client.get_next_trials(max_trials=1).items()
    assert record(client, index)["phase"] == "rule"


def test_what_is_missing_is_named() -> None:
    """As for Ax, a trial without its bounded outcome does not end the initial design."""
    client = make_client()
    for _ in range(4):
        ((index, arm),) = client.get_next_trials(max_trials=1).items()
        ac.complete_trial(client, index, {"y": outcomes(arm)["y"]})
    with pytest.raises(UserInputError, match="or for a metric that has bounds") as error:
        ac.recommend(client)
    assert "no trial has a value of ['waste']" in str(error.value.__cause__)
    for x2 in (0.4, 0.9):
        arm = {"x1": 0.75, "x2": x2}
        ac.complete_trial(client, client.attach_trial(arm), outcomes(arm))
    ((index, _),) = client.get_next_trials(max_trials=1).items()
    assert record(client, index)["decision"]["feasibility"] > 0


def test_a_run_that_is_told_of_no_bounded_outcome_ends() -> None:
    """Each trial was made up for by another one, for ever."""
    client = make_client(budget=None, initial_trials=4)
    for _ in range(10):
        ((index, arm),) = client.get_next_trials(max_trials=1).items()
        ac.complete_trial(client, index, {"y": outcomes(arm)["y"]})
    message = r"None of the 10 completed trials .* \['waste', 'y'\]"
    with pytest.raises(OptimizationShouldStop, match=message):
        client.get_next_trials(max_trials=1)
    client.attach_data(3, {"waste": 0.2})
    assert client.get_next_trials(max_trials=1)


def test_failures_are_learned_and_stored(tmp_path: Path) -> None:
    """They count as one more constraint, of what is next and not of what was evaluated."""
    client = make_client(bounds=(), learn_failures=True)
    for x1 in (0.7, 0.9):
        for x2 in (0.2, 0.8):
            client.mark_trial_failed(client.attach_trial({"x1": x1, "x2": x2}))
            arm = {"x1": x1 - 0.6, "x2": x2}
            ac.complete_trial(client, client.attach_trial(arm), outcomes(arm)["y"])
    path = str(tmp_path / "failures.json")
    client.save_to_json_file(path)
    found = [decide(one)[1] for one in (client, Client.load_from_json_file(path))]
    assert found[0] == found[1]
    assert 0 < found[0]["record"]["decision"]["feasibility"] < 1
    assert ac.recommend(client).feasibility is None

"""Runners and metrics in Ax's stores, and runs that go on in another process."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from ax.api.client import Client
from ax.exceptions.core import UnsupportedError
from ax.exceptions.storage import JSONEncodeError

from ax_costaware import AffineCost, GaussianConditional, GaussianCopula, TruncatedNormal, Uniform
from ax_costaware.ax_bridge import claims
from ax_costaware.ax_bridge.records import with_one_arm
from ax_costaware.metrics import CostMetric, ReportedMetric
from ax_costaware.runners import (
    FunctionRunner,
    PolledRunner,
    SimulationRunner,
    TrialResult,
    register_trial_function,
)
from ax_costaware.runners.polled_runner import attempt_key
from ax_costaware.runners.result import RUNNING, AttemptState, AttemptStatus
from tests.runners.bench import Bench, database, make_client, orchestrate, record_of, statuses

NORMAL = TruncatedNormal(0.0, 1.0, -2.0, 2.0)
RUNNERS = [
    FunctionRunner("grow", timeout=1.5, retries=2, time_cost=True),
    Bench("grow", retries=3),
    SimulationRunner(
        "grow",
        marginals={"wind": Uniform(0.0, 1.0)},
        joint=GaussianCopula({"a": NORMAL, "b": NORMAL}, [[1.0, 0.5], [0.5, 1.0]]),
        noise_std=0.1,
        cost={"pot": 1.0, "field": AffineCost({"wind": 2.0}, 1.0), "hall": Uniform(1.0, 2.0)},
        seed=3,
    ),
    SimulationRunner("grow", conditional=GaussianConditional(((1.0,),)), targets=["a"], cost=2.0),
]


def reloaded(client: Client, store: str, path: Path) -> Client:
    if store == "sql":
        return Client.load_from_database("bench", storage_config=client._storage_config)
    client.save_to_json_file(str(path / "bench.json"))
    return Client.load_from_json_file(str(path / "bench.json"))


@pytest.mark.parametrize("store", ["json", "sql"])
def test_runners_and_metrics_are_stored(store: str, tmp_path: Path) -> None:
    config = database(tmp_path) if store == "sql" else None
    client = make_client(None, CostMetric("seconds"), storage_config=config)
    for runner in RUNNERS:
        client.configure_runner(runner)
        loaded = reloaded(client, store, tmp_path)
        assert loaded._experiment.runner == runner
        assert runner.clone() == runner
    assert type(loaded._experiment.metrics["growth"]) is ReportedMetric
    assert type(loaded._experiment.metrics["seconds"]) is CostMetric


@pytest.mark.parametrize("runner", [FunctionRunner, SimulationRunner])
def test_a_function_without_a_name_is_refused_when_it_is_saved(
    runner: type[PolledRunner], tmp_path: Path
) -> None:
    unnamed = runner(lambda parameters: 1.0)
    with pytest.raises(JSONEncodeError, match="its runner's function=<function"):
        make_client(unnamed).save_to_json_file(str(tmp_path / "bench.json"))
    with pytest.raises(JSONEncodeError, match="register_trial_function"):
        make_client(unnamed, storage_config=database(tmp_path))


@pytest.mark.parametrize("store", ["json", "sql"])
def test_a_run_goes_on_after_loading(store: str, tmp_path: Path) -> None:
    config = database(tmp_path) if store == "sql" else None
    url = "" if config is None else str(config.url)

    def grow(parameters: dict[str, Any]) -> TrialResult:
        return TrialResult(1 / 3, cost=1e-13)

    register_trial_function("grow", grow)
    client = make_client(FunctionRunner("grow"), CostMetric("seconds"), storage_config=config)
    orchestrate(client, trials=2, url=url)
    key = attempt_key(with_one_arm(client._experiment.trials[0]), 0)
    client = reloaded(client, store, tmp_path)
    assert attempt_key(with_one_arm(client._experiment.trials[0]), 0) == key
    orchestrate(client, trials=2, url=url)
    client = reloaded(client, store, tmp_path)
    assert statuses(client) == ["COMPLETED"] * 4
    for index in range(4):
        record = record_of(client, index)
        assert (record["outcomes"]["growth"], record["cost"]) == ([1 / 3, None], 1e-13)
    data = client._experiment.lookup_data().df
    assert sorted(data["metric_name"]) == ["growth"] * 4 + ["seconds"] * 4


class Killed(BaseException):
    """The end of the process, as far as a driver can tell."""


class Plant(Bench):
    """Fails the first attempt at its second poll; the driver is killed at the fourth."""

    polls = 0

    def poll(self, key: str) -> AttemptState:
        self.polls += 1
        if self.polls == 4:
            raise Killed
        if self.polls > 1 and key.endswith("/0"):
            return AttemptState(AttemptStatus.FAILED, error="spilt", cost=0.75, seconds=1.0)
        return RUNNING


def test_attempts_survive_a_driver_that_is_killed(tmp_path: Path) -> None:
    """A failed attempt is in the database, and so is the one that followed it."""
    config = database(tmp_path)
    url = str(config.url)
    client = make_client(Plant("grow", retries=1), storage_config=config)
    with pytest.raises(Killed):
        orchestrate(client, url=url)
    loaded = Client.load_from_database("bench", storage_config=config)
    record = record_of(loaded)
    assert [(a["state"], a["cost"]) for a in record["attempts"]] == [("failed", 0.75)]
    assert record["running"]["key"] == record_of(client)["running"]["key"]
    assert record["running"]["key"].endswith("/0/1")
    # Another process asks for the same attempt, of which it knows nothing; no other one is left.
    loaded._experiment.runner = Bench("grow", retries=1)
    orchestrate(loaded, trials=0, url=url)
    record = record_of(Client.load_from_database("bench", storage_config=config))
    assert [a["state"] for a in record["attempts"]] == ["failed", "lost"]


def test_a_second_driver_leaves_the_attempts_of_the_first_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To another process those of a ``FunctionRunner`` look lost."""
    config = database(tmp_path)
    url = str(config.url)
    with pytest.raises(Killed):
        orchestrate(make_client(Plant("grow", retries=1), storage_config=config), url=url)
    before = record_of(Client.load_from_database("bench", storage_config=config))
    loaded = Client.load_from_database("bench", storage_config=config)
    loaded._experiment.runner = Bench("grow", retries=1)
    first = os.getpid()
    monkeypatch.setattr(claims.os, "getpid", os.getppid)
    with pytest.raises(UnsupportedError, match=f"is run by process {first} on"):
        orchestrate(loaded, trials=0, url=url)
    assert record_of(Client.load_from_database("bench", storage_config=config)) == before

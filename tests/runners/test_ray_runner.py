"""Trials on a Ray cluster of two processors, which the tests start on the loopback interface."""

from __future__ import annotations

import os
import secrets
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ax.api.client import Client
from ax.api.configs import RangeParameterConfig, StorageConfig
from ax.core.trial import Trial
from ax.core.trial_status import TrialStatus
from ax.exceptions.core import UserInputError
from ax.storage.json_store.decoder import object_from_json
from ax.storage.json_store.encoder import object_to_json

from ax_costaware import cost_aware_strategy, query, spending
from ax_costaware.ax_bridge.records import outcome_record
from ax_costaware.metrics import CostMetric, ReportedMetric
from ax_costaware.runners.ray_runner import RayRunner
from ax_costaware.runners.registry import register_trial_function
from ax_costaware.runners.result import AttemptStatus, TrialFailedError, TrialResult
from tests.ax import toy
from tests.runners import ray_driver


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """The address of a cluster that ends with the tests of this module."""
    variables = pytest.MonkeyPatch()
    # Ray's switch for machines of one's own: nothing listens beyond the loopback interface.
    variables.setenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    # The drivers that are started here need what Ray else keeps in the home directory.
    variables.setenv("RAY_AUTH_MODE", "token")
    variables.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
    import ray

    # Not pytest's folder: the paths of the sockets in it would be too long.
    with tempfile.TemporaryDirectory(prefix="ray") as folder:
        context = ray.init(
            address="local",
            num_cpus=2,
            object_store_memory=80 * 2**20,
            include_dashboard=False,
            log_to_driver=False,
            logging_level="ERROR",
            _temp_dir=folder,
        )
        yield str(context.address_info["gcs_address"])
        ray.shutdown()
    variables.undo()


def until(condition: Callable[[], Any], seconds: float = 120.0) -> Any:
    """What ``condition`` returns once that is true."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.02)
    return value


def over(runner: RayRunner, key: str) -> Any:
    """The state of an attempt that is over."""
    return until(lambda: None if (s := runner.poll(key)).status is AttemptStatus.RUNNING else s)


def attached(function: Any, **options: Any) -> tuple[Client, RayRunner, Trial]:
    """A trial that was attached to an experiment with costs, not started yet, and its runner."""
    client = Client()
    client.configure_experiment([RangeParameterConfig("x", (0, 1), "float")], name="toy")
    client.configure_optimization("y")
    client.set_generation_strategy(cost_aware_strategy(cost=2.0))
    runner = RayRunner(function, namespace="tests", **options)
    client.configure_runner(runner)
    client.configure_metrics([ReportedMetric("y")])
    index = client.attach_trial({"x": 0.5})
    return client, runner, client._experiment.trials[index]


def final_status(runner: RayRunner, trial: Trial) -> TrialStatus:
    """What becomes of a running trial."""

    def status() -> TrialStatus | None:
        found = {s for s, trials in runner.poll_trial_status([trial]).items() if trials}
        return None if TrialStatus.RUNNING in found else found.pop()

    return until(status)


def height(x: dict[str, Any]) -> float:
    """A function of this module is sent along; one of a module that imports Ax would be slow."""
    return -sum((float(value) - 0.5) ** 2 for value in x.values())


def lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_outcomes_costs_and_realized_inputs_are_recorded(cluster: str) -> None:
    def function(parameters: dict[str, Any]) -> TrialResult:
        realized = {name: 0.25 for name in ("x1", "x2", "x3") if name not in parameters}
        outcome = height({**parameters, **realized})
        return TrialResult({"y": (outcome, 0.0)}, realized, cost=0.1 * len(parameters))

    client = toy.make_client()
    client.configure_runner(RayRunner(function, namespace="tests"))
    client.configure_metrics([ReportedMetric("y"), CostMetric("paid")])
    client.run_trials(max_trials=3, parallelism=2, initial_seconds_between_polls=0.1)
    for index, trial in client._experiment.trials.items():
        record = outcome_record(trial)
        controlled = query(client, index).controlled
        values = {**dict.fromkeys(("x1", "x2", "x3"), 0.25), **controlled}
        assert trial.status is TrialStatus.COMPLETED
        assert record["realized"] == {n: 0.25 for n in values if n not in controlled}
        assert record["outcomes"] == {"y": [pytest.approx(height(values)), 0.0]}
        assert record["cost"] == pytest.approx(0.1 * len(controlled))
        (attempt,) = record["attempts"]
        assert attempt["state"] == "completed"
        assert 0 <= attempt["seconds"] < 60
    assert spending(client).spent == pytest.approx(0.3)


def test_a_worker_need_not_import_ax(cluster: str) -> None:
    def function(parameters: dict[str, Any]) -> TrialResult:
        if parameters["fail"]:
            raise TrialFailedError("no", cost=2.5)
        return TrialResult({"ax": float("ax" in sys.modules)})

    runner = RayRunner(function, namespace="tests")
    runner.start("light@0/0/0", {"fail": False})
    runner.start("light@0/1/0", {"fail": True})
    assert over(runner, "light@0/0/0").result["raw_data"] == {"ax": 0.0}
    failed = over(runner, "light@0/1/0")
    assert (failed.status, failed.error, failed.cost) == (AttemptStatus.FAILED, "no", 2.5)
    runner.forget("light@0/0/0")
    assert over(runner, "light@0/0/0").status is AttemptStatus.LOST


def test_a_lost_worker_is_charged_and_the_trial_tried_again(cluster: str, tmp_path: Path) -> None:
    def function(parameters: dict[str, Any]) -> TrialResult:
        if not (tmp_path / "died").exists():
            (tmp_path / "died").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return TrialResult(1.0, cost=3.0)

    client, runner, trial = attached(function)
    assert final_status(runner, trial) is TrialStatus.COMPLETED
    lost, completed = outcome_record(trial)["attempts"]
    assert (lost["state"], completed["state"]) == ("lost", "completed")
    assert "worker died" in lost["error"]
    trial.mark_completed()
    (entry,) = spending(client).entries
    assert (entry.lost, entry.charged) == (2.0, 5.0)


def test_an_attempt_that_takes_too_long_is_killed(cluster: str, tmp_path: Path) -> None:
    def function(parameters: dict[str, Any]) -> float:
        (tmp_path / "process").write_text(str(os.getpid()))
        time.sleep(600)
        return 0.0

    _, runner, trial = attached(function, timeout=0.5, retries=0)
    assert final_status(runner, trial) is TrialStatus.FAILED
    (attempt,) = outcome_record(trial)["attempts"]
    assert attempt["state"] == "timed out"
    assert attempt["seconds"] > 0.5
    process = int((tmp_path / "process").read_text())
    until(lambda: not lives(process))


def test_waiting_for_the_cluster_does_not_count_as_running(cluster: str, tmp_path: Path) -> None:
    def function(parameters: dict[str, Any]) -> float:
        while not (tmp_path / "go").exists():
            time.sleep(0.02)
        return float(parameters["x"])

    runner = RayRunner(function, namespace="tests", resources={"CPU": 2})
    runner.start("queue@0/0/0", {"x": 0})
    until(lambda: runner.poll("queue@0/0/0").seconds)
    runner.start("queue@0/1/0", {"x": 1})
    runner.start("queue@0/2/0", {"x": 2})
    assert runner.poll("queue@0/1/0").seconds == 0.0
    runner.cancel("queue@0/1/0")
    assert over(runner, "queue@0/1/0").status is AttemptStatus.LOST
    (tmp_path / "go").touch()
    assert over(runner, "queue@0/2/0").result["raw_data"] == 2


def test_an_attempt_is_started_once(cluster: str, tmp_path: Path) -> None:
    def function(parameters: dict[str, Any]) -> float:
        with (tmp_path / "calls").open("a") as calls:
            calls.write("call\n")
        while not (tmp_path / "go").exists():
            time.sleep(0.02)
        return float(parameters["x"])

    def calls() -> int:
        path = tmp_path / "calls"
        return len(path.read_text().splitlines()) if path.exists() else 0

    runner = RayRunner(function, namespace="tests")
    runner.start("once@0/0/0", {"x": 1})
    until(calls)
    RayRunner(function, namespace="tests").start("once@0/0/0", {"x": 1})
    (tmp_path / "go").touch()
    assert over(runner, "once@0/0/0").result["raw_data"] == 1
    runner.start("once@0/0/0", {"x": 1})
    assert calls() == 1
    # One of other parameters takes its place.
    runner.start("once@0/0/0", {"x": 2})
    assert over(runner, "once@0/0/0").result["raw_data"] == 2
    assert calls() == 2


@pytest.mark.slow
def test_a_killed_driver_is_continued(
    cluster: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A process has one database, which tests before this one may have connected to.
    monkeypatch.setattr("ax.storage.sqa_store.db.SESSION_FACTORY", None)
    database = tmp_path / "experiment.sqlite"
    command = [sys.executable, "-m", "tests.runners.ray_driver", str(tmp_path), cluster]
    with (tmp_path / "log").open("w") as log:
        driver = subprocess.Popen(command, stdout=log, stderr=log)

        def has_stored_both() -> bool:
            assert driver.poll() is None, (tmp_path / "log").read_text()
            if not (tmp_path / "begun").exists() or not database.exists():
                return False
            with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as stored:
                running = stored.execute(
                    "select count(*) from trial_v2 where status = ?", (TrialStatus.RUNNING.value,)
                ).fetchone()[0]
            stored.close()
            return running == 2 and len(begun()) == 2

        def begun() -> list[float]:
            return [float(x) for x in (tmp_path / "begun").read_text().splitlines()]

        until(has_stored_both)
        driver.kill()
        driver.wait()
    register_trial_function("hill", ray_driver.trial_function(str(tmp_path)))
    client = Client.load_from_database(
        ray_driver.NAME, storage_config=StorageConfig(url=f"sqlite:///{database}")
    )
    runner = client._experiment.runner
    assert runner == RayRunner("hill", address=cluster, namespace="killed")
    trials = client._experiment.trials
    assert [runner.poll_trial_status([trial]) for trial in trials.values()] == [
        {TrialStatus.RUNNING: {0}},
        {TrialStatus.RUNNING: {1}},
    ]
    (tmp_path / "go").touch()
    client.run_trials(max_trials=1, initial_seconds_between_polls=0.1)
    assert [trial.status for trial in trials.values()] == [TrialStatus.COMPLETED] * 3
    assert sorted(begun()) == sorted(float(t.arm.parameters["x"]) for t in trials.values())
    for trial in list(trials.values())[:2]:
        (attempt,) = outcome_record(trial)["attempts"]
        assert attempt["state"] == "completed"
        x = trial.arm.parameters["x"]
        assert outcome_record(trial)["outcomes"] == {"y": [-((x - 0.3) ** 2), None]}


def test_a_cluster_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    def refuse(**arguments: Any) -> None:
        raise ConnectionError(f"nothing at {arguments['address']}")

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", refuse)
    runner = RayRunner(float, address="127.0.0.1:1")
    with pytest.raises(UserInputError, match=r"address='127.0.0.1:1': .* nothing at 127.0.0.1:1"):
        runner.start("name@0/0/0", {})


def test_threads_connect_once(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    connected: list[str] = []

    def init(**arguments: Any) -> None:
        time.sleep(0.1)  # in which another thread finds no connection
        connected.append(arguments["address"])

    monkeypatch.setattr(ray, "is_initialized", lambda: bool(connected))
    monkeypatch.setattr(ray, "init", init)
    threads = [threading.Thread(target=RayRunner(float, address="auto")._ray) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert connected == ["auto"]


def test_the_extra_is_named_where_ray_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UserInputError, match=r"ax-costaware\[ray\]"):
        RayRunner(float).start("name@0/0/0", {})


def test_an_unknown_function_is_named_before_anything_starts() -> None:
    with pytest.raises(UserInputError, match="function='nobody'"):
        RayRunner("nobody").start("name@0/0/0", {})


def test_a_function_that_cannot_be_sent_is_named(cluster: str) -> None:
    lock = threading.Lock()

    def function(parameters: dict[str, Any]) -> float:
        with lock:
            return 0.0

    with pytest.raises(UserInputError, match=r"function=.*cannot be sent to a worker"):
        RayRunner(function, namespace="tests").start("name@0/0/0", {})


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("function", 3),
        ("timeout", 0),
        ("retries", -1),
        ("resources", ["CPU"]),
        ("resources", {"CPU": -1}),
        ("resources", {"GPU": "1"}),
        ("address", ""),
        ("namespace", None),
    ],
)
def test_bad_arguments_are_named(argument: str, value: Any) -> None:
    with pytest.raises(UserInputError, match=rf"{argument}(\[.*\])?="):
        RayRunner(**{"function": "hill", argument: value})


def test_it_is_stored_as_json() -> None:
    runner = RayRunner(
        "hill",
        timeout=60,
        retries=2,
        resources={"CPU": 4, "GPU": 0.5},
        address="auto",
        namespace="mine",
        time_cost=True,
    )
    assert object_from_json(object_to_json(runner)) == runner

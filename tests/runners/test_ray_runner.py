"""Trials on a Ray cluster of two processors, which the tests start on the loopback interface."""

from __future__ import annotations

import secrets
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ax.api.client import Client
from ax.api.configs import StorageConfig
from ax.core.trial_status import TrialStatus
from ax.exceptions.core import UserInputError
from ax.storage.json_store.decoder import object_from_json
from ax.storage.json_store.encoder import object_to_json

from ax_costaware.ax_bridge.records import outcome_record
from ax_costaware.runners.ray_runner import RayRunner
from ax_costaware.runners.registry import register_trial_function
from ax_costaware.runners.result import AttemptStatus
from tests.runners import ray_driver
from tests.runners.remote import RemoteRuns, over, until


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


@pytest.mark.usefixtures("cluster")
class TestRay(RemoteRuns):
    lost = "worker died"

    def runner(self, function: Any, folder: Path, **options: Any) -> RayRunner:
        return RayRunner(function, namespace=f"tests {folder}", **options)


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

"""What runners share whose attempts run in processes of their own, wherever these are."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from ax.api.client import Client
from ax.api.configs import RangeParameterConfig
from ax.core.trial import Trial
from ax.core.trial_status import TrialStatus
from ax.exceptions.core import UserInputError

from ax_costaware import cost_aware_strategy, query, spending
from ax_costaware.ax_bridge.records import outcome_record
from ax_costaware.metrics import CostMetric, ReportedMetric
from ax_costaware.runners import PolledRunner
from ax_costaware.runners.result import AttemptStatus, TrialFailedError, TrialResult
from tests.ax import toy


def until(condition: Callable[[], Any], seconds: float = 120.0) -> Any:
    """What ``condition`` returns once that is true."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.02)
    return value


def over(runner: PolledRunner, key: str) -> Any:
    """The state of an attempt that is over."""
    return until(lambda: None if (s := runner.poll(key)).status is AttemptStatus.RUNNING else s)


def attached(runner: PolledRunner) -> tuple[Client, Trial]:
    """A trial that was attached to an experiment with costs, not started yet."""
    client = Client()
    client.configure_experiment([RangeParameterConfig("x", (0, 1), "float")], name="toy")
    client.configure_optimization("y")
    client.set_generation_strategy(cost_aware_strategy(cost=2.0))
    client.configure_runner(runner)
    client.configure_metrics([ReportedMetric("y")])
    trial = client._experiment.trials[client.attach_trial({"x": 0.5})]
    assert isinstance(trial, Trial)
    return client, trial


def final_status(runner: PolledRunner, trial: Trial) -> TrialStatus:
    """What becomes of a running trial."""

    def status() -> TrialStatus | None:
        found = {s for s, trials in runner.poll_trial_status([trial]).items() if trials}
        return None if TrialStatus.RUNNING in found else found.pop()

    found: TrialStatus = until(status)
    return found


def lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


class RemoteRuns:
    """Tests of such a runner."""

    lost: str
    """What is said of an attempt whose process has died."""

    def runner(self, function: Any, folder: Path, **options: Any) -> PolledRunner:
        raise NotImplementedError

    def test_outcomes_costs_and_realized_inputs_are_recorded(self, tmp_path: Path) -> None:
        def function(parameters: dict[str, Any]) -> TrialResult:
            realized = {name: 0.25 for name in ("x1", "x2", "x3") if name not in parameters}
            outcome = sum({**parameters, **realized}.values())
            return TrialResult({"y": (outcome, 0.0)}, realized, cost=0.1 * len(parameters))

        client = toy.make_client()
        client.configure_runner(self.runner(function, tmp_path))
        client.configure_metrics([ReportedMetric("y"), CostMetric("paid")])
        client.run_trials(max_trials=2, parallelism=2, initial_seconds_between_polls=0.1)
        for index, trial in client._experiment.trials.items():
            record, controlled = outcome_record(trial), query(client, index).controlled
            values = {**dict.fromkeys(("x1", "x2", "x3"), 0.25), **controlled}
            assert trial.status is TrialStatus.COMPLETED
            assert record["realized"] == {n: 0.25 for n in values if n not in controlled}
            assert record["outcomes"] == {"y": [pytest.approx(sum(values.values())), 0.0]}
            assert record["cost"] == pytest.approx(0.1 * len(controlled))
            (attempt,) = record["attempts"]
            assert attempt["state"] == "completed"
            assert 0 <= attempt["seconds"] < 60
        assert spending(client).spent == pytest.approx(0.2)

    def test_a_worker_need_not_import_ax_and_may_fail(self, tmp_path: Path) -> None:
        def function(parameters: dict[str, Any]) -> TrialResult:
            if parameters["fail"]:
                raise TrialFailedError("no", cost=2.5)
            return TrialResult({"ax": float("ax" in sys.modules)})

        runner = self.runner(function, tmp_path)
        runner.start("light %j@0/0/0", {"fail": False})
        runner.start("light %j@0/1/0", {"fail": True})
        result = over(runner, "light %j@0/0/0").result
        assert result["raw_data"] == {"ax": 0.0}
        failed = over(runner, "light %j@0/1/0")
        assert (failed.status, failed.error, failed.cost) == (AttemptStatus.FAILED, "no", 2.5)
        assert runner.poll("light %j@0/2/0").status is AttemptStatus.LOST

    def test_a_lost_worker_is_charged_and_the_trial_tried_again(self, tmp_path: Path) -> None:
        def function(parameters: dict[str, Any]) -> TrialResult:
            if not (tmp_path / "died").exists():
                (tmp_path / "died").touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return TrialResult(1.0, cost=3.0)

        runner = self.runner(function, tmp_path / "jobs")
        client, trial = attached(runner)
        assert final_status(runner, trial) is TrialStatus.COMPLETED
        lost, completed = outcome_record(trial)["attempts"]
        assert (lost["state"], completed["state"]) == ("lost", "completed")
        assert self.lost in lost["error"]
        trial.mark_completed()
        (entry,) = spending(client).entries
        assert (entry.lost, entry.charged) == (2.0, 5.0)

    def test_an_attempt_that_takes_too_long_is_killed(self, tmp_path: Path) -> None:
        def function(parameters: dict[str, Any]) -> float:
            with suppress(ValueError):  # where this is not the main thread
                signal.signal(signal.SIGINT, signal.SIG_IGN)
            (tmp_path / "process").write_text(str(os.getpid()))
            time.sleep(600)
            return 0.0

        runner = self.runner(function, tmp_path / "jobs", timeout=0.5, retries=0)
        _, trial = attached(runner)
        assert final_status(runner, trial) is TrialStatus.FAILED
        (attempt,) = outcome_record(trial)["attempts"]
        assert attempt["state"] == "timed out"
        assert attempt["seconds"] > 0.5
        until((tmp_path / "process").exists)
        process = int((tmp_path / "process").read_text())
        until(lambda: not lives(process))

    def test_an_attempt_is_started_once(self, tmp_path: Path) -> None:
        def function(parameters: dict[str, Any]) -> float:
            with (tmp_path / "calls").open("a") as calls:
                calls.write("call\n")
            while not (tmp_path / "go").exists():
                time.sleep(0.02)
            return float(parameters["x"])

        def calls() -> int:
            path = tmp_path / "calls"
            return len(path.read_text().splitlines()) if path.exists() else 0

        folder = tmp_path / "jobs"
        runner = self.runner(function, folder)
        runner.start("once@0/0/0", {"x": 1})
        until(calls)
        self.runner(function, folder).start("once@0/0/0", {"x": 1})
        (tmp_path / "go").touch()
        assert over(runner, "once@0/0/0").result["raw_data"] == 1
        runner.start("once@0/0/0", {"x": 1})
        assert calls() == 1
        # One of other parameters takes its place.
        runner.start("once@0/0/0", {"x": 2})
        assert over(runner, "once@0/0/0").result["raw_data"] == 2
        assert calls() == 2

    def test_a_function_that_cannot_be_sent_is_named(self, tmp_path: Path) -> None:
        lock = threading.Lock()

        def function(parameters: dict[str, Any]) -> float:
            with lock:
                return 0.0

        with pytest.raises(UserInputError, match="function="):
            self.runner(function, tmp_path).start("name@0/0/0", {})

"""Trials as jobs of submitit: processes of this machine, and a Slurm that is made up."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
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
from ax_costaware.runners import sending, submitit_runner
from ax_costaware.runners.registry import register_trial_function
from ax_costaware.runners.result import AttemptStatus, TrialFailedError, TrialResult
from ax_costaware.runners.sending import BEGAN, pickled_by_value
from ax_costaware.runners.submitit_runner import SubmititRunner
from tests.ax import toy


def until(condition: Callable[[], Any], seconds: float = 120.0) -> Any:
    """What ``condition`` returns once that is true."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.02)
    return value


def local(function: Any, folder: Path, **options: Any) -> SubmititRunner:
    return SubmititRunner(function, folder=folder, executor="local", **options)


def over(runner: SubmititRunner, key: str) -> Any:
    """The state of an attempt that is over."""
    return until(lambda: None if (s := runner.poll(key)).status is AttemptStatus.RUNNING else s)


def attached(runner: SubmititRunner) -> tuple[Client, Trial]:
    """A trial that was attached to an experiment with costs, not started yet."""
    client = Client()
    client.configure_experiment([RangeParameterConfig("x", (0, 1), "float")], name="toy")
    client.configure_optimization("y")
    client.set_generation_strategy(cost_aware_strategy(cost=2.0))
    client.configure_runner(runner)
    client.configure_metrics([ReportedMetric("y")])
    return client, client._experiment.trials[client.attach_trial({"x": 0.5})]


def final_status(runner: SubmititRunner, trial: Trial) -> TrialStatus:
    """What becomes of a running trial."""

    def status() -> TrialStatus | None:
        found = {s for s, trials in runner.poll_trial_status([trial]).items() if trials}
        return None if TrialStatus.RUNNING in found else found.pop()

    return until(status)


def lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_outcomes_costs_and_realized_inputs_are_recorded(tmp_path: Path) -> None:
    def function(parameters: dict[str, Any]) -> TrialResult:
        realized = {name: 0.25 for name in ("x1", "x2", "x3") if name not in parameters}
        outcome = sum({**parameters, **realized}.values())
        return TrialResult({"y": (outcome, 0.0)}, realized, cost=0.1 * len(parameters))

    client = toy.make_client()
    client.configure_runner(local(function, tmp_path))
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
    assert spending(client).spent == pytest.approx(0.2)


def test_a_job_need_not_import_ax_and_may_fail(tmp_path: Path) -> None:
    def function(parameters: dict[str, Any]) -> TrialResult:
        if parameters["fail"]:
            raise TrialFailedError("no", cost=2.5)
        return TrialResult({"ax": float("ax" in sys.modules)})

    runner = local(function, tmp_path)
    runner.start("light %j@0/0/0", {"fail": False})
    runner.start("light %j@0/1/0", {"fail": True})
    assert over(runner, "light %j@0/0/0").result["raw_data"] == {"ax": 0.0}
    failed = over(runner, "light %j@0/1/0")
    assert (failed.status, failed.error, failed.cost) == (AttemptStatus.FAILED, "no", 2.5)
    assert runner.poll("light %j@0/2/0").status is AttemptStatus.LOST


def test_a_lost_job_is_charged_and_the_trial_tried_again(tmp_path: Path) -> None:
    def function(parameters: dict[str, Any]) -> TrialResult:
        if not (tmp_path / "died").exists():
            (tmp_path / "died").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return TrialResult(1.0, cost=3.0)

    runner = local(function, tmp_path / "jobs")
    client, trial = attached(runner)
    assert final_status(runner, trial) is TrialStatus.COMPLETED
    lost, completed = outcome_record(trial)["attempts"]
    assert (lost["state"], completed["state"]) == ("lost", "completed")
    assert "ended without a result" in lost["error"]
    trial.mark_completed()
    (entry,) = spending(client).entries
    assert (entry.lost, entry.charged) == (2.0, 5.0)


def test_an_attempt_that_takes_too_long_is_killed(tmp_path: Path) -> None:
    def function(parameters: dict[str, Any]) -> float:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        (tmp_path / "process").write_text(str(os.getpid()))
        time.sleep(600)
        return 0.0

    runner = local(function, tmp_path / "jobs", timeout=0.5, retries=0)
    _, trial = attached(runner)
    assert final_status(runner, trial) is TrialStatus.FAILED
    (attempt,) = outcome_record(trial)["attempts"]
    assert attempt["state"] == "timed out"
    assert attempt["seconds"] > 0.5
    until((tmp_path / "process").exists)
    process = int((tmp_path / "process").read_text())
    until(lambda: not lives(process))


def test_an_attempt_is_started_once(tmp_path: Path) -> None:
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
    runner = local(function, folder)
    runner.start("once@0/0/0", {"x": 1})
    until(calls)
    local(function, folder).start("once@0/0/0", {"x": 1})
    (tmp_path / "go").touch()
    assert over(runner, "once@0/0/0").result["raw_data"] == 1
    runner.start("once@0/0/0", {"x": 1})
    assert calls() == 1
    # One of other parameters takes its place.
    runner.start("once@0/0/0", {"x": 2})
    assert over(runner, "once@0/0/0").result["raw_data"] == 2
    assert calls() == 2


DRIVER = """
import os, signal, sys, time
from pathlib import Path
from ax_costaware import SubmititRunner

go = Path(sys.argv[1], "go")

def function(parameters):
    while not go.exists():
        time.sleep(0.02)
    return parameters["x"]

SubmititRunner(function, folder=sys.argv[1], executor="local").start("left@0/0/0", {"x": 4})
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_jobs_of_a_killed_process_are_found(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", DRIVER, str(tmp_path)], check=False)
    runner = local("left", tmp_path)
    assert runner.poll("left@0/0/0").status is AttemptStatus.RUNNING
    (tmp_path / "go").touch()
    assert over(runner, "left@0/0/0").result["raw_data"] == 4


def test_slurm_is_told_and_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from submitit.core.submission import process_job
    from submitit.slurm import slurm
    from submitit.slurm.test_slurm import mocked_slurm

    def function(parameters: dict[str, Any]) -> float:
        return 2.0 * parameters["x"]

    options = {"slurm_partition": "gpu"}
    runner = SubmititRunner(function, folder=tmp_path, timeout=600, options=options)
    with mocked_slurm() as cluster:
        runner.start("queued@0/0/0", {"x": 2})
        (script,) = tmp_path.glob("queued*/12_submission.sh")
        assert "#SBATCH --partition=gpu" in script.read_text()
        assert "#SBATCH --time=12" in script.read_text()
        waiting = runner.poll("queued@0/0/0")
        assert (waiting.status, waiting.seconds) == (AttemptStatus.RUNNING, 0.0)
        # Another process knows the job by its folder.
        monkeypatch.setattr(submitit_runner, "_JOBS", {})
        assert runner.poll("queued@0/0/0").status is AttemptStatus.RUNNING
        with cluster.job_context("12"):
            process_job(script.parent)
        assert runner.poll("queued@0/0/0").result["raw_data"] == 4.0  # type: ignore[index]

        cancelled: list[Any] = []
        monkeypatch.setattr(slurm.SlurmJob, "cancel", lambda job: cancelled.append(job.job_id))
        runner.start("queued@0/1/0", {"x": 2})
        runner.cancel("queued@0/1/0")
        assert cancelled == ["13"]


def test_without_slurm_it_says_so(tmp_path: Path) -> None:
    runner = SubmititRunner(height, folder=tmp_path, timeout=60)
    with pytest.raises(UserInputError, match=r"executor='slurm'.*srun"):
        runner.start("none@0/0/0", {"x": 0})
    unknown = local(height, tmp_path, options={"color": "red"})
    with pytest.raises(UserInputError, match=r"options=.*color"):
        unknown.start("none@0/1/0", {"x": 0})


def height(parameters: dict[str, Any]) -> float:
    return float(parameters["x"])


def test_a_function_that_cannot_be_sent_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "open").open("w") as file:
        runner = local(lambda parameters: file.fileno(), tmp_path)
        with pytest.raises(UserInputError, match=r"function=.*cannot be sent to a worker"):
            runner.start("file@0/0/0", {"x": 0})


def test_threads_that_send_at_once_send_all() -> None:
    cloudpickle = pytest.importorskip("cloudpickle")
    begun, entered, left = (threading.Event() for _ in range(3))
    seen: list[str] = []

    def send_first() -> None:
        with pickled_by_value(cloudpickle, height):
            begun.set()
            entered.wait(0.2)  # as long as it takes, if both may
        left.set()

    def send_second() -> None:
        begun.wait()
        with pickled_by_value(cloudpickle, height):
            entered.set()
            left.wait()
            seen.extend(cloudpickle.list_registry_pickle_by_value())

    threads = [threading.Thread(target=send) for send in (send_first, send_second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sending.__name__ in seen
    assert not cloudpickle.list_registry_pickle_by_value()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"folder": 3}, "folder=3: expected a folder"),
        ({"folder": "a%j"}, "folder='a%j': expected a folder"),
        ({"folder": "jobs", "executor": "sge"}, "executor='sge': expected one of"),
        ({"folder": "jobs", "options": [1]}, r"options=\[1\]: expected a mapping"),
        ({"folder": "jobs"}, "timeout=None: submitit ends a job of Slurm after five minutes"),
    ],
)
def test_bad_arguments_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(UserInputError, match=message):
        SubmititRunner("train", **arguments)


def test_it_is_stored_by_its_arguments(tmp_path: Path) -> None:
    register_trial_function("height", height)
    options = {"timeout_min": 90, "gpus_per_node": 1}
    client, _ = attached(SubmititRunner("height", folder=tmp_path / "jobs", options=options))
    path = tmp_path / "stored.json"
    client.save_to_json_file(str(path))
    assert json.loads(path.read_text())
    runner = Client.load_from_json_file(str(path))._experiment.runner
    assert runner == client._experiment.runner
    assert isinstance(runner, SubmititRunner)
    assert (runner.folder, runner.options) == (str(tmp_path / "jobs"), options)


def test_its_folder_stays_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    runner = SubmititRunner("height", folder="jobs", timeout=60)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")  # as another process may be started there
    assert runner.clone()._folder_of("a@0/0/0").parent == tmp_path / "jobs"


def test_another_process_of_the_number_is_not_that_of_an_attempt(tmp_path: Path) -> None:
    """Numbers are given anew, after a restart of the machine above all: nothing else is killed."""
    runner, key = local(print, tmp_path), "old@0/0/0"
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    folder = runner._folder_of(key)
    folder.mkdir()
    (folder / f"{other.pid}_submitted.pkl").touch()
    (folder / BEGAN).write_text(str(other.pid))
    try:
        assert runner.poll(key).status is AttemptStatus.LOST
        runner.cancel(key)
        with pytest.raises(subprocess.TimeoutExpired):
            other.wait(0.2)
    finally:
        other.kill()
        other.communicate()
    assert runner.poll(key).status is AttemptStatus.LOST


def test_an_experiment_may_have_any_name_that_a_database_takes(tmp_path: Path) -> None:
    runner = local(print, tmp_path)
    for attempt in (0, 1):
        # A hundred characters, of three bytes each.
        runner._folder_of(f"{'水' * 100}@1700000000/0/{attempt}").mkdir()
    assert len(list(tmp_path.iterdir())) == 2

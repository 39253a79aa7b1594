"""Trials as jobs of submitit: processes of this machine, and a Slurm that is made up."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from ax.api.client import Client
from ax.exceptions.core import UserInputError

from ax_costaware.runners import sending, submitit_runner
from ax_costaware.runners.registry import register_trial_function
from ax_costaware.runners.result import AttemptStatus
from ax_costaware.runners.sending import BEGAN, pickled_by_value
from ax_costaware.runners.submitit_runner import SubmititRunner
from tests.runners.remote import RemoteRuns, attached, over


def local(function: Any, folder: Path, **options: Any) -> SubmititRunner:
    return SubmititRunner(function, folder=folder, executor="local", **options)


class TestSubmitit(RemoteRuns):
    lost = "ended without a result"

    def runner(self, function: Any, folder: Path, **options: Any) -> SubmititRunner:
        return local(function, folder, **options)


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
        ({"folder": 3}, "folder=3"),
        ({"folder": "a%j"}, "folder='a%j'"),
        ({"folder": "jobs", "executor": "sge"}, "executor='sge'"),
        ({"folder": "jobs", "options": [1]}, r"options=\[1\]"),
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

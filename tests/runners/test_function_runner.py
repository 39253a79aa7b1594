"""A function of the user's in threads of this process."""

from __future__ import annotations

import copy
import threading
from typing import Any

import pytest
from ax.core.trial_status import TrialStatus
from ax.exceptions.core import UnsupportedError, UserInputError
from ax.orchestration.orchestrator import FailureRateExceededError

from ax_costaware.runners import FunctionRunner, TrialFailedError, TrialResult
from ax_costaware.runners.result import AttemptStatus
from tests.runners.bench import make_client, orchestrate, record_of, statuses, wait_for


def test_runs_trials_in_threads() -> None:
    main = threading.get_ident()
    meeting = threading.Barrier(3, timeout=60)

    def grow(parameters: dict[str, Any]) -> TrialResult:
        meeting.wait()  # All three run at once.
        assert threading.get_ident() != main
        return TrialResult(parameters["water"] ** 2, cost=2.0)

    client = make_client(FunctionRunner(grow))
    orchestrate(client, trials=3, parallelism=3)
    assert statuses(client) == ["COMPLETED"] * 3
    data = client._experiment.lookup_data().df
    assert list(data["mean"]) == [
        pytest.approx(float(str(trial.arms[0].parameters["water"])) ** 2, abs=1e-9)
        for trial in client._experiment.trials.values()
    ]
    assert [record_of(client, i)["cost"] for i in range(3)] == [2.0] * 3


def test_experiments_of_one_name_may_share_a_runner() -> None:
    runner = FunctionRunner(lambda parameters: parameters["water"])
    # Side by side, and made in the same second, as runs of several seeds may be.
    clients, waters = [make_client(runner) for _ in range(2)], (0.25, 0.75)
    for client, water in zip(clients, waters, strict=True):
        now = client._experiment.time_created
        client._experiment._time_created = now.replace(second=0)
        client.attach_trial({"water": water})
    trials = [client._experiment.trials[0] for client in clients]
    for trial in trials:
        trial.update_run_metadata(runner.run(trial))
    wait_for(lambda: TrialStatus.RUNNING not in runner.poll_trial_status(trials))
    outcomes = [record_of(client)["outcomes"]["growth"][0] for client in clients]
    assert outcomes == list(waters)


def test_failures_are_tried_again_and_no_other_trial_suffers() -> None:
    calls: list[float] = []

    def grow(parameters: dict[str, Any]) -> float:
        calls.append(parameters["water"])
        if calls.count(calls[0]) < 3 and parameters["water"] == calls[0]:
            raise TrialFailedError("spilt", cost=0.25)
        if len(set(calls)) == 3 and parameters["water"] not in calls[:-1]:
            raise ZeroDivisionError
        return 1.0

    client = make_client(FunctionRunner(grow, retries=2))
    orchestrate(client, trials=3)
    assert statuses(client) == ["COMPLETED"] * 3
    states = [[a["state"] for a in record_of(client, i)["attempts"]] for i in range(3)]
    assert states == [["failed", "failed", "completed"], ["completed"], ["failed", "completed"]]


def test_a_function_that_hangs_is_left_behind() -> None:
    release, returned = threading.Event(), threading.Event()

    def grow(parameters: dict[str, Any]) -> float:
        release.wait(60)
        returned.set()
        return 1.0

    client = make_client(FunctionRunner(grow, timeout=0.05, time_cost=True))
    with pytest.raises(FailureRateExceededError):
        orchestrate(client, trials=1)
    assert statuses(client) == ["FAILED"]
    (attempt,) = record_of(client)["attempts"]
    assert attempt["state"] == "timed out"
    assert attempt["cost"] > 0.05
    release.set()
    assert returned.wait(60)
    assert client._experiment.lookup_data().df.empty


def test_threads_are_daemons() -> None:
    release = threading.Event()
    runner = FunctionRunner(lambda parameters: release.wait(60))
    runner.start("bench@1/0/0", {})
    (thread,) = [one for one in threading.enumerate() if one.name == "bench@1/0/0"]
    assert thread.daemon
    release.set()
    thread.join(60)


def test_an_attempt_of_another_process_is_lost() -> None:
    runner = FunctionRunner(lambda parameters: 1.0)
    assert runner.poll("bench@1/0/0").status is AttemptStatus.LOST
    runner.start("bench@1/0/0", {})
    wait_for(lambda: runner.poll("bench@1/0/0").status is AttemptStatus.FINISHED)
    # Ax copies experiments; a clone is a runner of its own.
    assert copy.deepcopy(runner).poll("bench@1/0/0").status is AttemptStatus.FINISHED
    assert runner.clone().poll("bench@1/0/0").status is AttemptStatus.LOST
    runner.forget("bench@1/0/0")
    assert runner.poll("bench@1/0/0").status is AttemptStatus.LOST


def test_an_unknown_name_stops_the_run_and_marks_nothing() -> None:
    client = make_client(FunctionRunner("no such function"))
    with pytest.raises(UserInputError, match="no function has that name"):
        orchestrate(client)
    assert statuses(client) == ["CANDIDATE"]
    index = client.attach_trial({"water": 0.5})
    with pytest.raises(UnsupportedError, match="no function has that name"):
        orchestrate(client)
    assert client._experiment.trials[index].status is TrialStatus.RUNNING

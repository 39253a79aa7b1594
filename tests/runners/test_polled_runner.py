"""Time-outs, retries, checks and records, whatever the backend."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import pytest
from ax.core.map_metric import MapMetric
from ax.core.trial_status import TrialStatus
from ax.exceptions.core import UnsupportedError, UserInputError
from ax.orchestration.orchestrator import FailureRateExceededError

from ax_costaware.methods.costly_feedback import CostlyFeedback
from ax_costaware.metrics import CostMetric, ReportedMetric
from ax_costaware.runners.reporting import terms_of
from ax_costaware.runners.result import (
    RUNNING,
    AttemptState,
    AttemptStatus,
    TrialResult,
    plain_result,
)
from ax_costaware.session import complete_trial, spending
from tests.runners.bench import Bench, make_client, orchestrate, record_of, statuses
from tests.session.conftest import strategy_with


def finished(outcome: Any, seconds: float | None = 3.0) -> AttemptState:
    return AttemptState(AttemptStatus.FINISHED, result=plain_result(outcome), seconds=seconds)


def failed(error: str = "spilt", cost: float | None = None) -> AttemptState:
    return AttemptState(AttemptStatus.FAILED, error=error, cost=cost, seconds=2.0)


class Trial:
    """One trial under a ``Bench``, run and polled by hand as Ax does."""

    def __init__(self, *metrics: Any, record: dict[str, Any] | None = None, **options: Any) -> None:
        self.runner = Bench(**options)
        self.client = make_client(self.runner, *metrics, records={0: record or {}})
        self.client.get_next_trials(max_trials=1)
        self.trial = self.client._experiment.trials[0]
        self.trial.update_run_metadata(self.runner.run(self.trial))

    def stands(self, state: AttemptState) -> dict[TrialStatus, set[int]]:
        """Poll while the attempt that runs stands at ``state``."""
        self.runner.states[self.record["running"]["key"]] = state
        return self.runner.poll_trial_status([self.trial])

    @property
    def record(self) -> dict[str, Any]:
        return record_of(self.client)

    @property
    def ends(self) -> list[tuple[str, float | None]]:
        return [(attempt["state"], attempt["cost"]) for attempt in self.record["attempts"]]


def test_a_finished_attempt_is_recorded_and_completes_the_trial() -> None:
    trial = Trial()
    ((key, parameters),) = trial.runner.started.items()
    assert key.startswith("bench@")
    assert key.endswith("/0/0")
    assert parameters == trial.trial.arms[0].parameters
    assert trial.stands(RUNNING) == {TrialStatus.RUNNING: {0}}
    result = TrialResult({"growth": (0.1 + 0.2, 0.5)}, realized={"water": 0.25}, cost=1 / 3)
    assert trial.stands(finished(result)) == {TrialStatus.COMPLETED: {0}}
    attempt = trial.record.pop("attempts")[0]
    assert trial.record["cost"] == 1 / 3
    assert (attempt["state"], attempt["seconds"], attempt["cost"]) == ("completed", 3.0, 1 / 3)
    assert trial.record["realized"] == {"water": 0.25}
    assert trial.record["outcomes"] == {"growth": [0.1 + 0.2, 0.5]}


def test_a_failed_attempt_is_tried_again_then_the_trial_fails() -> None:
    trial = Trial(retries=1)
    # Reported as staged and then as running, which makes Ax store the trial.
    assert list(trial.stands(failed(cost=0.5)).items()) == [
        (TrialStatus.STAGED, {0}),
        (TrialStatus.RUNNING, {0}),
    ]
    assert [key.rsplit("/", 1)[1] for key in trial.runner.started] == ["0", "1"]
    assert trial.stands(failed("broken", cost=0.25)) == {TrialStatus.FAILED: {0}}
    assert trial.ends == [("failed", 0.5), ("failed", 0.25)]
    assert trial.record["cost"] == 0.25
    assert trial.runner.poll_exception(trial.trial) == "broken"


def test_an_error_is_kept_as_databases_take_it() -> None:
    trial = Trial()
    # Of a name that is no UTF-8, as os.fsdecode has it.
    trial.stands(failed("no file 'm\udce4rz\0.csv'"))
    assert trial.runner.poll_exception(trial.trial) == r"no file 'm\udce4rz\0.csv'"


def test_a_lost_attempt_is_tried_again() -> None:
    trial = Trial(retries=1)
    assert TrialStatus.STAGED in trial.runner.poll_trial_status([trial.trial])
    assert trial.record["attempts"][0]["error"] == "the bench was cleared"
    trial.stands(finished(1.0))
    assert [state for state, _ in trial.ends] == ["lost", "completed"]


def test_an_attempt_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1e9
    monkeypatch.setattr("time.time", lambda: now)
    trial = Trial(timeout=10, time_cost=True)
    now += 10
    assert trial.stands(RUNNING) == {TrialStatus.RUNNING: {0}}
    now += 1
    assert trial.stands(RUNNING) == {TrialStatus.FAILED: {0}}
    assert trial.ends == [("timed out", 11.0)]
    assert trial.runner.cancelled == list(trial.runner.started)
    assert "10 seconds" in trial.runner.poll_exception(trial.trial)


def test_the_backend_may_say_how_long_an_attempt_ran(monkeypatch: pytest.MonkeyPatch) -> None:
    trial = Trial(timeout=10)
    monkeypatch.setattr("time.time", lambda: 1e12)
    waiting = AttemptState(AttemptStatus.RUNNING, seconds=0.0)
    assert trial.stands(waiting) == {TrialStatus.RUNNING: {0}}


@pytest.mark.parametrize(
    ("outcome", "message"),
    [
        (None, "returned None for the metrics \\['growth'\\]"),
        ({"size": 1.0}, "values of \\['size'\\] and none of \\['growth'\\]"),
        ({"growth": 1.0, "size": 1.0}, "raw_data names \\['size'\\]"),
        ({"growth": "much"}, "expected a finite number"),
        ((1.0, -1.0), "sem in raw_data"),
        (TrialResult(1.0, cost=-1.0), "cost=-1.0"),
        (TrialResult(1.0, realized={"wind": 1.0}), "realized names \\['wind'\\]"),
    ],
)
def test_what_does_not_fit_fails_the_trial(outcome: Any, message: str) -> None:
    """Another attempt would make the same mistake; what was returned is kept."""
    trial = Trial(retries=2)
    assert trial.stands(finished(outcome)) == {TrialStatus.FAILED: {0}}
    (attempt,) = trial.record["attempts"]
    assert re.search(message, attempt["error"])
    assert json.loads(json.dumps(attempt["returned"])) == plain_result(outcome)
    assert trial.runner.poll_trial_status([trial.trial]) == {TrialStatus.FAILED: {0}}
    assert len(trial.runner.started) == 1
    assert len(trial.runner.poll_exception(trial.trial)) <= 100
    assert "outcomes" not in trial.record
    assert trial.trial.status is TrialStatus.RUNNING


def test_a_number_is_no_value_of_a_metric_with_bounds() -> None:
    trial = Trial(ReportedMetric("size"))
    trial.client.configure_optimization("growth", outcome_constraints=["size <= 3"])
    assert trial.stands(finished(1.0)) == {TrialStatus.FAILED: {0}}
    assert "values of ['growth'] and none of ['size']" in trial.record["attempts"][0]["error"]


def test_what_is_not_measured_is_not_charged_and_other_metrics_stay() -> None:
    unmeasured = {"measure": False, "expected_cost": 0.0}
    trial = Trial(ReportedMetric("hours"), record=unmeasured, time_cost=True)
    trial.stands(finished(TrialResult({"growth": 1.0, "hours": 2.5}, cost=3.0)))
    assert trial.record["outcomes"] == {"hours": [2.5, None]}
    assert "cost" not in trial.record
    # A function that says that it measured nothing may still say what that cost.
    told = Trial(record=unmeasured)
    told.stands(finished(TrialResult(cost=3.0)))
    assert told.record["cost"] == 3.0


def test_a_control_set_that_learns_its_cost_needs_one() -> None:
    arm = {"controlled": {"water": 0.5}, "control_set": "water", "cost_above": 0.2}
    for state, cost, message in (
        (finished(1.0), None, "of its control set 'water' only fixed_cost=0.2 is known"),
        (finished(TrialResult(1.0, cost=0.1)), 0.1, "expected a finite number > 0.2"),
        (failed(cost=0.2), 0.2, "spilt"),
    ):
        trial = Trial(record=arm)
        trial.trial.arms[0]._parameters["control_set"] = "water"
        trial.stands(state)
        assert message in trial.record["attempts"][-1]["error"]
        assert "cost" not in trial.record  # Nothing that a model could learn from.
        assert trial.ends == [("failed", cost)]


def test_a_learned_cost_is_more_than_its_switching_cost() -> None:
    """As it was expected, unless the trial that it was to follow never ran."""
    record = {"cost_metric": "seconds", "switching_cost": 20.0}
    for state, message in (
        (finished(TrialResult(1.0, cost=3.0)), "cost=3.0"),
        (failed(cost=3.0), "spilt"),
    ):
        trial = Trial(CostMetric("seconds"), record=record)
        trial.stands(state)
        assert message in trial.record["attempts"][-1]["error"]
        assert "cost" not in trial.record
    client = make_client(None, CostMetric("seconds"), records={0: record, 1: record})
    client.get_next_trials(max_trials=2)
    first, second = client._experiment.trials.values()
    assert terms_of(second).switching_cost == 20.0
    first.mark_abandoned()
    assert terms_of(second).switching_cost == 0.0


def test_a_strategy_that_learns_costs_from_a_metric_needs_one() -> None:
    trial = Trial(CostMetric("seconds"), record={"cost_metric": "seconds"})
    trial.stands(finished(1.0))
    assert "learns costs, from the metric 'seconds'" in trial.record["attempts"][-1]["error"]
    trial = Trial(CostMetric("seconds"), record={"cost_metric": "seconds"})
    trial.stands(finished(TrialResult(1.0, cost=2.0)))
    assert trial.record["outcomes"] == {"growth": [1.0, None], "seconds": [2.0, None]}
    timed = Trial(CostMetric("seconds"), record={"cost_metric": "seconds"}, time_cost=True)
    timed.stands(finished({"growth": 1.0, "seconds": 7.0}))
    assert timed.record["cost"] == 7.0
    bill = type("Bill", (MapMetric,), {})("seconds")  # whose costs come from elsewhere
    fetched = Trial(bill, record={"cost_metric": "seconds"})
    assert fetched.stands(finished(1.0)) == {TrialStatus.COMPLETED: {0}}


def test_a_skipped_measurement_needs_no_learned_cost() -> None:
    """Whether the strategy asked for none, or there was none; and a returned one is not charged."""
    asked: dict[str, Any] = {"cost_metric": "seconds", "measure": True, "expected_cost": 1.0}
    unasked = {**asked, "measure": False, "expected_cost": 0.0}
    for record, result in (
        (unasked, None),
        (unasked, 1.0),
        (unasked, {"growth": 1.0, "seconds": 2.0}),
        (asked, TrialResult()),
    ):
        trial = Trial(CostMetric("seconds"), record=record)
        assert trial.stands(finished(result)) == {TrialStatus.COMPLETED: {0}}
        assert trial.record["outcomes"] == {}
        assert "cost" not in trial.record
    timed = Trial(CostMetric("seconds"), record=unasked, time_cost=True)
    timed.stands(finished(None))
    assert "cost" not in timed.record
    trial = Trial(CostMetric("seconds"), record=asked)
    trial.stands(finished(1.0))
    assert "learns costs, from the metric 'seconds'" in trial.record["attempts"][-1]["error"]


def test_a_trial_without_an_attempt_is_started() -> None:
    runner = Bench()
    client = make_client(runner)
    index = client.attach_trial({"water": 0.5})
    trial = client._experiment.trials[index]
    assert TrialStatus.STAGED in runner.poll_trial_status([trial])
    assert list(runner.started.values()) == [{"water": 0.5}]


def test_an_error_in_asking_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    trial = Trial()

    def away(key: str) -> AttemptState:
        raise ConnectionError("no network")

    monkeypatch.setattr(trial.runner, "poll", away)
    assert trial.runner.poll_trial_status([trial.trial]) == {TrialStatus.RUNNING: {0}}
    assert "attempts" not in trial.record


def test_an_attempt_that_cannot_be_started_failed_or_ends_the_run() -> None:
    trial = Trial(retries=2)
    trial.runner.refusal = OSError("no machine")
    assert trial.stands(failed()) == {TrialStatus.FAILED: {0}}
    assert trial.ends == [("failed", None), ("failed", 0.0), ("failed", 0.0)]
    assert "could not be started: OSError: no machine" in trial.record["attempts"][-1]["error"]
    other = Trial(retries=1)
    other.runner.refusal = UserInputError("unknown function")
    with pytest.raises(UnsupportedError, match="trial 0 cannot be started: unknown function"):
        other.stands(failed())
    with pytest.raises(UserInputError, match="unknown function"):
        other.runner.run(other.trial)


def test_a_stopped_trial_is_recorded_and_not_tried_again() -> None:
    trial = Trial(retries=3)
    trial.client.attach_data(0, {"growth": 0.1})  # without which Ax stops no trial early
    trial.client._experiment.stop_trial_runs([trial.trial], reasons=["hopeless"])
    assert trial.trial.status is TrialStatus.EARLY_STOPPED
    assert trial.ends == [("stopped", None)]
    assert trial.record["attempts"][0]["error"] == "hopeless"
    trial.trial.mark_running(no_runner_required=True, unsafe=True)
    assert trial.runner.poll_trial_status([trial.trial]) == {TrialStatus.FAILED: {0}}
    assert trial.runner.cancelled == list(trial.runner.started)


def test_attempts_are_forgotten_once_ax_has_stored_their_trial() -> None:
    trial = Trial()
    trial.stands(finished(1.0))
    assert trial.runner.forgotten == []
    trial.runner.poll_trial_status([])
    assert trial.runner.forgotten == list(trial.runner.started)


def test_ax_completes_and_fails_trials() -> None:
    class Plant(Bench):
        def poll(self, key: str) -> AttemptState:
            parameters = self.started[key]
            return finished(parameters["water"]) if key.endswith("1") else failed(key)

    client = make_client(Plant(retries=1), CostMetric("cost"), ReportedMetric("height"))
    orchestrate(client, trials=4, parallelism=3)
    assert statuses(client) == ["COMPLETED"] * 4
    data = client._experiment.lookup_data().df
    assert set(data["metric_name"]) == {"growth"}
    with pytest.raises(FailureRateExceededError):
        orchestrate(make_client(Plant()), trials=4, failures=0.5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"timeout": 0}, "timeout=0"),
        ({"timeout": math.inf}, "timeout=inf"),
        ({"retries": -1}, "retries=-1"),
        ({"retries": 1.5}, "retries=1.5"),
        ({"time_cost": 1}, "time_cost=1"),
        ({"function": 3}, "function=3"),
    ],
)
def test_refuses_bad_arguments(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserInputError, match=message):
        Bench(**options)


def test_completing_by_hand_keeps_what_attempts_cost() -> None:
    trial = Trial(retries=1)
    trial.stands(failed(cost=0.5))
    session = (trial.client._experiment, strategy_with(CostlyFeedback(cost=2.0)))
    assert spending(session).entries[0].charged == 2.5
    complete_trial(session, 0, 1.0)
    (entry,) = spending(session).entries
    assert (entry.lost, entry.charged) == (0.5, 2.5)

"""A run under a runner sees exactly what ``complete_trial`` would have recorded, by each method."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
from ax.api.client import Client
from ax.orchestration.orchestrator import FailureRateExceededError

from ax_costaware import complete_trial, query, recommend, spending
from ax_costaware.ax_bridge.records import decision_record
from ax_costaware.costs.control_set import ControlSet
from ax_costaware.methods.costly_feedback.rules import BernoulliRule
from ax_costaware.metrics import CostMetric, ReportedMetric
from ax_costaware.runners import FunctionRunner, TrialFailedError, TrialResult
from ax_costaware.session import input_fit
from tests.ax import cost_toy, feedback_toy, gittins_toy, indirect_toy, toy, tree_toy
from tests.runners.bench import orchestrate, record_of, statuses

pytestmark = pytest.mark.usefixtures("short_searches")

NAMED = (
    ControlSet(["x1"], cost=0.1, name="cheap"),
    ControlSet(["x1", "x2"], cost=0.3),
    ControlSet(["x1", "x2", "x3"], cost=1.0),
)


def rig(parameters: dict[str, Any]) -> TrialResult:
    """The toy with control sets; chance is a function of what is controlled."""
    free = {
        name: (7.3 * parameters["x1"] + 0.4 * i) % 1.0
        for i, name in enumerate(("x1", "x2", "x3"))
        if name not in parameters
    }
    return TrialResult((toy.objective({**parameters, **free}), 0.01), realized=free)


def priced_rig(parameters: dict[str, Any]) -> TrialResult:
    result = rig(parameters)
    return TrialResult(result.raw_data, result.realized, 0.1 + 0.3 * len(parameters))


def timed(parameters: dict[str, Any]) -> TrialResult:
    return TrialResult({"y": gittins_toy.objective(parameters)}, cost=1 / 3 + parameters["x1"])


CASES: dict[str, tuple[Callable[[], Client], Callable[[dict[str, Any]], Any], str]] = {
    "control sets": (lambda: toy.make_client(budget=20, initial_trials=2), rig, "y"),
    "unknown costs": (lambda: cost_toy.make_cost_client(budget=20), priced_rig, "y"),
    "gittins": (
        lambda: with_metric(gittins_toy.make_client(cost="seconds"), "seconds"),
        timed,
        "y",
    ),
    "feedback": (
        lambda: feedback_toy.make_client(rule=BernoulliRule(0.5), initial_trials=2),
        lambda parameters: feedback_toy.objective(parameters, 3.0),
        "y",
    ),
    "indirect": (indirect_toy.make_client, indirect_toy.answer, "z"),
    "tree": (tree_toy.make_client, tree_toy.cell_mean, "z"),
}


def with_metric(client: Client, name: str) -> Client:
    client.configure_tracking_metrics([name])
    return client


def unattended(
    make: Callable[[], Client], function: Callable[[dict[str, Any]], Any], metric: str, count: int
) -> Client:
    client = make()
    client.configure_runner(FunctionRunner(function))
    costs = [CostMetric("seconds")] if "seconds" in client._experiment.metrics else []
    client.configure_metrics([ReportedMetric(metric), *costs])
    orchestrate(client, trials=count)
    return client


def by_hand(
    make: Callable[[], Client], function: Callable[[dict[str, Any]], Any], count: int
) -> Client:
    client = make()
    for _ in range(count):
        ((index, _),) = client.get_next_trials(max_trials=1).items()
        asked = query(client, index)
        result = function(asked.controlled)
        if not isinstance(result, TrialResult):
            result = TrialResult(result)
        data = result.raw_data if asked.measure else None
        complete_trial(client, index, data, result.realized, result.cost)
    return client


@pytest.mark.parametrize("method", CASES)
def test_recorded_as_complete_trial_does(method: str) -> None:
    make, function, metric = CASES[method]
    count = 6 if method == "tree" else 5
    ran = unattended(make, function, metric, count)
    told = by_hand(make, function, count)
    assert statuses(ran) == ["COMPLETED"] * count
    phases = set()
    for index in range(count):
        record = record_of(ran, index)
        (attempt,) = record.pop("attempts")
        assert attempt["state"] == "completed"
        assert record == record_of(told, index)
        assert query(ran, index) == query(told, index)
        phases.add(decision_record(ran._experiment.trials[index])["phase"])
    assert "rule" in phases
    assert spending(ran).to_frame().equals(spending(told).to_frame())
    assert recommend(ran) == recommend(told)
    frames = [
        c._experiment.lookup_data().df.sort_values(["trial_index", "metric_name"])
        for c in (ran, told)
    ]
    pd.testing.assert_frame_equal(
        *[frame.reset_index(drop=True) for frame in frames], check_like=True
    )
    if method == "control sets":
        assert input_fit(ran).to_frame().equals(input_fit(told).to_frame())


def test_lost_attempts_are_paid_from_the_budget() -> None:
    """Attempts that failed before the one that counted: a known cost, and an expected one."""
    calls: list[int] = []

    def break_twice(parameters: dict[str, Any]) -> TrialResult:
        calls.append(len(calls))
        if len(calls) == 1:
            raise TrialFailedError("spilt", cost=0.25)
        if len(calls) == 2:
            raise RuntimeError("broken")
        return priced_rig(parameters)

    client = toy.make_client(budget=20, initial_trials=2)
    client.configure_runner(FunctionRunner(break_twice, retries=2))
    client.configure_metrics([ReportedMetric("y")])
    orchestrate(client, trials=1)
    paid = spending(client)
    (entry,) = paid.entries
    cost = record_of(client)["cost"]
    assert entry.expected_cost is not None
    assert entry.lost == 0.25 + entry.expected_cost
    assert entry.charged == paid.spent == cost + entry.lost
    assert paid.lost == entry.lost
    assert "lost in attempts" in str(paid)
    assert paid.to_frame()["lost"].tolist() == [entry.lost]


@pytest.mark.parametrize(
    "outcome",
    [
        TrialResult(math.nan, cost=0.05),
        TrialResult({"y": math.nan, "note": [1]}, cost=0.05),
        {"y": math.inf, "cost": 0.05},
        {"y": math.nan, "cost": (0.05, 0.01)},
        {"unknown": 1.0, "cost": 0.05},
    ],
)
def test_what_a_diverged_run_cost_is_kept(outcome: Any) -> None:
    """A function that says that its outcome is no number, and what it cost, has cost that."""
    client = gittins_toy.make_client(cost="cost", budget=20)
    client.configure_runner(FunctionRunner(lambda parameters: outcome))
    client.configure_metrics([ReportedMetric("y"), CostMetric("cost")])
    with pytest.raises(FailureRateExceededError):
        orchestrate(client, trials=1)
    assert statuses(client) == ["FAILED"]
    assert [entry.charged for entry in spending(client).entries] == [0.05]

"""The lines of Ax's log: one for each decision, and one when the budget is nearly used up."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from ax.api.client import Client
from ax.orchestration.orchestrator import FailureRateExceededError

from ax_costaware import CostMetric, FunctionRunner, ReportedMetric, TrialResult
from ax_costaware.session import (
    complete_trial,
    query,
    report_cost,
)
from tests.ax import feedback_toy, gittins_toy, toy, tree_toy

NEARLY = "The budget is nearly used up: "

OVERRUN = "The budget is overrun: "


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the module has logged, and nothing above the level of information."""
    mine = [entry for entry in caplog.records if entry.name.endswith("ax_bridge.log")]
    assert {entry.levelname for entry in mine} <= {"INFO"}
    return [entry.getMessage() for entry in mine]


def test_a_budget_that_is_nearly_used_up_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    client = feedback_toy.make_client(budget=10.0, initial_trials=10)
    (index,) = client.get_next_trials(max_trials=1)
    complete_trial(client, index, {"y": 1.0}, cost=6.5)
    for _ in range(2):
        client.get_next_trials(max_trials=1)
    assert not any(line.startswith(NEARLY) for line in lines(caplog))
    for _ in range(2):
        client.get_next_trials(max_trials=1)
    said = [line for line in lines(caplog) if line.startswith(NEARLY)]
    assert said == [f"{NEARLY}with trial 3, 9.5 of 10 is spent or reserved."]


def budget_lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the log says of the budget; it starts anew."""
    found = [line for line in lines(caplog) if line.startswith("The budget")]
    caplog.clear()
    return found


def test_a_reported_cost_that_uses_up_the_budget_is_said_once(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """By whatever call it is reported; a correction down and up again says nothing."""
    client = gittins_toy.make_client(cost=1.0, budget=10.0, initial_trials=10)
    client.get_next_trials(max_trials=3)
    complete_trial(client, 0, 1.0, cost=6.9)
    assert budget_lines(caplog) == []
    complete_trial(client, 1, 1.0, cost=1.1)
    assert budget_lines(caplog) == [f"{NEARLY}with trial 1, 9 of 10 is spent or reserved."]
    client.save_to_json_file(str(tmp_path / "toy.json"))
    client.get_next_trials(max_trials=1)
    assert budget_lines(caplog) == []
    complete_trial(client, 2, 1.0, cost=1.9)
    assert budget_lines(caplog) == [f"{OVERRUN}with trial 2, 10.9 of 10 is spent or reserved."]
    report_cost(client, 2, 0.1)
    report_cost(client, 2, 2.9)
    assert budget_lines(caplog) == []
    loaded = Client.load_from_json_file(str(tmp_path / "toy.json"))
    assert budget_lines(caplog) == []
    report_cost(loaded, 0, 9.0)
    assert budget_lines(caplog) == [f"{OVERRUN}with trial 0, 11.1 of 10 is spent or reserved."]


@pytest.mark.parametrize("fails", [False, True])
def test_a_cost_that_a_runner_reports_is_said(
    fails: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Of an attempt that failed, too."""

    def train(parameters: dict[str, Any]) -> TrialResult:
        return TrialResult({"other": 1.0} if fails else {"y": 1.0}, cost=9.5)

    client = gittins_toy.make_client(cost=1.0, budget=10.0)
    client.configure_runner(FunctionRunner(train))
    client.configure_metrics([ReportedMetric("y"), CostMetric("price")])
    with suppress(FailureRateExceededError):
        client.run_trials(max_trials=1)
    assert budget_lines(caplog) == [f"{NEARLY}with trial 0, 9.5 of 10 is spent or reserved."]


@pytest.mark.parametrize("method", [toy, feedback_toy, tree_toy])
def test_one_line_for_each_decision(method: Any, caplog: pytest.LogCaptureFixture) -> None:
    client: Client = method.make_client(initial_trials=2)
    method.run_trials(client, 3)
    found = lines(caplog)
    assert len(found) == 3
    for index, line in enumerate(found):
        asked = query(client, index)
        before = sum(query(client, i).expected_cost or 0.0 for i in range(index))
        assert line.startswith(f"Trial {index}: ")
        assert line.endswith(f"; {before:.6g} spent before. {asked.why}")


def test_a_batch_of_which_no_cost_is_known_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    """Once; nothing keeps it within the budget."""
    client = gittins_toy.make_client(cost="hours", budget=10.0, initial_trials=4)
    client.get_next_trials(max_trials=4)
    warned = [r.getMessage() for r in caplog.records if "may overrun budget=10" in r.getMessage()]
    assert len(warned) == 1

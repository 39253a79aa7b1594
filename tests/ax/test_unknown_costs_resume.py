"""With running bounds in the state: a new process decides alike from what was stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ax_costaware import ControlSet, UnknownCosts, complete_trial, report_cost
from tests.ax.cost_toy import UNKNOWN_SETS, complete_with_cost, make_cost_client
from tests.ax.toy import realize
from tests.fresh import FreshProcess
from tests.resuming import Run

pytestmark = pytest.mark.usefixtures("short_searches")

CASES: dict[str, dict[str, Any]] = {
    # A round of exploration, then running bounds.
    "unknown": {
        "rule": UnknownCosts(exploration=0.12, tolerance=0.3, halve_every=2),
        "budget": 12.0,
        "attached": 0,
        "num_trials": 10,
        "stored": (2, 3, 6, 8),
    },
    # The settings of the papers.
    "published": {
        "rule": UnknownCosts.published(50, worst_value=-3.0, rounds=1, decays_with_budget=True),
        "budget": 12.0,
        "initial_control_sets": ["x1+x2+x3"],
        "initial_design": "uniform",
        "charge_initial": False,
        "affordable_only": False,
        "attached": 0,
        "num_trials": 10,
        "stored": (3, 6, 8),
    },
    # A declared cost, values that the cost shows to depend on, and no budget.
    "partly known": {
        "control_sets": (ControlSet(["x1"], cost=0.4), *UNKNOWN_SETS[1:]),
        "rule": UnknownCosts(rounds=1, worst_value=-3.0, cost_range=0.05),
        "initial_control_sets": ["x1+x2+x3"],
        "initial_trials": 11,
        "attached": 9,
        "num_trials": 17,
        "stored": (10, 11, 13, 15),
    },
}


def run_case(case: str, folder: Path) -> Run:
    """Run a case, and store it after some of the trials that the rule follows."""
    run = Run(folder, case.replace(" ", "_"))
    options = dict(CASES[case])
    attached, num_trials, stored = (options.pop(n) for n in ("attached", "num_trials", "stored"))
    client = make_cost_client(storage_config=run.config, **options)
    for step in range(attached):
        x1, x2, x3 = (0.618034 * (step + 1) * place % 1.0 for place in (1, 2, 3))
        arm = {"control_set": "x1+x2+x3", "x1": x1, "x2": x2, "x3": x3}
        complete_with_cost(client, client.attach_trial(arm), arm)
    for step in range(attached, num_trials - 1):
        index, arm = run.decide(client)
        # One trial is completed by Ax's own call, and its cost comes later.
        if step == num_trials - 4:
            client.complete_trial(index, raw_data={"y": -1 / 3})
            report_cost(client, index, 1 / 3)
            complete_trial(client, index, realized=realize(index, arm))
        else:
            complete_with_cost(client, index, arm)
        if step in stored:
            run.store(client)
    run.decide(client)
    return run


def test_next_decisions_after_reload_are_the_same(
    tmp_path: Path, fresh_process: FreshProcess
) -> None:
    """Of all cases, in a new process."""
    runs = {case: run_case(case, tmp_path) for case in CASES}
    by_rule = {
        case: [d for d in run.decisions if d["record"]["phase"] == "rule"]
        for case, run in runs.items()
    }
    for expected in by_rule.values():
        phases = {decision["record"]["decision"]["state"]["phase"] for decision in expected}
        assert phases == {"explore", "exploit"}
    costs = [d["record"]["decision"]["costs"] for d in by_rule["partly known"]]
    assert [0.4, 0.0] in [by_name.get("x1") for by_name in costs]
    most_expensive = [by_name["x1+x2+x3"] for by_name in costs if "x1+x2+x3" in by_name]
    assert any(error is not None for _, error in most_expensive), "the cost depends on the values"
    for run in runs.values():
        run.assert_resumed_alike(fresh_process)

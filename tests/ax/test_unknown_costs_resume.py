"""With running bounds in the state: stored after every trial, a new process decides alike."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from ax.api.configs import StorageConfig
from ax.storage.sqa_store.db import (
    create_all_tables,
    get_engine,
    init_engine_and_session_factory,
)

from ax_costaware import ControlSet, UnknownCosts, report_cost
from tests.ax.cost_toy import UNKNOWN_SETS, complete_with_cost, make_cost_client
from tests.ax.toy import record

ROOT = Path(__file__).parents[2]

CASES: dict[str, dict[str, Any]] = {
    # Two rounds of exploration, then running bounds.
    "unknown": {
        "rule": UnknownCosts(exploration=0.25, tolerance=0.3, halve_every=3),
        "budget": 12.0,
        "num_trials": 14,
    },
    # A declared cost, values that the cost shows to depend on, and no budget.
    "partly known": {
        "control_sets": (ControlSet(["x1"], cost=0.4), *UNKNOWN_SETS[1:]),
        "rule": UnknownCosts(rounds=1, worst_value=-3.0, cost_range=0.05),
        "initial_control_sets": ["x1+x2+x3"],
        "initial_trials": 18,
        "num_trials": 24,
    },
}


def run(case: str, folder: Path) -> tuple[list[str], list[dict[str, Any]]]:
    """Run a case and store it as JSON and as SQL after every trial that the rule follows.

    Returns:
        The files, and the decisions that came after them.
    """
    folder.mkdir()
    database = folder / "toy.db"
    config = StorageConfig(url=f"sqlite:///{database}")
    init_engine_and_session_factory(url=config.url, force_init=True)
    create_all_tables(get_engine())
    options = dict(CASES[case])
    num_trials = options.pop("num_trials")
    client = make_cost_client(storage_config=config, **options)
    first = options.get("initial_trials", 3) - 1

    paths: list[str] = []
    decisions: list[dict[str, Any]] = []
    for step in range(num_trials):
        ((index, arm),) = client.get_next_trials(max_trials=1).items()
        if step > first:
            decisions.append({"arm": dict(arm), "record": record(client, index)})
        if step == num_trials - 1:
            break
        # One trial is completed by Ax's own call, and its cost comes later.
        if step == num_trials - 4:
            client.complete_trial(index, raw_data={"y": -1 / 3})
            report_cost(client, index, 1 / 3)
        else:
            complete_with_cost(client, index, dict(arm))
        if step >= first:
            saved = folder / f"after{step}.json"
            client.save_to_json_file(str(saved))
            copied = folder / f"after{step}.db"
            shutil.copy(database, copied)
            paths += [str(saved), str(copied)]
    return paths, decisions


def test_next_decisions_after_reload_are_the_same(tmp_path: Path) -> None:
    """Of both cases, in one new process."""
    runs = {case: run(case, tmp_path / case.replace(" ", "_")) for case in CASES}
    for _, expected in runs.values():
        phases = {decision["record"]["decision"]["state"]["phase"] for decision in expected}
        assert phases == {"explore", "exploit"}
    costs = [d["record"]["decision"]["costs"] for d in runs["partly known"][1]]
    assert [0.4, 0.0] in [by_name.get("x1") for by_name in costs]
    dearest = [by_name["x1+x2+x3"] for by_name in costs if "x1+x2+x3" in by_name]
    assert any(error is not None for _, error in dearest), "the cost depends on the values"

    found = subprocess.run(
        [
            *(sys.executable, "-W", "ignore", "-m", "tests.ax.resume"),
            *(path for paths, _ in runs.values() for path in paths),
        ],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    decisions = iter(json.loads(found.stdout.splitlines()[-1]))
    for paths, expected in runs.values():
        after = [then for then in expected for _ in ("JSON", "SQL")]
        for path, then in zip(paths, after, strict=True):
            assert next(decisions) == json.loads(json.dumps(then)), path

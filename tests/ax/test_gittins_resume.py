"""A decision is a function of what is stored: JSON and SQLite, lambda, decay and costs included."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from ax.api.client import Client
from ax.api.configs import StorageConfig
from ax.storage.sqa_store.db import (
    create_all_tables,
    get_engine,
    init_engine_and_session_factory,
)

from ax_costaware import GittinsDecay, complete_trial
from tests.ax.gittins_toy import make_client, objective, record, true_cost

ROOT = Path(__file__).parents[2]
FIRST_STORED = 2
"""The trial after which runs are stored: one initial trial comes after it, then the model's."""

TINY = 1e-12
"""Costs of some 1e-12 are zero or one digit in Ax's data, which keep ten decimals."""


def _run(name: str, folder: Path, trials: int, **strategy: Any) -> tuple[list[str], list[Any]]:
    """Where a run was stored after each trial, JSON and SQLite, and its decisions."""
    database = folder / f"{name}.db"
    config = StorageConfig(url=f"sqlite:///{database}")
    init_engine_and_session_factory(url=config.url, force_init=True)
    create_all_tables(get_engine())
    client = make_client(storage_config=config, **strategy)
    if "hours" in strategy.values():
        client.configure_tracking_metrics(["hours"])
    paths: list[str] = []
    decisions: list[Any] = []
    for step in range(trials + 1):
        ((index, arm),) = client.get_next_trials(max_trials=1).items()
        decisions.append({"arm": dict(arm), "record": record(client, index)})
        if step == trials:
            break
        _complete(client, index, dict(arm), step, learned="hours" in strategy.values())
        if step < FIRST_STORED:
            continue
        saved, copied = folder / f"{name}{step}.json", folder / f"{name}{step}.db"
        client.save_to_json_file(str(saved))
        shutil.copy(database, copied)
        paths += [str(saved), str(copied)]
    return paths, decisions


def _complete(client: Client, index: int, arm: dict[str, Any], step: int, learned: bool) -> None:
    cost = TINY * true_cost(arm) if learned else None
    if step == 5:
        # An outcome is lost, not its cost.
        complete_trial(client, index, None, cost=cost)
    else:
        complete_trial(client, index, {"y": objective(arm) / 3}, cost=cost)


def test_next_decision_after_reload_is_the_same(tmp_path: Path) -> None:
    """Stored in both after each trial; a new process decides as the old one did."""
    runs = [
        # Ax's default surrogate, whose fit must not depend on the fits before it either.
        _run("held", tmp_path, 6, budget=60.0, surrogate_spec=None),
        _run("again", tmp_path, 6, budget=40.0, stop=False, acquisition="log_ei_cost_cooling"),
        _run("learned", tmp_path, 8, cost="hours", decay=GittinsDecay(3.0)),
    ]
    (_, held), (_, again), (_, learned) = runs
    assert len({d["record"]["decision"]["lambda"] for d in held[4:]}) == 1
    assert len({d["record"]["decision"]["lambda"] for d in again[4:]}) == 3
    assert learned[-1]["record"]["decision"]["relative_lambda"] < 3.0
    assert TINY < learned[-1]["record"]["expected_cost"] < 4 * TINY
    paths = [path for paths, _ in runs for path in paths]
    found = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.ax.resume", *paths],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    decided = json.loads(found.stdout.splitlines()[-1])
    for name, (stored, decisions) in zip(("held", "again", "learned"), runs, strict=True):
        for step, then in enumerate(decisions[FIRST_STORED + 1 :]):
            for store in ("JSON", "SQLite"):
                stored.pop(0)
                assert decided.pop(0) == json.loads(json.dumps(then)), f"{name} {step} {store}"

"""A decision is a function of what is stored: JSON and SQLite, skipped trials among the history."""

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

from ax_costaware import BernoulliRule, MixedRule, QueryRule, complete_trial, query
from tests.ax.feedback_toy import make_client, objective, record

ROOT = Path(__file__).parents[2]
FIRST_STORED = 2
"""The trial after which runs are stored: one initial trial comes after it, then the model's."""


def _run(name: str, folder: Path, trials: int, **strategy: Any) -> tuple[list[str], list[Any]]:
    """Where a run was stored after each trial, JSON and SQLite, and its decisions."""
    database = folder / f"{name}.db"
    config = StorageConfig(url=f"sqlite:///{database}")
    init_engine_and_session_factory(url=config.url, force_init=True)
    create_all_tables(get_engine())
    metrics = ("hours",) if "time" in strategy else ()
    client = make_client(storage_config=config, metrics=metrics, **strategy)
    paths: list[str] = []
    decisions: list[Any] = []
    for step in range(trials + 1):
        ((index, arm),) = client.get_next_trials(max_trials=1).items()
        decisions.append({"arm": dict(arm), "record": record(client, index)})
        if step == trials:
            break
        outcome = {"hours": 1e9 + step / 3} if metrics else {}
        if query(client, index).measure:
            outcome["y"] = objective(dict(arm), step) / 3
        complete_trial(client, index, outcome or None)
        if step < FIRST_STORED:
            continue
        saved, copied = folder / f"{name}{step}.json", folder / f"{name}{step}.db"
        client.save_to_json_file(str(saved))
        shutil.copy(database, copied)
        paths += [str(saved), str(copied)]
    return paths, decisions


def test_next_decision_after_reload_is_the_same(tmp_path: Path) -> None:
    """Stored in both after each trial; a new process decides as the old one did."""
    names = ("learned", "budget", "hours")
    runs = [
        # Fitted hyperparameters, whose fit must not depend on the fits before it.
        _run("learned", tmp_path, 9, surrogate_spec=None, forgetting=None, rule=BernoulliRule(0.4)),
        _run("budget", tmp_path, 9, budget=6.0, rule=QueryRule(0.6)),
        _run("hours", tmp_path, 9, time="hours", rule=MixedRule(QueryRule(0.9), 0.1, 0.6)),
    ]
    for name, (_, decisions) in zip(names, runs, strict=True):
        measured = [d["record"]["measure"] for d in decisions[4:]]
        assert True in measured, name
        assert False in measured[:-2], f"{name}: no skipped trial among the history"
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
    for name, (stored, decisions) in zip(names, runs, strict=True):
        for step, then in enumerate(decisions[FIRST_STORED + 1 :]):
            for store in ("JSON", "SQLite"):
                stored.pop(0)
                assert decided.pop(0) == json.loads(json.dumps(then)), f"{name} {step} {store}"

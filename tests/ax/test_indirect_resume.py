"""A decision is a function of what is stored: JSON and SQLite, pairs that were added included."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
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

from ax_costaware import add_pairs, complete_trial
from tests.ax import tree_toy
from tests.ax.indirect_toy import answer, learned, make_client, pairs, record

ROOT = Path(__file__).parents[2]
FIRST_STORED = 1
"""The trial after which runs are stored: one initial trial comes after it, then the model's."""


def _run(name: str, folder: Path, trials: int, **strategy: Any) -> tuple[list[str], list[Any]]:
    """Where a run was stored after each trial, JSON and SQLite, and its decisions."""
    database = folder / f"{name}.db"
    config = StorageConfig(url=f"sqlite:///{database}")
    init_engine_and_session_factory(url=config.url, force_init=True)
    create_all_tables(get_engine())
    is_tree = name == "tree"
    make = tree_toy.make_client if is_tree else make_client
    client = make(storage_config=config, **strategy)
    paths: list[str] = []
    decisions: list[Any] = []
    for step in range(trials + 1):
        ((index, arm),) = client.get_next_trials(max_trials=1).items()
        decisions.append({"arm": dict(arm), "record": record(client, index)})
        if step == trials:
            break
        # No two digits alike, so that a store which rounds is found out.
        value = tree_toy.cell_mean(dict(arm)) if is_tree else answer(dict(arm))
        complete_trial(client, index, {"z": value / 3})
        if "conditional" in strategy and step % 2:
            add_pairs(client, *pairs(5, seed=step))
        if step < FIRST_STORED:
            continue
        saved, copied = folder / f"{name}{step}.json", folder / f"{name}{step}.db"
        client.save_to_json_file(str(saved))
        shutil.copy(database, copied)
        paths += [str(saved), str(copied)]
    return paths, decisions


def test_next_decision_after_reload_is_the_same(tmp_path: Path) -> None:
    """Stored in both after each trial; a new process decides as the old one did."""
    names = ("fitted", "pairs", "tree")
    runs = [
        # Fitted hyperparameters, whose fit must not depend on the fits before it.
        _run("fitted", tmp_path, 6, hyperparameters=None, budget=20.0),
        _run("pairs", tmp_path, 6, conditional=learned(), query_parameters=["a2", "a1"]),
        _run("tree", tmp_path, 6, hyperparameters=None, noise=[0.04, 0.03, 0.02, 0.01]),
    ]
    assert [d["record"]["decision"]["pairs"] for d in runs[1][1][3:]] == [65, 70, 70, 75]
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


def test_pairs_are_stored_once(tmp_path: Path) -> None:
    """Those of the strategy with it, those that are added with the experiment, none per trial."""
    config = StorageConfig(url=f"sqlite:///{tmp_path / 'toy.db'}")
    init_engine_and_session_factory(url=config.url, force_init=True)
    create_all_tables(get_engine())
    client = make_client(storage_config=config, conditional=learned())
    marks = repr(float(pairs(60)[0][7, 1])), repr(float(pairs(5, seed=9)[0][3, 0]))
    for step in range(5):
        ((index, arm),) = client.get_next_trials(max_trials=1).items()
        complete_trial(client, index, {"z": answer(dict(arm))})
        if step == 3:
            add_pairs(client, *pairs(5, seed=9))
    client.save_to_json_file(str(tmp_path / "toy.json"))
    stored = (tmp_path / "toy.json").read_text()
    # Ax's snapshot has the whole experiment twice, beside the strategy and in it.
    assert [stored.count(mark) for mark in marks] == [1, 2]
    with sqlite3.connect(tmp_path / "toy.db") as database:
        dump = "\n".join(database.iterdump())
    assert [dump.count(mark) for mark in marks] == [1, 1]

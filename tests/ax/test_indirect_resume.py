"""A decision is a function of what is stored: JSON and SQLite, pairs that were added included."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from ax_costaware import RegressedConditional, add_pairs, complete_trial
from tests.ax import tree_toy
from tests.ax.indirect_toy import answer, learned, make_client, pairs
from tests.fresh import FreshProcess
from tests.resuming import Run, open_database

pytestmark = pytest.mark.usefixtures("short_searches")

STORED = (0, 1, 3)
"""Runs are stored after these: one initial trial comes after the first, then the model's."""


def _run(name: str, folder: Path, **strategy: Any) -> Run:
    """A run that was stored after its trials."""
    run = Run(folder, name)
    is_tree = name == "tree"
    make = tree_toy.make_client if is_tree else make_client
    design = {} if is_tree else {"initial_trials": 2}
    client = make(storage_config=run.config, **design, **strategy)
    for step in range(4):
        index, arm = run.decide(client)
        # No two digits alike, so that a store which rounds is found out.
        value = tree_toy.cell_mean(arm) if is_tree else answer(arm)
        complete_trial(client, index, {"z": value / 3})
        if "conditional" in strategy and step % 2:
            add_pairs(client, *pairs(5, seed=step))
        if step in STORED:
            run.store(client)
    run.decide(client)
    return run


def test_next_decision_after_reload_is_the_same(
    tmp_path: Path, fresh_process: FreshProcess
) -> None:
    """Stored after some trials; a new process decides as the old one did."""
    runs = [
        # Fitted hyperparameters, whose fit must not depend on the fits before it.
        _run("fitted", tmp_path, hyperparameters=None, budget=20.0),
        _run("pairs", tmp_path, conditional=learned(), query_parameters=["a2", "a1"]),
        _run("regressed", tmp_path, conditional=RegressedConditional(*pairs(30))),
        _run("tree", tmp_path, hyperparameters=None, noise=[0.04, 0.03, 0.02, 0.01]),
    ]
    assert [d["record"]["decision"]["pairs"] for d in runs[1].decisions[2:]] == [65, 65, 70]
    for run in runs:
        run.assert_resumed_alike(fresh_process)


def test_pairs_are_stored_once(tmp_path: Path) -> None:
    """Those of the strategy with it, those that are added with the experiment, none per trial."""
    client = make_client(storage_config=open_database(tmp_path / "toy.db"), conditional=learned())
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

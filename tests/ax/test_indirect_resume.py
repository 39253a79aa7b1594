"""A decision is a function of what is stored: JSON and SQLite, pairs that were added included."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from ax_costaware import add_pairs, complete_trial
from tests.ax.indirect_toy import answer, learned, make_client, pairs
from tests.resuming import open_database

pytestmark = pytest.mark.usefixtures("short_searches")


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

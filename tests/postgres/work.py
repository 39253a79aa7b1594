"""What processes of their own do in the tests on PostgreSQL."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from ax.exceptions.core import UnsupportedError

from ax_costaware import query, recommend, spending, take_over
from ax_costaware.ax_bridge.client import read_experiment
from ax_costaware.core.account import LedgerEntry
from tests.faults.kill import in_child
from tests.resuming import load
from tests.stores.make import CASES, NAME, decide

READERS = 2


def next_decision(url: str) -> dict[str, Any]:
    """The next decision on a stored experiment, which is taken over."""
    client = load(url, NAME)
    take_over(client)
    return decide(client)


def ask(url: str) -> str:
    """Ask for a trial of a stored experiment; what is said against it."""
    try:
        load(url, NAME).get_next_trials(max_trials=1)
    except UnsupportedError as error:
        return str(error)
    return ""


def write(url: str, case: str, num_trials: int) -> None:
    """Go on with a stored experiment, which is taken over."""
    client = load(url, NAME)
    take_over(client)
    for _ in range(num_trials):
        ((index, arm),) = client.get_next_trials(max_trials=1).items()
        CASES[case].complete(client, index, dict(arm))


def read(url: str, num_trials: int) -> None:
    """Read a stored experiment, until it has so many trials that are completed."""
    completed = 0
    while completed < num_trials:
        client = read_experiment(NAME, url)
        entries = spending(client).entries
        assert all(query(client, entry.trial_index).why for entry in entries)
        measured = set(client[0].lookup_data().df["trial_index"])
        done = {e.trial_index for e in entries if e.status == "COMPLETED"}
        assert done <= measured, "a trial is completed and has no data"
        assert len(done) >= completed, "a completed trial is gone"
        completed = len(done)
        assert recommend(client).parameters


def read_while_written(url: str, case: str, num_trials: int) -> int:
    """Two processes read an experiment while a third writes; how many trials are completed then."""
    before = sum(e.status == "COMPLETED" for e in entries_of(url))
    after = before + num_trials
    work: list[Callable[[], object]] = [lambda: write(url, case, num_trials)]
    work += [lambda: read(url, after)] * READERS
    for child in [in_child(one) for one in work]:
        assert os.waitpid(child, 0)[1] == 0, "a process failed: see the log"
    return sum(e.status == "COMPLETED" for e in entries_of(url)) - before


def entries_of(url: str) -> tuple[LedgerEntry, ...]:
    """The ledger of a stored experiment."""
    return spending(read_experiment(NAME, url)).entries

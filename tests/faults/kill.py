"""Kills processes that work on a stored experiment, and checks what they leave behind.

A driver loads the experiment from SQLite, completes the trial that is running, if there is one, and
goes on. It writes into a journal what a call of Ax or of the package returned, and is killed: at a
random time, or at a random statement or commit of SQL, so that the short moments between two
transactions are met, too. The same experiment, run in memory by a process that nobody kills, says
what every trial has to be.
"""

from __future__ import annotations

import json
import logging
import math
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ax.api.client import Client
from ax.core.trial_status import TrialStatus
from sqlalchemy import event
from sqlalchemy.engine import Engine

from ax_costaware.ax_bridge.records import decision_record, outcome_record
from ax_costaware.session import spending
from tests.resuming import load, open_database
from tests.stores.make import CASES, NAME, new_client

STATEMENTS = 90
"""About as many statements of SQL as a driver needs for two trials."""

STEPS = 3
SECONDS = 0.4
"""A driver is killed by the clock so many steps after it has loaded, and so much later, at most."""


def in_child(work: Callable[[], object]) -> int:
    """Fork a child that does ``work`` and ends; its process id."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            logging.getLogger(__name__).exception("in a child")
        finally:
            os._exit(code)
    return child


def _next(client: Client) -> tuple[int, dict[str, Any]]:
    ((index, arm),) = client.get_next_trials(max_trials=1).items()
    return index, dict(arm)


def _facts(client: Client) -> list[dict[str, Any]]:
    """What must be the same about every trial, however often its driver was killed."""
    data = client._experiment.lookup_data().df
    return [
        {
            "index": index,
            "arm": dict(trial.arms[0].parameters),
            "why": decision_record(trial).get("why"),
            "completed": trial.status.is_completed,
            "record": outcome_record(trial),
            "data": sorted(
                [str(row.metric_name), float(row.mean)]
                for row in data[data["trial_index"] == index].itertuples()
            ),
        }
        for index, trial in sorted(client._experiment.trials.items())
    ]


def reference(case: str, num_trials: int) -> list[dict[str, Any]]:
    """The trials of an experiment in memory that nobody interrupts."""
    client = new_client(CASES[case])
    for _ in range(num_trials):
        CASES[case].complete(client, *_next(client))
    return _facts(client)


def _drive(database: str, case: str, journal: Path, num_trials: int, statement: int | None) -> None:
    """Go on with a stored experiment, until somebody kills this process."""
    lines = journal.open("a", buffering=1)
    client = load(database, NAME)
    lines.write("loaded\n")
    if statement is not None:
        _die_at(statement)
    trials = client._experiment.trials
    while True:
        for index, trial in trials.items():
            if trial.status is TrialStatus.RUNNING:
                CASES[case].complete(client, index, dict(trial.arms[0].parameters))
                lines.write(f"completed {index}\n")
        if len(trials) >= num_trials:
            return
        index, _ = _next(client)
        lines.write(f"asked {index}\n")


def _die_at(statement: int) -> None:
    """Kill this process at a statement or commit to come."""
    left = [statement]

    def count(*_: object) -> None:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    event.listen(Engine, "before_cursor_execute", count)
    event.listen(Engine, "after_cursor_execute", count)
    event.listen(Engine, "commit", count)


def _kill(driver: int, journal: Path, before: int, steps: int, delay: float) -> bool:
    """Kill the driver so long after it has done some steps; whether it still ran."""
    while len(journal.read_text().splitlines()) < before + 1 + steps:
        ended, status = os.waitpid(driver, os.WNOHANG)
        if ended:
            assert status == 0, "the driver failed: see the log"
            return False
        time.sleep(0.002)
    time.sleep(delay)
    os.kill(driver, signal.SIGKILL)
    _, status = os.waitpid(driver, 0)
    return os.WIFSIGNALED(status)


def _check(database: str, journal: Path, expected: list[dict[str, Any]]) -> None:
    """What a driver left behind is a beginning of the expected trials, each whole or absent."""
    client = load(database, NAME)
    # As before every decision, what was stored of a trial without its data gives them back.
    charged = [entry.charged for entry in spending(client).entries]
    found = _facts(client)
    assert len(charged) == len(found) <= len(expected)
    lines = [line.split() for line in journal.read_text().splitlines()]
    asked = {int(line[1]) for line in lines if line[0] == "asked"}
    completed = {int(line[1]) for line in lines if line[0] == "completed"}
    indices = {fact["index"] for fact in found}
    assert asked <= indices, "a trial was handed out and is not stored"
    running = [fact["index"] for fact in found if not fact["completed"]]
    assert not completed.intersection(running), "a completed trial is not stored as such"
    assert sorted(indices) == list(range(len(found)))
    assert running in ([], [len(found) - 1])
    for fact, then in zip(found, expected, strict=False):
        if fact["completed"]:
            # Ax's data keep ten decimals in the database.
            data, expected_data = fact.pop("data"), then["data"]
            assert [name for name, _ in data] == [name for name, _ in expected_data]
            for (_, mean), (_, expected_mean) in zip(data, expected_data, strict=True):
                assert math.isclose(mean, expected_mean, rel_tol=0, abs_tol=1e-9)
            assert {**fact, "data": expected_data} == then, f"{fact}\n{then}"
        else:
            unfinished = {**then, "completed": False, "record": {}, "data": []}
            assert fact == unfinished, f"{fact}\n{then}"


def run(folder: str, case: str, kills: int, seed: int) -> dict[str, int]:
    """Kill drivers of one experiment one after the other, and check what each left behind.

    Args:
        folder: Where the experiment is stored.
        case: Which one, of ``tests.stores.make``.
        kills: How many drivers are killed.
        seed: Says when.

    Returns:
        How many were killed by the clock and at a statement, and how many trials there are.
    """
    logging.disable(logging.WARNING)
    draw = random.Random(seed)
    num_trials = 2 * kills + 4
    database, journal = f"{folder}/{case}.db", Path(folder, f"{case}.txt")
    wanted = journal.with_suffix(".json")
    journal.touch()

    def set_up() -> None:
        new_client(CASES[case], open_database(database))
        wanted.write_text(json.dumps(reference(case, num_trials)))

    # In a child: beside a GPU, a process that has computed gradients has no children that do.
    assert os.waitpid(in_child(set_up), 0)[1] == 0
    expected = json.loads(wanted.read_text())
    counts = {"by the clock": 0, "at a statement": 0}
    while sum(counts.values()) < kills:
        by_clock = draw.random() < 0.4
        statement = None if by_clock else draw.randint(1, STATEMENTS)

        def drive(statement: int | None = statement) -> None:
            _drive(database, case, journal, num_trials, statement)

        before = len(journal.read_text().splitlines())
        driver = in_child(drive)
        if by_clock:
            killed = _kill(
                driver, journal, before, draw.randint(0, STEPS), draw.uniform(0, SECONDS)
            )
        else:
            _, status = os.waitpid(driver, 0)
            killed = os.WIFSIGNALED(status)
            assert killed or status == 0, "the driver failed: see the log"
        counts["by the clock" if by_clock else "at a statement"] += killed
        checker = in_child(lambda: _check(database, journal, expected))
        assert os.waitpid(checker, 0)[1] == 0, f"after {counts} of {case}, see the log"
        if not killed:
            break
    return {**counts, "trials": journal.read_text().count("completed")}

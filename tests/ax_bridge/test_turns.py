"""Threads: one has its turn until what it was given are trials."""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from ax.api.client import Client
from ax.core.generator_run import GeneratorRun
from ax.exceptions.core import DataRequiredError, OptimizationShouldStop

from ax_costaware import complete_trial, locked, spending
from ax_costaware.ax_bridge import turns
from ax_costaware.ax_bridge.turns import CostAwareStrategy
from tests.ax.gittins_toy import complete, make_client
from tests.resuming import load, open_database

pytestmark = pytest.mark.usefixtures("short_searches")

SOON = 0.2
"""Seconds in which a call that does not wait is done."""


class Aside:
    """A call in another thread."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._thread = threading.Thread(target=lambda: self._found.append(call()))
        self._found: list[object] = []
        self._thread.start()

    def is_waiting(self) -> bool:
        self._thread.join(SOON)
        return self._thread.is_alive()

    def result(self) -> object:
        self._thread.join(60)
        (found,) = self._found
        return found


def decided(client: Client) -> GeneratorRun:
    """A decision that is no trial yet."""
    ((run,),) = client._generation_strategy.gen(client._experiment, n=1)
    return run


@pytest.mark.parametrize("asks", [True, False])
def test_others_wait_until_a_decision_is_a_trial(asks: bool) -> None:
    client = make_client(initial_trials=2, budget=20)
    run = decided(client)
    other = Aside(
        (lambda: list(client.get_next_trials(max_trials=1)))
        if asks
        else (lambda: len(spending(client).entries))
    )
    assert other.is_waiting()
    client._experiment.new_trial(run).mark_running(no_runner_required=True)
    assert other.result() == ([1] if asks else 1)


def test_a_decision_of_a_thread_that_has_ended_is_dropped() -> None:
    client = make_client(initial_trials=2)
    Aside(lambda: decided(client)).result()
    assert list(client.get_next_trials(max_trials=1)) == [0]


def test_a_decision_that_becomes_no_trial_is_waited_for_no_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turns, "MAX_SECONDS", 0.0)
    client = make_client(initial_trials=2)
    decided(client)
    assert Aside(lambda: list(client.get_next_trials(max_trials=1))).result() == [0]


def test_one_thread_does_not_wait_for_itself() -> None:
    client = make_client(initial_trials=3)
    first, second = decided(client), decided(client)
    for run in (second, first):
        client._experiment.new_trial(run)
    assert sorted(client.get_next_trials(max_trials=1)) == [2]


def test_the_lock_is_held_for_calls_of_ax() -> None:
    client = make_client(initial_trials=2)
    client.get_next_trials(max_trials=1)
    with locked(client):
        other = Aside(lambda: complete_trial(client, 0, 0.5))
        assert other.is_waiting()
        client.attach_trial({"x1": 0.5, "x2": 0.5})
    assert other.result() is None
    assert client._experiment.trials[0].status.is_completed


@pytest.mark.parametrize("store", ["toy.json", "toy.db"])
def test_a_strategy_that_was_loaded_has_the_lock(tmp_path: Path, store: str) -> None:
    path = str(tmp_path / store)
    client = make_client(
        storage_config=open_database(path) if store.endswith(".db") else None, initial_trials=2
    )
    client.get_next_trials(max_trials=1)
    if store.endswith(".json"):
        client.save_to_json_file(path)
    again = load(path)
    for strategy in (client._generation_strategy, again._generation_strategy):
        assert isinstance(strategy, CostAwareStrategy)
        assert isinstance(copy.deepcopy(strategy), CostAwareStrategy)


@pytest.mark.parametrize(("ours", "is_stored"), [(True, True), (False, False)])
def test_threads_that_share_a_client(tmp_path: Path, ours: bool, is_stored: bool) -> None:
    """No thread fails, the budget is kept, and each trial is handed out once."""
    config = open_database(tmp_path / "toy.db") if is_stored else None
    client = make_client(storage_config=config, initial_trials=4, budget=8)
    handed_out: list[int] = []
    errors: list[BaseException] = []

    def step() -> None:
        try:
            ((index, arm),) = client.get_next_trials(max_trials=1).items()
        except DataRequiredError:  # the initial design is handed out, and the others work on it
            time.sleep(0.05)
            return
        handed_out.append(index)
        if ours:
            complete(client, index, dict(arm))
        else:
            with locked(client):
                client.complete_trial(index, {"y": float(arm["x1"])})

    def work() -> None:
        try:
            while True:
                step()
        except OptimizationShouldStop:
            pass
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert spending(client).spent <= 8
    trials = client._experiment.trials
    assert sorted(handed_out) == list(trials)
    assert set(client._experiment.lookup_data().df["trial_index"]) == set(trials)
    if is_stored:
        assert spending(load(str(tmp_path / "toy.db"))) == spending(client)

"""Which strategy of an experiment a database gives back."""

from __future__ import annotations

from pathlib import Path

import ax_costaware as ac
from tests.ax.gittins_toy import make_client as gittins_client
from tests.resuming import load, open_database


def test_a_strategy_that_takes_its_place_back_is_the_one_that_is_loaded(tmp_path: Path) -> None:
    """By a decision, or once it is saved."""
    database = tmp_path / "toy.db"
    client = gittins_client(storage_config=open_database(database), budget=40.0, initial_trials=9)
    client.get_next_trials(max_trials=1)
    first = client._generation_strategy
    for keep in (lambda: client.get_next_trials(max_trials=1), lambda: ac.save(client)):
        client.set_generation_strategy(
            gittins_client(budget=50.0, initial_trials=9)._generation_strategy
        )
        client.get_next_trials(max_trials=1)
        client.set_generation_strategy(first)
        keep()
        loaded = load(str(database))
        assert ac.spending(loaded).budget == 40.0
        assert ac.spending(loaded) == ac.spending(client)
        assert len(loaded._generation_strategy._generator_runs) == len(first._generator_runs)

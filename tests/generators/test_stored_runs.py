"""Generator runs of a strategy that were stored without their trial, and the other way round."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from ax.generation_strategy.generation_strategy import GenerationStrategy

from ax_costaware import complete_trial
from tests.ax.gittins_toy import make_client, objective
from tests.resuming import load, open_database


def test_ax_keeps_the_runs_in_a_list() -> None:
    """Should this fail, ``generators/stored_runs.py`` has to find them elsewhere."""
    client = make_client()
    client.get_next_trials(max_trials=2)
    strategy: GenerationStrategy = client._generation_strategy
    trials = client._experiment.trials.values()
    assert strategy._generator_runs == [trial.generator_runs[0] for trial in trials]
    assert {run._generation_node_name for run in strategy._generator_runs} <= set(
        strategy.nodes_by_name
    )


@pytest.mark.parametrize(
    "lost",
    [
        # The process was killed after the strategy was stored, or after the trial was.
        "DELETE FROM trial_v2 WHERE [index] = 2; "
        "UPDATE generator_run_v2 SET trial_id = NULL WHERE id = 3",
        "UPDATE generator_run_v2 SET generation_strategy_id = NULL WHERE id = 3",
    ],
    ids=["no trial", "no strategy"],
)
def test_the_design_goes_on_as_if_nobody_was_killed(tmp_path: Path, lost: str) -> None:
    database = tmp_path / "toy.db"
    client = make_client(storage_config=open_database(database), initial_trials=6)
    arms = {}
    for _ in range(3):
        ((index, arm),) = client.get_next_trials(max_trials=1).items()
        arms[index] = dict(arm)
        if index < 2:
            complete_trial(client, index, {"y": objective(dict(arm))})
    connection = sqlite3.connect(database)
    connection.executescript(lost)
    connection.close()

    resumed = load(str(database))
    stored = len(resumed._experiment.trials)
    assert stored == (2 if "DELETE" in lost else 3)
    following = [dict(arm) for arm in resumed.get_next_trials(max_trials=2).values()]
    uninterrupted = make_client(initial_trials=6).get_next_trials(max_trials=5)
    assert following == [dict(uninterrupted[index]) for index in (stored, stored + 1)]
    assert arms[2] == dict(uninterrupted[2])

"""What is learned from: what really happened, whatever a killed process has left of it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np
import pytest
from ax.api.client import Client
from ax.api.configs import StorageConfig
from ax.core.data import Data
from ax.core.experiment import Experiment

from ax_costaware import complete_trial
from ax_costaware.ax_bridge.records import problem_of
from ax_costaware.ax_bridge.training_data import restore_data
from ax_costaware.methods.cost_aware import CostAware
from tests.ax.gittins_toy import make_client, objective
from tests.resuming import load, open_database

pytestmark = pytest.mark.usefixtures("short_searches")

OUTCOMES = [1 / 3, 0.012345678901234, -2 / 7]


def observed(experiment: Experiment) -> list[float | None]:
    """Outcomes that a model learns from."""
    return [trial.outcome for trial in problem_of(experiment, CostAware(1.0)).observed]


def completed(storage_config: StorageConfig | None = None) -> Client:
    """A client with three trials."""
    client = make_client(storage_config=storage_config)
    for outcome in OUTCOMES:
        (index,) = client.get_next_trials(max_trials=1)
        complete_trial(client, index, {"y": (outcome, 1 / 30)})
    return client


@pytest.mark.parametrize("suffix", [".json", ".db"])
def test_outcomes_keep_their_precision(suffix: str, tmp_path: Path) -> None:
    """A stored observation has ten decimals; the record has them all, where it is the same one."""
    path = tmp_path / f"toy{suffix}"
    client = completed(open_database(path) if suffix == ".db" else None)
    if suffix == ".json":
        client.save_to_json_file(str(path))
    for one in (client, load(str(path))):
        assert observed(one._experiment) == OUTCOMES
        trials = problem_of(one._experiment, CostAware(1.0)).observed
        assert [trial.errors["y"] for trial in trials] == [1 / 30] * 3
    # What was corrected since counts, as Ax's stores keep it.
    client.attach_data(0, {"y": 2 / 3})
    assert observed(client._experiment) == [round(2 / 3, 10), *OUTCOMES[1:]]


def test_tiny_outcomes_are_not_rounded_away() -> None:
    """Those that Ax was told of: alone or far from others they are what its stores keep."""
    client = make_client()
    for outcome in (1.23e-12, 4.5e-12):
        (index,) = client.get_next_trials(max_trials=1)
        client.complete_trial(index, {"y": outcome})
    assert observed(client._experiment) == [1.23e-12, 4.5e-12]
    (index,) = client.get_next_trials(max_trials=1)
    client.complete_trial(index, {"y": 1 / 3})
    assert observed(client._experiment) == [0.0, 0.0, round(1 / 3, 10)]


def test_what_is_not_finite_is_no_outcome() -> None:
    """Ax's own calls let it pass; so do they errors that are not finite, which are not known."""
    client = make_client()
    for outcome in (np.nan, np.inf, 1.0, 2.0):
        (index,) = client.get_next_trials(max_trials=1)
        error = np.inf if outcome == 1.0 else 0.1
        client.attach_data(index, {"y": (outcome, error)})
        client._experiment.trials[index].mark_completed()
    trials = problem_of(client._experiment, CostAware(1.0)).observed
    assert [(trial.outcome, trial.errors) for trial in trials] == [(1.0, {}), (2.0, {"y": 0.1})]
    client.get_next_trials(max_trials=1)


def test_outcomes_are_restored_from_the_record() -> None:
    """A process that was killed has stored the trial, and not its data."""
    client = completed()
    experiment = client._experiment
    experiment.data = Data()
    assert restore_data(experiment) == [0, 1, 2]
    assert observed(experiment) == OUTCOMES
    assert restore_data(experiment) == []


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


def test_a_design_does_not_go_on_from_that_of_another_strategy(tmp_path: Path) -> None:
    """In a database, which is where runs are looked for, as elsewhere."""
    client = make_client(storage_config=open_database(tmp_path / "toy.db"), seed=1)
    client.get_next_trials(max_trials=2)
    client.set_generation_strategy(make_client(seed=2, initial_trials=6)._generation_strategy)
    client.save_to_json_file(str(tmp_path / "toy.json"))
    arms = [load(str(tmp_path / "toy.json")).get_next_trials(max_trials=4)]
    arms.append({**client.get_next_trials(max_trials=1), **client.get_next_trials(max_trials=1)})
    arms[-1].update(load(str(tmp_path / "toy.db")).get_next_trials(max_trials=2))
    assert arms[0] == arms[1]
    fresh = make_client(seed=2, initial_trials=6).get_next_trials(max_trials=5)
    # That of the strategy itself, with a point for each trial of the experiment.
    assert [arms[0][index] for index in (2, 3, 4)] == [fresh[index] for index in (2, 3, 4)]

"""What a model is trained on: what really happened, whatever a killed process has left of it."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ax.core.data_utils import ExperimentData
from ax.generation_strategy.generation_strategy import GenerationStrategy
from pandas import DataFrame, MultiIndex

from ax_costaware import complete_trial
from ax_costaware.ax_bridge.training_data import realized_data
from tests.ax.gittins_toy import make_client, objective
from tests.resuming import load, open_database


class Trial:
    """As much of a trial as is read."""

    def __init__(self, **record: Any) -> None:
        self.record = record
        self.run_metadata = {"ax_costaware": record} if record else {}


def lay(
    trials: list[Trial],
    means: list[float],
    sems: list[float] | None = None,
    bounded: list[float] | None = None,
) -> tuple[DataFrame, DataFrame]:
    """Arms plan x = 0.5 and soil = clay; a second metric is dropped, unless it is bounded."""
    index = MultiIndex.from_tuples(
        [(i, f"{i}_0") for i in range(len(trials))], names=["trial_index", "arm_name"]
    )
    arms = DataFrame({"x": 0.5, "n": 1, "soil": "clay", "metadata": [{} for _ in trials]}, index)
    observed = DataFrame(
        {
            ("mean", "y"): means,
            ("mean", "cost"): bounded or 1.0,
            ("sem", "y"): sems or [np.nan] * len(trials),
            ("sem", "cost"): 0.5,
        },
        index,
    )
    # Trials that were completed out of order come in that order.
    data = realized_data(
        ExperimentData(arm_data=arms.iloc[::-1], observation_data=observed.iloc[::-1]),
        dict(enumerate(trials)),  # type: ignore[arg-type]
        {i: t.record.get("realized") or {} for i, t in enumerate(trials)},
        metrics=["y"] if bounded is None else ["y", "cost", "missing"],
        parameters=["x", "n", "soil", "late"],
    )
    return data.arm_data, data.observation_data


def test_realized_values_replace_planned_ones() -> None:
    """Of any type, in trial order, for the parameters that were reported."""
    arms, _ = lay([Trial(), Trial(realized={"x": 0.123, "soil": "sand", "n": 3})], [1.0, 2.0])
    assert arms["x"].tolist() == [0.5, 0.123]
    assert arms["n"].tolist() == [1, 3]
    assert arms["soil"].tolist() == ["clay", "sand"]
    assert arms["soil"].dtype == object
    assert arms["late"].isna().all()
    assert "metadata" in arms


def test_only_observed_trials_and_the_objective_are_kept() -> None:
    """A trial without the objective is left out, and so is every other metric."""
    arms, observed = lay([Trial()] * 5, [1.0, np.nan, 3.0, np.inf, -np.inf])
    assert arms.index.get_level_values("trial_index").tolist() == [0, 2]
    assert set(observed.columns) == {("mean", "y"), ("sem", "y")}


def test_a_trial_may_lack_one_of_several_metrics() -> None:
    """It is kept for the others; what is infinite is none."""
    third, nan = 1 / 3, np.nan
    trials = [Trial(outcomes={"cost": [third, None]}), *[Trial()] * 3]
    means, bounded = [nan, 2.0, np.inf, 4.0], [round(third, 10), np.inf, nan, 7.0]
    arms, observed = lay(trials, means, bounded=bounded)
    assert arms.index.get_level_values("trial_index").tolist() == [0, 1, 3]
    assert observed["mean", "y"].tolist() == pytest.approx([nan, 2.0, 4.0], nan_ok=True)
    assert observed["mean", "cost"].tolist() == pytest.approx([third, nan, 7.0], nan_ok=True)
    assert observed["mean", "cost"].iloc[0] == third


def test_outcomes_keep_their_precision() -> None:
    """A stored observation has ten decimals; the record has them all, where it is the same one."""
    third = 1 / 3
    record = {"y": [third, 0.012345678901234]}
    trials = [Trial(outcomes=record), Trial(outcomes=record), Trial()]
    _, observed = lay(trials, [round(third, 10), 0.7, third], [round(0.012345678901234, 10)] * 3)
    assert observed["mean", "y"].tolist() == [third, 0.7, round(third, 10)]
    assert observed["sem", "y"].tolist()[0] == 0.012345678901234
    _, reloaded = lay(trials, [round(third, 10), 0.7, round(third, 10)], [0.0123456789] * 3)
    assert reloaded.equals(observed)


def test_infinite_standard_errors_are_none() -> None:
    """Ax's own calls let them pass; the others would be taken for as uncertain."""
    _, observed = lay([Trial()] * 4, [1.0, 2.0, 3.0, 4.0], [0.1, np.inf, np.nan, 1e200])
    assert observed["sem", "y"].tolist() == pytest.approx([0.1] * 4)


def test_tiny_outcomes_survive() -> None:
    """With a record they come back from zero; without one they are not rounded away."""
    record = [Trial(outcomes={"y": [1.23e-12, None]}), Trial(outcomes={"y": [4.5e-12, None]})]
    _, observed = lay(record, [0.0, 0.0])
    assert observed["mean", "y"].tolist() == pytest.approx([1.23e-12, 4.5e-12], rel=1e-15)
    _, observed = lay([Trial(), Trial()], [1.23e-12, 4.5e-12])
    assert observed["mean", "y"].tolist() == [1.23e-12, 4.5e-12]


def test_the_first_outcome_is_that_of_the_store() -> None:
    """Where Ax was told of it; alone it has no spread that rounding could harm."""
    _, observed = lay([Trial()], [1 / 3])
    assert observed["mean", "y"].tolist() == [round(1 / 3, 10)]


def test_ax_keeps_the_runs_in_a_list() -> None:
    """Should this fail, ``ax_bridge/training_data.py`` has to find them elsewhere."""
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
    assert [*arms[0].values()] == [*fresh.values()][1:]  # without the center

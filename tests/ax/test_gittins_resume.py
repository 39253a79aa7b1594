"""A decision is a function of what is stored: JSON and SQLite, lambda, decay and costs included."""

from __future__ import annotations

from pathlib import Path

import pytest
from ax.core.parameter import ParameterType, RangeParameter
from ax.exceptions.core import UserInputError
from ax.orchestration.orchestrator import Orchestrator
from ax.orchestration.orchestrator_options import OrchestratorOptions
from ax.storage.sqa_store.structs import DBSettings

from ax_costaware import (
    FunctionRunner,
    complete_trial,
    query,
    recommend,
    save,
    spending,
)
from ax_costaware.ax_bridge.node import method_of
from ax_costaware.ax_bridge.records import problem_of
from tests.ax.gittins_toy import arm_of, make_client, objective, run_trials
from tests.resuming import Run, decide, load, open_database

pytestmark = pytest.mark.usefixtures("short_searches")


@pytest.mark.parametrize("changed", ["direction", "range"])
def test_what_changes_without_an_outcome_is_seen_at_once(changed: str, tmp_path: Path) -> None:
    """Ax fits no model anew to the same data, but outliers and scales of inputs are others."""
    client = make_client(budget=60.0, initial_trials=0, surrogate_spec=None)
    for i, outcome in enumerate([3.0, 1.0, 2.0, 2.5, 1.5, -40.0, 60.0, 2.2]):
        complete_trial(client, client.attach_trial({"x1": 0.12 * i, "x2": 0.5 * (i % 3)}), outcome)
    before = recommend(client)
    if changed == "direction":
        client.configure_optimization(objective="-y")
    else:
        wider = RangeParameter("x1", ParameterType.FLOAT, lower=0.0, upper=3.0)
        client._experiment.search_space.update_parameter(wider)
    client.save_to_json_file(str(tmp_path / "toy.json"))
    loaded = load(str(tmp_path / "toy.json"))
    assert before != recommend(client) == recommend(loaded)
    assert decide(client) == decide(loaded)


def test_a_parameter_that_is_added_has_its_value_in_earlier_trials(tmp_path: Path) -> None:
    """Beside a trial that runs; what a JSON file does not say is asked for."""
    run, trials = Run(tmp_path), 4
    client = make_client(storage_config=run.config, budget=60.0)
    run_trials(client, trials)
    client.get_next_trials(max_trials=1)
    added = RangeParameter("x3", ParameterType.FLOAT, 0.0, 1.0, backfill_value=0.25)
    client._experiment.add_parameters_to_search_space([added])
    save(client)
    run.store(client)
    decision = decide(client)
    problem = problem_of(client._experiment, method_of(client._generation_strategy))
    assert [trial.inputs["x3"] for trial in problem.trials[:-1]] == [0.25] * (trials + 1)
    file, database = run.paths
    assert decide(load(database)) == decision
    for ask in (decide, recommend):
        with pytest.raises(UserInputError, match=r"trial 0: it has no value of \['x3'\]: expected"):
            ask(load(file))


@pytest.mark.filterwarnings("ignore:TypeDecorator JSONEncodedText:Warning")
def test_an_orchestrator_that_resumes_knows_the_decisions(tmp_path: Path) -> None:
    """``from_stored_experiment`` loads trials without what was recorded of their decisions."""
    url = f"sqlite:///{tmp_path / 'toy.db'}"
    client = make_client(storage_config=open_database(tmp_path / "toy.db"), budget=60.0)
    client.configure_runner(FunctionRunner("toy"))
    run_trials(client, 4)
    resumed = Orchestrator.from_stored_experiment("toy", OrchestratorOptions(), DBSettings(url=url))
    found = resumed.experiment, resumed.generation_strategy
    assert [query(found, i) for i in range(4)] == [query(client, i) for i in range(4)]
    assert spending(found) == spending(client)


def test_a_point_that_is_tried_again_is_stored_with_every_trial(tmp_path: Path) -> None:
    """The SQL store takes an arm from the trial that had it first, if two trials share it."""
    client = make_client(storage_config=open_database(tmp_path / "toy.db"), budget=60.0, stop=False)
    run_trials(client, 4)
    again = {"x1": 0.25, "x2": 0.5}
    for _ in range(3):
        ((index, arm),) = client.get_next_trials(max_trials=1, fixed_parameters=again).items()
        assert arm == again
        complete_trial(client, index, {"y": objective(again)})
    loaded = load(str(tmp_path / "toy.db"))
    arms, stored = ([arm_of(c, index) for index in range(7)] for c in (client, loaded))
    assert stored == arms
    names = [trial.arm.name for trial in loaded._experiment.trials.values()]  # type: ignore[attr-defined]
    assert names[4:] == 3 * ["4_0"], "as Ax names an arm that it knows"

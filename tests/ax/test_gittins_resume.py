"""A decision is a function of what is stored: JSON and SQLite, lambda, decay and costs included."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ax.api.client import Client
from ax.core.parameter import ParameterType, RangeParameter
from ax.exceptions.core import UserInputError
from ax.orchestration.orchestrator import Orchestrator
from ax.orchestration.orchestrator_options import OrchestratorOptions
from ax.storage.sqa_store.structs import DBSettings

from ax_costaware import (
    AffineCost,
    FunctionRunner,
    GittinsDecay,
    ProductCost,
    StandardizedPrice,
    SwitchingCost,
    complete_trial,
    query,
    recommend,
    save,
    spending,
)
from ax_costaware.ax_bridge.node import method_of
from ax_costaware.ax_bridge.records import problem_of
from tests.ax.gittins_toy import arm_of, make_client, objective, run_trials, true_cost
from tests.fresh import FreshProcess
from tests.resuming import Run, decide, load, open_database

pytestmark = pytest.mark.usefixtures("short_searches")

STORED = (0, 1, 3, 5)
"""Runs are stored after these: one initial trial comes after the first, then the model's."""

SUM = AffineCost({"x2": 2.0}) + ProductCost({"x1": 1}) + 0.25

TINY = 1e-12
"""Costs of some 1e-12 are zero or one digit in Ax's data, which keep ten decimals."""


def _run(name: str, folder: Path, trials: int, **strategy: Any) -> Run:
    """A run that was stored after its trials."""
    run = Run(folder, name)
    client = make_client(storage_config=run.config, initial_trials=2, **strategy)
    if "hours" in strategy.values():
        client.configure_tracking_metrics(["hours"])
    for step in range(trials):
        index, arm = run.decide(client)
        _complete(client, index, arm, step, learned="hours" in strategy.values())
        if step in STORED:
            run.store(client)
    run.decide(client)
    return run


def _complete(client: Client, index: int, arm: dict[str, Any], step: int, learned: bool) -> None:
    cost = TINY * true_cost(arm) if learned else None
    if step == 3:
        # An outcome is lost, not its cost.
        complete_trial(client, index, None, cost=cost)
    else:
        complete_trial(client, index, {"y": objective(arm) / 3}, cost=cost)


def test_next_decision_after_reload_is_the_same(
    tmp_path: Path, fresh_process: FreshProcess
) -> None:
    """Stored after some trials; a new process decides as the old one did."""
    runs = [
        # Ax's default surrogate, whose fit must not depend on the fits before it either.
        _run("held", tmp_path, 4, budget=60.0, stop=True, surrogate_spec=None, initial_share=0.2),
        _run("again", tmp_path, 4, budget=40.0, acquisition="log_ei_cost_cooling"),
        _run("learned", tmp_path, 6, cost="hours", decay=GittinsDecay(3.0)),
        _run("sum", tmp_path, 2, budget=60.0, cost=SwitchingCost({"x1": 0.1}, SUM)),
        _run("scaled", tmp_path, 2, lmbda=StandardizedPrice(1e-4), acquisition="gittins"),
    ]
    held, again, learned, added, _ = (run.decisions for run in runs)
    paid = added[-1]["record"]
    assert paid["expected_cost"] - paid["switching_cost"] == pytest.approx(SUM.at(added[-1]["arm"]))
    assert len({d["record"]["decision"]["lambda"] for d in held[2:]}) == 1
    assert len({d["record"]["decision"]["lambda"] for d in again[2:]}) == 3
    assert learned[-1]["record"]["decision"]["relative_lambda"] < 3.0
    assert 0.4 * TINY < learned[-1]["record"]["expected_cost"] < 4 * TINY
    for run in runs:
        run.assert_resumed_alike(fresh_process)


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


@pytest.mark.parametrize("trials", [2, 4])
def test_a_parameter_that_is_added_has_its_value_in_earlier_trials(
    trials: int, tmp_path: Path
) -> None:
    """In either phase, beside a trial that runs; what a JSON file does not say is asked for."""
    run = Run(tmp_path)
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

"""Outcome constraints of queries and of costly feedback, through Ax's client, and its stores."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ax.api.client import Client
from ax.exceptions.core import UnsupportedError

import ax_costaware as ac
from ax_costaware.analysis import overview
from ax_costaware.ax_bridge.node import fitted_problem
from ax_costaware.models import ConditionalMeanProcess, FixedTimeVaryingGP, TimeVaryingGP
from ax_costaware.models.factor import only_model
from ax_costaware.models.fixed_hyperparameters import FixedConditionalMeanProcess
from tests.ax import feedback_toy, indirect_toy, toy, tree_toy
from tests.fresh import FreshProcess
from tests.repeats import mostly_slow
from tests.resuming import Run, decide

pytestmark = pytest.mark.usefixtures("short_searches")


def bounded(client: Client, objective: str, bound: str) -> Client:
    client.configure_optimization(objective=objective, outcome_constraints=[bound])
    return client


def run_sets(client: Client, index: int, arm: dict[str, Any]) -> None:
    """The heat is 0.8 at the unconstrained best, and 0.6 on average where only ``x1`` is set."""
    realized = toy.realize(index, arm)
    x: dict[str, Any] = {**arm, **realized}
    heat = float(x["x2"]) + 0.2 * float(x["x3"])
    ac.complete_trial(client, index, {"y": toy.objective(x), "heat": heat}, realized=realized)


def run_queries(client: Client, index: int, arm: dict[str, Any]) -> None:
    """The dose is the second coordinate of a point."""
    dose = 10 * float(arm["a2"])
    ac.complete_trial(client, index, {"z": indirect_toy.answer(arm), "dose": dose})


def run_cells(client: Client, index: int, arm: dict[str, Any]) -> None:
    """The dose is the second coordinate of a point, and five."""
    dose = 5 + float(arm["x2"])
    ac.complete_trial(client, index, {"z": tree_toy.cell_mean(arm), "dose": dose})


def run_feedback(client: Client, index: int, arm: dict[str, Any]) -> None:
    """The heat is the first coordinate, and the load grows with time."""
    measure = ac.query(client, index).measure
    value, heat = feedback_toy.objective(arm, index), float(arm["x1"]) + index / 50
    ac.complete_trial(client, index, {"y": value, "heat": heat} if measure else None)


def run(client: Client, step: Callable[..., None], count: int) -> None:
    for _ in range(count):
        ((index, arm),) = client.get_next_trials(max_trials=1).items()
        step(client, index, dict(arm))


def test_control_sets() -> None:
    """Ends at the best feasible query; Ax's own best arm, and what a trial says."""
    client = bounded(toy.make_client(), "y", "heat <= 0.55")
    run(client, run_sets, 11)
    best = ac.recommend(client)
    assert best.feasibility is not None
    assert best.feasibility >= 0.9
    values = {"x3": 0.5, **best.parameters}
    assert float(str(values["x2"])) + 0.2 * float(str(values["x3"])) < 0.56
    assert -0.15 < best.expected_value < 0.0
    assert "feasible with probability" in str(best)
    assert [other.control_set for other in best.alternatives][-1] == "x1"
    decision = toy.record(client, 10)["decision"]
    assert 0.0 <= decision["feasibility"] <= 1.0
    arm, _, index, _ = client.get_best_parameterization()
    assert arm == toy.arm_of(client, index)
    assert arm["control_set"] != "x1"


@pytest.mark.parametrize("name", mostly_slow(["queries", "cells"], ["queries"]))
def test_averages(name: str) -> None:
    """The constraint is on the point; each outcome has a model of averages of its own."""
    if name == "queries":
        client = bounded(indirect_toy.make_client(raw_samples=128), "z", "dose <= 4")
        run(client, run_queries, 8)
        expected, at = 4.0, "x1"
    else:
        client = bounded(tree_toy.make_client(noise=0.01), "z", "dose <= 5")
        run(client, run_cells, 10)
        expected, at = 4.3, "x1"
    best = ac.recommend(client)
    assert best.feasibility is not None
    assert best.feasibility >= 0.9
    bound = 4.0 if name == "queries" else 0.0
    assert bound - 0.5 < float(str(best.parameters["x2"])) <= bound + 0.05
    assert float(str(best.parameters[at])) == pytest.approx(expected, abs=1.0)
    last = max(client._experiment.trials)
    decision = toy.record(client, last)["decision"]
    assert decision["acquisition"] == "joint_entropy"
    assert 0.0 <= decision["recommendation"]["feasibility"] <= 1.0
    assert "within the bounds of other outcomes" in ac.query(client, last).why
    (constraint,) = fitted_problem(client._experiment, client._generation_strategy).constraints
    other = only_model(constraint.fit())
    assert isinstance(other, ConditionalMeanProcess)
    assert not isinstance(other, FixedConditionalMeanProcess), "it is fitted"
    with pytest.raises(UnsupportedError, match="outcomes are averages"):
        client.get_best_parameterization()
    assert client.get_best_parameterization(use_model_predictions=False)


def test_costly_feedback() -> None:
    """At the present time, by a model of the heat that forgets at a rate of its own."""
    client = bounded(feedback_toy.make_client(), "y", "heat <= 0.5")
    run(client, run_feedback, 11)
    best = ac.recommend(client)
    assert best.feasibility is not None
    assert best.feasibility >= 0.9
    assert float(str(best.parameters["x1"])) < 0.35
    assert "feasible with probability" in str(best)
    said = ac.query(client, 10)
    assert "weighted by its probability of being feasible" in said.why
    (constraint,) = fitted_problem(client._experiment, client._generation_strategy).constraints
    other = only_model(constraint.fit())
    assert isinstance(other, TimeVaryingGP)
    assert other.forgetting_kernel.forgetting.item() != feedback_toy.FORGETTING
    assert not isinstance(other, FixedTimeVaryingGP), "its hyperparameters are fitted"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sets", "queries", "feedback"])
def test_cards(name: str) -> None:
    make, step, objective, bound = {
        "sets": (toy.make_client, run_sets, "y", "heat <= 0.55"),
        "queries": (indirect_toy.make_client, run_queries, "z", "dose <= 4"),
        "feedback": (feedback_toy.make_client, run_feedback, "y", "heat <= 0.5"),
    }[name]
    client = bounded(make(), objective, bound)
    run(client, step, 6)
    cards = list(overview(client))
    assert cards
    assert not [card.title for card in cards if "rror" in card.title]


@pytest.mark.parametrize(
    "name", ["sets", "queries", "feedback", pytest.param("tree", marks=pytest.mark.slow)]
)
def test_next_decision_after_reload_is_the_same(
    name: str, tmp_path: Path, fresh_process: FreshProcess
) -> None:
    stored = Run(tmp_path, name)
    make, step, metric, bound = {
        "sets": (toy.make_client, run_sets, "y", "heat <= 0.3"),
        "queries": (indirect_toy.make_client, run_queries, "z", "dose <= 4"),
        "tree": (tree_toy.make_client, run_cells, "z", "dose <= 5"),
        "feedback": (feedback_toy.make_client, run_feedback, "y", "heat <= 0.4"),
    }[name]
    settings: dict[str, Any] = {"feasibility_threshold": 0.8, "initial_trials": 2}
    client = bounded(make(storage_config=stored.config, **settings), metric, bound)
    for _ in range(3):
        index, arm = stored.decide(client)
        step(client, index, arm)
    stored.store(client)
    stored.decide(client)
    stored.assert_resumed_alike(fresh_process)


def test_minimising_and_batches_of_control_sets() -> None:
    client = bounded(toy.make_client(minimize=True), "-y", "heat <= 0.55")
    for _ in range(6):
        ((index, arm),) = client.get_next_trials(max_trials=1).items()
        x: dict[str, Any] = {**arm, **toy.realize(index, dict(arm))}
        data = {"y": -toy.objective(x), "heat": float(x["x2"]) + 0.2 * float(x["x3"])}
        ac.complete_trial(client, index, data, realized=toy.realize(index, dict(arm)))
    batch = client.get_next_trials(max_trials=2)
    assert len(batch) == 2
    for index in batch:
        assert "feasibility" in toy.record(client, index)["decision"]
    _, after = decide(client)
    assert after["arm"] not in list(batch.values())

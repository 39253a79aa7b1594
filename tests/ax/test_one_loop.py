"""A decision is the same with and without Ax: both ask one loop.

Each strategy runs in a ``Client`` and in a ``Simulation`` side by side, with fitted
hyperparameters, over twelve trials of mixed spaces, two of which run while the next ones are
chosen, and one with a parameter that the caller fixes. All parameterizations are equal bit for bit,
also after saving and loading in a new process, with both of Ax's stores.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig, StorageConfig
from ax.generation_strategy.generation_strategy import GenerationStrategy
from botorch.acquisition.analytic import UpperConfidenceBound

import ax_costaware as ac
from ax_costaware.ax_bridge.node import node_of
from ax_costaware.ax_bridge.search_space import space_of
from ax_costaware.core import Decision, Outcome, OutcomeConstraint, Problem, Simulation
from ax_costaware.core.method import Method
from ax_costaware.space.parameters import Range, Row
from ax_costaware.storage import register_value_object
from tests.fresh import FreshProcess
from tests.resuming import load, open_database

NUM_TRIALS = 12
RUNNING = (6, 7)
"""Trials that run while the next two are chosen."""
FIXED = 9
"""The trial with a parameter that the caller fixes."""

RATE = RangeParameterConfig("rate", (1e-3, 1.0), "float", scaling="log")
SIZE = RangeParameterConfig("size", (1, 6), "int")
A, B = (RangeParameterConfig(name, (0, 1), "float") for name in "ab")
KIND = ChoiceParameterConfig("kind", ["u", "v", "w"], "str", is_ordered=False)


X = RangeParameterConfig("x", (0, 1), "float")


@dataclass(frozen=True)
class Cheapest(Method):
    """The least upper confidence bound of the outcome, with two deviations."""

    def cost_at(self, parameters: Row) -> float:
        """Twice for a large one."""
        return 1.0 + (float(str(parameters["size"])) > 3)

    def decide(self, problem: Problem) -> Decision:
        """The point with the best bound."""
        bound = UpperConfidenceBound(problem.model, beta=4.0)
        point = problem.maximize(bound, {"num_restarts": 2, "raw_samples": 64}).point
        (row,) = problem.space.decode(point.unsqueeze(0))
        return Decision(row, "It has the best bound.", self.cost_at(row))


register_value_object(Cheapest)


@dataclass(frozen=True)
class Setting:
    """An experiment of one strategy."""

    strategy: Callable[[], GenerationStrategy]
    parameters: Sequence[Any]
    constraints: Sequence[str] = ()
    minimize: bool = False
    bounds: dict[str, float] = field(default_factory=dict)
    """Largest feasible value of further outcomes."""
    fixed: dict[str, Any] = field(default_factory=dict)
    chance: tuple[str, ...] = ()
    """Inputs that some control set leaves to chance."""
    cost: bool = False
    """Whether trials report what they cost."""


FEW: dict[str, Any] = {"num_restarts": 2, "raw_samples": 64}

SETS = [ac.ControlSet(["rate"], cost=1), ac.ControlSet(["rate", "size", "a"], cost=4)]

SETTINGS = {
    "gittins": Setting(
        lambda: ac.cost_aware_strategy(
            cost=ac.AffineCost({"size": 1.0}, fixed=0.5), budget=90, **FEW
        ),
        [RATE, SIZE, KIND, A, B],
        ["a + b <= 1.2"],
        minimize=True,
        bounds={"heat": 1.1},
        fixed={"size": 3},
    ),
    "gittins, learned costs": Setting(
        lambda: ac.cost_aware_strategy(cost="seconds", budget=60, **FEW),
        [RATE, SIZE, A, B],
        ["a + b <= 1.2"],
        fixed={"a": 0.25},
        cost=True,
    ),
    "fidelity": Setting(
        lambda: ac.fidelity_strategy(
            cost=ac.AffineCost({"size": 1.0}), target={"size": 6}, budget=90, **FEW
        ),
        [RATE, SIZE, KIND, A, B],
        ["a + b <= 1.2"],
        bounds={"heat": 1.1},
        fixed={"kind": "v"},
    ),
    "control sets": Setting(
        lambda: ac.control_set_strategy(
            SETS,
            {"size": ac.Discrete([1, 3, 6], [0.3, 0.4, 0.3]), "a": ac.Uniform(0, 1)},
            budget=40,
        ),
        [RATE, SIZE, A, ac.control_set_parameter(SETS)],
        minimize=True,
        bounds={"heat": 1.5},
        chance=("size", "a"),
    ),
    "indirect queries": Setting(
        lambda: ac.indirect_query_strategy(
            [Range("x", 0, 1)],
            ac.GaussianConditional([[0.5, 0.5]], [0.0], covariance=0.01, outside="clip"),
            budget=60,
        ),
        [A, B],
        ["a + b <= 1.2"],
        fixed={"a": 0.25},
    ),
    "resolution tree": Setting(
        lambda: ac.resolution_tree_strategy([X], max_level=4, budget=60),
        [ac.level_parameter(4), X],
    ),
    "a method of one's own": Setting(
        lambda: ac.strategy_of(Cheapest(budget=60.0, initial_trials=4)),
        [RATE, SIZE, KIND, A, B],
        ["a + b <= 1.2"],
        minimize=True,
        fixed={"size": 3},
    ),
    "costly feedback": Setting(
        lambda: ac.costly_feedback_strategy(budget=20, **FEW),
        [RATE, SIZE, KIND, A, B],
        ["a + b <= 1.2"],
        minimize=True,
        bounds={"heat": 1.1},
        fixed={"kind": "v"},
    ),
    "costly feedback, learned costs": Setting(
        lambda: ac.costly_feedback_strategy(cost="seconds", budget=40, **FEW),
        [RATE, SIZE, A, B],
        ["a + b <= 1.2"],
        fixed={"a": 0.25},
        cost=True,
    ),
}


def values(x: dict[str, Any], setting: Setting) -> dict[str, float]:
    """The outcomes of a trial at some inputs."""
    loss = 0.3 * abs(math.log10(float(x.get("rate", 0.1))) + 1.3)
    loss += 0.05 * (float(x.get("size", 4)) - 4) ** 2 + {"v": 0.1, "w": 0.3}.get(x.get("kind"), 0)
    loss += (float(x.get("a", 0.4)) - 0.4) ** 2 + (float(x.get("b", 0.6)) - 0.6) ** 2
    heat = float(x.get("a", 0.2)) + 0.1 * float(x.get("size", 4))
    return {"y": loss if setting.minimize else -loss} | ({"heat": heat} if setting.bounds else {})


def inputs_of(parameters: dict[str, Any], index: int, setting: Setting) -> dict[str, Any]:
    """What a trial was run at: what it leaves to chance is something else for each index."""
    named = parameters.get("control_set")
    controlled = next((s.parameters for s in SETS if s.name == named), None)
    chance = {"size": [1, 3, 6][index % 3], "a": (0.37 * index) % 1.0}
    left = {n: chance[n] for n in setting.chance if controlled is not None and n not in controlled}
    return {n: x for n, x in parameters.items() if n != "control_set"} | left


def client_of(setting: Setting, storage: StorageConfig | None = None) -> Client:
    client = Client(storage_config=storage)
    client.configure_experiment(
        name="one loop",
        parameters=setting.parameters,
        parameter_constraints=list(setting.constraints),
    )
    client.configure_optimization(
        objective="-y" if setting.minimize else "y",
        outcome_constraints=[f"{metric} <= {bound}" for metric, bound in setting.bounds.items()],
    )
    if setting.cost:
        client.configure_tracking_metrics(["seconds"])
    client.set_generation_strategy(setting.strategy())
    return client


def simulation_of(setting: Setting) -> Simulation:
    experiment = client_of(setting)._experiment
    method = node_of(setting.strategy()).method
    bounds = [OutcomeConstraint(metric, upper=bound) for metric, bound in setting.bounds.items()]
    space = space_of(experiment.search_space, method.traits.hidden)
    return Simulation(method, space, setting.minimize, constraints=bounds)


def told(client: Client, index: int, setting: Setting) -> None:
    """Complete a trial of the client, as ``query`` says."""
    parameters = dict(client._experiment.trials[index].arms[0].parameters)
    inputs, query = inputs_of(parameters, index, setting), ac.query(client, index)
    realized = {n: inputs[n] for n in setting.chance} if setting.chance else None
    cost = 1.0 + float(inputs["size"]) if setting.cost and query.measure else None
    outcome = values(inputs, setting) if query.measure else None
    ac.complete_trial(client, index, outcome, realized=realized, cost=cost)


def outcome_of(decision: Decision, index: int, setting: Setting) -> Outcome:
    """The same for the simulation."""
    inputs = inputs_of(decision.parameters, index, setting)
    controlled = decision.extra.get("controlled", {})
    left = {n: inputs[n] for n in setting.chance if n not in controlled}
    measured = values(inputs, setting) if decision.extra.get("measure", True) else {}
    cost = 1.0 + float(inputs["size"]) if setting.cost and measured else None
    return Outcome(measured.pop("y", None), cost, left or None, measured)


def simulated(setting: Setting, count: int = NUM_TRIALS) -> list[dict[str, Any]]:
    simulation, waiting, found = simulation_of(setting), dict[int, Decision](), []
    for k in range(count):
        decision = simulation.ask(setting.fixed if k == FIXED else None)
        assert isinstance(decision, Decision), decision
        found.append(decision.parameters)
        if k in RUNNING:
            waiting[simulation.start(decision).index] = decision
            continue
        simulation.tell(decision, outcome_of(decision, k, setting))
        if k == max(RUNNING) + 1:
            for index, earlier in waiting.items():
                simulation.tell(earlier, outcome_of(earlier, index, setting), index)
    return found


def run_client(client: Client, setting: Setting, count: int = NUM_TRIALS) -> list[dict[str, Any]]:
    found = []
    for k in range(count):
        fixed = setting.fixed if k == FIXED else None
        ((index, parameters),) = client.get_next_trials(
            max_trials=1, fixed_parameters=fixed or None
        ).items()
        found.append(dict(parameters))
        if k in RUNNING:
            continue
        told(client, index, setting)
        if k == max(RUNNING) + 1:
            for running in RUNNING:
                told(client, running, setting)
    return found


@pytest.mark.parametrize("name", SETTINGS)
def test_a_client_and_a_simulation_decide_alike(name: str) -> None:
    setting = SETTINGS[name]
    expected = simulated(setting)
    found = run_client(client_of(setting), setting)
    assert found == expected
    assert len({repr(row) for row in found}) > NUM_TRIALS // 2


def next_of_json(path: str) -> dict[str, Any]:
    """The next trial of a stored experiment, in a process of its own."""
    client = Client.load_from_json_file(path)
    ((_, parameters),) = client.get_next_trials(max_trials=1).items()
    return dict(parameters)


def next_of_database(path: str) -> dict[str, Any]:
    """The same of an experiment in a database."""
    client = load(path, "one loop")
    ((_, parameters),) = client.get_next_trials(max_trials=1).items()
    return dict(parameters)


@pytest.mark.usefixtures("short_searches")
@pytest.mark.parametrize("name", SETTINGS)
def test_so_they_do_after_loading(name: str, tmp_path: Path, fresh_process: FreshProcess) -> None:
    """After eight trials, two of which still run."""
    setting, count = SETTINGS[name], max(RUNNING) + 1
    expected = simulated(setting, count + 1)[-1]
    client = client_of(setting)
    run_client(client, setting, count)
    path, database = tmp_path / "stored.json", tmp_path / "stored.db"
    client.save_to_json_file(str(path))
    assert fresh_process.call("tests.ax.test_one_loop:next_of_json", str(path)) == expected
    client = client_of(setting, open_database(database))
    run_client(client, setting, count)
    copied = shutil.copy(database, tmp_path / "copied.db")  # which no process has a claim on
    assert fresh_process.call("tests.ax.test_one_loop:next_of_database", str(copied)) == expected

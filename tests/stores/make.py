"""Stores one experiment per method with the running version of the package.

usage: python -m tests.stores.make

Run it when a release is made, with that release and from its own checkout: a folder named after
its version appears beside this file, and is committed. It holds each experiment as Ax's JSON and
SQLite stores keep it, compressed, and in ``decisions.json`` what the release says of it: the
ledger, and the next decision. ``test_stores.py`` reads every release's folder with the package as
it is now.

Each experiment has completed trials, one that failed, and one that is still running. Fixed
hyperparameters, few restarts and few samples keep decisions quick, and equal on other machines.
"""

from __future__ import annotations

import gzip
import json
import logging
import math
import sqlite3
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ax.api.client import Client
from ax.api.configs import RangeParameterConfig, StorageConfig
from ax.generation_strategy.generation_strategy import GenerationStrategy

import ax_costaware as ac
from tests.resuming import open_database

NAME = "stored"
"""Name of every stored experiment."""

NUM_TRIALS = 9
FAILED = 1
"""Index of the trial that fails."""

HYPERPARAMETERS = ac.FixedHyperparameters(
    lengthscale=0.4, outputscale=0.02, noise_variance=1e-5, mean=0.2
)
FAST: dict[str, Any] = {"num_restarts": 2, "raw_samples": 32, "surrogate_spec": HYPERPARAMETERS}
QUICK: dict[str, Any] = {
    "num_samples": 8,
    "hyperparameters": ac.FixedHyperparameters(lengthscale=0.25, noise_variance=1e-4),
}
INPUTS = ("x1", "x2", "x3")


def _floats(names: tuple[str, ...], upper: float = 1.0) -> list[Any]:
    return [RangeParameterConfig(name, (0, upper), "float") for name in names]


def _value(arm: dict[str, Any]) -> float:
    """A hill of height one in whatever the parameters are."""
    numbers = [float(value) for value in arm.values() if not isinstance(value, str)]
    return math.exp(-sum((value - 0.3 - 0.1 * i) ** 2 for i, value in enumerate(numbers)))


def _realized(index: int, arm: dict[str, Any]) -> dict[str, Any]:
    """What the inputs turned out to be that the trial's control set leaves to chance."""
    controlled = arm["control_set"].split("+")
    return {
        name: (0.618034 * (index + 1) * (position + 1)) % 1.0
        for position, name in enumerate(INPUTS)
        if name not in controlled
    }


def _complete(client: Client, index: int, arm: dict[str, Any]) -> None:
    ac.complete_trial(client, index, {"y": _value(arm) / 3})


def _complete_with_cost(client: Client, index: int, arm: dict[str, Any]) -> None:
    ac.complete_trial(client, index, {"y": _value(arm) / 3}, cost=0.1 + float(arm["x2"]) / 3)


def _complete_control_set(client: Client, index: int, arm: dict[str, Any]) -> None:
    realized = _realized(index, arm)
    ac.complete_trial(client, index, {"y": _value({**arm, **realized}) / 3}, realized)


def _complete_unknown(client: Client, index: int, arm: dict[str, Any]) -> None:
    realized = _realized(index, arm)
    cost = 0.1 * len(arm["control_set"].split("+")) * (1 + 0.2 * math.sin(index))
    ac.complete_trial(client, index, {"y": _value({**arm, **realized}) / 3}, realized, cost)


def _complete_if_asked(client: Client, index: int, arm: dict[str, Any]) -> None:
    measured = ac.query(client, index).measure
    ac.complete_trial(client, index, {"y": _value(arm) / 3} if measured else None)


@dataclass(frozen=True)
class Case:
    """One stored experiment."""

    parameters: Callable[[], list[Any]]
    strategy: Callable[[], GenerationStrategy]
    complete: Callable[[Client, int, dict[str, Any]], None]
    metrics: tuple[str, ...] = ()


KNOWN_SETS = [
    ac.ControlSet(["x1"], cost=0.1),
    ac.ControlSet(["x1", "x2"], cost=0.3),
    ac.ControlSet(["x1", "x2", "x3"], cost=1.0),
]
UNKNOWN_SETS = [ac.ControlSet(control_set.parameters) for control_set in KNOWN_SETS]
JOINT = ac.JointEmpirical(
    {
        "x1": [0.05 + 0.1 * i for i in range(10)],
        "x2": [(0.05 + 0.3 * i) % 1.0 for i in range(10)],
    }
)

CASES: dict[str, Case] = {
    "control_sets": Case(
        lambda: [ac.control_set_parameter(KNOWN_SETS), *_floats(INPUTS)],
        lambda: ac.control_set_strategy(
            KNOWN_SETS,
            marginals={
                "x1": ac.Uniform(0, 1),
                "x2": ac.TruncatedNormal(0.5, 0.2, 0, 1),
                "x3": ac.Empirical((0.1, 0.30000000000000004, 0.9)),
            },
            rule=ac.ExploreThenCommit(2),
            budget=10.0,
            initial_trials=3,
            num_nodes=32,
            **FAST,
        ),
        _complete_control_set,
    ),
    "unknown_costs": Case(
        lambda: [ac.control_set_parameter(UNKNOWN_SETS), *_floats(INPUTS)],
        lambda: ac.control_set_strategy(
            UNKNOWN_SETS,
            marginals={"x3": ac.Learned(ac.Uniform(0, 1), 3.0)},
            joint=JOINT,
            rule=ac.UnknownCosts(exploration=0.5),
            budget=10.0,
            initial_trials=3,
            num_nodes=32,
            **FAST,
        ),
        _complete_unknown,
    ),
    "gittins": Case(
        lambda: _floats(("x1", "x2")),
        lambda: ac.cost_aware_strategy("hours", budget=20.0, initial_trials=4, stop=False, **FAST),
        _complete_with_cost,
        ("hours",),
    ),
    "costly_feedback": Case(
        lambda: _floats(("x1", "x2")),
        lambda: ac.costly_feedback_strategy(
            ac.MeasurementRule(0.6), forgetting=0.03, budget=20.0, initial_trials=3, **FAST
        ),
        _complete_if_asked,
    ),
    "indirect_queries": Case(
        lambda: _floats(("a1", "a2")),
        lambda: ac.indirect_query_strategy(
            _floats(("z1", "z2"), upper=10.0),
            ac.LearnedConditional(
                [[10 * a, 10 * b] for a, b in PAIRS], PAIRS, lengthscale=0.4, regularization=1e-3
            ),
            num_restarts=2,
            raw_samples=64,
            initial_trials=3,
            **QUICK,
        ),
        _complete,
    ),
    "resolution_tree": Case(
        lambda: [ac.level_parameter(3), *_floats(("x1", "x2"))],
        lambda: ac.resolution_tree_strategy(_floats(("x1", "x2")), max_level=3, **QUICK),
        _complete,
    ),
}
PAIRS = [[(0.05 + 0.17 * i) % 1.0, (0.11 + 0.29 * i) % 1.0] for i in range(30)]


def new_client(case: Case, config: StorageConfig | None = None) -> Client:
    """A client with the experiment and the strategy of a case."""
    client = Client(storage_config=config)
    client.configure_experiment(name=NAME, parameters=case.parameters())
    client.configure_optimization(objective="y")
    if case.metrics:
        client.configure_tracking_metrics(list(case.metrics))
    client.set_generation_strategy(case.strategy())
    return client


def run(case: Case, config: StorageConfig) -> Client:
    """A client whose experiment has run up to the trial that is still running."""
    client = new_client(case, config)
    for step in range(NUM_TRIALS):
        ((index, arm),) = client.get_next_trials(max_trials=1).items()
        if step == FAILED:
            client.mark_trial_failed(index)
        elif step < NUM_TRIALS - 1:
            case.complete(client, index, dict(arm))
    return client


def ledger(client: Client) -> list[dict[str, Any]]:
    """What each trial was charged, and its status."""
    return [
        {"trial": entry.trial_index, "status": entry.status, "charged": entry.charged}
        for entry in ac.spending(client).entries
    ]


def decide(client: Client) -> dict[str, Any]:
    """The next decision: the arm, what it is expected to cost, and why."""
    ((index, arm),) = client.get_next_trials(max_trials=1).items()
    found = ac.query(client, index)
    return {
        "trial": index,
        "arm": dict(arm),
        "expected_cost": found.expected_cost,
        "measure": found.measure,
        "why": found.why,
    }


def store(folder: Path) -> None:
    """Run every case, and keep its stores in ``folder`` with what was decided after them."""
    folder.mkdir()
    said: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for name, case in CASES.items():
            database, snapshot = Path(scratch, f"{name}.db"), Path(scratch, f"{name}.json")
            client = run(case, open_database(database))
            client.save_to_json_file(str(snapshot))
            connection = sqlite3.connect(database)
            connection.execute("VACUUM")
            connection.close()
            for path in (database, snapshot):
                compressed = gzip.compress(path.read_bytes(), 9, mtime=0)
                (folder / f"{path.name}.gz").write_bytes(compressed)
            said[name] = {"ledger": ledger(client), "next": decide(client)}
    text = json.dumps({"ax": version("ax-platform"), "cases": said}, indent=1)
    (folder / "decisions.json").write_text(f"{text}\n")


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    store(Path(__file__).parent / version("ax-costaware"))

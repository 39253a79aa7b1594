"""A small experiment whose answers are averages over a neighbourhood, and its simulator.

Fixed hyperparameters, few restarts and few raw samples keep a decision at a few tenths of a second.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from ax.api.client import Client
from ax.api.configs import RangeParameterConfig, StorageConfig

from ax_costaware import (
    FixedHyperparameters,
    GaussianConditional,
    LearnedConditional,
    complete_trial,
    indirect_query_strategy,
)
from ax_costaware.ax_bridge.records import decision_record

TARGETS = [RangeParameterConfig(name, (0, 10), "float") for name in ("x1", "x2")]
BEST = (4.0, 6.0)
SPREAD = 0.5

KNOWN = GaussianConditional(((10, 0), (0, 10)), covariance=SPREAD**2)
"""A query in the middle of [0, 1]^2 is a point of [0, 10]^2 that scatters."""

FAST: dict[str, Any] = {
    "num_restarts": 2,
    "raw_samples": 64,
    "num_samples": 8,
    "initial_trials": 3,
    "hyperparameters": FixedHyperparameters(lengthscale=0.25, noise_variance=1e-4),
}


def pairs(count: int, seed: int = 0) -> tuple[Any, Any]:
    """Points and their queries, as they scatter."""
    random = np.random.default_rng(seed)
    A = random.uniform(0.15, 0.85, (count, 2))
    X = np.clip(10 * A + SPREAD * random.standard_normal((count, 2)), 0, 10)
    return X, A


def learned(count: int = 60, **options: Any) -> LearnedConditional:
    """The same law, from pairs."""
    return LearnedConditional(*pairs(count), lengthscale=0.4, regularization=1e-3, **options)


def objective(x1: float, x2: float) -> float:
    """A hill of height one."""
    return math.exp(-((x1 - BEST[0]) ** 2 + (x2 - BEST[1]) ** 2) / 8)


def answer(arm: dict[str, Any]) -> float:
    """The average of the hill around a query: a hill of another width and height."""
    width = 4 + SPREAD**2
    far = (10 * float(arm["a1"]) - BEST[0]) ** 2 + (10 * float(arm["a2"]) - BEST[1]) ** 2
    return 4 / width * math.exp(-far / (2 * width))


def record(client: Client, trial_index: int) -> dict[str, Any]:
    """What the generator recorded about its decision on a trial."""
    return decision_record(client._experiment.trials[trial_index])


def make_client(
    minimize: bool = False,
    storage_config: StorageConfig | None = None,
    constraints: tuple[str, ...] = (),
    **strategy: Any,
) -> Client:
    """A client with the toy experiment; ``strategy`` goes to ``indirect_query_strategy``."""
    client = Client(storage_config=storage_config)
    client.configure_experiment(
        name="toy",
        parameters=[RangeParameterConfig(n, (0.2, 0.8), "float") for n in ("a1", "a2")],
        parameter_constraints=list(constraints),
    )
    client.configure_optimization(objective="-z" if minimize else "z")
    options = {"target_parameters": TARGETS, "conditional": KNOWN, **FAST, **strategy}
    client.set_generation_strategy(indirect_query_strategy(**options))
    return client


def run_trials(client: Client, count: int, sign: float = 1.0) -> list[dict[str, Any]]:
    """Run ``count`` trials one after the other; returns their arms."""
    arms = []
    for _ in range(count):
        ((index, arm),) = client.get_next_trials(max_trials=1).items()
        complete_trial(client, index, {"z": sign * answer(dict(arm))})
        arms.append(dict(arm))
    return arms

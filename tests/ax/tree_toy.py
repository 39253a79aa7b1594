"""A small experiment whose trials are cells of a tree, and its simulator."""

from __future__ import annotations

from typing import Any

import numpy as np
from ax.api.client import Client
from ax.api.configs import RangeParameterConfig, StorageConfig

from ax_costaware import (
    FixedHyperparameters,
    complete_trial,
    level_parameter,
    resolution_tree_strategy,
)

TARGETS = [
    RangeParameterConfig("x1", (0, 10), "float"),
    RangeParameterConfig("x2", (-5, 5), "float"),
]
MAX_LEVEL = 3
BEST = (4.3, 1.2)

FAST: dict[str, Any] = {
    "num_samples": 8,
    "hyperparameters": FixedHyperparameters(lengthscale=0.2, noise_variance=1e-4),
}


def cell_mean(arm: dict[str, Any]) -> float:
    """The mean over a cell of a hill of height one."""
    half, steps = 5 / 2 ** int(arm["level"]), np.linspace(-1, 1, 41)
    X, Y = np.meshgrid(float(arm["x1"]) + half * steps, float(arm["x2"]) + half * steps)
    return float(np.exp(-((X - BEST[0]) ** 2 + (Y - BEST[1]) ** 2) / 4).mean())


def make_client(
    minimize: bool = False, storage_config: StorageConfig | None = None, **strategy: Any
) -> Client:
    """A client with the toy experiment; ``strategy`` goes to ``resolution_tree_strategy``."""
    client = Client(storage_config=storage_config)
    client.configure_experiment(name="toy", parameters=[level_parameter(MAX_LEVEL), *TARGETS])
    client.configure_optimization(objective="-z" if minimize else "z")
    options = {"target_parameters": TARGETS, "max_level": MAX_LEVEL, **FAST, **strategy}
    client.set_generation_strategy(resolution_tree_strategy(**options))
    return client


def run_trials(client: Client, count: int, sign: float = 1.0) -> list[dict[str, Any]]:
    """Run ``count`` trials one after the other; returns their arms."""
    arms = []
    for _ in range(count):
        ((index, arm),) = client.get_next_trials(max_trials=1).items()
        complete_trial(client, index, {"z": sign * cell_mean(dict(arm))})
        arms.append(dict(arm))
    return arms

"""A small experiment whose best point wanders, and its simulator.

Fixed hyperparameters, few restarts and few raw samples keep a decision at a few hundredths of a
second.
"""

from __future__ import annotations

import math
from typing import Any

from ax.api.client import Client
from ax.api.configs import RangeParameterConfig, StorageConfig

from ax_costaware import FixedHyperparameters, complete_trial, costly_feedback_strategy, query
from ax_costaware.ax_bridge.records import decision_record

FORGETTING = 0.03

FAST: dict[str, Any] = {
    "num_restarts": 4,
    "raw_samples": 64,
    "initial_trials": 4,
    "forgetting": FORGETTING,
    "surrogate_spec": FixedHyperparameters(lengthscale=0.5, outputscale=0.3, noise_variance=1e-4),
}


def objective(x: dict[str, Any], time: float) -> float:
    """A hill of height one, whose top goes round in the square."""
    top = 0.5 + 0.3 * math.sin(time / 15), 0.5 + 0.3 * math.cos(time / 15)
    return math.exp(-4 * ((float(x["x1"]) - top[0]) ** 2 + (float(x["x2"]) - top[1]) ** 2))


def record(client: Client, trial_index: int) -> dict[str, Any]:
    """What the generator recorded about its decision on a trial."""
    return decision_record(client._experiment.trials[trial_index])


def arm_of(client: Client, trial_index: int) -> dict[str, Any]:
    """Parameters of a trial's only arm."""
    (arm,) = client._experiment.trials[trial_index].arms
    return dict(arm.parameters)


def make_client(
    minimize: bool = False,
    storage_config: StorageConfig | None = None,
    metrics: tuple[str, ...] = (),
    **strategy: Any,
) -> Client:
    """A client with the toy experiment; ``strategy`` goes to ``costly_feedback_strategy``."""
    client = Client(storage_config=storage_config)
    client.configure_experiment(
        name="toy",
        parameters=[
            RangeParameterConfig(name, bounds=(0, 1), parameter_type="float")
            for name in ("x1", "x2")
        ],
    )
    client.configure_optimization(objective="-y" if minimize else "y")
    if metrics:
        client.configure_tracking_metrics(list(metrics))
    client.set_generation_strategy(costly_feedback_strategy(**{**FAST, **strategy}))
    return client


def complete(client: Any, trial_index: int, arm: dict[str, Any], sign: float = 1.0) -> bool:
    """Do as the strategy says, time being the trial's index; whether that was to measure."""
    measure = query(client, trial_index).measure
    value = sign * objective(arm, trial_index)
    complete_trial(client, trial_index, {"y": value} if measure else None)
    return measure


def run_trials(client: Client, count: int, sign: float = 1.0) -> list[bool]:
    """Run ``count`` trials one after the other; returns which of them were measured."""
    measured = []
    for _ in range(count):
        ((index, arm),) = client.get_next_trials(max_trials=1).items()
        measured.append(complete(client, index, dict(arm), sign))
    return measured

"""A small experiment with three inputs and three control sets, and its simulator.

Fixed hyperparameters, few restarts and few raw samples keep a decision at a few hundredths of a
second; what a trial leaves to chance is a function of its index, so that runs repeat.
"""

from __future__ import annotations

from typing import Any

from ax.api.client import Client
from ax.api.configs import RangeParameterConfig, StorageConfig

from ax_costaware import (
    ControlSet,
    FixedHyperparameters,
    Uniform,
    complete_trial,
    control_set_parameter,
    control_set_strategy,
)
from ax_costaware.ax_bridge.records import decision_record

CONTROL_SETS = (
    ControlSet(["x1"], cost=0.1),
    ControlSet(["x1", "x2"], cost=0.3),
    ControlSet(["x1", "x2", "x3"], cost=1.0),
)
MARGINALS = {name: Uniform(0.0, 1.0) for name in ("x1", "x2", "x3")}
FAST: dict[str, Any] = {
    "num_restarts": 2,
    "raw_samples": 32,
    "num_nodes": 32,
    "surrogate_spec": FixedHyperparameters(lengthscale=0.5, noise_variance=1e-4),
}


def objective(x: dict[str, Any]) -> float:
    """A paraboloid with its maximum at (0.3, 0.7, 0.5)."""
    x1, x2, x3 = float(x["x1"]), float(x["x2"]), float(x["x3"])
    return -((x1 - 0.3) ** 2) - (x2 - 0.7) ** 2 - 0.3 * (x3 - 0.5) ** 2


def arm_of(client: Client, trial_index: int) -> dict[str, Any]:
    """Parameters of a trial's only arm."""
    (arm,) = client._experiment.trials[trial_index].arms
    return dict(arm.parameters)


def record(client: Client, trial_index: int) -> dict[str, Any]:
    """What the generator recorded about its decision on a trial."""
    return decision_record(client._experiment.trials[trial_index])


def make_client(
    minimize: bool = False, storage_config: StorageConfig | None = None, **strategy: Any
) -> Client:
    """A client with the toy experiment; ``strategy`` goes to ``control_set_strategy``."""
    client = Client(storage_config=storage_config)
    client.configure_experiment(
        name="toy",
        parameters=[
            control_set_parameter(CONTROL_SETS),
            *(
                RangeParameterConfig(name, bounds=(0, 1), parameter_type="float")
                for name in MARGINALS
            ),
        ],
    )
    client.configure_optimization(objective="-y" if minimize else "y")
    options = {"control_sets": CONTROL_SETS, "marginals": MARGINALS, **FAST, **strategy}
    client.set_generation_strategy(control_set_strategy(**options))
    return client


def realize(trial_index: int, arm: dict[str, Any]) -> dict[str, float]:
    """What the inputs that the trial does not control turned out to be."""
    controlled = next(s for s in CONTROL_SETS if s.name == arm["control_set"]).parameters
    return {
        name: (0.618034 * (trial_index + 1) * (position + 1)) % 1.0
        for position, name in enumerate(MARGINALS)
        if name not in controlled
    }


def complete(client: Any, trial_index: int, arm: dict[str, Any], sign: float = 1.0) -> float:
    """Run the trial, report it, and return its outcome."""
    realized = realize(trial_index, arm)
    outcome = sign * objective({**arm, **realized})
    complete_trial(client, trial_index, {"y": outcome}, realized=realized)
    return outcome


def run_trials(client: Client, count: int, sign: float = 1.0) -> list[dict[str, Any]]:
    """Run ``count`` trials one after the other; returns their arms."""
    arms = []
    for _ in range(count):
        ((index, arm),) = client.get_next_trials(max_trials=1).items()
        complete(client, index, dict(arm), sign)
        arms.append(dict(arm))
    return arms

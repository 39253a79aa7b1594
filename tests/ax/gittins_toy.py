"""A small experiment whose trials cost more the further they are to the right, and its simulator.

Fixed hyperparameters, few restarts and few raw samples keep a decision at a few hundredths of a
second.
"""

from __future__ import annotations

from typing import Any

from ax.api.client import Client
from ax.api.configs import RangeParameterConfig, StorageConfig

from ax_costaware import AffineCost, FixedHyperparameters, complete_trial
from ax_costaware.ax_bridge.records import decision_record
from tests.priced import strategy_for

COST = AffineCost({"x2": 2.0}, fixed=0.5)
"""Between 0.5 and 2.5."""

# Where the budget has a share for the design, each of its trials is one of 32 that are drawn.
FAST: dict[str, Any] = {
    "num_restarts": 2,
    "raw_samples": 32,
    "initial_trials": 4,
    "initial_share": None,
    "surrogate_spec": FixedHyperparameters(lengthscale=0.5, outputscale=0.2, noise_variance=1e-5),
}


def objective(x: dict[str, Any]) -> float:
    """A paraboloid with its maximum, zero, at (0.3, 0.6)."""
    return -((float(x["x1"]) - 0.3) ** 2) - (float(x["x2"]) - 0.6) ** 2


def true_cost(x: dict[str, Any]) -> float:
    """What ``COST`` says."""
    return 2.0 * float(x["x2"]) + 0.5


def arm_of(client: Client, trial_index: int) -> dict[str, Any]:
    """Parameters of a trial's only arm."""
    (arm,) = client._experiment.trials[trial_index].arms
    return dict(arm.parameters)


def record(client: Client, trial_index: int) -> dict[str, Any]:
    """What the generator recorded about its decision on a trial."""
    return decision_record(client._experiment.trials[trial_index])


def make_client(
    minimize: bool = False,
    storage_config: StorageConfig | None = None,
    constraints: list[str] | None = None,
    **strategy: Any,
) -> Client:
    """A client with the toy experiment; ``strategy`` goes to ``strategy_for``."""
    client = Client(storage_config=storage_config)
    client.configure_experiment(
        name="toy",
        parameters=[
            RangeParameterConfig(name, bounds=(0, 1), parameter_type="float")
            for name in ("x1", "x2")
        ],
        parameter_constraints=constraints,
    )
    client.configure_optimization(objective="-y" if minimize else "y")
    client.set_generation_strategy(strategy_for(**{"cost": COST, **FAST, **strategy}))
    return client


def complete(
    client: Any, trial_index: int, arm: dict[str, Any], sign: float = 1.0, report: bool = False
) -> None:
    """Run the trial and report it, its cost, too, if asked to."""
    cost = true_cost(arm) if report else None
    complete_trial(client, trial_index, {"y": sign * objective(arm)}, cost=cost)


def run_trials(
    client: Client, count: int, sign: float = 1.0, report: bool = False
) -> list[dict[str, Any]]:
    """Run ``count`` trials one after the other; returns their arms."""
    arms = []
    for _ in range(count):
        ((index, arm),) = client.get_next_trials(max_trials=1).items()
        complete(client, index, dict(arm), sign, report)
        arms.append(dict(arm))
    return arms

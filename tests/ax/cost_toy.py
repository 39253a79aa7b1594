"""The toy experiment with costs that are random and not known to the strategy.

Costs are functions of the trial's index, so that runs repeat; the second control set has a known
part, and the third one's cost grows with the value of ``x3``.
"""

from __future__ import annotations

import math
from typing import Any

from ax.api.client import Client

from ax_costaware import ControlSet, UnknownCosts, complete_trial
from tests.ax.toy import make_client, objective, realize

UNKNOWN_SETS = (
    ControlSet(["x1"]),
    ControlSet(["x1", "x2"], fixed_cost=0.2),
    ControlSet(["x1", "x2", "x3"]),
)
RULE = UnknownCosts(exploration=0.5)


def cost_of(trial_index: int, arm: dict[str, Any]) -> float:
    """What a trial costs: 0.1, 0.3 or between 0.5 and 2, give or take a fifth."""
    scatter = 1.0 + 0.2 * math.sin(2.3 * trial_index + 1.0)
    match arm["control_set"]:
        case "x1":
            return 0.1 * scatter
        case "x1+x2":
            return 0.2 + 0.1 * scatter
    return 0.5 * 4.0 ** float(arm["x3"]) * scatter


def make_cost_client(minimize: bool = False, **strategy: Any) -> Client:
    """A client whose strategy knows no cost; ``strategy`` goes to ``control_set_strategy``."""
    return make_client(
        minimize=minimize,
        **{"control_sets": UNKNOWN_SETS, "rule": RULE, "initial_trials": 3, **strategy},
    )


def complete_with_cost(
    client: Any, trial_index: int, arm: dict[str, Any], sign: float = 1.0
) -> float:
    """Run the trial, report it with its cost, and return the cost."""
    realized = realize(trial_index, arm)
    outcome = sign * objective({**arm, **realized})
    cost = cost_of(trial_index, arm)
    complete_trial(client, trial_index, {"y": outcome}, realized=realized, cost=cost)
    return cost


def run_with_costs(client: Client, count: int, sign: float = 1.0) -> list[float]:
    """Run ``count`` trials one after the other; returns their costs."""
    costs = []
    for _ in range(count):
        ((index, arm),) = client.get_next_trials(max_trials=1).items()
        costs.append(complete_with_cost(client, index, dict(arm), sign))
    return costs

"""A small problem with three inputs and three control sets, and its simulator, without Ax.

What a trial leaves to chance, and what it costs, are functions of its index, so that runs repeat.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ax_costaware.core.model import FixedHyperparameters
from ax_costaware.core.simulation import Outcome, Simulation, simulate
from ax_costaware.core.traits import CONTROL_SET
from ax_costaware.costs.control_set import ControlSet
from ax_costaware.laws.marginals import Marginal, Uniform
from ax_costaware.methods import ControlSetChoice, ControlSetHistory, ControlSetRule, EvaluateBounds
from ax_costaware.methods.control_sets import ControlSets
from ax_costaware.space.parameters import Choice, Range, Row
from ax_costaware.space.space import Space

CONTROL_SETS = (
    ControlSet(["x1"], cost=0.1),
    ControlSet(["x1", "x2"], cost=0.3),
    ControlSet(["x1", "x2", "x3"], cost=1.0),
)
UNKNOWN_SETS = (
    ControlSet(["x1"]),
    ControlSet(["x1", "x2"], fixed_cost=0.2),
    ControlSet(["x1", "x2", "x3"]),
)
MARGINALS: dict[str, Marginal] = {name: Uniform(0.0, 1.0) for name in ("x1", "x2", "x3")}
SPACE = Space.of(
    [
        Choice(CONTROL_SET, tuple(str(s.name) for s in CONTROL_SETS)),
        *(Range(name, 0, 1) for name in MARGINALS),
    ],
    hidden=[CONTROL_SET],
)
FAST: dict[str, Any] = {"num_restarts": 2, "raw_samples": 32, "num_nodes": 32}
MODEL = FixedHyperparameters(lengthscale=0.5, noise_variance=1e-4)


def objective(x: Row) -> float:
    """A paraboloid with its maximum at (0.3, 0.7, 0.5)."""
    x1, x2, x3 = (float(str(x[name])) for name in MARGINALS)
    return -((x1 - 0.3) ** 2) - (x2 - 0.7) ** 2 - 0.3 * (x3 - 0.5) ** 2


def cost_of(trial_index: int, arm: Row) -> float:
    """What a trial costs: 0.1, 0.3 or between 0.5 and 2, give or take a fifth."""
    scatter = 1.0 + 0.2 * math.sin(2.3 * trial_index + 1.0)
    match arm[CONTROL_SET]:
        case "x1":
            return 0.1 * scatter
        case "x1+x2":
            return 0.2 + 0.1 * scatter
    return 0.5 * 4.0 ** float(str(arm["x3"])) * scatter


class Plant:
    """Runs one trial after the other."""

    def __init__(self, sign: float = 1.0, reports_costs: bool = False) -> None:
        self.sign = sign
        self.reports_costs = reports_costs
        self.count = 0

    def __call__(self, arm: Row, measure: bool = True) -> Outcome:
        """What comes of the next trial."""
        index, self.count = self.count, self.count + 1
        controlled = next(s for s in CONTROL_SETS if s.name == arm[CONTROL_SET]).parameters
        realized = {
            name: (0.618034 * (index + 1) * (position + 1)) % 1.0
            for position, name in enumerate(MARGINALS)
            if name not in controlled
        }
        value = self.sign * objective({**arm, **realized})
        return Outcome(value, cost_of(index, arm) if self.reports_costs else None, realized)


def run(method: ControlSets, count: int, sign: float = 1.0, **options: Any) -> Simulation:
    """A run of the method on the problem, where costs are reported if it learns them."""
    plant = Plant(sign, reports_costs=method.learns_costs)
    options = {"hyperparameters": MODEL, **options}
    return simulate(method, SPACE, plant, count, minimize=sign < 0, **options)


@dataclass(frozen=True)
class Asking(ControlSetRule):
    """A rule that asks for everything, stores it, and chooses the last control set."""

    def decide(self, history: ControlSetHistory, evaluate: EvaluateBounds) -> ControlSetChoice:
        """Choose the last control set that can be paid."""
        every: Sequence[int] = history.affordable_indices()
        if not isinstance(evaluate, EvaluateBounds):
            raise TypeError(evaluate)
        told = {
            "values": list(evaluate(every)),
            "lower": list(evaluate.lower(every, True)),
            "tighter": [list(evaluate.lower(every)), list(evaluate.upper(every))],
            "worst": evaluate.worst(),
            "costs": [list(cost) for cost in evaluate.costs(every)],
            "reported": [list(costs) for costs in history.reported or ()],
            "past": [[p.index, p.charged, dict(p.values)] for p in history.past],
            "known": list(history.known or ()),
            "pending": history.pending,
            "plays": list(history.plays),
            "affordable": list(history.affordable),
            "round": history.round,
            "remaining": history.remaining,
        }
        values = dict(zip(every, told["values"], strict=True))  # type: ignore[call-overload]
        return ControlSetChoice(every[-1], "It is the last.", tuple(every), values, told)


def told_by(decision: object) -> dict[str, Any]:
    """What ``Asking`` was told before a decision."""
    state: dict[str, Any] = decision.details["state"]
    return state

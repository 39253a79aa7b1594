"""Small experiments of every method on one function, in whatever units."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ax.api.client import Client
from ax.api.configs import RangeParameterConfig
from ax.exceptions.core import OptimizationShouldStop

import ax_costaware as ac


def _range(name: str, kind: str = "float", upper: float = 1.0, **more: Any) -> RangeParameterConfig:
    return RangeParameterConfig(name=name, bounds=(0, upper), parameter_type=kind, **more)  # type: ignore[arg-type]


SQUARE = [_range("x1"), _range("x2")]
TARGETS = [_range("z1")]
LAW = ac.GaussianConditional([[1]], [0], covariance=0.01, outside="clip")
MARGINALS = {"x1": ac.Uniform(0, 1), "x2": ac.TruncatedNormal(0.5, 0.2, 0, 1)}
FAST: dict[str, Any] = {"num_restarts": 2, "raw_samples": 32}


@dataclass(frozen=True)
class Case:
    """One method on its experiment; costs are in any unit."""

    parameters: Callable[[], list[Any]]
    """Parameters of the experiment."""

    strategy: Callable[[float], Any]
    """The strategy, with all costs times a number."""

    learns_costs: bool = False
    """Whether every trial has to report its cost."""

    constraints: tuple[str, ...] = ()
    """Parameter constraints."""


def _control_sets(unit: float) -> list[ac.ControlSet]:
    return [ac.ControlSet(["x1"], cost=0.5 * unit), ac.ControlSet(["x1", "x2"], cost=2.0 * unit)]


UNKNOWN = [ac.ControlSet(["x1"]), ac.ControlSet(["x1", "x2"])]

CASES = {
    "gittins": Case(
        lambda: SQUARE,
        lambda unit: ac.cost_aware_strategy(
            ac.AffineCost({"x2": unit}, fixed=0.5 * unit),
            budget=14.0 * unit,
            initial_trials=4,
        ),
    ),
    "gittins, learned costs": Case(
        lambda: SQUARE,
        lambda unit: ac.cost_aware_strategy(
            "seconds", budget=20.0 * unit, initial_trials=4, stop=False
        ),
        learns_costs=True,
    ),
    "gittins, parts of a mixture": Case(
        lambda: [*SQUARE, _range("x3")],
        lambda unit: ac.cost_aware_strategy(
            ac.AffineCost({"x2": unit}, fixed=0.5 * unit),
            budget=14.0 * unit,
            initial_trials=4,
            **FAST,
        ),
        constraints=("x1 + x2 + x3 <= 1", "x1 + x2 + x3 >= 1"),
    ),
    "log EI per cost": Case(
        lambda: SQUARE,
        lambda unit: ac.cost_aware_strategy(
            ac.AffineCost({"x2": unit}, fixed=0.5 * unit),
            budget=14.0 * unit,
            initial_trials=4,
            acquisition="log_ei_per_cost",
            stop=False,
        ),
    ),
    "control sets": Case(
        lambda: [*SQUARE, ac.control_set_parameter(_control_sets(1.0))],
        lambda unit: ac.control_set_strategy(
            _control_sets(unit), MARGINALS, budget=20.0 * unit, initial_trials=4, **FAST
        ),
    ),
    "unknown costs": Case(
        lambda: [*SQUARE, ac.control_set_parameter(UNKNOWN)],
        lambda unit: ac.control_set_strategy(
            UNKNOWN, MARGINALS, budget=30.0 * unit, initial_trials=4, **FAST
        ),
        learns_costs=True,
    ),
    "costly feedback": Case(
        lambda: SQUARE,
        lambda unit: ac.costly_feedback_strategy(
            cost=unit, budget=10.0 * unit, initial_trials=4, **FAST
        ),
    ),
    "indirect queries": Case(
        lambda: [_range("a1")],
        lambda unit: ac.indirect_query_strategy(
            TARGETS,
            LAW,
            cost=ac.AffineCost({"a1": unit}, fixed=unit),
            budget=14.0 * unit,
            initial_trials=4,
            num_samples=8,
            **FAST,
        ),
    ),
    "resolution tree": Case(
        lambda: [ac.level_parameter(3), *SQUARE],
        lambda unit: ac.resolution_tree_strategy(
            SQUARE,
            max_level=3,
            costs=[unit * (level + 1) for level in range(4)],
            budget=25.0 * unit,
            num_samples=8,
        ),
    ),
}


def objective(inputs: Mapping[str, Any]) -> float:
    """A hill with a ripple."""
    x1, x2 = inputs.get("x1", inputs.get("a1", 0.5)), inputs.get("x2", 0.5)
    return math.exp(-4 * ((x1 - 0.3) ** 2 + (x2 - 0.6) ** 2)) + 0.3 * math.sin(7 * x1)


def realized_of(trial_index: int, arm: Mapping[str, Any]) -> dict[str, float]:
    """What the inputs turned out to be that a control set leaves to chance."""
    return {"x2": (0.618034 * (trial_index + 1)) % 1.0} if arm.get("control_set") == "x1" else {}


def make_client(case: str, unit: float = 1.0, **storage: Any) -> Client:
    """A client with the experiment of a case."""
    client = Client(**storage)
    client.configure_experiment(
        name="audit",
        parameters=CASES[case].parameters(),
        parameter_constraints=list(CASES[case].constraints),
    )
    client.configure_optimization(objective="y")
    if case == "gittins, learned costs":
        client.configure_tracking_metrics(["seconds"])
    client.set_generation_strategy(CASES[case].strategy(unit))
    return client


def complete(client: Client, case: str, index: int, arm: Mapping[str, Any], **units: float) -> None:
    """Run a trial and report it; ``scale``, ``offset`` and ``unit`` are those of ``decisions``."""
    if not ac.query(client, index).measure:
        ac.complete_trial(client, index)
        return
    realized = realized_of(index, arm)
    value = units.get("scale", 1.0) * (objective({**arm, **realized}) + units.get("offset", 0.0))
    paid = units.get("unit", 1.0) * (1.0 + 2.0 * float(arm.get("x1", 0.0)))
    cost = {"cost": paid} if CASES[case].learns_costs else {}
    ac.complete_trial(client, index, {"y": value}, realized=realized or None, **cost)


def decisions(
    case: str, count: int = 8, scale: float = 1.0, offset: float = 0.0, unit: float = 1.0
) -> list[dict[str, Any]]:
    """What was decided one after the other, as JSON has it.

    Args:
        case: Name of the case.
        count: How many trials.
        scale: The unit of the objective.
        offset: Added to the objective, in its own spreads.
        unit: The unit of costs.
    """
    logging.disable(logging.WARNING)
    client = make_client(case, unit)
    arms: list[dict[str, Any]] = []
    for _ in range(count):
        try:
            batch = client.get_next_trials(max_trials=1)
        except OptimizationShouldStop:
            arms.append({"stopped": True})
            break
        for index, arm in batch.items():
            arms.append(dict(arm))
            complete(client, case, index, arm, scale=scale, offset=offset, unit=unit)
    logging.disable(logging.NOTSET)
    return arms

"""Switching costs by distance, direction and pairs, with every kind of trial and of cost."""

from __future__ import annotations

from itertools import pairwise, permutations, product
from typing import Any

import pytest

from ax_costaware.core import Objective, Simulation, Stop
from ax_costaware.core.simulation import Outcome
from ax_costaware.costs import AffineCost, LinearSwitch, SwitchingCost, TableSwitch
from ax_costaware.methods import CostAware, Method, MultiFidelity
from ax_costaware.space import Candidates, Choice, Range, Space

pytestmark = pytest.mark.usefixtures("short_searches")

QUICK: dict[str, Any] = {"num_restarts": 2, "raw_samples": 16, "initial_trials": 2}
PAIRS = {pair: 1.0 + i for i, pair in enumerate(permutations("ABC", 2))}
CHANGES = {"heat": LinearSwitch(0.05, 0.2), "resin": TableSwitch(PAIRS), "line": 5.0}
SPACE = Space.of(
    [
        Range("heat", 10.0, 200.0, log_scale=True),
        Choice("resin", ("A", "B", "C")),
        Range("line", 1, 3, is_integer=True),
        Range("hours", 1.0, 8.0),
    ]
)
LISTED = [*product((20.0, 50.0, 110.0), "ABC", (1, 2), (1.0, 4.0))]
TABLE = Candidates(dict(zip(SPACE.names, zip(*LISTED, strict=True), strict=True)))
COST = SwitchingCost(CHANGES, AffineCost({"hours": 0.5}, fixed=1.0))
FIDELITY: dict[str, Any] = {"target": {"hours": 8.0}, **QUICK}


def outcome_of(row: Any) -> float:
    """A value that is best at 80 degrees, with resin B, on line 2, after many hours."""
    off = abs(row["heat"] - 80) / 100 + 0.2 * abs(row["line"] - 2) + 0.1 * (row["resin"] != "B")
    return float(-off - 0.3 / row["hours"])


METHODS: dict[str, tuple[Method, dict[str, Any]]] = {
    "learned": (CostAware(SwitchingCost(CHANGES, "bill"), budget=90.0, **QUICK), {}),
    "capped": (CostAware(COST, max_trial_cost=9.0, **QUICK), {}),
    "listed": (CostAware(COST, candidates=TABLE, **QUICK), {}),
    "resumed": (MultiFidelity(COST, resumes=True, budget=90.0, **FIDELITY), {}),
    "front": (
        CostAware(COST, **QUICK),
        {"objectives": (Objective("yield"), Objective("waste", minimize=True))},
    ),
}


@pytest.mark.parametrize("name", METHODS)
def test_trials_are_charged_by_hand(name: str) -> None:
    """What is expected is what is charged: the trial, and its change from the one before."""
    method, given = METHODS[name]
    simulation = Simulation(method, SPACE, **given)
    for _ in range(4):
        fixed = {"resin": "C"} if len(simulation.trials) == 2 else {}
        if isinstance(decision := simulation.ask(fixed), Stop):
            break
        row = decision.parameters
        assert not fixed or row["resin"] == "C"
        cost = (
            1.0 + COST.between(simulation.trials[-1].parameters, row) if simulation.trials else 1.0
        )
        reported = cost if name == "learned" else None
        waste = {"waste": float(str(row["hours"])) / 4} if given else None
        simulation.tell(decision, Outcome(outcome_of(row), reported, metrics=waste))
    assert len(simulation.trials) == 4
    ledger, rows = simulation.ledger, [trial.parameters for trial in simulation.trials]
    assert [entry.switching_cost for entry in ledger] == pytest.approx(
        [0.0, *(by_hand(before, now) for before, now in pairwise(rows))]
    )
    for trial, entry in zip(simulation.trials, ledger, strict=True):
        assert trial.record["switching_cost"] == pytest.approx(entry.switching_cost)
        if name != "learned":
            assert entry.charged == pytest.approx(trial.record["expected_cost"])
        if method.max_trial_cost is not None:
            assert entry.charged <= method.max_trial_cost * (1 + 1e-9)
    again = Simulation(method, SPACE, trials=simulation.trials, **given)
    assert again.ask() == simulation.ask()


def by_hand(before: Any, now: Any) -> float:
    """The cost of a change."""
    up = now["heat"] - before["heat"]
    pair = before["resin"], now["resin"]
    return float(
        (0.05 * up if up > 0 else -0.2 * up)
        + (0.0 if pair[0] == pair[1] else PAIRS[pair])
        + 5.0 * (before["line"] != now["line"])
    )

"""Functionals at a price of cost: a run ends when further queries are not worth theirs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ax_costaware.core.problem import Decision, Pending, Stop
from ax_costaware.core.simulation import Simulation
from ax_costaware.methods.stopping import IN_A_ROW
from tests.core.test_simulation import CASES, run_of

pytestmark = pytest.mark.usefixtures("short_searches")

WORTH = "worth_per_cost"
NUM_INITIAL = 5


@pytest.fixture(scope="module", params=["indirect queries", "tree search"])
def simulation(request: pytest.FixtureRequest) -> Simulation:
    """A run of the initial queries and enough by the model, at a price that turns none away."""
    settings: dict[str, Any] = {"initial_trials": NUM_INITIAL, "budget": None, "lmbda": 1e-12}
    return run_of(CASES[request.param], NUM_INITIAL + IN_A_ROW - 1, **settings)


def decided(simulation: Simulation, lmbda: float | None, **changes: Any) -> Decision | Stop:
    """What comes next at a price."""
    method: Any = replace(simulation.method, lmbda=lmbda)  # type: ignore[call-arg]
    found: Decision | Stop = method.decide(replace(simulation.problem(), **changes))
    return found


def test_a_run_ends_at_its_price(simulation: Simulation) -> None:
    """When several decisions in a row agree, and not at a lower price; the trial is the same."""
    decision, free = decided(simulation, 1e-12), decided(simulation, None)
    assert decision.parameters == free.parameters
    assert decision.details.keys() - free.details.keys() == {"lambda", WORTH}
    earlier = [t.decision[WORTH] for t in simulation.trials if WORTH in t.decision]
    assert len(earlier) == IN_A_ROW - 1
    most = max([*earlier, decision.details[WORTH]])
    assert most > 0
    assert isinstance(decided(simulation, 0.99 * most), Decision)
    stop = decided(simulation, 1.01 * most)
    assert isinstance(stop, Stop)
    assert stop.reason.startswith(f"Stopped: in {IN_A_ROW} decisions in a row further trials")
    assert "Deploy" in stop.reason


def test_one_decision_is_not_enough(simulation: Simulation) -> None:
    """Nor is one within a batch, where nothing is known that was not known at its start."""
    assert isinstance(decided(simulation, 1e6), Stop)
    trials = simulation.problem().trials
    assert isinstance(decided(simulation, 1e6, trials=trials[:-1]), Decision)
    pending = (Pending(None, dict(trials[-1].parameters)),)
    decision = decided(simulation, 1e6, pending=pending)
    assert WORTH not in decision.details


def test_a_decision_that_is_made_again_goes_on(simulation: Simulation) -> None:
    """It was found worth its cost, and says what the ones after it go by."""
    pending = (Pending(len(simulation.trials), dict(simulation.trials[-1].parameters)),)
    assert isinstance(decided(simulation, 1e6, pending=pending), Stop)
    decision = decided(simulation, 1e6, pending=pending, known=pending)
    assert WORTH in decision.details

"""Control sets at a price of cost: a run ends when further trials are not worth theirs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ax_costaware.core.history import PastTrial
from ax_costaware.core.problem import Decision, Pending, Problem, Stop
from ax_costaware.core.simulation import Simulation
from ax_costaware.methods.control_sets import ControlSets
from ax_costaware.methods.control_sets.values import ControlSetValues
from ax_costaware.methods.stopping import GAIN_FACTOR, IN_A_ROW, NUM_AHEAD
from tests.methods.control_sets.toy import CONTROL_SETS, FAST, MARGINALS, MODEL, run

pytestmark = pytest.mark.usefixtures("short_searches")

WORTH = "worth_per_cost"


def method_with(**changes: Any) -> ControlSets:
    """A method on the toy problem, whose price turns no trial away unless another is given."""
    settings = {"initial_trials": 4, "lmbda": 1e-12, **FAST, **changes}
    return ControlSets(settings.pop("control_sets", CONTROL_SETS), MARGINALS, **settings)


@pytest.fixture(scope="module", params=[1.0, -1.0], ids=["maximize", "minimize"])
def simulation(request: pytest.FixtureRequest) -> Simulation:
    """A run of the initial trials and enough by the rule."""
    return run(method_with(), 4 + IN_A_ROW, request.param, hyperparameters=MODEL)


def decided(simulation: Simulation, lmbda: float | None, **changes: Any) -> Decision | Stop:
    """What comes next at a price."""
    method = replace(simulation.method, lmbda=lmbda)
    return method.decide(replace(simulation.problem(), **changes))


def worths(problem: Problem) -> list[float]:
    """What was recorded of the worth of further trials."""
    return [trial.decision[WORTH] for trial in problem.trials if WORTH in trial.decision]


def gain_now(simulation: Simulation, **changes: Any) -> float:
    """What further trials add per unit of cost."""
    method: Any = replace(simulation.method, **changes)
    gain = ControlSetValues(simulation.problem(), method).gain_per_cost(range(3))
    assert gain is not None
    return gain


def unnamed(trial: PastTrial) -> PastTrial:
    """A trial as earlier releases recorded it, without the objective."""
    decision = {name: x for name, x in trial.decision.items() if name != "objective"}
    return replace(trial, record={**trial.record, "decision": decision})


def test_a_run_ends_at_its_price(simulation: Simulation) -> None:
    """When several decisions in a row agree, and not at a lower price; the trial is the same."""
    earlier = worths(simulation.problem())
    assert len(earlier) == IN_A_ROW
    most = max([*earlier[1:], GAIN_FACTOR * gain_now(simulation)])
    stop = decided(simulation, 1.01 * most)
    assert isinstance(stop, Stop)
    assert stop.reason.startswith(f"Stopped: in {IN_A_ROW} decisions in a row further trials")
    assert "Deploy control set" in stop.reason
    decision, free = decided(simulation, 0.99 * most), decided(simulation, None)
    assert decision.parameters == free.parameters
    assert decision.details == {
        **free.details,
        "lambda": 0.99 * most,
        WORTH: GAIN_FACTOR * gain_now(simulation),
    }


def test_one_decision_is_not_enough(simulation: Simulation) -> None:
    """What is recorded has to say so, too."""
    trials = simulation.problem().trials
    assert isinstance(decided(simulation, 1e6), Stop)
    assert isinstance(decided(simulation, 1e6, trials=trials[:-2]), Decision)


def test_what_was_worth_little_to_another_objective_says_nothing(simulation: Simulation) -> None:
    """Its unit is another, or what is better; earlier releases did not record which it was."""
    problem = simulation.problem()
    assert isinstance(decided(simulation, 1e6, objective="another"), Decision)
    assert isinstance(decided(simulation, 1e6, minimize=not problem.minimize), Decision)
    assert isinstance(decided(simulation, 1e6, trials=tuple(map(unnamed, problem.trials))), Stop)


def test_a_batch_is_not_broken_off(simulation: Simulation) -> None:
    """Within a batch nothing is known that was not known at its start."""
    pending = (Pending(None, dict(simulation.trials[-1].parameters)),)
    decision = decided(simulation, 1e6, pending=pending)
    assert WORTH not in decision.details


def test_more_trials_than_the_budget_pays_for_are_worth_nothing(simulation: Simulation) -> None:
    """Those that it pays for count, and one that it pays for always does."""
    spent = simulation.problem().trials[-1].decision["spent"]
    assert gain_now(simulation, budget=spent + 1.7) <= gain_now(simulation)
    assert gain_now(simulation, budget=spent + 1.7) > 0
    for left in (0.9, 1.7, 5.0):
        values = ControlSetValues(
            simulation.problem(), replace(simulation.method, budget=spent + left)
        )
        costs = [price.mean for i in range(3) if (price := values.cost_of(i)) is not None]
        assert gain_now(simulation, budget=spent + left) == max(
            values.space.knowledge([i], count)[0] / (count * costs[i])
            for count in NUM_AHEAD
            for i in range(3)
            if count == 1 or count * costs[i] <= left
        )

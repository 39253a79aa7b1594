"""The cost of a measurement, learned from the trials that were measured."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from ax_costaware.core.model import FixedHyperparameters
from ax_costaware.core.problem import Decision, Pending, Problem
from ax_costaware.core.simulation import Outcome, Simulation
from ax_costaware.costs import CostModel, CostOfTrial
from ax_costaware.costs.cost_model import ANY_TRIAL
from ax_costaware.exceptions import InputError
from ax_costaware.methods.costly_feedback import CostlyFeedback, MeasurementCosts
from ax_costaware.methods.costly_feedback.rules import BernoulliRule, FullFeedback
from ax_costaware.models.log_normal_cost import LogNormalCostModel
from ax_costaware.space.parameters import Range
from ax_costaware.space.space import Space

pytestmark = pytest.mark.usefixtures("short_searches")

SPACE = Space.of([Range("x", 0, 1)])

MODEL = FixedHyperparameters(lengthscale=0.2, noise_variance=1e-3)


def price(x: Any) -> float:
    """The cost of a measurement, between 0.5 and 4.5."""
    return 0.5 + 4.0 * float(x)


def simulation_of(method: CostlyFeedback | None = None, **settings: Any) -> Simulation:
    """A run that has not begun."""
    given = {"cost": "seconds", "forgetting": 0.02, "initial_trials": 3, "rule": FullFeedback()}
    return Simulation(method or CostlyFeedback(**{**given, **settings}), SPACE, False, MODEL)


def step(simulation: Simulation) -> Decision:
    """Decide on a trial and run it, as the decision says."""
    decision = simulation.ask()
    x = float(str(decision.parameters["x"]))
    measured = Outcome(-((x - 0.3) ** 2), price(x))
    simulation.tell(decision, measured if decision.extra["measure"] else Outcome())
    return decision


def test_a_cost_is_expected_from_the_first_report_on() -> None:
    """By a model of the reported costs; what is expected is recorded, and what is paid charged."""
    simulation = simulation_of(budget=30.0)
    first = step(simulation)
    assert (first.phase, first.extra["measure"], first.expected_cost) == ("initial", True, None)
    for _ in range(6):
        trials = [trial for trial in simulation.trials if trial.is_observed]
        X = SPACE.encode([trial.parameters for trial in trials])
        costs = X.new_tensor([trial.reported_cost or 0.0 for trial in trials])
        model = LogNormalCostModel(X, costs, "trend", SPACE.bounds)
        decision = step(simulation)
        assert decision.extra["measure"]
        expected = model.expected_cost(SPACE.encode([decision.parameters])).item()
        assert decision.expected_cost == pytest.approx(expected)
    for trial, entry in zip(simulation.trials, simulation.ledger, strict=True):
        assert entry.charged == trial.reported_cost == price(trial.parameters["x"])
        assert entry.expected_cost == trial.record["expected_cost"]
    assert simulation.trials[-1].record["cost_metric"] == "seconds"
    assert simulation.recommend().expected_cost is not None


@pytest.mark.parametrize("cost", [None, 0.0, 40.0])
def test_a_skipped_trial_is_no_data_of_the_cost_model(cost: float | None) -> None:
    """It need not report a cost; what it reports is charged, and not learned from."""
    simulation = simulation_of(rule=BernoulliRule(0.0), budget=100.0)
    for _ in range(3):
        step(simulation)
    before = simulation.method.trial_costs.model(simulation.problem())
    decision = step(simulation)
    assert not decision.extra["measure"]
    last = replace(simulation.trials[-1], reported_cost=cost)
    simulation.trials[-1] = last
    after = simulation.method.trial_costs.model(simulation.problem())
    X = SPACE.sobol_points(5, 0)
    assert after.log_cost(X).tolist() == before.log_cost(X).tolist()
    assert (simulation.ledger[-1].skipped, simulation.ledger[-1].charged) == (True, cost or 0.0)
    assert isinstance(simulation.ask(), Decision)
    # Nor if it fails, for it was not to be measured.
    simulation.trials[-1] = replace(last, status="FAILED", reported_cost=cost or None)
    failed = simulation.method.trial_costs.model(simulation.problem())
    assert failed.log_cost(X).tolist() == before.log_cost(X).tolist()


def test_what_is_pending_reserves_what_is_expected() -> None:
    """Trials that are to be measured alone; before the first report of any nothing is known."""
    simulation = simulation_of(budget=40.0)
    method, problem = simulation.method, simulation.problem()
    both = (Pending(None, {"x": 0.9}), Pending(None, {"x": 0.9}, measure=False))
    assert method.reservations(replace(problem, pending=both), True) == [0.0, 0.0]
    first = simulation.ask()
    simulation.start(first)
    assert simulation.ledger[-1].charged == 0.0
    simulation.tell(first, Outcome(0.0, price(first.parameters["x"])), 0)
    for _ in range(5):
        step(simulation)
    problem = simulation.problem()
    for initial in (True, False):
        reserved = method.reservations(replace(problem, pending=both), initial)
        assert reserved == [pytest.approx(price(0.9), rel=0.3), 0.0]
    decision = simulation.ask()
    simulation.start(decision)
    assert simulation.ledger[-1].charged == decision.expected_cost
    later = simulation.ask()
    assert later.details["spent"] == pytest.approx(
        sum(entry.charged for entry in simulation.ledger)
    )


def test_a_measured_trial_without_its_cost_is_refused() -> None:
    """Also one that was measured against the advice."""
    simulation = simulation_of(rule=BernoulliRule(0.0))
    for _ in range(4):
        decision = step(simulation)
    assert not decision.extra["measure"]
    simulation.trials[-1] = replace(simulation.trials[-1], outcome=0.1, is_observed=True)
    with pytest.raises(InputError, match=r"cost='seconds': trials \[3\] were completed without a"):
        simulation.ask()
    simulation.trials[-1] = replace(simulation.trials[-1], reported_cost=2.0)
    assert isinstance(simulation.ask(), Decision)
    assert simulation.ledger[-1].charged == 2.0


@dataclass(frozen=True)
class Surcharged(CostlyFeedback):
    """Learned costs of which every measurement is expected to cost as much more."""

    @property
    def trial_costs(self) -> SurchargedCosts:
        return SurchargedCosts.of(self)


class SurchargedCosts(MeasurementCosts):
    """As much more than is learned."""

    def model(self, problem: Problem) -> CostModel:
        learned = super().model(problem)
        return CostOfTrial(lambda X: 100.0 + learned.log_cost(X).exp(), ANY_TRIAL)


@dataclass(frozen=True)
class Heated(CostlyFeedback):
    """A declared cost of its own."""

    def cost_at(self, parameters: Any) -> float:
        return price(parameters["x"])

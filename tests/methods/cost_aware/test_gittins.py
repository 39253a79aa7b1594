"""What is refused by the arguments of the Gittins method alone; and what the rest means."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from botorch.models.cost import AffineFidelityCostModel

from ax_costaware.core import Decision, PastTrial, Problem, Simulation
from ax_costaware.core.model import FixedHyperparameters
from ax_costaware.core.simulation import Outcome
from ax_costaware.costs.cost import AffineCost
from ax_costaware.exceptions import InputError
from ax_costaware.methods.cost_aware import CostAware
from ax_costaware.methods.cost_aware.assessment import assess
from ax_costaware.methods.cost_aware.prices import relative_lambda
from ax_costaware.methods.cost_aware.rules import GittinsDecay, GittinsStop, ImprovementPerCostStop
from ax_costaware.space import Choice, Range, Space
from tests.priced import method_of

BAD: dict[str, tuple[Any, ...]] = {
    "cost": (0.0, -1, math.nan, math.inf, True, "", None, AffineCost, AffineCost({0: 1.0})),
    "lmbda": (0.0, math.nan, "high"),
    "decay": (0.1,),
    "stop": ("never", GittinsStop()),
    "acquisition": ("ei", "log_ei_cost_cooling"),
    "kernel": ("rbf",),
    "cost_model": ("tree",),
    "initial_share": (0, 1.5),
    "initialize_with_center": (1,),
}


@pytest.mark.parametrize(("name", "value"), [(n, x) for n, values in BAD.items() for x in values])
def test_bad_arguments(name: str, value: Any) -> None:
    with pytest.raises(InputError, match=f"{name}="):
        method_of(**{"cost": 1.0, name: value})
    with pytest.raises(InputError, match=r"lmbda=1.0 and decay="):
        method_of(1.0, lmbda=1.0, decay=GittinsDecay())


@pytest.mark.parametrize(
    ("change", "source", "rule"),
    [
        ({"lmbda": 1}, "given", ImprovementPerCostStop()),
        ({"lmbda": 1, "acquisition": "gittins"}, "given", GittinsStop()),
        ({"lmbda": 1, "stop": True}, "given", GittinsStop()),
        ({"lmbda": 1, "stop": False}, "given", None),
        ({"lmbda": 1, "budget": 5}, "given", ImprovementPerCostStop()),
        ({"budget": np.float64(5)}, "budget", None),
        ({"budget": 5, "stop": False}, "budget", None),
        ({"budget": 5, "stop": True}, "budget", GittinsStop()),
        ({}, "decay", None),
        ({"budget": 5, "decay": GittinsDecay()}, "decay", None),
        ({"stop": GittinsStop(0.5)}, "decay", GittinsStop(0.5)),
        ({"budget": 5, "stop": ImprovementPerCostStop()}, "budget", ImprovementPerCostStop()),
    ],
)
def test_where_lambda_comes_from(change: dict[str, Any], source: str, rule: Any) -> None:
    """Given, or from the budget, or decaying; and a rule wherever there is a price to stop at."""
    method = method_of(cost=1.0, **change)
    assert (method.lambda_source, method.stop_rule) == (source, rule)
    assert (method.decay is not None) == (source == "decay")


@pytest.mark.parametrize(("initial", "price"), [(0.1, 0.05), (1.0, 1.0), (0.2, 0.2)])
def test_a_decay_begins_at_its_own_price(initial: float, price: float) -> None:
    """That of an earlier strategy had come down to a price of its own, and was taken over."""
    prices = [(0.1, 0.1), (0.1, 0.05)]
    trials = [
        PastTrial(
            i,
            {"x": 0.5},
            record={
                "decision": {
                    "lambda_source": "decay",
                    "relative_lambda": before,
                    "next_relative_lambda": after,
                }
            },
        )
        for i, (before, after) in enumerate(prices)
    ]
    problem = Problem(Space.of([Range("x", 0.0, 1.0)]), tuple(trials))
    assert relative_lambda(method_of(1.0, decay=GittinsDecay(initial)), problem) == price
    # Nor is a price per mean cost one per unit of cost.
    of_the_paper = GittinsDecay(initial, per_mean_cost=False)
    assert relative_lambda(method_of(1.0, decay=of_the_paper), problem) == initial
    # A price of another unit of cost is none of this one.
    trials = [replace(t, record={**t.record, "cost_metric": "seconds"}) for t in trials]
    problem = replace(problem, trials=tuple(trials))
    for metric, expected in (("seconds", price), ("hours", initial)):
        method = method_of(metric, decay=GittinsDecay(initial))
        assert relative_lambda(method, problem) == expected


def test_costs_at_a_parameterization() -> None:
    """Numbers, value objects and functions; a metric's are not known."""
    assert CostAware(2).cost_at({}) == 2.0
    assert CostAware(AffineCost({"x": 2.0})).cost_at({"x": 3, "y": "a"}) == 6.0
    assert CostAware(lambda x: np.float32(x["x"])).cost_at({"x": 1.5}) == 1.5
    assert CostAware("hours").trial_costs.metric == "hours"
    assert CostAware("hours").cost_at({}) is None
    with pytest.raises(InputError, match=r"cost=AffineCost.* at {'x': -1.0}"):
        CostAware(AffineCost({"x": 2.0})).cost_at({"x": -1.0})
    with pytest.raises(InputError, match=r"cost gave 'expensive' for {'x': 1}"):
        CostAware(lambda x: "expensive").cost_at({"x": 1})  # type: ignore[arg-type, return-value]
    with pytest.raises(InputError, match=r"cost=AffineFidelityCostModel\(\)"):
        CostAware(AffineFidelityCostModel())


def designs(method: CostAware) -> list[float]:
    """What the trials of the initial design cost, on a function whose costs vary by a hundred."""
    simulation = Simulation(method, Space.of([Range("x", 0.0, 1.0), Range("y", 0.0, 1.0)]))
    costs = []
    for _ in range(method.initial_trials):
        decision = simulation.ask()
        if decision.phase != "initial":
            break
        x = float(decision.parameters["x"] or 0.0)
        costs.append(100.0**x)
        simulation.tell(decision, Outcome(x, costs[-1] if method.trial_costs.metric else None))
    return costs


@pytest.mark.parametrize("seed", range(5))
def test_a_design_that_knows_costs_keeps_to_its_share(seed: int) -> None:
    def cost(row: dict[str, Any]) -> float:
        return float(100.0 ** row["x"])

    blind = designs(CostAware(cost, budget=100.0, seed=seed, initial_share=None))
    knows = designs(CostAware(cost, budget=100.0, seed=seed, initial_share=0.2))
    assert sum(knows) <= 20.0
    assert sum(blind) > 20.0
    assert len({round(c, 6) for c in knows}) == len(blind) == 5


def test_what_is_left_pays_for_the_cheapest_corner_alone() -> None:
    """Where no point that a search begins from is affordable."""
    cost = AffineCost({"x": 1.0, "y": 1.0}, fixed=0.01)
    method = CostAware(
        cost, budget=10.0, initial_trials=3, num_restarts=2, raw_samples=16, stop=False
    )
    space = Space.of([Range("x", 0.0, 1.0), Range("y", 0.0, 1.0)])
    simulation = Simulation(method, space, hyperparameters=FixedHyperparameters(0.3))
    for index in range(4):
        simulation.tell(simulation.ask(), Outcome(math.sin(3.0 * index)))
    budget = sum(entry.charged for entry in simulation.ledger) + 0.0102
    later = Simulation(
        replace(method, budget=budget),
        space,
        hyperparameters=FixedHyperparameters(0.3),
        trials=list(simulation.trials),
    )
    decision = later.ask()
    assert isinstance(decision, Decision)
    assert decision.expected_cost == pytest.approx(0.01, abs=2e-4)


PLANE = Space.of([Range("x", 1.0, 100.0, log_scale=True), Range("n", 1, 5, is_integer=True)])


def first(space: Space, **settings: Any) -> Decision:
    """The first trial of a design."""
    decision = Simulation(CostAware(**{"cost": 1.0, **settings}), space).ask()
    assert isinstance(decision, Decision)
    return decision


def test_the_first_trial_is_the_center() -> None:
    """On the scale of each parameter, if it meets the constraints and keeps to its share."""
    decision = first(PLANE)
    assert decision.parameters == {"x": pytest.approx(10.0), "n": 3}
    assert decision.why == "This is initial trial 1 of 5; it is the center of the search space."
    quasi_random = first(PLANE, initialize_with_center=False)
    assert quasi_random.parameters["x"] != pytest.approx(10.0)
    assert "quasi-random" in quasi_random.why
    bounded = Space.of(PLANE.parameters.values(), [({"n": 1.0}, 2.0)])
    assert first(bounded).parameters["n"] <= 2
    expensive = first(PLANE, cost=lambda row: 100.0 if row["n"] == 3 else 1.0, budget=50.0)
    assert expensive.parameters["n"] != 3
    assert "quasi-random" in expensive.why


@pytest.mark.usefixtures("short_searches")
def test_a_price_from_a_budget_needs_two_different_outcomes() -> None:
    """Before that it is in no unit: it is not held, and ends no run. Rules may have their own."""
    space = Space.of([Range("x", 0.0, 1.0), Range("y", 0.0, 1.0)])

    def run(unit: float, **settings: Any) -> Simulation:
        method = CostAware(1.0, **{"budget": 7.0, "stop": True, "initial_trials": 1, **settings})
        simulation = Simulation(method, space)
        while isinstance(decision := simulation.ask(), Decision):
            row: Any = decision.parameters
            simulation.tell(decision, Outcome(unit * -((row["x"] - 0.3) ** 2) - unit * row["y"]))
        return simulation

    prices = []
    for unit in (1.0, 1e-6):
        first, second, *others = [t.decision for t in run(unit).trials[1:]]
        assert first["lambda_held"] is False
        assert all("lambda_held" not in decision for decision in (second, *others))
        assert {decision["lambda"] for decision in others} == {second["lambda"]}
        prices.append(second["lambda"] / unit)
    assert prices[1] == pytest.approx(prices[0], rel=1e-3)
    assert prices[0] != first["lambda"]
    # Where all outcomes are one, it ends no run before the budget does; a rule's own price may.
    assert [len(run(0.0, stop=stop).trials) for stop in (True, GittinsStop(1.0))] == [7, 1]


def waves(method: CostAware, noise: float, minimize: bool = False) -> Simulation:
    """Twelve trials of a method, with errors of a size."""
    error = noise * torch.randn(12, generator=torch.Generator().manual_seed(0))
    space = Space.of([Range("x", 0.0, 1.0), Range("y", 0.0, 1.0)])
    simulation = Simulation(method, space, minimize=minimize)
    for i in range(12):
        x, y = (0.37 * i) % 1, (0.71 * i) % 1
        outcome = float(np.sin(5 * x)) + y + float(error[i])
        decision = Decision({"x": x, "y": y}, "")
        simulation.tell(decision, Outcome(-outcome if minimize else outcome))
    torch.manual_seed(0)
    return simulation


@pytest.mark.parametrize(("noise", "same"), [(0.0, True), (2.0, False)])
def test_improvement_is_noisy_where_noise_is_found(noise: float, same: bool) -> None:
    """Without it decisions are those over the best posterior mean, digit for digit."""

    def decision(acquisition: str) -> Decision:
        method = CostAware(
            1.0, budget=50.0, acquisition=acquisition, num_restarts=2, raw_samples=32
        )
        found = method.decide(waves(method, noise).problem())
        assert isinstance(found, Decision)
        return found

    noisy, mean = (decision(name) for name in ("log_nei_per_cost", "log_ei_per_cost"))
    assert (noisy.value == mean.value) is same
    assert not same or noisy.parameters == mean.parameters


@pytest.mark.parametrize("minimize", [False, True])
def test_the_index_with_noise_is_on_the_side_of_the_incumbent_that_the_rule_is(
    minimize: bool,
) -> None:
    """It was above the best posterior mean where no trial was worth its cost."""
    price = 0.1
    for factor in (1.0, 0.99, 1.01):
        method = CostAware(2.0, lmbda=factor * price, num_restarts=2, raw_samples=32)
        problem = waves(method, 2.0, minimize).problem()
        assessment = assess(method, problem, method.stop_rule)
        assert assessment.decision is not None
        assert assessment.index_and_price is not None
        largest = problem.scale.unit * math.exp(assessment.decision.value or 0.0)
        price = price if factor != 1 else largest
        excess = (assessment.index_and_price[0] - assessment.incumbent) * (-1 if minimize else 1)
        assert assessment.stop is (excess <= 0)
    assert abs(excess) < 0.1 * price


def test_at_a_price_repeats_are_worth_their_cost_where_noise_is_much() -> None:
    """They improve on no incumbent, and the run ended once each variety was tried."""
    space = Space.of([Choice("variety", ("a", "b", "c"), is_ordered=False)])
    model = FixedHyperparameters(lengthscale=1.0, outputscale=4.0, noise_variance=2.0)
    simulation = Simulation(CostAware(1.0, lmbda=1e-3), space, hyperparameters=model)
    for variety, outcome in (("a", 0.1), ("b", 0.3), ("c", 0.2)):
        simulation.tell(Decision({"variety": variety}, ""), Outcome(outcome))
    assert isinstance(simulation.ask(), Decision)

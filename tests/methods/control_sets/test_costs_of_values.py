"""Control sets whose declared cost depends on the values that they set."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor

from ax_costaware.acquisition.feasibility import OutcomeConstraint
from ax_costaware.core.history import PastTrial
from ax_costaware.core.problem import Decision, Pending, Problem, Stop
from ax_costaware.core.simulation import Outcome, Simulation
from ax_costaware.core.traits import CONTROL_SET
from ax_costaware.costs import AffineCost, ControlSet, Cost, ProductCost, SwitchingCost, TableCost
from ax_costaware.exceptions import InputError
from ax_costaware.laws import Uniform
from ax_costaware.methods import ExploreThenCommit, UnknownCosts
from ax_costaware.methods.control_sets import ControlSets
from ax_costaware.methods.control_sets.values import ControlSetValues
from ax_costaware.space.parameters import Choice, Range, Row
from ax_costaware.space.space import Space
from tests.methods.control_sets.toy import FAST, MARGINALS, MODEL, objective

LAWS = {**MARGINALS, "x3": Uniform(0.1, 1.0)}
STEEP = AffineCost({"x3": 4.0}, fixed=0.5)
SETS = (
    ControlSet(["x1"], 0.4),
    ControlSet(["x1", "x3"], ProductCost({"x3": 1.0}, scale=2.0), name="product"),
    ControlSet(["x1", "x2", "x3"], STEEP),
)
RANGES = (Range("x1", 0, 1), Range("x2", 0, 1), Range("x3", 0.1, 1))


@dataclass(frozen=True)
class Wavy(Cost):
    """A cost of a user's own class."""

    scale: float = 1.0

    parameters = ("x3",)

    def evaluate(self, columns: Mapping[Any, Tensor]) -> Tensor:
        """A cost that neither rises nor falls throughout."""
        return self.scale * (1.5 + (7.0 * columns["x3"]).sin())


def simulation_of(
    sets: Sequence[ControlSet] = SETS, trials: Sequence[PastTrial] = (), **settings: Any
) -> Simulation:
    """A run of the toy problem that has not begun."""
    method = ControlSets(tuple(sets), LAWS, **{"initial_trials": 4, **FAST, **settings})
    space = Space.of([Choice(CONTROL_SET, tuple(method.names)), *RANGES], hidden=[CONTROL_SET])
    return Simulation(method, space, hyperparameters=MODEL, trials=list(trials))


def outcome_of(index: int, arm: Row) -> Outcome:
    """What comes of a trial; what is random is a function of its index."""
    controlled = next(s for s in SETS if s.name == arm[CONTROL_SET]).parameters
    realized = {
        name: 0.1 + 0.9 * ((0.618034 * (index + 1) * (place + 1)) % 1.0)
        for place, name in enumerate(MARGINALS)
        if name not in controlled
    }
    return Outcome(objective({**arm, **realized}), realized=realized)


def ran(count: int, **settings: Any) -> Simulation:
    """A run of the toy problem."""
    simulation = simulation_of(**settings)
    for index in range(count):
        decision = simulation.ask()
        if isinstance(decision, Stop):
            break
        simulation.tell(decision, outcome_of(index, decision.parameters))
    return simulation


def method_of(simulation: Simulation) -> ControlSets:
    assert isinstance(simulation.method, ControlSets)
    return simulation.method


def ratios_on_grid(problem: Problem, values: ControlSetValues, n: int = 41) -> dict[str, float]:
    """The largest value above the worst per cost of each control set, on a grid."""
    method, found = values.method, {}
    ticks = torch.linspace(0.0, 1.0, n, dtype=torch.double)
    points = torch.cartesian_prod(ticks, ticks, 0.1 + 0.9 * ticks)
    with torch.no_grad():
        posterior = problem.model.posterior(points.unsqueeze(-2))
    mean, deviation = posterior.mean.flatten(), posterior.variance.flatten().sqrt()
    bound = (mean + values.beta * deviation).reshape(n, n, n)
    for control_set in method.control_sets:
        value = bound
        for axis, name in enumerate(MARGINALS):
            if name not in control_set.parameters:
                weights = torch.ones(n, dtype=torch.double)
                weights[[0, -1]] = 0.5
                shape = [-1 if a == axis else 1 for a in range(3)]
                value = (value * (weights / weights.sum()).reshape(shape)).sum(axis, keepdim=True)
        height = value - problem.scale.to_model(values.worst())
        cost: Any = control_set.cost
        if isinstance(cost, Cost):
            cost = cost.evaluate({"x3": 0.1 + 0.9 * ticks})
        found[control_set.name] = float((height / cost).max())
    return found


@pytest.mark.parametrize("cost", [STEEP, Wavy(), ProductCost({"x3": 2.0}, scale=9.0)], ids=repr)
def test_values_have_the_largest_value_per_cost(cost: Cost) -> None:
    """Of control sets of some inputs and of all, against brute force on a grid."""
    sets = (SETS[0], replace(SETS[1], cost=cost), replace(SETS[2], cost=cost))
    simulation = ran(8, sets=sets, num_restarts=24, raw_samples=256, num_nodes=256)
    problem, method = simulation.problem(), method_of(simulation)
    values = ControlSetValues(problem, method)
    on_grid = ratios_on_grid(problem, values)
    for index in (1, 2):
        ((point, value),) = values.found([index])
        price = values.cost_of(index)
        assert price.mean == pytest.approx(cost.at({"x3": float(point[-1])}))
        ratio = (value - problem.scale.to_model(values.worst())) / price.mean
        # The average over x2 is a little off: of the grid by its steps, of the model by its nodes.
        least = 0.995 if index == 1 else 1 - 1e-6
        assert least <= ratio / on_grid[sets[index].name] <= 1.02
    # The value is that at the point, not a ratio.
    with torch.no_grad():
        posterior = problem.model.posterior(point.unsqueeze(0))
    assert value == pytest.approx(float(posterior.mean + values.beta * posterior.variance.sqrt()))


@pytest.mark.parametrize(
    "settings",
    [
        {"acquisition": "ts"},
        {"rule": UnknownCosts(rounds=1)},
        {"switching_cost": SwitchingCost({"x1": 0.3, "x3": 0.2})},
        {"sets": (*SETS[:2], replace(SETS[2], cost=Wavy()))},
    ],
    ids=str,
)
def test_what_is_expected_is_what_is_charged(settings: dict[str, Any]) -> None:
    """In records, the ledger and the budget; and a run goes on from its trials."""
    simulation = ran(10, budget=14.0, max_trial_cost=2.0, **settings)
    method = method_of(simulation)
    for trial, entry in zip(simulation.trials, simulation.ledger, strict=True):
        cost = method.cost_at(trial.parameters)
        assert entry.charged == pytest.approx(cost + entry.switching_cost, rel=1e-12)
        assert trial.record["expected_cost"] == pytest.approx(entry.charged, rel=1e-12)
        assert entry.charged <= 2.0 * (1 + 1e-9)
    assert math.fsum(entry.charged for entry in simulation.ledger) <= 14.0
    assert len({trial.parameters[CONTROL_SET] for trial in simulation.trials}) > 1
    again = Simulation(
        method, simulation.space, hyperparameters=MODEL, trials=list(simulation.trials)
    )
    assert again.ask() == simulation.ask()
    best = simulation.recommend()
    row = {**best.parameters, CONTROL_SET: best.control_set}
    assert best.expected_cost == method.cost_at(row)


def test_a_budget_that_pays_for_no_values_ends_the_run() -> None:
    """By the least cost that there is, in the rule's trials and in the initial design."""
    sets = (replace(SETS[2], cost=STEEP),)
    simulation = ran(6, sets=sets)
    spent = math.fsum(entry.charged for entry in simulation.ledger)
    for extra, is_over in ((0.85, True), (0.95, False)):
        method = replace(method_of(simulation), budget=spent + extra)
        later = Simulation(
            method, simulation.space, hyperparameters=MODEL, trials=list(simulation.trials)
        )
        found = later.ask()
        assert isinstance(found, Stop) is is_over
        if isinstance(found, Stop):
            assert "the cheapest control set costs 0.9" in found.reason
    first = ran(9, sets=sets, budget=3.0, initial_trials=3)
    charged = [entry.charged for entry in first.ledger]
    assert len(charged) >= 2
    assert sum(charged) <= 3.0


def test_a_batch_of_the_certain_size_is_paid() -> None:
    """Each decision reserves what it costs at its values; the largest cost limits the number."""
    simulation = ran(5, sets=SETS[2:], budget=40.0)
    method, problem = method_of(simulation), simulation.problem()
    left = method.budget_state(problem).remaining
    count = method.trial_costs.num_payable(problem, initial=False)
    assert count == 1 + math.floor((left - 0.9) / 4.5)
    capped = replace(method, max_trial_cost=2.0)
    assert capped.trial_costs.num_payable(problem, initial=False) == 1 + math.floor(
        (left - 0.9) / 2.0
    )
    reserved = 0.0
    for initial in (True, False):
        rows = [{CONTROL_SET: "x1+x2+x3", "x1": 0.5, "x2": 0.5, "x3": x3} for x3 in (0.2, 0.9)]
        later = replace(problem, pending=tuple(Pending(None, row) for row in rows))
        reserved = math.fsum(method.reservations(later, initial))
        assert reserved == pytest.approx(2 * 0.5 + 4.0 * 1.1)
    assert method.budget_state(later).remaining == pytest.approx(left - reserved)


def test_attached_trials_are_charged_by_their_values() -> None:
    """And refused, by their index, where the cost is none."""
    arm = {CONTROL_SET: "x1+x2+x3", "x1": 0.5, "x2": 0.5, "x3": 0.25}
    trial = PastTrial(0, arm, outcome=1.0, is_observed=True)
    simulation = simulation_of(trials=[trial])
    assert [entry.charged for entry in simulation.ledger] == [1.5]
    beyond = replace(trial, parameters={**arm, "x3": -1.0})
    with pytest.raises(InputError, match=r"trial 0.*control set 'x1\+x2\+x3'.*finite cost > 0"):
        _ = simulation_of(trials=[beyond]).ledger


@pytest.mark.parametrize(
    ("cost", "least"),
    [
        (TableCost("machine", {"old": 1.0, "new": 3.0}), 1.0),
        (AffineCost({"x3": 0.01, "x1": 1.0}), 2.0),
    ],
    ids=["table", "affine"],
)
def test_choices_integers_and_constraints(cost: Cost, least: float) -> None:
    """Costs over choices and whole numbers, with a constraint that leaves out the cheapest."""
    chosen = ControlSet(["x1", "x3", "machine"], cost, name="all")
    ranges = [Range("x1", 0, 1), Range("x3", 1, 1000, is_integer=True)]
    space = Space.of(
        [Choice(CONTROL_SET, ("all",)), *ranges, Choice("machine", ("old", "new"))],
        hidden=[CONTROL_SET],
        sums=[({"x3": -1.0}, -200.0)],
    )
    method = ControlSets((chosen,), {}, initial_trials=3, budget=100.0, **FAST)
    simulation = Simulation(method, space, hyperparameters=MODEL)
    for index in range(5):
        decision = simulation.ask()
        assert decision.expected_cost == cost.at(decision.parameters)
        simulation.tell(decision, Outcome(math.sin(3.0 * index)))
    values = ControlSetValues(simulation.problem(), method)
    assert values.space.costs.ranges[0][0] == pytest.approx(least)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"sets": [ControlSet(["x3"], AffineCost({"x3": 1.0}, fixed=-0.5))]}, r"finite cost > 0"),
    ({"sets": [ControlSet(["x3"], TableCost("x3", {0.5: 1.0}))]}, "TableCost.* more values"),
    ({"sets": SETS[2:], "budget": 0.8}, r"budget=0.8 is below the cost of the cheapest .*, 0.9"),
    ({"sets": SETS[2:], "budget": 3.0}, r"initial_trials=4 .* cost 3.6, more than budget=3"),
    (
        {"rule": ExploreThenCommit.adaptive()},
        r"rule=ExploreThenCommit.*control set 'product' has cost=ProductCost.*LargestValuePerCost",
    ),
]


@pytest.mark.parametrize(("settings", "message"), REFUSED)
def test_refusals(settings: dict[str, Any], message: str) -> None:
    """Before anything is spent."""
    with pytest.raises(InputError, match=message):
        simulation_of(**settings)


def test_until_something_is_feasible_the_likeliest_per_cost_is_next() -> None:
    """Where all values are as likely, the cheapest ones."""
    bound = OutcomeConstraint("heat", upper=-100.0)
    method = ControlSets(SETS[2:], LAWS, initial_trials=3, **FAST)
    space = Space.of([Choice(CONTROL_SET, ("x1+x2+x3",)), *RANGES], hidden=[CONTROL_SET])
    simulation = Simulation(method, space, hyperparameters=MODEL, constraints=[bound])
    for index in range(3):
        decision = simulation.ask()
        assert isinstance(decision, Decision)
        outcome = outcome_of(index, decision.parameters)
        simulation.tell(decision, outcome._replace(metrics={"heat": float(index)}))
    decision = simulation.ask()
    assert isinstance(decision, Decision)
    assert "No query is feasible" in decision.why
    assert decision.expected_cost is not None
    assert decision.expected_cost < 4.5


@pytest.mark.parametrize("left", [0.55, 1.3])
@pytest.mark.parametrize("switching_cost", [None, SwitchingCost({"x2": 0.1})], ids=str)
@pytest.mark.parametrize("acquisition", ["ucb"])
def test_what_is_left_pays_for_cheaper_values(
    left: float, switching_cost: SwitchingCost | None, acquisition: str
) -> None:
    """Where it does not pay for the best ones."""
    sets = (replace(SETS[2], cost=AffineCost({"x3": -4.0}, fixed=4.5)),)
    simulation = ran(6, sets=sets, switching_cost=switching_cost, acquisition=acquisition)
    spent = math.fsum(entry.charged for entry in simulation.ledger)
    method = replace(method_of(simulation), budget=spent + left)
    later = Simulation(
        method, simulation.space, hyperparameters=MODEL, trials=list(simulation.trials)
    )
    decision = later.ask()
    if left < 0.6 and switching_cost is not None:
        return  # cheaper values are there only if nothing is changed
    assert isinstance(decision, Decision)
    assert decision.expected_cost is not None
    assert 0.5 <= decision.expected_cost <= left * (1 + 1e-9)

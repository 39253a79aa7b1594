"""Number of repeats as a part of the decision."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from gpytorch.kernels import RBFKernel

from ax_costaware.acquisition import LogKnowledgeGradientPerCost
from ax_costaware.core import Decision, Simulation, Stop
from ax_costaware.core.simulation import Outcome
from ax_costaware.costs import AffineCost
from ax_costaware.exceptions import InputError
from ax_costaware.methods import CostAware, MultiFidelity
from ax_costaware.methods.cost_aware.repeats import repeats_options
from ax_costaware.methods.cost_aware.rules import GittinsStop, ImprovementPerCostStop
from ax_costaware.methods.cost_aware.search import Search
from ax_costaware.space import AtMost, Candidates, Choice, NonlinearConstraint, Range, Space
from ax_costaware.space.hierarchy import Condition

FOLDS = Range("folds", 1, 10, is_integer=True)
SPACE = Space.of([Range("x", 0, 1), FOLDS])
METHOD = CostAware(
    cost=AffineCost({"folds": 1.0}, fixed=3.0),
    budget=60.0,
    repeats="folds",
    num_restarts=2,
    raw_samples=16,
)


def measured(row: Any, seed: int, sigma: float = 0.3) -> list[float]:
    """Values of the repeats of a trial."""
    noise = np.random.default_rng(seed).standard_normal(row["folds"])
    return list(-((row["x"] - 0.3) ** 2) + sigma * noise)


def run(method: CostAware, space: Space = SPACE, sigma: float = 0.3) -> Simulation:
    """A run until the budget is used up."""
    simulation = Simulation(method, space)
    while isinstance(decision := simulation.ask(), Decision):
        values = measured(decision.parameters, len(simulation.trials), sigma)
        simulation.tell(decision, Outcome(repeats=values))
    return simulation


def counts(simulation: Simulation) -> list[int]:
    """Numbers of repeats of trials that the model chose."""
    trials = [t for t in simulation.trials if t.record["phase"] == "rule"]
    return [t.parameters["folds"] for t in trials]


@pytest.fixture(scope="module")
def noisy() -> Simulation:
    """A run with noise and a confirmation."""
    return run(replace(METHOD, confirm=0.25))


def test_repeats_pay_for_the_setup_where_there_is_noise(noisy: Simulation) -> None:
    exact = run(replace(METHOD, budget=36.0), sigma=1e-4)
    assert max(counts(noisy)) > 2
    assert np.median(counts(exact)) == 1
    begun = [t.parameters["folds"] for t in noisy.trials if t.record["phase"] == "initial"]
    assert begun[:3] == [1, 2, 1]
    best = noisy.recommend()
    assert abs(best.parameters["x"] - 0.3) < 0.25
    assert sum(entry.charged for entry in noisy.ledger) <= 60.0


def test_without_a_setup_cost_there_are_fewer_repeats(noisy: Simulation) -> None:
    cheap = run(replace(METHOD, cost=AffineCost({"folds": 1.0}, fixed=0.01), budget=16.0))
    assert np.mean(counts(cheap)) < np.mean(counts(noisy))


def test_inputs_that_were_tried_are_measured_again_in_a_finite_space() -> None:
    space = Space.of([Choice("x", (0.1, 0.3, 0.5), is_ordered=True), FOLDS])
    simulation = run(replace(METHOD, initial_trials=3, budget=50.0), space)
    again = [t for t in simulation.trials if "results are pooled" in t.record["why"]]
    assert again
    assert len(simulation.trials) > 3
    best = simulation.recommendations()
    assert len({b.parameters["x"] for b in best}) == len(best) <= 3


def test_a_confirmation_measures_the_best_inputs_again(noisy: Simulation) -> None:
    last = [t for t in noisy.trials if t.decision["remaining"] <= 15.0]
    assert last
    for trial in last:
        earlier = [t.parameters["x"] for t in noisy.trials[: trial.index]]
        assert min(abs(trial.parameters["x"] - x) for x in earlier) < 1e-9


def test_a_confirmation_needs_no_parameter_of_repeats() -> None:
    plain = CostAware(cost=1.0, budget=10.0, confirm=0.3, num_restarts=2, raw_samples=16)
    space, found = Space.of([Range("x", 0, 1)]), []
    simulation = Simulation(plain, space)
    while isinstance(decision := simulation.ask(), Decision):
        found.append(decision.parameters["x"])
        value = measured({**decision.parameters, "folds": 1}, len(found), 0.1)[0]
        simulation.tell(decision, Outcome(value))
    assert any(min(abs(x - y) for y in found[:i]) < 1e-9 for i, x in enumerate(found[7:], 7))


def test_pending_trials_count_with_their_repeats() -> None:
    simulation = Simulation(METHOD, SPACE)
    for _ in range(6):
        decision = simulation.ask()
        assert isinstance(decision, Decision)
        index = len(simulation.trials)
        simulation.tell(decision, Outcome(repeats=measured(decision.parameters, index)))
    first = simulation.ask()
    assert isinstance(first, Decision)
    simulation.start(first)
    second = simulation.ask()
    assert isinstance(second, Decision)
    assert second.parameters != first.parameters


def test_fewer_repeats_than_planned_are_realized_ones() -> None:
    simulation = Simulation(METHOD, SPACE)
    decision = Decision({"x": 0.4, "folds": 5}, "by hand")
    trial = simulation.tell(decision, Outcome(repeats=[1.0, 2.0, 4.0]))
    assert trial.inputs["folds"] == trial.num_repeats["objective"] == 3
    assert trial.outcome == pytest.approx(7 / 3)
    assert trial.errors["objective"] == pytest.approx(np.std([1, 2, 4], ddof=1) / np.sqrt(3))


def test_cost_cools_by_the_share_of_the_budget_that_is_left() -> None:
    """The next trial is the best of the points where the search begins, by its own exponent."""
    method = replace(METHOD, acquisition="log_ei_cost_cooling", kernel="squared_exponential")
    simulation = Simulation(method, SPACE)
    for index in range(6):
        decision = simulation.ask()
        assert isinstance(decision, Decision)
        simulation.tell(decision, Outcome(repeats=measured(decision.parameters, index)))
    problem = simulation.problem()
    assert isinstance(problem.model.covar_module, RBFKernel)  # type: ignore[union-attr]
    state = method.budget_state(problem)
    search = Search(method, problem, method.trial_costs.model(problem), state)  # type: ignore[arg-type]
    assert state.remaining is not None
    assert search.cost_exponent == pytest.approx(state.remaining / 60.0)
    decision = simulation.ask()
    assert isinstance(decision, Decision)
    gain = LogKnowledgeGradientPerCost(problem.model, problem.evaluated)
    (mine,) = problem.space.encode([decision.parameters])
    X = torch.cat([mine.unsqueeze(0), search.points])
    with torch.no_grad():
        values = gain.log_gain(X) - search.cost_exponent * search.costs(X).log()
    assert float(values[0]) >= float(values.max()) - 1e-6
    assert "counts less the less is left" in decision.why


def test_a_price_ends_the_run() -> None:
    method = replace(METHOD, budget=None, lmbda=10.0)
    simulation = Simulation(method, SPACE)
    for index in range(5):
        decision = simulation.ask()
        assert isinstance(decision, Decision)
        simulation.tell(decision, Outcome(repeats=measured(decision.parameters, index)))
    assert isinstance(simulation.ask(), Stop)


@pytest.mark.parametrize(
    ("parameter", "message"),
    [
        (Range("epochs", 1, 9, is_integer=True), "is no parameter"),
        (Range("folds", 1, 9), "whole numbers"),
        (Range("folds", 0, 9, is_integer=True), "whole numbers"),
        (Range("folds", 1, 9, is_integer=True, log_scale=True), "log scale"),
        (Choice("folds", (1, 3), is_ordered=True), "whole numbers"),
    ],
)
def test_other_parameters_are_refused(parameter: Range | Choice, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Simulation(replace(METHOD, cost=1.0), Space.of([Range("x", 0, 1), parameter]))


CONSTRAINED: dict[str, dict[str, Any]] = {
    "nonlinear": {"input_constraints": [NonlinearConstraint("x * folds <= 4")]},
    "at_most": {"at_most": [AtMost(1, {"x": 0, "folds": 1})]},
}


@pytest.mark.parametrize("settings", CONSTRAINED.values(), ids=CONSTRAINED)
def test_parameters_of_other_constraints_are_refused(settings: dict[str, Any]) -> None:
    space = Space.of([Range("x", 0, 1), FOLDS, Range("epochs", 1, 9)])
    fidelity = MultiFidelity(cost=1.0, target={"epochs": 9}, repeats="folds")
    for method in (METHOD, fidelity):
        with pytest.raises(InputError, match="repeats='folds' is in a parameter constraint"):
            Simulation(replace(method, cost=1.0, **settings), space)
    with pytest.raises(InputError, match=r"'folds' is in a parameter constraint"):
        Simulation(replace(fidelity, repeats=None, target={"folds": 1}, **settings), space)


def test_constrained_conditional_and_only_parameters_are_refused() -> None:
    method, x = replace(METHOD, cost=1.0), Range("x", 0, 1)
    sums = [({"x": 1.0, "folds": 0.1}, 1.0)]
    with pytest.raises(InputError, match="parameter constraint"):
        Simulation(method, Space.of([x, FOLDS], sums))
    kind, conditions = Choice("kind", ("a", "b")), {"folds": Condition("kind", ("a",))}
    with pytest.raises(InputError, match="active with kind='a' only"):
        Simulation(method, Space.of([x, FOLDS, kind], conditions=conditions))
    with pytest.raises(InputError, match="only parameter"):
        Simulation(method, Space.of([FOLDS]))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"repeats": ""}, "repeats"),
        ({"repeats": "folds", "acquisition": "log_ei_per_cost"}, "knowledge gradient"),
        ({"repeats": "folds", "budget": 9.0, "stop": GittinsStop()}, "without noise"),
        (
            {
                "repeats": "folds",
                "acquisition": "log_ei_cost_cooling",
                "budget": 9.0,
                "stop": ImprovementPerCostStop(),
            },
            "no stopping rule",
        ),
        ({"repeats": "n", "candidates": Candidates({"x": [0, 1], "n": [1, 2]})}, "a column of"),
        ({"confirm": 0.1}, "a budget is needed"),
        ({"confirm": 1.5, "budget": 9.0}, "confirm"),
    ],
)
def test_settings_are_checked(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        CostAware(cost=1.0, **settings)


def test_the_noise_of_one_repeat_is_learned_from_all_spreads() -> None:
    """Sample variances with their degrees of freedom, pooled by hand; single values say nothing."""
    simulation = Simulation(METHOD, SPACE)
    reports = {0.2: [1.0, 2.0, 3.0], 0.5: [0.0, 0.0, 0.0, 0.0, 5.0], 0.8: [7.0]}
    decision = simulation.ask()
    assert isinstance(decision, Decision)
    for x, values in reports.items():
        row = {"x": x, "folds": len(values)}
        simulation.tell(replace(decision, parameters=row), Outcome(repeats=values))
    noise = repeats_options("folds", simulation.problem(), None)["noise"]
    points, variances, freedom = noise.data
    assert points == [[0.2], [0.5]]
    assert variances == pytest.approx([1.0, 5.0])
    assert freedom == [2.0, 4.0]
    assert noise.pooled == pytest.approx((2 * 1.0 + 4 * 5.0) / 6)

"""Trials that go on from earlier ones: what they cost, which is chosen, and what is learned."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from ax_costaware.acquisition.target_fidelity import LogTargetImprovementPerCost
from ax_costaware.core import Decision, Simulation
from ax_costaware.core.account import ledger_of
from ax_costaware.core.problem import Problem
from ax_costaware.core.switching import next_cost
from ax_costaware.costs import CostOfTrial, ResumedCost, log_cost_function
from ax_costaware.costs.cost import AffineCost
from ax_costaware.exceptions import InputError
from ax_costaware.methods import MultiFidelity
from ax_costaware.methods.continuations import (
    SEARCH_COST_SHARE,
    continuations,
    continued_trial,
    resumable,
)
from ax_costaware.models.log_normal_cost import LogNormalCostModel
from ax_costaware.space import Choice, Space
from tests.core.test_curves import run
from tests.methods.test_fidelity import INPUTS, METHOD, SPACE, curve

pytestmark = pytest.mark.usefixtures("short_searches")

# To begin anew is expensive.
COST = AffineCost({"epochs": 0.1}, fixed=5.0)
RESUMES = replace(METHOD, cost=COST, resumes=True, budget=90.0, initial_trials=0)
ROWS: list[dict[str, Any]] = [
    {"x1": 1 / 3, "x2": 0.6, "epochs": 7},
    {"x1": 0.8, "x2": 0.2, "epochs": 3},
    {"x1": 1 / 3, "x2": 0.6, "epochs": 12},
    {"x1": 0.1, "x2": 0.9, "epochs": 100},
]


def told(method: MultiFidelity = RESUMES, **outcome: Any) -> Simulation:
    simulation = Simulation(method, SPACE)
    for row in ROWS:
        simulation.tell(Decision(row, "given"), curve(row)._replace(**outcome))
    return simulation


def told_more() -> Simulation:
    """With a trial more, after which it is best to go on."""
    simulation = told()
    row = {"x1": 0.11, "x2": 0.44, "epochs": 9}
    simulation.tell(Decision(row, "given"), curve(row))
    return simulation


def resumed_cost(problem: Problem, least: float) -> CostOfTrial:
    """The declared cost less what was paid already."""
    cost = ResumedCost(RESUMES.trial_costs.model(problem), SPACE, "epochs", least)
    return next_cost(RESUMES, problem, cost, resumable=resumable(problem, "epochs"))


def test_what_a_trial_goes_on_from() -> None:
    problem = told().problem()
    cases: list[tuple[dict[str, Any], int | None]] = [
        ({**ROWS[0], "epochs": 20}, 2),
        # What has come farther is not gone on from before its end.
        ({**ROWS[0], "epochs": 12}, None),
        ({**ROWS[0], "epochs": 9}, None),
        ({**ROWS[0], "epochs": 7}, None),
        ({**ROWS[0], "epochs": 2}, None),
        ({**ROWS[0], "x1": 0.33333, "epochs": 20}, None),
        ({**ROWS[1], "epochs": 4}, 1),
    ]
    for row, index in cases:
        found = continued_trial(RESUMES, problem, row)
        assert (None if found is None else found.index) == index
    for row in continuations(RESUMES, problem):
        earlier = continued_trial(RESUMES, problem, row)
        assert earlier.index in (1, 2)  # Nothing goes on from the target, which is the last value.
        assert earlier.inputs["epochs"] < row["epochs"] <= 100
    held = replace(problem, fixed={"x1": 0.8, "epochs": 50})
    assert continuations(RESUMES, held) == [{**ROWS[1], "epochs": 50}]
    # Of all that stands there are the values of a grid, where they are ahead.
    values = {row["epochs"] for row in continuations(RESUMES, problem) if row["x1"] == 0.8}
    assert min(values) == 4
    assert max(values) == 100
    assert len(values) > 20


def test_what_was_stopped_is_not_gone_on_from() -> None:
    """An outcome of a trial that runs, or was stopped early, has no checkpoint to go on from."""
    problem = told().problem()
    stopped = tuple(replace(trial, status="EARLY_STOPPED") for trial in problem.trials)
    none = replace(problem, trials=stopped)
    assert not continuations(RESUMES, none)
    assert continued_trial(RESUMES, none, {**ROWS[0], "epochs": 20}) is None
    decision = RESUMES.decide(none)
    assert "resumes_trial" not in decision.extra
    assert decision.expected_cost == pytest.approx(COST.at(decision.parameters))


@pytest.mark.parametrize("least", [SEARCH_COST_SHARE, 1e-6])
def test_going_on_costs_the_difference(least: float) -> None:
    problem = told().problem()
    cost = resumed_cost(problem, least)
    rows: list[dict[str, Any]] = [
        {**ROWS[0], "epochs": epochs} for epochs in (1, 7, 10, 12, 13, 50, 100)
    ]
    rows += [{**ROWS[1], "epochs": 60}, {"x1": 0.3, "x2": 0.6, "epochs": 60}]
    X = SPACE.encode(rows).requires_grad_()
    found = log_cost_function(cost)(X)
    expected = []
    for row in rows:
        earlier, whole = continued_trial(RESUMES, problem, row), COST.at(row)
        if earlier is not None:
            before = COST.at(earlier.inputs)
            # To a search a little farther than 12 counts as half of what 12 cost.
            whole = max(whole - before, least * before)
        expected.append(whole)
    assert found.exp().tolist() == pytest.approx(expected)
    (slope,) = torch.autograd.grad(found.sum(), X)
    assert slope.isfinite().all()
    assert torch.allclose(
        log_cost_function(cost)(X.detach().reshape(3, 3, 3)), found.detach().reshape(3, 3)
    )


def test_the_decision_is_the_best_of_anew_and_going_on() -> None:
    """By brute force over a grid of all inputs, and of all epochs of the earlier trials."""
    problem = told_more().problem()
    decision = RESUMES.decide(problem)
    index = decision.extra["resumes_trial"]
    earlier = problem.trials[index]
    assert {**decision.parameters, "epochs": 0} == {**earlier.inputs, "epochs": 0}
    before, whole = COST.at(earlier.inputs), COST.at(decision.parameters)
    assert decision.expected_cost == pytest.approx(whole - before)
    assert f"It goes on from trial {index}." in decision.why
    worth = LogTargetImprovementPerCost(
        problem.model,
        RESUMES.columns(problem),
        problem.scale.to_model(decision.details["incumbent"]),
        resumed_cost(problem, SEARCH_COST_SHARE),
        risk_aversion=RESUMES.traits.risk_aversion,
    )
    with torch.no_grad():
        rows = [trial.inputs for trial in problem.observed]
        farther = [{**row, "epochs": epochs} for row in rows for epochs in range(1, 101)]
        anew = SPACE.sobol_points(4096, 1, {})
        values = [worth(X.unsqueeze(-2)).max() for X in (SPACE.encode(farther), anew)]
    assert decision.value == pytest.approx(float(max(values)), abs=0.02)
    # Without checkpoints it would have been another one.
    plain = replace(RESUMES, resumes=False).decide(problem)
    assert "resumes_trial" not in plain.extra


def test_a_trial_is_charged_for_as_far_as_it_came() -> None:
    """Where costs are declared: of 90 epochs 7 were run, then on to 30 of 50."""
    method = replace(RESUMES, initial_trials=3)
    simulation = Simulation(method, SPACE)
    first = {**ROWS[0], "epochs": 90}
    simulation.tell(
        Decision(first, "given"), curve({**first, "epochs": 7})._replace(realized={"epochs": 7})
    )
    more = Decision({**first, "epochs": 50}, "", expected_cost=4.3, extra={"resumes_trial": 0})
    simulation.tell(more, curve(more.parameters)._replace(realized={"epochs": 30}))
    simulation.tell(more, curve(more.parameters)._replace(cost=9.0, realized={"epochs": 40}))
    # What comes no farther than what it was to go on from began anew.
    simulation.tell(more, curve(more.parameters)._replace(realized={"epochs": 4}))
    assert [entry.charged for entry in simulation.ledger] == pytest.approx([5.7, 2.3, 9.0, 5.4])
    expected = [entry.expected_cost for entry in simulation.ledger]
    assert expected == pytest.approx([14.0, 4.3, 4.3, 4.3])
    # A strategy with other costs, which takes its place, leaves what was expected of them.
    twice = replace(method, cost=AffineCost({"epochs": 0.2}, fixed=10.0))
    charged = [entry.charged for entry in ledger_of(simulation.trials, twice)]
    assert charged[1:] == pytest.approx([2.3, 9.0, 5.4])
    running = replace(simulation.trials[0], status="RUNNING", is_observed=False)
    (entry,) = ledger_of([running], method)
    assert entry.charged == pytest.approx(14.0)


def test_the_cost_of_whole_runs_is_learned() -> None:
    method = replace(RESUMES, cost="seconds")
    simulation = Simulation(method, SPACE)
    runs: list[tuple[dict[str, Any], int | None, float]] = [
        (ROWS[0], None, 1.0),
        (ROWS[1], None, 0.5),
        ({**ROWS[0], "epochs": 20}, 0, 1.5),
        ({**ROWS[0], "epochs": 60}, 2, 4.0),
    ]
    for row, earlier, cost in runs:
        extra = {} if earlier is None else {"resumes_trial": earlier}
        simulation.tell(Decision(row, "given", extra=extra), curve(row)._replace(cost=cost))
    problem = simulation.problem()
    X = SPACE.encode([row for row, _, _ in runs])
    whole = X.new_tensor([1.0, 0.5, 2.5, 6.5])
    by_hand = LogNormalCostModel(X, whole, method.cost_model, SPACE.bounds)
    Z, learned = SPACE.sobol_points(16, 0, {}), method.trial_costs.model(problem)
    with torch.no_grad():
        assert torch.allclose(log_cost_function(learned)(Z), by_hand.log_cost(Z))
    # They were charged what they said.
    assert sum(entry.charged for entry in simulation.ledger) == 7.0
    decision = method.decide(problem)
    assert decision.expected_cost is not None
    assert decision.expected_cost > 0


def test_a_curve_is_learned_from_once() -> None:
    """Also if the whole of it is reported by what goes on."""
    simulation = Simulation(RESUMES, SPACE)
    simulation.tell(Decision(ROWS[0], "given"), run(ROWS[0], *range(1, 7)))
    farther = {**ROWS[0], "epochs": 9}
    decision = Decision(farther, "given", extra={"resumes_trial": 0})
    simulation.tell(decision, run(farther, *range(1, 9)))
    X = simulation.problem().model.train_inputs[0]
    assert len(X) == len(X.unique(dim=0)) == 9


def test_what_cannot_be_gone_on_in_is_refused() -> None:
    sizes = Choice("size", ("small", "full"))
    method = MultiFidelity(1.0, target={"size": "full"}, resumes=True)
    with pytest.raises(InputError, match="resumes=True"):
        Simulation(method, Space.of([*INPUTS, sizes]))
    with pytest.raises(InputError, match="resumes="):
        MultiFidelity(1.0, target={"epochs": 9}, resumes=1)  # type: ignore[arg-type]

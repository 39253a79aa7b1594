"""What the methods of averages share."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from ax_costaware.core.history import PastTrial
from ax_costaware.core.model import FixedHyperparameters
from ax_costaware.core.problem import Decision, Stop
from ax_costaware.core.simulation import Simulation
from ax_costaware.costs import AffineCost, SwitchingCost
from ax_costaware.exceptions import InputError
from ax_costaware.laws import GaussianConditional
from ax_costaware.methods.averages.indirect_queries import IndirectQueries
from ax_costaware.space.parameters import Choice, Fixed, Range, Row
from ax_costaware.space.space import Space


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ("x", "target_parameters='x'"),
        ((), r"target_parameters=\[\]"),
        ((Fixed("x", 1.0),), "expected ranges and choices"),
        ((Choice("c", ("a",)),), "expected two or more"),
        ((Range("x", 0, 1), Range("x", 0, 2)), r"\['x'\] more than once"),
    ],
)
def test_refused_target_parameters(parameters: Any, message: str) -> None:
    law = GaussianConditional(((1.0,),), covariance=1.0)
    with pytest.raises(InputError, match=message):
        IndirectQueries(target_parameters=parameters, conditional=law)


METHOD = IndirectQueries(
    target_parameters=(Range("x", 0, 1),),
    conditional=GaussianConditional(((1.0, 0.0),), covariance=0.01, outside="keep"),
    cost=AffineCost({"size": 1.0}),
    hyperparameters=FixedHyperparameters(0.2),
    num_restarts=2,
    raw_samples=64,
)


def decision_of(method: IndirectQueries, fixed: Row | None = None) -> Decision | Stop:
    """Of queries of any size, which tell the same and cost their size, after three of size 5."""
    space = Space.of([Range("a", 0, 1), Range("size", 1, 1000, is_integer=True)])
    trials = [
        PastTrial(i, {"a": i / 3, "size": 5}, outcome=math.sin(i), is_observed=True)
        for i in range(3)
    ]
    problem = Simulation(method, space, trials=trials).problem()
    return method.decide(replace(problem, fixed=fixed or {}))


@pytest.mark.parametrize("fixed", [{}, {"size": 7}])
def test_a_query_is_searched_for_along_integers(fixed: Row) -> None:
    """The best of those that were drawn cost up to thirty times what the best of all does."""
    decision = decision_of(METHOD, fixed)
    assert decision.parameters["size"] == fixed.get("size", 1)


def test_a_cost_may_be_a_sum() -> None:
    """Of what is proportional to the size, which may be zero, and a fixed part."""
    decision = decision_of(replace(METHOD, cost=AffineCost({"size": 1.0}, fixed=-1.0) + 2))
    assert decision.parameters["size"] == 1
    assert decision.expected_cost == 2.0


@pytest.mark.parametrize(("change", "size"), [(50.0, 5), (1e-6, 1)])
def test_a_setting_is_kept_if_its_change_is_expensive(change: float, size: int) -> None:
    """The size 5 of the query before; all sizes tell the same."""
    cost = SwitchingCost({"size": change}, AffineCost({"size": 1.0}))
    decision = decision_of(replace(METHOD, cost=cost))
    assert isinstance(decision, Decision)
    assert decision.parameters["size"] == size
    assert decision.expected_cost == pytest.approx(size + (0.0 if size == 5 else change))


def test_costs_are_learned_from_reports() -> None:
    space = Space.of([Range("a", 0, 1), Range("size", 1, 1000, is_integer=True)])
    trials = [
        PastTrial(
            i,
            {"a": a, "size": size},
            status="COMPLETED",
            outcome=math.sin(i),
            is_observed=True,
            reported_cost=0.5 * size,
        )
        for i, (a, size) in enumerate([(0.1, 500), (0.9, 50), (0.5, 20), (0.2, 5)])
    ]
    simulation = Simulation(replace(METHOD, cost="hours"), space, trials=trials)
    problem = simulation.problem()
    decision = simulation.method.decide(problem)
    assert isinstance(decision, Decision)
    sizes = [{**decision.parameters, "size": size} for size in range(1, 1001)]
    expected = simulation.method.trial_costs.expected(problem, sizes)
    least = min(cost for cost in expected if cost is not None)
    assert decision.expected_cost == pytest.approx(least, rel=1e-6)


@pytest.mark.parametrize(("budget", "size"), [(16.0, 1), (15.5, None)])
def test_a_run_ends_where_the_cheapest_query_cannot_be_paid(
    budget: float, size: int | None
) -> None:
    """It was ended where none of those that were drawn could be."""
    decision = decision_of(replace(METHOD, budget=budget))
    assert isinstance(decision, Stop if size is None else Decision)
    assert isinstance(decision, Stop) or decision.parameters["size"] == size

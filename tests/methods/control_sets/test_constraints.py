"""Outcome constraints with control sets: on the expectation over what a trial leaves to chance."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import norm

from ax_costaware.acquisition.feasibility import OutcomeConstraint
from ax_costaware.core.problem import Decision
from ax_costaware.core.simulation import Outcome, Simulation, simulate
from ax_costaware.core.traits import CONTROL_SET
from ax_costaware.exceptions import UnsupportedInputError
from ax_costaware.methods import (
    ControlSetHistory,
    ControlSetRule,
    EpsilonSchedule,
    ExploreThenCommit,
    LargestValuePerCost,
    UnknownCosts,
)
from ax_costaware.methods.control_sets import ControlSets
from ax_costaware.methods.control_sets.values import ControlSetValues
from ax_costaware.space.parameters import Row
from tests.methods.control_sets.toy import (
    CONTROL_SETS,
    FAST,
    MARGINALS,
    MODEL,
    SPACE,
    UNKNOWN_SETS,
    Plant,
)
from tests.repeats import mostly_slow
from tests.short_searches import full_searches

pytestmark = pytest.mark.usefixtures("short_searches")

BOUND = OutcomeConstraint("heat", upper=0.55)
FAR = OutcomeConstraint("heat", upper=1e3)


def heat(x: Row) -> float:
    """At the unconstrained best it is 0.8, and 0.6 on average where only ``x1`` is set."""
    return float(str(x["x2"])) + 0.2 * float(str(x["x3"]))


class Heated(Plant):
    """The plant of the toy, which measures its heat, too."""

    def __call__(self, arm: Row, measure: bool = True) -> Outcome:
        """What comes of the next trial."""
        outcome = super().__call__(arm, measure)
        return outcome._replace(metrics={"heat": heat({**arm, **(outcome.realized or {})})})


def ran(count: int, bound: OutcomeConstraint | None = BOUND, **settings: Any) -> Simulation:
    sign = settings.pop("sign", 1.0)
    sets = settings.pop("control_sets", CONTROL_SETS)
    method = ControlSets(sets, MARGINALS, **{**FAST, **settings})
    plant = Heated(sign, reports_costs=method.learns_costs)
    constraints = [] if bound is None else [bound]
    return simulate(method, SPACE, plant, count, sign < 0, MODEL, constraints)


@cache
@full_searches()
def a_run() -> Simulation:
    return ran(14)


def method_of(simulation: Simulation) -> ControlSets:
    assert isinstance(simulation.method, ControlSets)
    return simulation.method


@pytest.mark.usefixtures("full_searches")
@pytest.mark.parametrize(
    "settings",
    mostly_slow(
        [
            {},
            {"rule": ExploreThenCommit(2)},
            {"rule": EpsilonSchedule(0.05)},
            {"acquisition": "ei"},
            {"acquisition": "ts"},
            {"control_sets": UNKNOWN_SETS},
            {"sign": -1.0},
        ],
        [{}],
    ),
)
def test_a_run_ends_at_the_best_feasible_query(settings: dict[str, Any]) -> None:
    """The best is -0.053 at (0.3, 0.47, 0.4); without constraints it is zero, at a heat of 0.8."""
    simulation = ran(14, **settings) if settings else a_run()
    best = simulation.recommend()
    assert best.feasibility is not None
    assert best.feasibility >= 0.9
    assert best.control_set != "x1"
    mean = best.mean * settings.get("sign", 1.0)
    assert -0.15 < mean < 0.0
    full = {"x3": 0.5, **best.parameters}
    assert heat(full) == pytest.approx(0.55, abs=0.04)
    chances = [trial.decision["feasibility"] for trial in simulation.trials[5:]]
    assert all(0 <= chance <= 1 for chance in chances)
    if settings in ({}, {"acquisition": "ei"}):
        assert min(chances) > 0.5


def test_the_probability_is_that_of_the_expectation() -> None:
    """Over the marginals of the uncontrolled inputs, by a grid; in records and for deployment."""
    simulation = a_run()
    problem = simulation.problem()
    model, side = problem.constraints[0].fit(), (torch.arange(12).double() + 0.5) / 12

    def chance(control_set: str, x: Row) -> float:
        grid = torch.cartesian_prod(side, side, side)
        for i, name in enumerate(MARGINALS):
            if name in control_set.split("+"):
                grid[:, i] = float(str(x[name]))
        posterior = model.posterior(grid.unique(dim=0))
        mean, covariance = posterior.mean.mean(), posterior.distribution.covariance_matrix.mean()
        return float(norm.cdf((0.55 - mean.detach()) / covariance.detach().sqrt()))

    ranked = simulation.method.recommend(problem)
    for best in ranked:
        assert best.control_set is not None
        expected = chance(best.control_set, best.parameters)
        assert best.feasibility == pytest.approx(expected, abs=5e-3)
    rows = [trial.parameters for trial in simulation.trials]
    chances = simulation.method.expected(problem, rows).log_feasibility
    for row, found in zip(rows, chances.exp().tolist(), strict=True):
        assert found == pytest.approx(chance(str(row[CONTROL_SET]), row), abs=5e-3)


@pytest.mark.usefixtures("full_searches")
def test_what_to_deploy_is_feasible_first_then_by_probability() -> None:
    """No query on a grid that is feasible is better, of each control set."""
    simulation = a_run()
    problem, method = simulation.problem(), method_of(simulation)
    ranked = method.recommend(problem)
    chances = [best.feasibility or 0.0 for best in ranked]
    good = [best.mean for best, chance in zip(ranked, chances, strict=True) if chance >= 0.9]
    assert chances[len(good) :] == sorted(chances[len(good) :], reverse=True)
    assert good == sorted(good, reverse=True)
    assert 0 < len(good) < len(ranked)
    side, space = torch.linspace(0, 1, 5).double(), ControlSetValues(problem, method).space
    grid = torch.cartesian_prod(side, side, side)
    for best in ranked:
        index = method.names.index(str(best.control_set))
        logs = space.log_feasibility(grid, [index] * len(grid))
        found = logs.exp()
        means, _ = space.expectations(grid, [index] * len(grid))
        if (best.feasibility or 0.0) >= 0.9:
            assert best.mean >= float(means[found >= 0.91].max()) - 1e-6
        else:
            assert best.feasibility == pytest.approx(float(found.max()), abs=1e-3)


def nothing_feasible(**settings: Any) -> Simulation:
    """After an initial design of the cheapest control set, which keeps to no such bound."""
    tight = OutcomeConstraint("heat", upper=0.05)
    return ran(5, tight, **settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"rule": UnknownCosts(), "budget": 9.0},
            r"rule=UnknownCosts\(\) with .* heat <= 0.55: .*Expected LargestValue",
        )
    ],
)
def test_what_looks_at_the_objective_alone_is_refused(
    settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(UnsupportedInputError, match=message):
        ran(1, **settings)


def worths(simulation: Simulation) -> list[float]:
    """What was recorded of the worth of further trials, per unit of their cost."""
    return [t.decision["worth_per_cost"] for t in simulation.trials if t.decision.get("lambda")]


def test_what_cannot_be_feasible_is_worth_nothing() -> None:
    """However well the objective is not known yet."""
    simulation = ran(7, replace(BOUND, upper=-20.0), lmbda=1e-12, initial_trials=4)
    assert worths(simulation)[-1] < 1e-3 * worths(ran(7, FAR, lmbda=1e-12, initial_trials=4))[-1]


@pytest.mark.usefixtures("full_searches")
def test_rules_do_not_take_a_part_for_worse_where_it_may_be_better() -> None:
    """Leaving an input to chance may keep to a bound on expectations at a better value."""
    history = ControlSetHistory(
        parameters=(frozenset({"x1"}), frozenset({"x1", "x2"})),
        costs=(1.0, 1.0),
        plays=(0, 0),
        affordable=(True, True),
        round=1,
        monotone=False,
    )
    rules: list[ControlSetRule] = [
        LargestValuePerCost(),
        ExploreThenCommit(0),
        EpsilonSchedule(0.1),
    ]
    for rule in rules:
        assert rule.decide(history, lambda indices: [2.0 - i for i in indices]).index == 0
        usual = rule.decide(replace(history, monotone=True), lambda x: [2.0 - i for i in x])
        assert usual.index == 1
    assert np.array_equal(history.contained, [[False, False], [False, False]])


@pytest.mark.usefixtures("full_searches")
def test_until_something_is_feasible_the_likeliest_per_cost_is_next() -> None:
    simulation = nothing_feasible()
    problem, method = simulation.problem(), method_of(simulation)
    decision = simulation.ask()
    assert isinstance(decision, Decision)
    assert "No query is feasible with a probability of 0.9 yet" in decision.why
    chosen, space = decision.extra["control_set"], ControlSetValues(problem, method).space
    points = torch.cat([SPACE.sobol_points(256, 3), SPACE.encode([decision.parameters])])
    per_cost = {}
    for i, control_set in enumerate(method.control_sets):
        logs = space.log_feasibility(points, [i] * len(points))
        assert logs is not None
        chances = logs.exp()
        per_cost[control_set.name] = float(chances.max()) / float(control_set.cost or 0.0)
        if control_set.name == chosen:
            assert decision.details["feasibility"] == pytest.approx(float(chances[-1]), abs=1e-3)
            assert float(chances[-1]) >= float(chances.max()) - 1e-3
    assert max(per_cost, key=per_cost.__getitem__) == chosen != "x1"

"""Outcome constraints of costly feedback: on outcomes that drift, at the time of a trial."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch
from scipy.stats import norm

from ax_costaware.acquisition.feasibility import OutcomeConstraint
from ax_costaware.core import Decision, Problem, Simulation
from ax_costaware.core.model import FixedHyperparameters, ModelOptions
from ax_costaware.core.simulation import Outcome, simulate
from ax_costaware.methods import CostlyFeedback
from ax_costaware.methods.costly_feedback.rules import (
    BernoulliRule,
    FeedbackRule,
    MeasurementRule,
    MixedRule,
)
from ax_costaware.models.factor import only_model
from ax_costaware.space import Range, Space
from ax_costaware.space.parameters import Row
from tests.repeats import mostly_slow
from tests.short_searches import full_searches

pytestmark = pytest.mark.usefixtures("short_searches")

SQUARE = Space.of([Range("x1", 0, 1), Range("x2", 0, 1)])
HEAT = FixedHyperparameters(lengthscale=0.7, outputscale=0.3, mean=0.5, noise_variance=1e-4)
MODEL = FixedHyperparameters(lengthscale=0.5, outputscale=0.2, noise_variance=1e-4)
BOUND = OutcomeConstraint("heat", lower=0.5)


class Known(CostlyFeedback):
    """With hyperparameters of the heat that are given, too, which saves fits."""

    def model(
        self, given: Any = None, problem: Problem | None = None, metric: str | None = None
    ) -> ModelOptions:
        return super().model(given if metric is None else HEAT, problem)


METHOD = Known(
    rule=MeasurementRule(0.9), forgetting=0.02, initial_trials=5, num_restarts=2, raw_samples=64
)


def hill(row: Row) -> float:
    x1, x2 = float(str(row["x1"])), float(str(row["x2"]))
    return math.exp(-4 * ((x1 - 0.3) ** 2 + (x2 - 0.6) ** 2))


def measured(row: Row, measure: bool) -> Outcome:
    """A hill whose top is infeasible: the heat is the first coordinate."""
    if not measure:
        return Outcome()
    return Outcome(hill(row), metrics={"heat": float(str(row["x1"]))})


def run_of(
    rule: FeedbackRule = METHOD.rule,  # type: ignore[assignment]
    count: int = 13,
    lower: float = 0.5,
    sign: int = 1,
    budget: float | None = None,
) -> Simulation:
    def run(row: Row, measure: bool) -> Outcome:
        found = measured(row, measure)
        return found if found.value is None else found._replace(value=sign * found.value)

    return simulate(
        replace(METHOD, rule=rule, budget=budget),
        SQUARE,
        run,
        count,
        minimize=sign < 0,
        hyperparameters=MODEL,
        constraints=[replace(BOUND, lower=lower)],
    )


ran = cache(full_searches()(run_of))
"""Runs whose searches are long, for those who ask how good what was found is."""


def beginning(simulation: Simulation, count: int) -> Simulation:
    """The run after its first trials, which is what another run would have come to."""
    return replace(simulation, method=METHOD, trials=simulation.trials[:count])


def moments(model: Any, X: torch.Tensor, time: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Posterior mean and standard deviation by GPyTorch, of points at a time."""
    at = torch.cat([X, torch.full_like(X[:, :1], time)], dim=-1)
    posterior = only_model(model).posterior(at.unsqueeze(-2))
    return posterior.mean.detach().ravel(), posterior.variance.detach().sqrt().ravel()


@pytest.mark.usefixtures("full_searches")
@pytest.mark.parametrize("sign", mostly_slow([1, -1], [-1]))
def test_a_run_ends_at_the_best_feasible_point(sign: int) -> None:
    simulation = ran() if sign > 0 else ran(count=10, sign=-1)
    best = simulation.recommend()
    assert best.feasibility is not None
    assert best.feasibility >= 0.9
    assert 0.49 < float(str(best.parameters["x1"])) < 0.63
    assert float(str(best.parameters["x2"])) == pytest.approx(0.6, abs=0.1)
    assert best.mean == pytest.approx(sign * hill(best.parameters), abs=0.05)
    later = simulation.trials[METHOD.initial_trials + 3 :]
    assert sum(float(str(t.parameters["x1"])) < 0.48 for t in later) <= 2


@pytest.mark.usefixtures("full_searches")
def test_what_a_point_promises_counts_as_far_as_it_is_likely_to_be_feasible() -> None:
    """The decision is the best of a fine grid by posteriors of GPyTorch."""
    simulation = beginning(ran(), 9)
    problem, decision = simulation.problem(), simulation.ask()
    assert isinstance(decision, Decision)
    side = torch.linspace(0, 1, 101, dtype=torch.double)
    grid = torch.cartesian_prod(side, side)
    mean, sd = moments(problem.model, grid, 9)
    heat, spread = moments(problem.constraints[0].fit(), grid, 9)
    chance = torch.as_tensor(norm.cdf((heat - problem.constraints[0].scaled_ends[0]) / spread))
    bound = mean + math.sqrt(METHOD.beta_at(9)) * sd
    starts = SQUARE.sobol_points(64, 0, {})
    counted = (bound - moments(problem.model, starts, 9)[0].min()) * chance
    best = grid[int(counted.argmax())].tolist()
    point = [float(str(decision.parameters[name])) for name in ("x1", "x2")]
    assert point == pytest.approx(best, abs=0.03)
    near = int((grid - torch.tensor(point)).norm(dim=-1).argmin())
    assert decision.details["feasibility"] == pytest.approx(float(chance[near]), abs=0.05)
    chances = simulation.method.expected(problem, [decision.parameters]).log_feasibility
    assert float(chances.exp()) == pytest.approx(decision.details["feasibility"], abs=1e-9)


def test_measures_where_it_is_open_whether_the_point_is_feasible() -> None:
    """With rules that compare; one that draws lots, or has a quota, keeps to it."""
    careless = run_of(MeasurementRule(0.51), count=11)
    later = careless.trials[METHOD.initial_trials :]
    open_ones = [t for t in later if t.decision["feasibility"] < 0.9]
    assert open_ones
    assert all(t.is_observed for t in open_ones)
    assert all("is feasible with probability" in t.decision["reason"] for t in open_ones)
    for rule in (BernoulliRule(0.3), MixedRule(MeasurementRule(0.9), 0.0, 0.3)):
        by_lot = run_of(rule, count=11).trials[METHOD.initial_trials :]
        unknown = [t for t in by_lot if t.decision["feasibility"] < 0.9]
        assert not all(t.is_observed for t in unknown)


@pytest.mark.usefixtures("full_searches")
def test_what_is_infeasible_is_no_rival() -> None:
    """Else every trial were measured, since the top of the hill is better for certain."""
    simulation = ran()
    later = simulation.trials[METHOD.initial_trials :]
    assert 0.1 < sum(t.is_observed for t in later) / len(later) < 0.9
    search, feasibility, _ = METHOD._search(simulation.problem(), 13, None, explores=True)
    found = search.upper_confidence_bound(1.0).point
    optima = found[0], found[1:]
    rivals = search.rival_points(*optima, "correlation", joint=True)
    assert bool((feasibility.probability(rivals) > 0.9).all())
    others = replace(search, shortfall=None).rival_points(*optima, "correlation", joint=True)
    assert not bool((feasibility.probability(others) > 0.9).all())

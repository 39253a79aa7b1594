"""Outcome constraints of averages: on the point, which is never measured by itself."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch
from scipy.stats import norm

from ax_costaware.acquisition.feasibility import OutcomeConstraint
from ax_costaware.core.simulation import Outcome, Simulation, simulate
from ax_costaware.methods.averages.information import posterior
from ax_costaware.models import ExactPosterior
from ax_costaware.models.factor import only_model
from ax_costaware.models.fixed_hyperparameters import FixedConditionalMeanProcess
from ax_costaware.space.parameters import Row
from tests.core.test_simulation import CASES, cell_mean, measured
from tests.short_searches import full_searches

pytestmark = pytest.mark.usefixtures("short_searches")

BOUND = OutcomeConstraint("dose", upper=4.0)


def queried(row: Row, measure: bool = True) -> Outcome:
    """The best point is (3, 6); the dose is the second coordinate."""
    return measured(row, True)._replace(metrics={"dose": 10 * float(str(row["x2"]))})


def of_cell(row: Row, measure: bool = True) -> Outcome:
    return cell_mean(row, True)._replace(metrics={"dose": float(str(row["t2"]))})


def run_of(
    name: str = "indirect queries", count: int = 8, upper: float | None = 4.0, **changes: Any
) -> Simulation:
    case = CASES[name]
    settings = {"budget": None, **changes}
    method: Any = replace(case.method, **settings)  # type: ignore[arg-type]
    bounds = [] if upper is None else [replace(BOUND, upper=upper)]
    run = of_cell if name == "tree search" else queried
    return simulate(method, case.space, run, count, hyperparameters=case.model, constraints=bounds)


ran = cache(full_searches()(run_of))
"""Runs whose searches are long, for those who ask how good what was found is."""


@cache
def free_run() -> Simulation:
    """A run without constraints."""
    return run_of(upper=None, acquisition="joint_entropy")


@pytest.mark.usefixtures("full_searches")
@pytest.mark.parametrize(
    ("name", "count"),
    [("indirect queries", 8), pytest.param("tree search", 13, marks=pytest.mark.slow)],
)
def test_a_run_ends_at_the_best_feasible_point(name: str, count: int) -> None:
    simulation = ran(name, count) if name == "tree search" else ran()
    best = simulation.recommend()
    assert best.feasibility is not None
    assert best.feasibility >= 0.9
    assert float(str(best.parameters["t1"])) == pytest.approx(3.0, abs=0.7)
    assert 3.7 < float(str(best.parameters["t2"])) <= 4.05
    for trial in simulation.trials[simulation.method.initial_trials :]:
        assert trial.decision["acquisition"] == "joint_entropy"
        assert 0.0 <= trial.decision["recommendation"]["feasibility"] <= 1.0


def test_the_probability_is_that_of_the_point() -> None:
    """Of the process behind the averages, whose hyperparameters are fitted, not those given."""
    simulation = ran()
    problem = simulation.problem()
    model, (_, most) = problem.constraints[0].fit(), problem.constraints[0].scaled_ends
    assert isinstance(only_model(problem.model), FixedConditionalMeanProcess)
    assert not isinstance(only_model(model), FixedConditionalMeanProcess)
    for best in simulation.method.recommend(problem):
        x = torch.tensor([[float(str(best.parameters[n])) for n in ("t1", "t2")]]).double()
        joint = only_model(model).latent_posterior(x)  # type: ignore[operator]
        sd = joint.variance.detach().sqrt()
        expected = norm.cdf((most - joint.mean.detach()) / sd)
        assert best.feasibility == pytest.approx(float(expected.item()), abs=1e-6)
    rows = [trial.parameters for trial in simulation.trials]
    chances = simulation.method.expected(problem, rows).log_feasibility
    mean, variance = ExactPosterior.of(model)(problem.space.encode(rows))
    expected = norm.cdf(((most - mean) / variance.sqrt()).detach().numpy())
    assert chances.exp().numpy() == pytest.approx(expected, abs=1e-9)


@pytest.mark.usefixtures("full_searches")
def test_no_feasible_point_of_a_grid_is_better() -> None:
    simulation = ran()
    problem, method = simulation.problem(), simulation.method
    ranked = method.recommend(problem)
    chances = [best.feasibility or 0.0 for best in ranked]
    good = sum(chance >= 0.9 for chance in chances)
    assert [b.mean for b in ranked[:good]] == sorted((b.mean for b in ranked[:good]), reverse=True)
    side = torch.linspace(0, 10, 41, dtype=torch.double)
    grid = torch.cartesian_prod(side, side)
    other = ExactPosterior.of(problem.constraints[0].fit())
    with torch.no_grad():
        mean, variance = other.latent(grid)
        most = problem.constraints[0].scaled_ends[1]
        is_feasible = (most - mean) / variance.sqrt() > norm.ppf(0.91)
        highest = posterior(problem).latent.mean(grid)[is_feasible].max()
    assert ranked[0].mean >= problem.scale.from_model(float(highest)) - 1e-3


def worths(simulation: Simulation) -> list[float]:
    """What was recorded of the worth of further queries, per unit of their cost."""
    return [t.decision["worth_per_cost"] for t in simulation.trials if t.decision.get("lambda")]


def test_bounds_count_for_what_queries_are_worth() -> None:
    """One that is far changes nothing; where nothing is feasible there is nothing to gain."""
    free = free_run()

    def worth(*bounds: OutcomeConstraint) -> float:
        method: Any = replace(free.method, lmbda=1e-12)  # type: ignore[call-arg]
        found = replace(free, method=method, constraints=bounds).ask()
        value: float = found.details["worth_per_cost"]
        return value

    usual = worth()
    assert worth(replace(BOUND, upper=1e3)) == pytest.approx(usual, rel=0.05)
    assert worth(replace(BOUND, upper=-1e3)) < 1e-6 * usual

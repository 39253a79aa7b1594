"""Bounds on further outcomes: their probability, what a trial is worth under them, and runs."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from botorch.models import SingleTaskGP
from botorch.posteriors.posterior import Posterior
from scipy.integrate import quad
from scipy.stats import norm
from torch import Tensor

from ax_costaware.acquisition import LogExpectedImprovementPerCost, PandoraBoxGittinsIndex
from ax_costaware.acquisition.feasibility import Feasibility, OutcomeConstraint, merged
from ax_costaware.acquisition.pointwise import LogTail
from ax_costaware.core import Decision, Simulation, Stop
from ax_costaware.core.model import FixedHyperparameters
from ax_costaware.core.simulation import Outcome, simulate
from ax_costaware.exceptions import InputError
from ax_costaware.methods import CostAware, Gittins
from ax_costaware.methods.cost_aware import ACQUISITIONS, GITTINS
from ax_costaware.methods.cost_aware.assessment import assess
from ax_costaware.methods.cost_aware.search import Search
from ax_costaware.models.posterior import FunctionalPosterior
from ax_costaware.space import Range, Space
from ax_costaware.space.parameters import Row
from tests.short_searches import full_searches

pytestmark = pytest.mark.usefixtures("short_searches")

SQUARE = Space.of([Range("x1", 0.0, 1.0), Range("x2", 0.0, 1.0)])
FAST: dict[str, Any] = {"num_restarts": 2, "raw_samples": 64}
BOUND = OutcomeConstraint("waste", upper=0.1)


def gp(seed: int = 0) -> SingleTaskGP:
    """A model that is not fitted, of three points."""
    torch.manual_seed(seed)
    X = torch.rand(3, 2, dtype=torch.double)
    return SingleTaskGP(X, torch.randn(3, 1, dtype=torch.double))


def moments(model: SingleTaskGP, X: Tensor) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    posterior = model.posterior(X.unsqueeze(-2))
    return (
        posterior.mean.detach().numpy().ravel(),
        posterior.variance.detach().sqrt().numpy().ravel(),
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "metric='m'"),
        ({"upper": math.inf}, "upper=inf"),
        ({"lower": "low"}, "lower='low'"),
        ({"lower": 1.0, "upper": 1.0}, "lower=1.0"),
    ],
)
def test_bad_bounds(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        OutcomeConstraint("m", **arguments)


def test_bounds_on_one_metric_are_one_constraint() -> None:
    low, high, other = (
        OutcomeConstraint("m", lower=0.0),
        OutcomeConstraint("m", upper=2.0),
        OutcomeConstraint("n", upper=0.0),
    )
    both = OutcomeConstraint("m", 0.0, 2.0)
    assert merged([low, other, high]) == merged([high, low, other]) == (both, other)
    assert [str(c) for c in (both, low, other)] == ["0 <= m <= 2", "0 <= m", "n <= 0"]
    with pytest.raises(InputError, match="m <= 2 and m <= 3"):
        merged([high, OutcomeConstraint("m", upper=3.0)])
    with pytest.raises(InputError, match="expected less than"):
        merged([low, OutcomeConstraint("m", upper=-1.0)])


@pytest.mark.parametrize("bounds", [(None, 0.3), (-0.4, None), (-0.4, 0.3), (5.0, 9.0)])
def test_probability_is_that_of_a_gaussian(bounds: tuple[float | None, float | None]) -> None:
    """Also where it is tiny; its gradients are those of finite differences."""
    mean = torch.tensor([-30.0, -1.0, 0.0, 0.2, 40.0], dtype=torch.double, requires_grad=True)
    variance = torch.tensor([1.0, 0.5, 2.0, 1e-4, 1.0], dtype=torch.double, requires_grad=True)
    constraint = OutcomeConstraint("m", *bounds)
    found = constraint.log_probability(mean, variance)
    normal = norm(mean.detach().numpy(), variance.detach().sqrt().numpy())
    lower, upper = (-math.inf if bounds[0] is None else bounds[0], bounds[1] or math.inf)
    if bounds[0] is None:
        expected = normal.logcdf(upper)
    elif bounds[1] is None:
        expected = normal.logsf(lower)
    else:
        side = lower + upper > 2 * mean.detach().numpy()
        larger = np.where(side, normal.logsf(lower), normal.logcdf(upper))
        less = np.where(side, normal.logsf(upper), normal.logcdf(lower))
        expected = larger + np.log1p(-np.exp(less - larger))
    assert found.detach().numpy() == pytest.approx(expected, rel=1e-9)
    assert torch.autograd.gradcheck(constraint.log_probability, (mean[1:3], variance[1:3]))


def test_independent_outcomes_multiply_and_have_gradients() -> None:
    models = [gp(seed) for seed in (1, 2)]
    constraints = [
        OutcomeConstraint("a", upper=0.2, fit=lambda: models[0]),
        OutcomeConstraint("b", -1.0, 0.5, fit=lambda: models[1]),
    ]
    feasibility = Feasibility.of(constraints, FunctionalPosterior.of)
    X = torch.rand(4, 2, dtype=torch.double, requires_grad=True)
    (a, sd_a), (b, sd_b) = (moments(model, X) for model in models)
    expected = norm.cdf((0.2 - a) / sd_a)
    expected = expected * (norm.cdf((0.5 - b) / sd_b) - norm.cdf((-1 - b) / sd_b))
    assert feasibility.probability(X).numpy() == pytest.approx(expected, rel=1e-6)
    assert feasibility.log_probability(X.reshape(2, 2, 2)).shape == (2, 2)
    assert torch.autograd.gradcheck(feasibility.log_probability, X, atol=1e-5)


class Ensemble(SingleTaskGP):
    """Two GPs on the same data."""

    _is_ensemble = True

    def posterior(self, X: Tensor, *args: Any, **kwargs: Any) -> Posterior:
        return super().posterior(X.unsqueeze(-3), *args, **kwargs)


def test_an_ensemble_is_a_mixture() -> None:
    X, Y = torch.rand(3, 2, dtype=torch.double), torch.randn(3, 1, dtype=torch.double)
    ensemble = Ensemble(X.expand(2, 3, 2), Y.expand(2, 3, 1))
    ensemble.covar_module.lengthscale = torch.tensor([0.2, 2.0]).reshape(2, 1, 1)  # type: ignore[assignment]
    ensemble.eval()
    feasibility = Feasibility(
        [(OutcomeConstraint("m", upper=0.1), FunctionalPosterior.of(ensemble))]
    )
    points = torch.rand(5, 2, dtype=torch.double)
    posterior = ensemble.posterior(points.unsqueeze(-2))
    each = norm.cdf((0.1 - posterior.mean.detach()) / posterior.variance.detach().sqrt())
    assert feasibility.probability(points).numpy() == pytest.approx(
        each.mean(axis=1).ravel(), rel=1e-6
    )


@pytest.mark.parametrize("bounds", [(None, 0.0), (0.0, None), (-0.1, 0.1)])
def test_points_that_count_as_out_of_bounds(bounds: tuple[Any, Any]) -> None:
    """They are unlikely to be feasible then, and points far from them are what they were."""
    model = gp()
    model.likelihood.noise = 1e-6
    constraint = OutcomeConstraint("m", *bounds, fit=lambda: model)
    points = torch.tensor([[0.5, 0.5], [-9.0, -9.0]], dtype=torch.double)
    usual = Feasibility.of([constraint], FunctionalPosterior.of).probability(points)
    after = Feasibility.of([constraint], FunctionalPosterior.of, points[:1]).probability(points)
    assert usual[0] > 0.05
    assert after[0] < 1e-6
    assert float(after[1]) == pytest.approx(float(usual[1]), rel=1e-3)


def test_the_index_is_where_improvement_times_probability_is_the_cost() -> None:
    """``E[(f - g)^+] P = lambda c``, by quadrature; log EI gains ``log P``."""
    objective, other = gp(3), gp(4)
    feasibility = Feasibility([(OutcomeConstraint("m", upper=0.3), FunctionalPosterior.of(other))])
    X = torch.rand(5, 2, dtype=torch.double)
    weight: Any = {"log_weight": feasibility.log_probability}

    def cost(points: Tensor) -> Tensor:
        return points[..., 0].exp()

    with torch.no_grad():
        index = PandoraBoxGittinsIndex(objective, cost, 0.1, **weight)(X.unsqueeze(-2))
        per_cost, halved = (
            LogExpectedImprovementPerCost(objective, 0.2, cost, p, **weight)(X.unsqueeze(-2))
            for p in (1.0, 0.5)
        )
    mean, sd = moments(objective, X)
    chance = feasibility.probability(X).numpy()
    for i, g in enumerate(index.tolist()):

        def improvement(best: float, i: int = i) -> float:
            density = norm(mean[i], sd[i]).pdf
            high = mean[i] + 12 * sd[i]
            return float(quad(lambda f: (f - best) * density(f), best, high, limit=200)[0])

        price = 0.1 * math.exp(float(X[i, 0]))
        assert improvement(g) * chance[i] == pytest.approx(price, rel=1e-5)
        gain = math.log(improvement(0.2) * chance[i])
        assert float(per_cost[i]) == pytest.approx(gain - float(X[i, 0]), rel=1e-5)
        assert float(halved[i]) == pytest.approx(gain - 0.5 * float(X[i, 0]), rel=1e-5)


# Runs


def waste(row: Row) -> float:
    """Feasible in a disc of radius 0.316 around (0.8, 0.3)."""
    return (float(str(row["x1"])) - 0.8) ** 2 + (float(str(row["x2"])) - 0.3) ** 2


def total(row: Row, measure: bool = True) -> Outcome:
    """The sum of the inputs; the best feasible one is 1.547."""
    return Outcome(float(str(row["x1"])) + float(str(row["x2"])), metrics={"waste": waste(row)})


def negative(row: Row, measure: bool = True) -> Outcome:
    outcome = total(row)
    return outcome._replace(value=-float(outcome.value or 0.0))


@cache
@full_searches()
def ran(acquisition: str, minimize: bool = False, trials: int = 11) -> Simulation:
    settings: dict[str, Any] = {"lmbda": 0.05, "budget": 40.0, "stop": False, **FAST}
    if acquisition == GITTINS:
        settings |= {"initialize_with_center": True, "winsorize": True, "initial_share": 0.2}
        method: CostAware = Gittins(lambda row: 1.0 + float(row["x1"]), **settings)
    else:
        settings["acquisition"] = acquisition
        method = CostAware(lambda row: 1.0 + float(row["x1"]), **settings)
    run = negative if minimize else total
    return simulate(method, SQUARE, run, trials, minimize, constraints=[BOUND])


@pytest.mark.usefixtures("full_searches")
@pytest.mark.parametrize("acquisition", [*ACQUISITIONS, GITTINS])
def test_a_run_finds_the_best_feasible_point(acquisition: str) -> None:
    simulation = ran(acquisition)
    best = simulation.recommend()
    assert best.feasibility is not None
    assert best.feasibility >= 0.9
    assert waste(best.parameters) <= 0.1
    assert best.mean > 1.4
    for trial in simulation.trials[5:]:
        decision = trial.decision
        assert 0 <= decision["feasibility"] <= 1
        assert (decision["index"] is None) == (decision["incumbent_feasibility"] < 0.9)


def test_what_no_float_tells_from_impossible_is_still_ordered() -> None:
    simulation = ran(GITTINS)
    far = replace(simulation.problem().constraints[0], lower=None, upper=-1e3)
    problem = replace(simulation.problem(), constraints=(far,))
    ranked = simulation.method.recommend(problem)
    assert {best.feasibility for best in ranked} == {0.0}
    read = FunctionalPosterior.of(far.fit())
    with torch.no_grad():
        mean, variance = read(problem.space.encode([best.parameters for best in ranked]))
    z = ((far.scaled_ends[1] - mean) / variance.sqrt()).tolist()
    assert z == sorted(z, reverse=True)


def nothing_feasible(**settings: Any) -> Simulation:
    """A run whose initial design has no feasible point."""
    method = CostAware(lambda row: 1.0 + 9 * float(row["x1"]), initial_trials=4, **settings, **FAST)
    tight = OutcomeConstraint("waste", upper=0.01)
    model = FixedHyperparameters(0.4, 0.3, 1e-5)
    simulation = Simulation(method, SQUARE, False, model, constraints=[tight])
    for _ in range(4):
        decision = simulation.ask()
        simulation.tell(decision, total(decision.parameters))
    return simulation


@pytest.mark.usefixtures("full_searches")
def test_until_something_is_feasible_the_likeliest_per_cost_is_next() -> None:
    simulation = nothing_feasible(lmbda=100.0)
    problem = simulation.problem()
    decision = simulation.ask()
    assert isinstance(decision, Decision), "no price is too high for the first feasible trial"
    assert decision.details["lambda"] is None
    points = SQUARE.sobol_points(512, 3)
    assert problem.feasibility is not None

    def per_cost(X: Tensor) -> Tensor:
        assert problem.feasibility is not None
        return problem.feasibility.probability(X) / (1 + 9 * X[:, 0])

    best = per_cost(SQUARE.encode([decision.parameters]))
    assert float(best) >= float(per_cost(points).max())
    assert decision.details["feasibility"] == pytest.approx(
        float(problem.feasibility.probability(SQUARE.encode([decision.parameters])))
    )


def test_the_stopping_rule_is_of_feasible_trials() -> None:
    """At a price at which the best feasible point is just not worth it."""
    problem = ran(GITTINS).problem()
    for lmbda, stop in ((1e-4, False), (1.0, True)):
        method = CostAware(lambda row: 1.0 + float(row["x1"]), lmbda=lmbda, **FAST)
        assessment = assess(method, problem, method.stop_rule)
        assert assessment.stop is stop
        assert assessment.is_feasible


@pytest.mark.usefixtures("full_searches")
def test_the_search_climbs_where_hardly_anything_is_feasible() -> None:
    """The index itself is beyond all numbers there."""
    simulation = ran(GITTINS)
    simulation = Simulation(
        simulation.method,
        SQUARE,
        trials=simulation.trials,
        constraints=[OutcomeConstraint("waste", upper=0.002)],
    )
    problem, method = simulation.problem(), simulation.method
    assert problem.feasibility is not None
    search = Search(method, problem, 1.0, method.budget_state(problem))
    index = search.index(0.01)
    with torch.no_grad():
        largest = float(index(search.representative_points.unsqueeze(-2)).max())
    climbed = LogTail(index, largest, problem.feasibility.log_probability, -100.0)
    X = SQUARE.sobol_points(256, 0).unsqueeze(-2).requires_grad_(True)
    values, plain = climbed(X), index(X)
    (gradient,) = torch.autograd.grad(values.sum(), X)
    assert bool(gradient.isfinite().all())
    assert bool(gradient.abs().sum(dim=(-1, -2)).gt(0).all())
    values, plain = values.detach(), plain.detach()
    assert float(values.min()) > -1e6
    inside = problem.feasibility.log_probability(X.detach().squeeze(-2)) > -100
    order = plain[inside].argsort()
    assert bool((values[inside][order].diff() >= -1e-9).all())


def test_outcomes_that_are_missing() -> None:
    """The design goes on without them, and stops by the name of the metric where all lack it."""
    simulation = Simulation(CostAware(1.0, initial_trials=2, **FAST), SQUARE, constraints=[BOUND])
    for _ in range(10):
        decision = simulation.ask()
        assert decision.phase == "initial"
        simulation.tell(decision, total(decision.parameters)._replace(metrics={}))
    stop = simulation.ask()
    assert isinstance(stop, Stop)
    assert not stop.is_final
    assert "'waste'" in stop.reason
    rows: list[Row] = [{"x1": 0.8, "x2": 0.3}, {"x1": 0.1, "x2": 0.6}]
    for row in rows:
        simulation.tell(Decision(dict(row), ""), total(row))
    decision = simulation.ask()
    assert decision.phase == "rule"


def test_bounded_outcomes_of_trials_that_failed_are_learned() -> None:
    """A trial that failed may still say whether it was feasible."""
    method = CostAware(1.0, initial_trials=2, **FAST)
    simulation = simulate(method, SQUARE, lambda row, _: total(row), 2, constraints=[BOUND])
    row: Row = {"x1": 0.8, "x2": 0.3}
    simulation.tell(Decision(dict(row), ""), Outcome(failed=True, metrics={"waste": waste(row)}))
    (bound,) = simulation.problem().constraints
    learned = bound.fit()
    assert isinstance(learned, SingleTaskGP)
    assert len(learned.train_targets) == 3

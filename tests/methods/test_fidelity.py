"""The fidelity method in a plain loop: what it runs, recommends, refuses and stops for."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ax_costaware.core import Decision, OutcomeConstraint, Simulation, Stop, simulate
from ax_costaware.core.failures import is_near_failures
from ax_costaware.core.simulation import Outcome
from ax_costaware.costs.cost import AffineCost, TableCost
from ax_costaware.exceptions import InputError
from ax_costaware.methods import MultiFidelity, StandardizedPrice
from ax_costaware.space import Candidates, Choice, Fixed, Range, Space

pytestmark = pytest.mark.usefixtures("short_searches")

FAST: dict[str, Any] = {"num_restarts": 2, "raw_samples": 64}
COST = AffineCost({"epochs": 0.1}, fixed=0.5)
EPOCHS = Range("epochs", 1, 100, is_integer=True, log_scale=True)
LINEAR = Range("epochs", 1, 100, is_integer=True)
INPUTS = [Range("x1", 0, 1), Range("x2", 0, 1)]
SPACE = Space.of([*INPUTS, EPOCHS])
METHOD = MultiFidelity(COST, target={"epochs": 100}, budget=16.0, initial_trials=3, **FAST)


def hill(row: Any) -> float:
    """A hill of height one on the unit square."""
    return math.exp(-4 * ((row["x1"] - 0.3) ** 2 + (row["x2"] - 0.6) ** 2))


def curve(row: Any, measure: bool = True) -> Outcome:
    """Its learning curve: lower after fewer epochs, and a little elsewhere."""
    short = 1 - math.log(row["epochs"]) / math.log(100)
    return Outcome(hill(row) - short * (0.5 + 0.2 * row["x1"]))


def test_the_recommendation_says_whether_it_was_run() -> None:
    simulation = Simulation(METHOD, SPACE)
    rows: list[dict[str, Any]] = [
        {"x1": 0.1, "x2": 0.2, "epochs": 3},
        {"x1": 0.3, "x2": 0.6, "epochs": 100},
        {"x1": 0.9, "x2": 0.2, "epochs": 20},
        {"x1": 0.9, "x2": 0.2, "epochs": 100},
    ]
    for row in rows:
        simulation.tell(Decision(row, "given"), curve(row))
    ranked = METHOD.recommend(simulation.problem())
    assert all(best.parameters["epochs"] == 100 for best in ranked)
    found = {(best.parameters["x1"], best.parameters["x2"]): best.trial_index for best in ranked}
    assert found[0.1, 0.2] is None
    assert found[0.3, 0.6] == 1
    assert found[0.9, 0.2] == 3


@pytest.mark.parametrize("minimize", [False, True])
def test_what_is_deployed_is_what_can_be_counted_on(minimize: bool) -> None:
    """The mean less half a standard deviation, in which a decision is measured, too."""
    sign = -1.0 if minimize else 1.0

    def run(row: Any, measure: bool) -> Outcome:
        return Outcome(sign * (curve(row).value or 0.0))

    simulation = simulate(METHOD, SPACE, run, 6, minimize=minimize)
    ranked = METHOD.recommend(simulation.problem())
    bounds = [sign * best.mean - 0.5 * best.standard_deviation for best in ranked]
    assert bounds == sorted(bounds, reverse=True)
    decision = simulation.ask()
    assert sign * decision.details["incumbent"] == pytest.approx(bounds[0])
    at_best = simulation.trials[decision.details["incumbent_trial"]].inputs
    assert {**at_best, "epochs": 100} == ranked[0].parameters


@pytest.mark.parametrize("minimize", [True])
def test_a_price_ends_the_run(minimize: bool) -> None:
    sign = -1.0 if minimize else 1.0

    def run(row: Any, measure: bool) -> Outcome:
        return Outcome(sign * (curve(row).value or 0.0))

    method = replace(METHOD, budget=None, lmbda=0.01)
    found = simulate(method, SPACE, run, 60, minimize=minimize)
    assert len(found.trials) < 60
    assert hill(found.recommend().parameters) > 0.8
    stop = found.ask()
    assert isinstance(stop, Stop)
    assert "not above the price of 0.01" in stop.reason
    for price in (10.0, StandardizedPrice(100.0)):
        expensive = simulate(replace(method, lmbda=price), SPACE, run, 60, minimize=minimize)
        assert len(expensive.trials) == method.initial_trials


@pytest.mark.usefixtures("full_searches")
@pytest.mark.slow
@pytest.mark.parametrize(
    "size",
    [Choice("size", ("small", "half", "full")), Choice("size", (0.1, 0.5, 1.0), is_ordered=True)],
)
def test_a_fidelity_that_misleads_is_left(size: Choice) -> None:
    """The small set has its hill at the other end, and costs a twentieth."""
    values = dict(zip(size.values, (0.05, 0.3, 1.0), strict=True))
    cost = TableCost("size", values)

    def run(row: Any, measure: bool) -> Outcome:
        wrong = math.exp(-4 * ((row["x1"] - 0.9) ** 2 + (row["x2"] - 0.1) ** 2))
        return Outcome(hill(row) + (1 - values[row["size"]]) * 1.5 * wrong)

    method = MultiFidelity(cost, target={"size": size.values[-1]}, budget=9.0, **FAST)
    found = simulate(method, Space.of([*INPUTS, size]), run, 80)
    assert hill(found.recommend().parameters) > 0.9
    tried = [trial.parameters["size"] for trial in found.trials]
    assert tried.count(size.values[-1]) >= 3
    assert len(tried) < 80


def test_no_trial_costs_more_than_the_cap_though_the_target_does() -> None:
    found = simulate(replace(METHOD, max_trial_cost=3.0), SPACE, curve, 6)
    assert all(COST.at(trial.parameters) <= 3.0 + 1e-9 for trial in found.trials)
    best = found.recommend()
    assert best.parameters["epochs"] == 100
    assert best.trial_index is None


def constrained(
    run: Callable[[Any], float], bound: OutcomeConstraint, n: int, seed: int = 0
) -> Simulation:
    return simulate(
        replace(METHOD, budget=60.0, seed=seed),
        SPACE,
        lambda row, measure: curve(row)._replace(metrics={"size": run(row)}),
        n,
        constraints=[bound],
    )


@pytest.mark.usefixtures("full_searches")
@pytest.mark.slow
def test_outcome_constraints_are_to_hold_at_the_target() -> None:
    """A model grows with its training, so that it fits everywhere after few epochs."""
    bound = OutcomeConstraint("size", upper=1.0)
    found = constrained(
        lambda row: (0.4 + 2 * row["x2"]) * math.log(row["epochs"]) / math.log(100), bound, 25
    )
    best = found.recommend()
    # Size one at the target is at x2 = 0.3.
    assert 0.1 < best.parameters["x2"] < 0.3 + 1e-3  # type: ignore[operator]
    assert best.feasibility is not None
    assert best.feasibility >= 0.9


@pytest.mark.parametrize("learned", [False, True])
def test_inputs_that_fail_at_the_target_are_left(learned: bool) -> None:
    """Short runs about them succeed, and are the best there are."""
    simulation = Simulation(replace(METHOD, budget=60.0, learn_failures=learned), SPACE)
    for x1, x2, epochs in ((0.3, 0.6, 30), (0.33, 0.6, 9), (0.8, 0.2, 9), (0.7, 0.9, 30)):
        row = {"x1": x1, "x2": x2, "epochs": epochs}
        simulation.tell(Decision(row, "given"), curve(row))
    best = simulation.recommend()
    assert best.parameters["x1"] == 0.3
    simulation.tell(Decision(best.parameters, "given"), Outcome(failed=True))
    found = simulation.method.recommend(simulation.problem())
    assert [b.parameters["x1"] for b in found][2:] in ([0.3, 0.33], [0.33, 0.3])
    decision = simulation.ask()
    assert not is_near_failures(simulation.problem(), [{**decision.parameters, "epochs": 100}])


@pytest.mark.parametrize(
    "target", [{}, None, 3, {"epochs": None}, {"epochs": math.nan}, {1: 100}, {"epochs": [100]}]
)
def test_what_is_no_target_is_refused(target: Any) -> None:
    with pytest.raises(InputError, match="target="):
        MultiFidelity(COST, target=target)


@pytest.mark.parametrize(
    ("target", "space", "message"),
    [
        ({"rounds": 3}, SPACE, "'rounds' is no parameter"),
        ({"epochs": 200}, SPACE, "expected a value of"),
        ({"epochs": "many"}, SPACE, "expected a value of"),
        ({"epochs": 5}, Space.of([*INPUTS, Fixed("epochs", 5)]), "one value only"),
        ({"epochs": 5}, Space.of([EPOCHS]), "all parameters"),
        ({"epochs": 50.5}, SPACE, "50.5"),
        ({"epochs": True}, SPACE, "True"),
        ({"epochs": 5}, Space.of([*INPUTS, LINEAR], [({"x1": 1, "epochs": 1}, 9)]), "constraint"),
    ],
)
def test_an_experiment_without_the_fidelities_is_refused(
    target: Any, space: Space, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        Simulation(MultiFidelity(1.0, target=target), space)


def test_a_model_of_ones_own_is_refused() -> None:
    from ax_costaware.core import FixedHyperparameters

    with pytest.raises(InputError, match="Simulation: hyperparameters"):
        Simulation(METHOD, SPACE, hyperparameters=FixedHyperparameters(0.2))


@pytest.mark.usefixtures("full_searches")
def test_a_target_on_a_log_scale_is_reached() -> None:
    """The power of its logarithm is not just the number."""
    space = Space.of([Range("x1", 0, 1), Range("s", 1, 11, log_scale=True)])
    method = MultiFidelity(
        1.0, target={"s": 11.0}, budget=400, initial_trials=4, num_restarts=2, raw_samples=64
    )

    def near(row: Any, measure: bool) -> Outcome:
        return Outcome(-((row["x1"] - 0.3) ** 2) - 1 / row["s"])

    run = simulate(method, space, near, 9)
    at_target = [trial.parameters for trial in run.trials if trial.parameters["s"] == 11.0]
    assert at_target
    assert all(method.is_target(row) for row in at_target)
    # What was attached, or decided by an earlier release.
    assert method.is_target({"x1": 0.5, "s": 10.999999999999996})
    assert not method.is_target({"x1": 0.5})  # as in an experiment that had another strategy


def test_repeats_are_chosen_with_the_fidelity() -> None:
    """Where the noise is large, and a setup is most of the cost, trials have several of them."""
    space = Space.of([*INPUTS, LINEAR, Range("folds", 1, 8, is_integer=True)])
    cost = AffineCost({"epochs": 0.01, "folds": 0.05}, fixed=1.0)
    method = replace(METHOD, cost=cost, repeats="folds", budget=25.0)

    def run(sigma: float) -> Simulation:
        generator = np.random.default_rng(0)

        def measure(row: Any, measured: bool) -> Outcome:
            noise = sigma * generator.standard_normal(row["folds"])
            return Outcome(repeats=list((curve(row).value or 0.0) + noise))

        return simulate(method, space, measure, 60)

    noisy, exact = run(0.5), run(1e-4)
    chosen = [
        np.mean([t.parameters["folds"] for t in one.trials if t.record["phase"] == "rule"])
        for one in (noisy, exact)
    ]
    assert chosen[0] > 2 * chosen[1]
    ranked = method.recommend(noisy.problem())
    assert all(best.parameters["epochs"] == 100 for best in ranked)
    inputs = [(best.parameters["x1"], best.parameters["x2"]) for best in ranked]
    assert len({*inputs}) == len(inputs)
    assert hill(noisy.recommend().parameters) > 0.6


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"repeats": "epochs"}, "repeats have no target"),
        ({"repeats": "folds", "resumes": True}, "other checkpoints"),
        ({"repeats": "n", "candidates": Candidates({"x": [0, 1], "n": [1, 2]})}, "a column of"),
    ],
)
def test_repeats_that_are_no_repeats_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        replace(METHOD, **settings)
    only = Space.of([EPOCHS, Range("folds", 1, 8, is_integer=True)])
    with pytest.raises(InputError, match="others to choose"):
        Simulation(replace(METHOD, cost=1.0, repeats="folds"), only)

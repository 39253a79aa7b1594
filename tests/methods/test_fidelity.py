"""The fidelity method in a plain loop: what it runs, recommends, refuses and stops for."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from ax_costaware.core import Decision, OutcomeConstraint, Simulation, Stop, simulate
from ax_costaware.core.failures import is_near_failures
from ax_costaware.core.problem import Problem
from ax_costaware.core.simulation import Outcome
from ax_costaware.costs.cost import AffineCost, TableCost
from ax_costaware.exceptions import InputError
from ax_costaware.methods import MultiFidelity, StandardizedPrice
from ax_costaware.methods.fidelity import AT_TARGET, ELSEWHERE
from ax_costaware.space import Choice, Fixed, Range, Space

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


@pytest.mark.usefixtures("full_searches")
@pytest.mark.slow
def test_short_runs_find_the_best_long_one() -> None:
    found = simulate(METHOD, SPACE, curve, 60)
    spent = sum(entry.charged for entry in found.ledger)
    assert 12 < spent < 16 + 1e-9
    # Two long runs cost more.
    assert len(found.trials) > 5
    best = found.recommend()
    assert best.parameters["epochs"] == 100
    assert hill(best.parameters) > 0.8
    assert best.expected_cost == pytest.approx(10.5)
    stop = found.ask()
    assert isinstance(stop, Stop)
    assert "Deploy" in stop.reason


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


def test_a_sum_of_costs_decides_as_the_same_cost_in_one() -> None:
    parts = AffineCost({"epochs": 0.1}) + 0.5
    one, other = (simulate(replace(METHOD, cost=cost), SPACE, curve, 5) for cost in (COST, parts))
    assert one.recommend() == other.recommend()
    for one_trial, trial in zip(one.trials, other.trials, strict=True):
        assert trial.parameters == pytest.approx(one_trial.parameters, rel=1e-6)


@pytest.mark.parametrize("minimize", [False, True])
def test_a_run_that_diverged_does_not_set_the_scale(minimize: bool) -> None:
    """What came of it is bad, and the others are told apart as without it."""
    sign = -1.0 if minimize else 1.0
    simulation = Simulation(METHOD, SPACE, minimize=minimize)
    rows = [{"x1": i / 9, "x2": i * 0.37 % 1, "epochs": 1 + 33 * (i % 4)} for i in range(10)]
    for i, row in enumerate(rows):
        value = -1e6 if i == 9 else curve(row).value or 0.0
        simulation.tell(Decision(row, "given"), Outcome(sign * value))
    means = sign * METHOD.expected(simulation.problem(), rows[:9])[0]
    values = torch.tensor([curve(row).value for row in rows[:9]], dtype=torch.double)
    assert float((means - values).abs().max()) < 0.5
    assert float(torch.corrcoef(torch.stack([means, values]))[0, 1]) > 0.9


def test_a_decision_says_why() -> None:
    simulation = simulate(METHOD, SPACE, curve, 5)
    decision = simulation.ask()
    assert isinstance(decision, Decision)
    assert "per unit of cost" in decision.why
    assert decision.expected_cost == pytest.approx(METHOD.cost_at(decision.parameters) or 0.0)
    details = decision.details
    assert 0 < details["correlation"] <= 1
    gain = simulation.problem().scale.unit * math.exp(decision.value or 0.0)
    assert details["improvement_per_cost"] == pytest.approx(gain)
    groups = METHOD.traits.groups
    assert groups is not None
    assert groups.of(decision.parameters) in groups.names == (AT_TARGET, ELSEWHERE)


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
    assert isinstance(decision, Decision)
    assert sign * decision.details["incumbent"] == pytest.approx(bounds[0])
    at_best = simulation.trials[decision.details["incumbent_trial"]].inputs
    assert {**at_best, "epochs": 100} == ranked[0].parameters


@pytest.mark.parametrize("minimize", [False, True])
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
    [
        Choice("size", ("small", "half", "full")),
        Choice("size", (0.1, 0.5, 1.0), is_ordered=True),
    ],
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


def test_costs_are_learned_with_the_fidelity() -> None:
    target = {"epochs": 100}
    options = {"budget": 40.0, "initial_share": None, "cost_model": "linear"}
    method = MultiFidelity("seconds", target=target, **options, **FAST)

    def run(row: Any, measure: bool) -> Outcome:
        return curve(row)._replace(cost=COST.at(row))

    found = simulate(method, SPACE, run, 8)
    last = found.trials[-1]
    assert last.record["expected_cost"] == pytest.approx(COST.at(last.parameters), rel=0.5)
    assert found.recommend().expected_cost == pytest.approx(10.5, rel=0.5)


def test_what_to_deploy_can_be_asked_before_a_bill_has_come() -> None:
    """Where costs are learned, it was refused until each trial had its cost."""
    method = MultiFidelity("seconds", target={"epochs": 100}, **FAST)
    simulation = Simulation(method, SPACE)
    for i in range(4):
        row = {"x1": 0.2 * i, "x2": 0.5, "epochs": 25 * (i + 1)}
        simulation.tell(Decision(row, ""), curve(row)._replace(cost=COST.at(row)))
    simulation.trials[-1] = replace(simulation.trials[-1], reported_cost=None)
    best = simulation.recommend()
    assert best.parameters["epochs"] == 100
    assert best.expected_cost is None
    with pytest.raises(InputError, match=r"trials \[3\] were completed without a cost"):
        simulation.ask()


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


def test_a_run_that_stops_says_how_likely_it_is_to_be_feasible() -> None:
    found = constrained(lambda row: 2.0, OutcomeConstraint("size", upper=1.0), 3)
    spent = sum(entry.charged for entry in found.ledger)
    stop = replace(found.method, budget=spent).decide(found.problem())
    assert isinstance(stop, Stop)
    assert ", feasible with probability " in stop.reason


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


@pytest.mark.usefixtures("full_searches")
@pytest.mark.slow
def test_what_short_runs_say_nothing_of_is_asked_of_long_ones() -> None:
    """A model is small until its training is half over, so that short runs all keep to a bound.

    What the model makes of that is a guess, which is wrong in a quarter of twelve runs.
    """
    bound, found = OutcomeConstraint("size", upper=1.0), []
    for seed in range(4):
        run = constrained(
            lambda row: (0.4 + 2 * row["x2"]) / (1 + math.exp((60 - row["epochs"]) / 4)),
            bound,
            25,
            seed,
        )
        assert sum(float(str(t.parameters["epochs"])) > 60 for t in run.trials) > 1
        best = run.recommend()
        assert best.feasibility is not None
        keeps_to_it = 0.4 + 2 * best.parameters["x2"] <= 1.0  # type: ignore[operator]
        found.append(keeps_to_it and best.feasibility >= 0.9)
    assert sum(found) >= 2, found


@pytest.mark.usefixtures("full_searches")
@pytest.mark.slow
def test_feasible_inputs_are_found_where_all_fidelities_tell_of_them() -> None:
    """A method that goes on with runs of one epoch, which add nothing, does not come to these."""
    found = constrained(lambda row: 0.4 + 2 * row["x2"], OutcomeConstraint("size", upper=1.0), 25)
    best = found.recommend()
    assert 0.4 + 2 * best.parameters["x2"] <= 1.0 + 1e-3  # type: ignore[operator]
    # The best of all feasible inputs are at x1 = 0.3, x2 = 0.3.
    assert hill(best.parameters) > hill({"x1": 0.3, "x2": 0.3}) - 0.05


@pytest.mark.usefixtures("full_searches")
def test_until_something_is_feasible_the_likeliest_is_looked_at() -> None:
    found = constrained(lambda row: 5.0 + row["x1"], OutcomeConstraint("size", upper=1.0), 5)
    decision = found.ask()
    assert isinstance(decision, Decision)
    assert "No inputs are feasible at epochs=100" in decision.why


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
    assert isinstance(decision, Decision)
    assert not is_near_failures(simulation.problem(), [{**decision.parameters, "epochs": 100}])


@pytest.mark.slow
def test_failures_are_learned() -> None:
    def run(row: Any, measure: bool) -> Outcome:
        return Outcome(failed=True) if row["x1"] > 0.6 else curve(row)

    found = simulate(replace(METHOD, learn_failures=True), SPACE, run, 16)
    late = found.trials[9:]
    assert sum(trial.has_failed for trial in late) <= 2


@pytest.mark.slow
def test_two_fidelities() -> None:
    space = Space.of([Range("x1", 0, 1), Range("s", 0, 1), Range("t", 0, 1)])
    method = MultiFidelity(
        AffineCost({"s": 1.0, "t": 1.0}, fixed=0.2),
        target={"s": 1.0, "t": 0.0},
        budget=6.0,
        initial_trials=3,
        **FAST,
    )

    def run(row: Any, measure: bool) -> Outcome:
        return Outcome(math.sin(5 * row["x1"]) + 0.2 * (1 - row["s"]) + 0.3 * row["t"] * row["x1"])

    best = simulate(method, space, run, 15).recommend().parameters
    assert best["s"] == 1.0
    assert best["t"] == 0.0
    assert best["x1"] == pytest.approx(math.pi / 10, abs=0.1)


@pytest.mark.parametrize(
    "target",
    [{}, None, 3, {"epochs": None}, {"epochs": math.nan}, {1: 100}, {"epochs": [100]}],
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
        ({"epochs": 50.5}, SPACE, "50.5: expected a value of"),
        ({"epochs": True}, SPACE, "True: expected a value of"),
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


def test_a_fidelity_that_is_a_switch() -> None:
    space = Space.of([*INPUTS, Choice("full", (False, True))])
    cost = TableCost("full", {False: 1.0, True: 5.0})
    method = MultiFidelity(cost, target={"full": True}, budget=60, initial_trials=3, **FAST)
    assert method.traits.progress_parameter(space.ranges) is None

    def switched(row: Any, measure: bool) -> Outcome:
        return Outcome(hill(row) - 0.2 * (not row["full"]))

    run = simulate(method, space, switched, 5)
    groups = method.traits.groups
    assert groups is not None
    assert {groups.of(trial.parameters) for trial in run.trials} <= {*groups.names}
    assert run.recommend().parameters["full"] is True


def test_a_whole_number_is_recommended_as_one() -> None:
    simulation = Simulation(replace(METHOD, target={"epochs": 100.0}), SPACE)
    at: dict[str, Any] = {"x1": 0.2, "x2": 0.6, "epochs": 20}
    simulation.tell(Decision(at, "given"), curve(at))
    assert str(simulation.recommend().parameters["epochs"]) == "100"


def test_inputs_that_were_run_at_the_target_are_recommended_as_such(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However they were run besides: means of one point in several rows differ by rounding."""
    exact = MultiFidelity.expected

    def rounded(self: MultiFidelity, problem: Problem, rows: Any) -> Any:
        mean, variance = exact(self, problem, rows)
        return mean + 1e-15 * torch.arange(len(mean)), variance

    monkeypatch.setattr(MultiFidelity, "expected", rounded)
    simulation = Simulation(METHOD, SPACE)
    rows = [{"x1": x1, "x2": x2} for x1 in (0.2, 0.35, 0.7) for x2 in (0.1, 0.6)]
    for row in rows:
        for epochs in (5, 20, 100):
            at: dict[str, Any] = {**row, "epochs": epochs}
            simulation.tell(Decision(at, "given"), curve(at))
    found = METHOD.recommend(simulation.problem())
    assert len(found) == len(rows)
    assert sorted(best.trial_index or 0 for best in found) == [*range(2, 18, 3)]


@pytest.mark.parametrize("epochs", [np.int64(100), np.float64(100), torch.tensor(100)])
def test_numbers_of_arrays_are_targets(epochs: Any) -> None:
    method = MultiFidelity(COST, target={"epochs": epochs})
    assert json.dumps(method.target) == f'{{"epochs": {epochs.item()}}}'

"""Whole runs of ``cost_aware_strategy`` on Ax's Client and AxClient."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from ax.api.client import Client
from ax.api.configs import RangeParameterConfig
from ax.exceptions.core import (
    DataRequiredError,
    OptimizationShouldStop,
)
from scipy.stats import norm

from ax_costaware import (
    GittinsDecay,
    complete_trial,
    cost_aware_strategy,
    gittins_strategy,
    recommend,
    spending,
)
from ax_costaware.acquisition import gittins_index, lambda_for_budget
from ax_costaware.ax_bridge.node import fitted_problem
from ax_costaware.core import Problem
from tests.ax.gittins_toy import (
    COST,
    FAST,
    arm_of,
    complete,
    make_client,
    objective,
    record,
    run_trials,
    true_cost,
)

pytestmark = pytest.mark.usefixtures("short_searches")


def problem_now(client: Client) -> Problem:
    """Return what the next decision is made from."""
    return fitted_problem(client._experiment, client._generation_strategy)


def posterior(client: Client, X: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Posterior mean and standard deviation of the outcome at points of the square."""
    problem = problem_now(client)
    with torch.no_grad():
        found = problem.model.posterior(X.unsqueeze(-2))
    mean, variance = problem.scale.moments(found.mean, found.variance)
    return mean.flatten(), variance.flatten().sqrt()


def grid() -> torch.Tensor:
    """A fine grid of the unit square."""
    side = torch.linspace(0, 1, 51, dtype=torch.double)
    return torch.cartesian_prod(side, side)


@pytest.mark.usefixtures("full_searches")
def test_run_until_nothing_is_worth_its_cost() -> None:
    """Every decision solves the equation of the index and is the largest; the stop says all."""
    sign, lmbda, X = -1.0, 0.003, grid()
    client = make_client(
        minimize=True, lmbda=lmbda, acquisition="gittins", num_restarts=20, raw_samples=1024
    )
    run_trials(client, 4, sign)
    end = None
    while end is None:
        mean, sd = posterior(client, X)
        largest = float(gittins_index(sign * mean, sd, lmbda * (2 * X[:, 1] + 0.5)).max())
        try:
            run_trials(client, 1, sign)
        except OptimizationShouldStop as stop:
            end = stop
            continue
        last = max(client._experiment.trials)
        decided, cost = record(client, last), true_cost(arm_of(client, last))
        decision = decided["decision"]
        assert decided["expected_cost"] == pytest.approx(cost, rel=1e-14)
        index, sd_here = decision["index"], decision["standard_deviation"]
        z = sign * (decision["mean"] - index) / sd_here
        improvement = sd_here * (norm.pdf(z) + z * norm.cdf(z))
        assert improvement == pytest.approx(lmbda * cost, rel=1e-6)
        assert sign * index > largest - 1e-3
        assert sign * index > sign * decision["incumbent"], "else it would have stopped"
        assert (decision["lambda"], decision["lambda_source"]) == (lmbda, "given")
    best = recommend(client)
    assert largest <= sign * best.expected_value
    assert objective(best.parameters) > -0.01
    trial = next(i for i in client._experiment.trials if arm_of(client, i) == best.parameters)
    assert f"Deploy trial {trial} with x1={best.parameters['x1']}" in str(end)


def test_a_function_costs_what_its_value_object_does() -> None:
    """Its gradient is found by differences, so the decisions agree to these."""
    decided = []
    for cost in (COST, true_cost, lambda x: np.float64(true_cost(x))):
        client = make_client(cost=cost, lmbda=0.01)
        run_trials(client, 6)
        decided.append([record(client, i) for i in range(4, 6)])
    for given in decided[1:]:
        for one, other in zip(decided[0], given, strict=True):
            assert one["expected_cost"] == pytest.approx(other["expected_cost"], abs=1e-4)
            assert one["decision"]["index"] == pytest.approx(other["decision"]["index"], abs=1e-4)


@pytest.mark.parametrize("stop", [True, False])
def test_lambda_from_the_budget(stop: bool) -> None:
    """It spends what is left in expectation; held with a stopping rule, else found every time."""
    client = make_client(budget=40.0, stop=stop)
    run_trials(client, 4)
    left = spending(client).remaining
    assert left is not None
    mean, sd = posterior(client, grid()[::3])
    cost = 2 * grid()[::3, 1] + 0.5
    rough = lambda_for_budget(mean, sd, cost, left, best_f=recommend(client).expected_value)
    run_trials(client, 3)
    decisions = [record(client, i)["decision"] for i in range(4, 7)]
    assert {d["lambda_source"] for d in decisions} == {"budget"}
    assert decisions[0]["lambda"] == pytest.approx(rough, rel=0.2)
    assert decisions[0]["spent"] + decisions[0]["remaining"] == pytest.approx(40.0)
    assert (len({d["lambda"] for d in decisions}) == 1) == stop


def test_decay() -> None:
    """Lambda halves when no trial is worth it."""
    client = make_client(decay=GittinsDecay(0.5, 2.0))
    run_trials(client, 10)
    decisions = [record(client, i)["decision"] for i in range(4, 10)]
    assert decisions[0]["relative_lambda"] == 0.5 > decisions[-1]["relative_lambda"]
    for now, then in pairwise(decisions):
        fell = now["index"] <= now["incumbent"]
        assert now["next_relative_lambda"] == now["relative_lambda"] / (2 if fell else 1)
        assert then["relative_lambda"] == now["next_relative_lambda"]


def test_money_that_is_reserved_by_a_learned_cost_may_come_back() -> None:
    """Of a run of trials side by side nearly half of the budget could be left."""
    client = make_client(cost="hours", budget=9.0, initial_share=0.2)
    run_trials(client, 4, report=True)
    while (spending(client).remaining or 0.0) > 0.6:
        running = client.attach_trial({"x1": 0.3, "x2": 0.6})
    with pytest.raises(DataRequiredError, match=rf"Trials \[.*{running}\] are pending"):
        client.get_next_trials(max_trials=5)
    complete_trial(client, running, -0.1, cost=0.1)
    assert client.get_next_trials(max_trials=1)


@pytest.mark.usefixtures("full_searches")
def test_one_trial_that_cost_next_to_nothing() -> None:
    """The price of cost stays one, and what is not expected to be payable does not set it."""
    client = make_client(cost="hours", lmbda=None, budget=20.0, stop=False)
    for cost in (1.0, 1e-300, 1.0, 1.0):
        ((index, arm),) = client.get_next_trials(max_trials=1).items()
        complete_trial(client, index, objective(dict(arm)), cost=cost)
    ((index, _),) = client.get_next_trials(max_trials=1).items()
    assert 1e-12 < record(client, index)["decision"]["lambda"] < math.inf


def _closest(batch: Mapping[int, Any]) -> float:
    points = [np.array(list(arm.values())) for arm in batch.values()]
    return min(np.abs(a - b).max() for a, b in combinations(points, 2))


def test_a_batch_ends_where_nothing_else_is_worth_its_price(tmp_path: Path) -> None:
    """Ax would lose it. Without a stopping rule the rest goes to the next best, not twice."""
    client = make_client(lmbda=0.003)
    run_trials(client, 5)
    path = str(tmp_path / "stored.json")
    client.save_to_json_file(path)
    batch = client.get_next_trials(max_trials=7)
    assert 1 <= len(batch) < 7
    assert _closest(batch) > 0.01
    assert Client.load_from_json_file(path).get_next_trials(max_trials=7) == batch
    whole = make_client(lmbda=0.003, stop=False)
    run_trials(whole, 5)
    more = whole.get_next_trials(max_trials=7)
    assert len(more) == 7
    assert _closest(more) > 0.01


def test_an_initial_design_ends_when_it_has_cost_its_share() -> None:
    """A batch that began before is delivered; the next one is the model's."""
    client = make_client(cost="hours", budget=12.0, initial_trials=8, initial_share=0.2)
    for arm in (client.get_next_trials(max_trials=1) for _ in range(3)):
        ((index, parameters),) = arm.items()
        complete_trial(client, index, None, cost=true_cost(dict(parameters)))
    assert spending(client).spent >= 0.2 * 12.0, "what failed costs, and tells the model nothing"
    run_trials(client, 2, report=True)
    batch = client.get_next_trials(max_trials=2)
    assert [record(client, i)["phase"] for i in batch] == ["initial", "initial"]
    for index, arm in batch.items():
        complete(client, index, dict(arm), report=True)
    assert spending(client).spent >= 0.2 * 12.0
    decisions = client.get_next_trials(max_trials=2)
    assert [record(client, i)["phase"] for i in decisions] == ["rule", "rule"]
    assert client._generation_strategy.current_node_name == "CostAware"


@pytest.mark.usefixtures("full_searches")
def test_decisions_do_not_depend_on_the_unit_of_parameters() -> None:
    """BoTorch's optimizers take any point for the best one where slopes are per tiny unit.

    Beyond a range of 1e4 another one searches, which ends elsewhere on a flat top.
    """
    found = []
    for unit in (1.0, 1e6):
        client = Client()
        client.configure_experiment(
            parameters=[
                RangeParameterConfig(name, bounds=(0, unit), parameter_type="float")
                for name in ("x1", "x2")
            ]
        )
        client.configure_optimization(objective="y")
        client.set_generation_strategy(cost_aware_strategy(cost=1.0, lmbda=1e-9, **FAST))
        for _ in range(6):
            for index, arm in client.get_next_trials(max_trials=1).items():
                found.append({name: float(value) / unit for name, value in arm.items()})
                complete_trial(client, index, objective(found[-1]))
    assert found[6:] == [pytest.approx(arm, abs=1e-2) for arm in found[:6]]


@pytest.mark.filterwarnings("ignore:Very small noise values")
def test_the_index_does_not_observe_again_what_is_known() -> None:
    """At the best corner the index is the mean, which a small lambda makes the largest of all."""
    client = Client(random_seed=0)
    client.configure_experiment(
        parameters=[RangeParameterConfig(name, (0, 1), "float") for name in ("a", "b")]
    )
    client.configure_optimization(objective="y")
    options = {"initial_trials": 3, "num_restarts": 2, "raw_samples": 64}
    client.set_generation_strategy(gittins_strategy(cost=1, budget=12, **options))
    arms = []
    for _ in range(12):
        ((index, arm),) = client.get_next_trials(max_trials=1).items()
        complete_trial(client, index, {"y": (float(arm["a"]) + float(arm["b"]) / 3, 0.0)})
        arms.append(tuple(arm.values()))
    assert len(set(arms)) == len(arms)


def test_a_stop_says_that_only_cheap_trials_were_left() -> None:
    """Costs begin at 0.5: what is left pays for next to nothing, and none of that is worth it."""
    usual = {"lmbda": 0.06, "initial_share": None, "initialize_with_center": False}
    first = make_client(**usual)
    run_trials(first, 4)
    client = make_client(budget=spending(first).spent + 0.52, **usual)
    run_trials(client, 4)
    with pytest.raises(OptimizationShouldStop, match="what is left of the budget"):
        client.get_next_trials(max_trials=1)
    assert first.get_next_trials(max_trials=1), "without that limit there is a trial worth its cost"


def test_an_initial_design_waits_for_outcomes() -> None:
    client = make_client(initial_trials=3)
    assert len(client.get_next_trials(max_trials=9)) == 3
    with pytest.raises(DataRequiredError, match="outcomes"):
        client.get_next_trials(max_trials=1)

"""Simulation of what a trial leaves to chance."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from ax.exceptions.core import UserInputError

from ax_costaware import (
    AffineCost,
    ControlSet,
    Discrete,
    GaussianConditional,
    GaussianCopula,
    JointEmpirical,
    RegressedConditional,
    TruncatedNormal,
    Uniform,
    control_set_parameter,
)
from ax_costaware.core.traits import CONTROL_SET
from ax_costaware.runners import SimulationRunner, TrialResult
from ax_costaware.runners.result import AttemptState, AttemptStatus, read_result
from ax_costaware.runners.simulation_runner import CHOSEN
from tests.runners.bench import make_client, orchestrate, record_of, statuses

LAWS = {"wind": Uniform(0.0, 2.0), "soil": Discrete(["clay", "sand"], [0.25, 0.75])}


def simulate(runner: SimulationRunner, count: int, **parameters: Any) -> list[TrialResult]:
    results = []
    for index in range(count):
        key = f"bench@1/{index}/0"
        runner.start(key, dict(parameters))
        state = runner.poll(key)
        assert state.status is AttemptStatus.FINISHED, state.error
        assert state.result is not None
        results.append(read_result(state.result))
    return results


def yield_of(x: dict[str, Any]) -> float:
    return float(x["water"] + x["wind"])


def test_what_is_not_controlled_follows_its_law() -> None:
    results = simulate(SimulationRunner(yield_of, marginals=LAWS), 400, water=0.5)
    drawn = [result.realized for result in results]
    assert all(set(one or ()) == {"wind", "soil"} for one in drawn)
    wind = np.array([one["wind"] for one in drawn if one])
    assert abs(wind.mean() - 1.0) < 4 * math.sqrt(1 / 3 / 400)
    assert wind.min() >= 0.0
    assert wind.max() <= 2.0
    sand = np.mean([one["soil"] == "sand" for one in drawn if one])
    assert abs(sand - 0.75) < 4 * math.sqrt(0.1875 / 400)
    assert [result.raw_data for result in results] == pytest.approx(0.5 + wind)
    (controlled,) = simulate(SimulationRunner(yield_of, marginals=LAWS), 1, water=0.5, wind=1.5)
    assert controlled.raw_data == 2.0
    assert set(controlled.realized or ()) == {"soil"}


def test_draws_replay_from_the_seed_and_differ_between_trials_and_attempts() -> None:
    def run(seed: int, key: str) -> AttemptState:
        runner = SimulationRunner(yield_of, marginals=LAWS, noise_std=0.1, seed=seed)
        runner.start(key, {"water": 0.5})
        return runner.poll(key)

    first = run(3, "bench@1/7/0").result
    assert run(3, "other/one@2/7/0").result == first
    others = [run(4, "bench@1/7/0"), run(3, "bench@1/8/0"), run(3, "bench@1/7/1")]
    assert all(other.result != first for other in others)


@pytest.mark.parametrize("kind", ["copula", "sample"])
def test_inputs_that_depend_on_each_other_follow_their_law_given_what_is_controlled(
    kind: str,
) -> None:
    rho, scale = 0.9, 1.0
    law: Any
    if kind == "copula":
        normal = TruncatedNormal(0.0, scale, -6.0, 6.0)
        law = GaussianCopula({"wind": normal, "rain": normal}, [[1.0, rho], [rho, 1.0]])
    else:
        random = np.random.default_rng(0)
        wind = random.standard_normal(400)
        rain = rho * wind + math.sqrt(1 - rho**2) * random.standard_normal(400)
        law = JointEmpirical({"wind": wind.tolist(), "rain": rain.tolist()})
    runner = SimulationRunner(lambda x: x["rain"], joint=law)
    results = simulate(runner, 80, wind=1.0)
    rain_drawn = np.array([(result.realized or {})["rain"] for result in results])
    assert abs(rain_drawn.mean() - rho) < 0.2
    assert 0.25 < rain_drawn.std() < 0.7
    free = simulate(runner, 80)
    pairs = np.array([[(r.realized or {})[n] for n in ("wind", "rain")] for r in free])
    assert np.corrcoef(pairs.T)[0, 1] > 0.75


def test_an_indirect_query_is_answered_by_an_average() -> None:
    conditional = GaussianConditional(((2.0,),), covariance=0.25)
    runner = SimulationRunner(lambda x: x["depth"] ** 2, conditional=conditional, targets=["depth"])
    (result,) = simulate(runner, 1, dial=1.5)
    assert result.raw_data == pytest.approx(3.0**2 + 0.25)
    assert result.realized is None


def test_noise_is_added_to_each_outcome() -> None:
    runner = SimulationRunner(lambda x: {"a": 1.0, "b": 2.0}, noise_std=0.5)
    drawn: list[Any] = [result.raw_data for result in simulate(runner, 200, water=0.5)]
    errors = np.array([[one["a"] - 1, one["b"] - 2] for one in drawn])
    assert errors.std(axis=0) == pytest.approx([0.5, 0.5], rel=0.25)
    assert abs(np.corrcoef(errors.T)[0, 1]) < 0.3


def test_costs_are_fixed_or_drawn_or_depend_on_the_values() -> None:
    costs: dict[str, Any] = {
        "pot": 2.0,
        "field": Uniform(1.0, 3.0),
        "hall": AffineCost({"wind": 2.0}, 1.0),
    }
    runner = SimulationRunner(yield_of, marginals=LAWS, cost=costs)
    pot = simulate(runner, 2, water=0.5, **{CHOSEN: "pot"})
    assert [result.cost for result in pot] == [2.0, 2.0]
    field = [result.cost for result in simulate(runner, 50, water=0.5, **{CHOSEN: "field"})]
    assert len(set(field)) == 50
    assert all(cost is not None and 1.0 <= cost <= 3.0 for cost in field)
    (hall,) = simulate(runner, 1, water=0.5, **{CHOSEN: "hall"})
    assert hall.cost == 1.0 + 2.0 * (hall.realized or {})["wind"]


def test_ax_runs_a_simulation() -> None:
    runner = SimulationRunner(lambda x: x["water"], noise_std=0.1, cost=2.0)
    client = make_client(runner)
    orchestrate(client, trials=4, parallelism=2)
    assert statuses(client) == ["COMPLETED"] * 4
    assert record_of(client, 3)["cost"] == 2.0
    # What was simulated is stored with the trial when it starts.
    started = runner.run(client._experiment.trials[0])
    assert "state" in next(iter(started.values()))["running"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"marginals": {"wind": 1.0}}, r"marginals\['wind'\]=1.0"),
        ({"marginals": 1.0}, "marginals=1.0"),
        ({"joint": 1.0}, "joint=1.0"),
        ({"conditional": 1.0}, "conditional=1.0"),
        ({"targets": ["a"]}, "targets="),
        ({"noise_std": -1.0}, "noise_std=-1.0"),
        ({"cost": -1.0}, "cost=-1.0"),
        ({"cost": {"a": "b"}}, r"cost\['a'\]='b'"),
        ({"seed": -1}, "seed=-1"),
    ],
)
def test_refuses_bad_arguments(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserInputError, match=message):
        SimulationRunner(yield_of, **options)


def test_columns_of_a_query_are_those_of_the_experiment() -> None:
    """Ax keeps an arm that is attached in the order in which the user gave it."""
    client = Client()
    names = ("left", "right")
    inputs = [RangeParameterConfig(n, bounds=(0.0, 1.0), parameter_type="float") for n in names]
    client.configure_experiment(name="simulated", parameters=inputs)
    client.attach_trial({"right": 0.75, "left": 0.25})
    conditional = GaussianConditional(((1.0, 0.0), (0.0, 1.0)), covariance=1e-4)
    runner = SimulationRunner(yield_of, conditional=conditional, targets=list(names))
    (trial,) = client._experiment.trials.values()
    assert list(runner.parameters_of(trial).items()) == [("left", 0.25), ("right", 0.75)]
    draw = np.random.default_rng(0).random
    pairs = pd.DataFrame({"depth": draw(5)}), pd.DataFrame({"right": draw(5), "left": draw(5)})
    runner = SimulationRunner(yield_of, conditional=RegressedConditional(*pairs), targets=["depth"])
    assert list(runner.parameters_of(trial).items()) == [("right", 0.75), ("left", 0.25)]


def test_an_input_left_to_chance_needs_a_law() -> None:
    client = Client()
    client.configure_experiment(
        name="simulated",
        parameters=[
            RangeParameterConfig("water", bounds=(0.0, 1.0), parameter_type="float"),
            RangeParameterConfig("wind", bounds=(0.0, 2.0), parameter_type="float"),
            ChoiceParameterConfig("site", values=[3], parameter_type="int"),
            control_set_parameter([ControlSet(["water"], 1.0), ControlSet(["water", "wind"], 2.0)]),
        ],
    )
    client.configure_optimization(objective="growth")
    for name in ("water", "water+wind"):
        client.attach_trial({"water": 0.5, "wind": 1.0, "site": 3, CONTROL_SET: name})
    left, controlled = client._experiment.trials.values()
    runner = SimulationRunner(yield_of, marginals={"soil": LAWS["soil"]})
    with pytest.raises(UserInputError, match="\\['soil'\\]"):
        runner.run(left)
    runner.run(controlled)
    runner = SimulationRunner(yield_of, marginals=LAWS)
    runner.run(left)
    # What is fixed is part of the full point.
    assert runner.parameters_of(left) == {"water": 0.5, "site": 3, CHOSEN: "water"}
    with pytest.raises(UserInputError, match=r"trial 1 has the control set 'water[+]wind'. Expect"):
        SimulationRunner(yield_of, marginals=LAWS, cost={"water": 1.0}).run(controlled)

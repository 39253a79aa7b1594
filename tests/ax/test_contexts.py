"""Known contexts: parameters that the day gives, and the caller fixes for each trial."""

from __future__ import annotations

import math
from typing import Any

import pytest
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from ax.exceptions.core import OptimizationShouldStop, UserInputError

import ax_costaware as ac
from tests.priced import strategy_for

pytestmark = pytest.mark.usefixtures("short_searches")

MODEL = ac.FixedHyperparameters(lengthscale=0.6, outputscale=4.0, noise_variance=1e-5)
FAST: dict[str, Any] = {"num_restarts": 4, "raw_samples": 64, "surrogate_spec": MODEL}


def crop(water: float, heat: float) -> float:
    """Best at more water the hotter it is, and far worse in the heat."""
    return -4.0 * (water - 0.2 - 0.6 * heat) ** 2 - 3.0 * heat


def run(client: Client, heat: float) -> float:
    """A trial on a day of some heat; its water."""
    ((index, arm),) = client.get_next_trials(max_trials=1, fixed_parameters={"heat": heat}).items()
    assert arm["heat"] == heat
    ac.complete_trial(client, index, crop(float(arm["water"]), heat))
    return float(arm["water"])


def client_of(**strategy: Any) -> Client:
    client = Client()
    client.configure_experiment(
        parameters=[
            RangeParameterConfig(name, bounds=(0, 1), parameter_type="float")
            for name in ("water", "heat")
        ],
    )
    client.configure_optimization(objective="crop")
    client.set_generation_strategy(strategy_for(1.0, **FAST, **strategy))
    return client


@pytest.mark.parametrize("acquisition", ["log_nei_per_cost", "gittins"])
def test_the_incumbent_is_what_it_would_do_on_that_day(acquisition: str) -> None:
    """Nothing on a hot day is better than the best of the cold ones, and that does not matter."""
    client = client_of(acquisition=acquisition, budget=100.0)
    for day in range(15):
        water, heat = 0.618034 * (day + 1) % 1.0, [0.0, 0.2, 0.9][day % 3]
        index = client.attach_trial({"water": water, "heat": heat})
        ac.complete_trial(client, index, crop(water, heat))
    for heat in (1.0, 0.0, 0.5):
        waters = [run(client, heat) for _ in range(3)]
        assert min(abs(water - 0.2 - 0.6 * heat) for water in waters) < 0.1


def test_a_run_stops_where_nothing_is_worth_its_cost_on_that_day() -> None:
    client = client_of(lmbda=0.05, initial_trials=4)
    for heat in (0.0, 0.1, 0.0, 0.2):
        run(client, heat)

    def cold_days() -> None:
        for _ in range(15):
            run(client, heat=0.0)

    with pytest.raises(OptimizationShouldStop, match=r"Deploy trial \d+ with .*heat=0\.0"):
        cold_days()
    # The hot day is worse than all that was seen, but what to do then is not known yet.
    waters = [run(client, heat=1.0) for _ in range(3)]
    assert min(abs(water - 0.8) for water in waters) < 0.1


def test_what_is_fixed_has_the_type_of_its_parameter() -> None:
    """An arm with an integer for a real number is one that Ax does not take again."""
    client = client_of(initial_trials=2)
    for _ in range(3):
        ((index, arm),) = client.get_next_trials(1, fixed_parameters={"heat": 1}).items()
        ac.complete_trial(client, index, crop(float(arm["water"]), 1.0))
        assert type(arm["heat"]) is float
        client.attach_trial(dict(arm))


def test_what_is_fixed_comes_back_to_the_last_digit() -> None:
    """On a log scale, too: 10 to the logarithm of a number is often another one."""
    client = Client()
    client.configure_experiment(
        parameters=[
            RangeParameterConfig("water", (0, 1), "float"),
            RangeParameterConfig("heat", (0.1, 10), "float", scaling="log"),
        ],
    )
    client.configure_optimization(objective="crop")
    client.set_generation_strategy(ac.cost_aware_strategy(cost=1.0, budget=9.0, initial_trials=2))
    for heat in (0.7, 0.3, 1.7, 2.3, 6.6):
        run(client, heat)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("haet", 0.9), ("heat", 1.2), ("heat", math.nan), ("heat", "hot"), ("n", 9), ("n", 2.5)),
        *(("soil", "silt"), ("plot", 5), ("plot", "three")),
    ],
)
def test_what_no_day_can_be_is_refused(name: str, value: Any) -> None:
    """Before anything is spent."""
    client = Client()
    client.configure_experiment(
        parameters=[
            *(RangeParameterConfig(each, (0, 1), "float") for each in ("water", "heat")),
            RangeParameterConfig("n", (1, 4), "int"),
            ChoiceParameterConfig("soil", ["clay", "sand"], "str", is_ordered=False),
            ChoiceParameterConfig("plot", [3], "int", is_ordered=True),
        ],
    )
    client.configure_optimization(objective="crop")
    client.set_generation_strategy(ac.cost_aware_strategy(1.0, budget=10.0))
    with pytest.raises(UserInputError, match=rf"fixed_parameters.*'{name}'"):
        client.get_next_trials(max_trials=1, fixed_parameters={name: value})
    assert not client._experiment.trials

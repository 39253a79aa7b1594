"""What can be refused before a trial is paid is refused then, by the name of the argument."""

from __future__ import annotations

from typing import Any

import pytest
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from ax.exceptions.core import OptimizationShouldStop, UserInputError

import ax_costaware as ac
from tests.ax.gittins_toy import make_client, run_trials

SQUARE = [RangeParameterConfig(name, (0, 1), "float") for name in ("x1", "x2")]
SETS = [ac.ControlSet(["x1"], cost=0.5), ac.ControlSet(["x1", "x2"], cost=2.0)]
WRONG = ac.FixedHyperparameters([0.1, 0.2, 0.3])


def client_of(parameters: list[Any], strategy: Any, *constraints: str) -> Client:
    client = Client()
    client.configure_experiment(parameters=parameters, parameter_constraints=list(constraints))
    client.configure_optimization(objective="y")
    client.set_generation_strategy(strategy)
    return client


@pytest.mark.parametrize(
    "settings", [{"num_restarts": 4, "raw_samples": 2}, {"initial_trials": 10**9}]
)
def test_settings(settings: dict[str, int]) -> None:
    with pytest.raises(UserInputError, match=next(reversed(settings))):
        ac.cost_aware_strategy(1.0, budget=10, **settings)  # type: ignore[arg-type]


def test_a_constraint_on_an_uncontrolled_input() -> None:
    strategy = ac.control_set_strategy(SETS, {"x2": ac.Uniform(0, 1)}, budget=9)
    client = client_of([*SQUARE, ac.control_set_parameter(SETS)], strategy, "x1 + x2 <= 1")
    with pytest.raises(UserInputError, match=r"control set 'x1' .*\['x2'\]"):
        client.get_next_trials(max_trials=1)


@pytest.mark.parametrize("initial_trials", [0, 1])
def test_length_scales_of_another_number(initial_trials: int) -> None:
    client = make_client(surrogate_spec=WRONG, initial_trials=initial_trials)
    if not initial_trials:
        client.complete_trial(client.attach_trial({"x1": 0.5, "x2": 0.5}), {"y": 1.0})
    with pytest.raises(UserInputError, match=r"lengthscale=\[0.1, 0.2, 0.3\]"):
        client.get_next_trials(max_trials=1)


def test_a_time_that_is_missing() -> None:
    for time in ("y", "hours"):
        client = client_of(SQUARE, ac.costly_feedback_strategy(budget=9, time=time))
        with pytest.raises(UserInputError, match=f"time='{time}'"):
            client.get_next_trials(max_trials=1)
    client.configure_tracking_metrics(["hours"])
    (index,) = client.get_next_trials(max_trials=1)
    with pytest.raises(UserInputError, match="hours"):
        ac.complete_trial(client, index, 1.0)
    client.complete_trial(index, {"y": 1.0})
    for ask in (lambda: ac.recommend(client), lambda: client.get_next_trials(max_trials=1)):
        with pytest.raises(UserInputError, match=r"time='hours': trials \[0\]"):
            ask()
    client.attach_data(index, {"hours": 2.0})
    assert ac.recommend(client)


@pytest.mark.parametrize("drifts", [False, True])
def test_spaces_of_fewer_points_than_initial_trials(drifts: bool) -> None:
    """Each is tried once; what drifts is measured again."""
    make: Any = ac.costly_feedback_strategy if drifts else ac.cost_aware_strategy
    choice = ChoiceParameterConfig("k", ["a", "b", "c"], "str", is_ordered=False)
    client = client_of([choice], make(cost=1.0, budget=10))
    for _ in range(6 if drifts else 3):
        for index, arm in client.get_next_trials(max_trials=1).items():
            measure = ac.query(client, index).measure
            ac.complete_trial(client, index, float(ord(str(arm["k"]))) if measure else None)
    if not drifts:
        with pytest.raises(OptimizationShouldStop, match="every point"):
            client.get_next_trials(max_trials=1)


def test_a_strategy_of_another_experiment_or_objective_begins_anew() -> None:
    """What it decides is that of a new strategy: it keeps nothing beside its settings."""
    first, second, new = (make_client(initial_trials=2) for _ in range(3))
    second.set_generation_strategy(first._generation_strategy)
    run_trials(first, 3)
    assert second.get_next_trials(max_trials=1) == new.get_next_trials(max_trials=1)
    first.configure_optimization(objective="other")
    (index,) = first.get_next_trials(max_trials=1)
    assert ac.query(first, index).why.startswith("This is initial trial")
    first.attach_data(0, {"other": 0.5})
    first.attach_data(1, {"other": 0.7})
    (index,) = first.get_next_trials(max_trials=1)
    assert ac.query(first, index).decision["incumbent_trial"] == 1

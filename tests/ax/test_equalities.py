"""Equality constraints on inputs in Ax: as Ax has them, and as its Client can say them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from ax.api.client import Client
from ax.api.configs import RangeParameterConfig
from ax.core.parameter import ChoiceParameter, Parameter, ParameterType, RangeParameter
from ax.core.parameter_constraint import ParameterConstraint
from ax.core.search_space import SearchSpace
from ax.exceptions.core import UnsupportedError, UserInputError

from ax_costaware import AffineCost, FixedHyperparameters, cost_aware_strategy, recommend
from ax_costaware.ax_bridge.records import space_of
from tests.fresh import FreshProcess
from tests.resuming import Run

pytestmark = pytest.mark.usefixtures("short_searches")

STRATEGY: dict[str, Any] = {
    "cost": AffineCost({"a": 1.0}, fixed=0.5),
    "initial_trials": 3,
    "num_restarts": 2,
    "raw_samples": 32,
    "surrogate_spec": FixedHyperparameters(lengthscale=0.5, outputscale=0.2, noise_variance=1e-4),
}


def error(row: Any) -> float:
    """How far the parts are from a whole."""
    return abs(math.fsum(float(row[name]) for name in "abc") - 1)


def objective(row: Any) -> float:
    """Best at a = 0.5, b = 0.3, c = 0.2, n = 2."""
    distance = (row["a"] - 0.6) ** 2 + (row["b"] - 0.4) ** 2 + (row["c"] - 0.3) ** 2
    return -float(distance) - 0.1 * abs(row["n"] - 2)


def make_client(run: Run | None = None, **strategy: Any) -> Client:
    """Three parts of a whole, and how many layers of it."""
    client = Client(storage_config=None if run is None else run.config)
    client.configure_experiment(
        name="toy",
        parameters=[
            *(RangeParameterConfig(n, bounds=(0, 1), parameter_type="float") for n in "abc"),
            RangeParameterConfig("n", bounds=(1, 3), parameter_type="int"),
        ],
        parameter_constraints=["a + b + c <= 1", "a + b + c >= 1"],
    )
    client.configure_optimization("y")
    client.set_generation_strategy(cost_aware_strategy(**STRATEGY, **strategy))
    return client


def test_every_trial_keeps_to_it_and_a_loaded_run_goes_on(
    tmp_path: Path, fresh_process: FreshProcess
) -> None:
    """Initial trials, the model's, batches, and what the caller fixes; stores decide alike."""
    run = Run(tmp_path)
    client = make_client(run, budget=20.0)
    arms = []
    for step in range(4):
        index, arm = run.decide(client)
        client.complete_trial(index, {"y": objective(arm)})
        arms.append(arm)
        if step >= 1:
            run.store(client)
    run.decide(client)
    batch = client.get_next_trials(max_trials=2)
    (held,) = client.get_next_trials(max_trials=1, fixed_parameters={"a": 0.25, "n": 1}).values()
    assert (held["a"], held["n"]) == (0.25, 1)
    every = [*arms, *batch.values(), held]
    assert max(error(arm) for arm in every) <= 1e-8
    assert len({str(arm) for arm in every}) == len(every)
    best = recommend(client)
    assert error(best.parameters) <= 1e-8
    run.assert_resumed_alike(fresh_process)


def test_what_the_caller_fixes_has_to_leave_room() -> None:
    client = make_client(lmbda=1e-3)
    with pytest.raises(UserInputError, match=r"a == 0.7, b == 0.7, a \+ b.*leave no room"):
        client.get_next_trials(max_trials=1, fixed_parameters={"a": 0.7, "b": 0.7})
    assert not client._experiment.trials


def test_two_inequalities_on_integers_alone_are_kept_to_in_a_moment() -> None:
    """Ax's design drew one of 66 points in two minutes, and then said that all were tried."""
    client = Client()
    client.configure_experiment(
        [RangeParameterConfig(name, bounds=(0, 10), parameter_type="int") for name in "abc"],
        parameter_constraints=["a + b + c <= 10", "a + b + c >= 10"],
    )
    client.configure_optimization("y")
    client.set_generation_strategy(cost_aware_strategy(**STRATEGY, budget=60.0))
    arms = []
    for _ in range(5):
        ((index, arm),) = client.get_next_trials(max_trials=1).items()
        client.complete_trial(index, {"y": -float(abs(arm["a"] - 4) + abs(arm["b"] - 3))})
        arms.append(arm)
    assert {sum(arm.values()) for arm in arms} == {10}
    assert len({str(arm) for arm in arms}) == 5


@pytest.mark.parametrize(
    ("last", "refused"),
    [
        (RangeParameter("c", ParameterType.INT, 0, 3), UserInputError),
        (ChoiceParameter("c", ParameterType.FLOAT, [0.0, 0.5], is_ordered=True), UserInputError),
        (RangeParameter("c", ParameterType.FLOAT, 0, 1, digits=2), UnsupportedError),
        (RangeParameter("c", ParameterType.FLOAT, 1.5, 2), UserInputError),
    ],
)
def test_what_cannot_be_kept_is_refused(last: Parameter, refused: type[Exception]) -> None:
    parts = [RangeParameter(name, ParameterType.FLOAT, 0, 1) for name in "ab"]
    space = SearchSpace([*parts, last], [ParameterConstraint(equality="a + b + c == 1")])
    with pytest.raises(refused, match="c == 1"):
        space_of(space)

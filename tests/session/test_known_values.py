"""What to deploy where some parameters are known: ``recommend(client, fixed_parameters=...)``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from ax.exceptions.core import UserInputError

import ax_costaware as ac
from tests.ax import indirect_toy, tree_toy

pytestmark = pytest.mark.usefixtures("short_searches")

MODEL = ac.FixedHyperparameters(lengthscale=0.6, outputscale=4.0, noise_variance=1e-5)
FAST: dict[str, Any] = {"num_restarts": 4, "raw_samples": 64, "surrogate_spec": MODEL}


def crop(x: dict[str, Any]) -> float:
    """Best at more water the hotter it is, and far worse in the heat."""
    return -4.0 * (float(x["water"]) - 0.2 - 0.6 * float(x["heat"])) ** 2 - 3.0 * float(x["heat"])


def client_of(strategy: Any, *more: Any, names: tuple[str, ...] = ("water", "heat")) -> Client:
    client = Client()
    ranges = [RangeParameterConfig(n, bounds=(0, 1), parameter_type="float") for n in names]
    client.configure_experiment(parameters=[*ranges, *more])
    client.configure_optimization(objective="crop")
    client.set_generation_strategy(strategy)
    return client


def attach_grid(client: Client, steps: int = 6, **more: Any) -> None:
    """Outcomes all over the square."""
    grid = [i / (steps - 1) for i in range(steps)]
    for water in grid:
        for heat in grid:
            x = {"water": water, "heat": heat}
            realized = {"heat": heat} if "control_set" in more else None
            index = client.attach_trial({**x, **more})
            ac.complete_trial(client, index, crop(x), realized=realized)


def test_gittins() -> None:
    """Of what was tried the best that day, which need not be the best of all days."""
    heat = 0.6
    client = client_of(ac.cost_aware_strategy(cost=1.0, **FAST))
    attach_grid(client)
    found = ac.recommend(client, fixed_parameters={"heat": heat})
    assert found.parameters["heat"] == heat
    assert found.parameters["water"] == pytest.approx(0.2 + 0.6 * heat, abs=0.11)
    assert found.expected_value == pytest.approx(crop(found.parameters), abs=0.05)
    assert {other.parameters["heat"] for other in found.alternatives} == {heat}
    assert found.trial_index is not None
    elsewhere = ac.recommend(client, fixed_parameters={"heat": 0.73})
    assert elsewhere.trial_index is None


def test_fidelities() -> None:
    """At the target, which is what is deployed; another fidelity is refused."""
    fast = {name: value for name, value in FAST.items() if name != "surrogate_spec"}
    client = client_of(
        ac.fidelity_strategy(1.0, target={"epochs": 1.0}, **fast),
        RangeParameterConfig("epochs", bounds=(0, 1), parameter_type="float"),
    )
    attach_grid(client, 4, epochs=1.0)
    for fixed in ({"heat": 1.0}, {"heat": 1.0, "epochs": 1}):
        found = ac.recommend(client, fixed_parameters=fixed)
        assert (found.parameters["heat"], found.parameters["epochs"]) == (1.0, 1.0)
        assert found.parameters["water"] == pytest.approx(0.8, abs=0.2)
    with pytest.raises(UserInputError, match=r"fixed_parameters has \{'epochs': 0\.5\}: .* target"):
        ac.recommend(client, fixed_parameters={"epochs": 0.5})


SETS = [ac.ControlSet(["water"], cost=1.0), ac.ControlSet(["water", "lamp"], cost=2.0)]

LAWS = {"heat": ac.Uniform(0, 1), "lamp": ac.Uniform(0, 1)}


def control_set_client(**strategy: Any) -> Client:
    parameter = ac.control_set_parameter(SETS)
    client = client_of(
        ac.control_set_strategy(SETS, LAWS, **FAST | strategy),
        parameter,
        names=("water", "heat", "lamp"),
    )
    for i in range(60):
        x = {
            name: (0.5 + (i + 1) * step) % 1
            for name, step in zip(
                ("water", "heat", "lamp"), (0.8191725, 0.6710436, 0.5497005), strict=True
            )
        }
        index = client.attach_trial({**x, "control_set": "water"})
        realized = {"heat": x["heat"], "lamp": x["lamp"]}
        ac.complete_trial(client, index, crop(x) - (x["lamp"] - 0.9) ** 2, realized=realized)
    return client


def test_control_sets_given_what_nobody_sets() -> None:
    """The expectation is given the value; what is set, and what it costs, stays the same."""
    heat = 0.9
    client = control_set_client()
    before = ac.recommend(client)
    assert before.parameters["water"] == pytest.approx(0.5, abs=0.05)
    found = ac.recommend(client, fixed_parameters={"heat": heat})
    for one in (found, *found.alternatives):
        lamp = float(one.parameters.get("lamp", math.nan))
        assert {*one.parameters} == set(SETS[one.control_set != "water"].parameters)
        assert one.parameters["water"] == pytest.approx(0.2 + 0.6 * heat, abs=0.05)
        # The mean of (lamp - 0.9)^2 over the unit interval.
        loss = (0.9**3 + 0.1**3) / 3 if math.isnan(lamp) else (lamp - 0.9) ** 2
        assert one.expected_value == pytest.approx(-3.0 * heat - loss, abs=0.05)
        assert one.expected_cost == SETS[one.control_set != "water"].cost
    assert (found.control_set, len(found.alternatives)) == ("water+lamp", 1)


def test_control_sets_given_what_one_of_them_sets() -> None:
    """The others are left out; what is fixed is controlled by one of those that are left."""
    client = control_set_client()
    found = ac.recommend(client, fixed_parameters={"lamp": 0.2, "heat": 0.5})
    assert (found.control_set, found.alternatives) == ("water+lamp", ())
    assert found.parameters["lamp"] == pytest.approx(0.2)
    assert found.parameters["water"] == pytest.approx(0.5, abs=0.05)
    assert ac.recommend(client, fixed_parameters={"control_set": "water"}).control_set == "water"
    with pytest.raises(
        UserInputError, match=r"no control set of that name controls all of \['lamp"
    ):
        ac.recommend(client, fixed_parameters={"control_set": "water", "lamp": 0.2})
    with pytest.raises(UserInputError, match="control_set='dry': expected one of"):
        ac.recommend(client, fixed_parameters={"control_set": "dry"})


@pytest.mark.parametrize("toy", [indirect_toy, tree_toy])
def test_averages(toy: Any) -> None:
    """Parameters of the points, not of the queries."""
    client = toy.make_client()
    toy.run_trials(client, 5)
    free = ac.recommend(client)
    name, value = next(iter(free.parameters.items()))
    found = ac.recommend(client, fixed_parameters={name: value})
    assert found.expected_value == pytest.approx(free.expected_value, rel=1e-3)
    other = 2.5 if float(str(value)) > 5 else 7.5
    elsewhere = ac.recommend(client, fixed_parameters={name: other})
    assert elsewhere.expected_value < free.expected_value
    for one in (elsewhere, *elsewhere.alternatives):
        assert one.parameters[name] == other
    with pytest.raises(UserInputError, match="'nope' is no parameter of the points that are"):
        ac.recommend(client, fixed_parameters={"nope": 0.5})
    with pytest.raises(UserInputError, match=rf"fixed_parameters\['{name}'\]=1e\+99: expected"):
        ac.recommend(client, fixed_parameters={name: 1e99})


def test_averages_of_points_that_are_counted() -> None:
    """Of these points those with the value; none is refused by name."""
    points = [[x1, x2] for x1 in (1.0, 4.0, 9.0) for x2 in (3.0, 6.0)]
    values = [str(i) for i in range(6)]
    law = ac.FiniteConditional(np.eye(6) * 0.5 + 0.5 / 6, points=points, queries=values)
    client = Client()
    policy = ChoiceParameterConfig("policy", values=values, parameter_type="str", is_ordered=False)
    client.configure_experiment(parameters=[policy])
    client.configure_optimization(objective="y")
    fast = {**indirect_toy.FAST, "initial_trials": 2}
    client.set_generation_strategy(ac.indirect_query_strategy(indirect_toy.TARGETS, law, **fast))
    for value in values:
        index = client.attach_trial({"policy": value})
        ac.complete_trial(client, index, indirect_toy.objective(*points[int(value)]))
    found = ac.recommend(client, fixed_parameters={"x1": 9.0})
    assert {one.parameters["x1"] for one in (found, *found.alternatives)} == {9.0}
    assert len(found.alternatives) == 1
    with pytest.raises(
        UserInputError, match=r"fixed_parameters=\{'x1': 5\.0\}: .* of a point that"
    ):
        ac.recommend(client, fixed_parameters={"x1": 5.0})


@pytest.mark.parametrize(
    ("fixed", "named"),
    [(0.5, ""), ({"haet": 0.5}, ".*'haet'"), ({"heat": 1.5}, ".*'heat'"), ({"soil": "peat"}, ".*")],
)
def test_what_is_refused(fixed: Any, named: str) -> None:
    soil = ChoiceParameterConfig("soil", ["clay", "sand"], "str", is_ordered=True)
    client = client_of(ac.cost_aware_strategy(cost=1.0, **FAST), soil)
    attach_grid(client, 2, soil="clay")
    with pytest.raises(UserInputError, match=f"fixed_parameters{named}"):
        ac.recommend(client, fixed_parameters=fixed)
    sand = ac.recommend(client, fixed_parameters={"soil": "sand"})
    assert (sand.parameters["soil"], sand.trial_index) == ("sand", None)

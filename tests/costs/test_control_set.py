"""Control sets and what is refused as one."""

from __future__ import annotations

import dataclasses
import json
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ax_costaware.costs import (
    AffineCost,
    ConstantCost,
    ControlSet,
    Cost,
    ProductCost,
    TableCost,
    check_control_sets,
)
from ax_costaware.exceptions import InputError


def test_name_defaults_to_the_parameters() -> None:
    assert ControlSet(["water", "light"], 2.0).name == "water+light"
    assert ControlSet(["water"], 2.0, name="cheap").name == "cheap"
    assert ControlSet(["water"]).cost is None


def test_equality_and_repr() -> None:
    a = ControlSet(["x", "y"], 2)
    assert a == ControlSet(("x", "y"), 2.0, name="x+y")
    assert hash(a) == hash(ControlSet(("x", "y"), np.float64(2.0)))
    assert a != ControlSet(["x", "y"], 3)
    assert a != ControlSet(["y", "x"], 2)
    assert repr(a) == "ControlSet(parameters=('x', 'y'), cost=2.0, name='x+y')"
    with pytest.raises(dataclasses.FrozenInstanceError):
        a.cost = 1.0  # type: ignore[misc]


def test_fixed_cost_is_the_known_part_of_an_unknown_cost() -> None:
    control_set = ControlSet(["x"], fixed_cost=np.float64(2.0))
    assert control_set == ControlSet(["x"], None, "x", 2)
    assert control_set != ControlSet(["x"])
    assert repr(control_set) == (
        "ControlSet(parameters=('x',), cost=None, name='x', fixed_cost=2.0)"
    )
    assert ControlSet(**json.loads(json.dumps(dataclasses.asdict(control_set)))) == control_set
    assert ControlSet(["x"], 3.0, fixed_cost=0).fixed_cost == 0.0
    with pytest.raises(
        InputError, match=r"fixed_cost=2\.0: expected fixed_cost only with cost=None"
    ):
        ControlSet(["x"], 3.0, fixed_cost=2.0)


@pytest.mark.parametrize("fixed_cost", [-1.0, float("nan"), float("inf"), True, "1", None], ids=str)
def test_refuses_fixed_costs(fixed_cost: Any) -> None:
    with pytest.raises(InputError, match=r"fixed_cost=.*: expected a finite number >= 0"):
        ControlSet(["x"], fixed_cost=fixed_cost)


@given(
    parameters=st.lists(st.text(min_size=1), min_size=1, max_size=4, unique=True),
    cost=st.none() | st.floats(1e-6, 1e6),
    name=st.none() | st.text(min_size=1),
)
def test_survives_json_and_pickle(
    parameters: list[str], cost: float | None, name: str | None
) -> None:
    control_set = ControlSet(parameters, cost, name)
    fields = json.loads(json.dumps(dataclasses.asdict(control_set)))
    assert ControlSet(**fields) == control_set
    assert pickle.loads(pickle.dumps(control_set)) == control_set
    assert dataclasses.replace(control_set, cost=1.0).cost == 1.0


EXPECTED = "expected a list of one or more distinct parameter names"


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ([], rf"parameters=\[\]: {EXPECTED}"),
        ("xy", f"parameters='xy': {EXPECTED}"),
        (None, f"parameters=None: {EXPECTED}"),
        (["x", "y", "x"], f"parameters has 'x' more than once: {EXPECTED}"),
        (["x", 1], rf"parameters\[1\]=1: {EXPECTED}"),
        ([""], rf"parameters\[0\]='': {EXPECTED}"),
        ([["x"], ["x"]], rf"parameters\[0\]=\['x'\]: {EXPECTED}"),
    ],
)
def test_refuses_parameters(parameters: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ControlSet(parameters, 1.0)


@pytest.mark.parametrize(
    "cost", [0, -1.0, float("nan"), float("inf"), True, "1", [1.0], 10**400], ids=str
)
def test_refuses_costs(cost: Any) -> None:
    with pytest.raises(InputError, match=r"cost=.*: expected a finite number > 0"):
        ControlSet(["x"], cost)


def test_costs_of_the_values_that_are_set() -> None:
    cost = AffineCost({"time": 2.0}, fixed=1.0)
    control_set = ControlSet(["temperature", "time"], cost=cost)
    assert control_set.cost_varies
    assert control_set.cost_at({"temperature": 3.0, "time": 0.5, "other": 9}) == 2.0
    assert control_set == ControlSet(["temperature", "time"], AffineCost([("time", 2)], 1))
    assert repr(cost) in repr(control_set)
    with pytest.raises(InputError, match=r"control set 'temperature\+time'.*finite cost > 0"):
        control_set.cost_at({"time": -1.0})
    with pytest.raises(InputError, match="fixed_cost only with cost=None"):
        ControlSet(["time"], cost, fixed_cost=1.0)
    # Over no parameters it is a number.
    constant = ControlSet(["time"], ConstantCost(3.0))
    assert constant == ControlSet(["time"], 3.0)
    assert not constant.cost_varies
    assert constant.cost_at({}) == 3.0
    assert ControlSet(["time"]).cost_at({"time": 1.0}) is None


@pytest.mark.parametrize(
    "cost",
    [
        AffineCost({"time": 1.0, "speed": 1.0}),
        ProductCost({"speed": 2.0}),
        TableCost("speed", {1: 2.0}),
        AffineCost({0: 1.0}),
    ],
    ids=repr,
)
def test_refuses_costs_of_what_is_not_set(cost: Cost) -> None:
    with pytest.raises(InputError, match=r"cost=.* reads \[('speed'|0)\], but .*\['time'\] alone"):
        ControlSet(["time"], cost)


@pytest.mark.parametrize("name", ["", 3, ["a"]])
def test_refuses_names(name: Any) -> None:
    with pytest.raises(InputError, match=r"name=.*: expected a non-empty string, or None\."):
        ControlSet(["x"], 1.0, name=name)


def test_checked_control_sets_are_the_same_in_order() -> None:
    sets = [ControlSet(["y"], 1), ControlSet(["x"], 2), ControlSet(["x", "y"], 2)]
    assert check_control_sets(sets) == tuple(sets)
    assert check_control_sets(iter(sets)) == tuple(sets)


@pytest.mark.parametrize(
    ("control_sets", "message"),
    [
        ([], r"control_sets=\[\]: expected a list of one or more ControlSet"),
        (ControlSet(["x"], 1), r"control_sets=ControlSet.*: expected a list"),
        ([ControlSet(["x"], 1), "y"], r"control_sets\[1\]='y': expected a list"),
        (
            [ControlSet(["x"], 1, "a"), ControlSet(["y"], 2, "a")],
            "control_sets has two control sets named 'a'",
        ),
        (
            [ControlSet(["x", "y"], 1), ControlSet(["y", "x"], 2)],
            r"control_sets has .*'x\+y'.* and .*'y\+x'.*, which control the same parameters",
        ),
        (
            [ControlSet(["x"], 1)] * 2,
            "which control the same parameters",
        ),
    ],
)
def test_refuses_control_sets(control_sets: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_control_sets(control_sets)

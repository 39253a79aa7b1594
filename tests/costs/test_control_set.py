"""Control sets and what is refused as one."""

from __future__ import annotations

import dataclasses
import json
import math
import pickle
from typing import Any

import numpy as np
import pytest

from ax_costaware.costs import (
    AffineCost,
    ConstantCost,
    ControlSet,
    ProductCost,
    SwitchingCost,
    TableCost,
    check_control_sets,
)
from ax_costaware.exceptions import InputError


def test_defaults_equality_and_repr() -> None:
    a = ControlSet(["x", "y"], 2)
    assert a == ControlSet(("x", "y"), 2.0, name="x+y")
    assert hash(a) == hash(ControlSet(("x", "y"), np.float64(2.0)))
    assert a != ControlSet(["x", "y"], 3)
    assert a != ControlSet(["y", "x"], 2)
    assert ControlSet(["x"]).cost is None
    assert ControlSet(["x"], fixed_cost=np.float64(2.0)) == ControlSet(["x"], None, "x", 2)
    assert ControlSet(["x"], 3.0, fixed_cost=0).fixed_cost == 0.0
    assert repr(a) == "ControlSet(parameters=('x', 'y'), cost=2.0, name='x+y')"
    assert repr(ControlSet(["x"], fixed_cost=2)) == (
        "ControlSet(parameters=('x',), cost=None, name='x', fixed_cost=2.0)"
    )
    with pytest.raises(dataclasses.FrozenInstanceError):
        a.cost = 1.0  # type: ignore[misc]


@pytest.mark.parametrize(
    "control_set",
    [ControlSet(["x", "é\n"], 1e-6), ControlSet(["x"], fixed_cost=2.0, name="cheap")],
)
def test_survives_json_and_pickle(control_set: ControlSet) -> None:
    fields = json.loads(json.dumps(dataclasses.asdict(control_set)))
    assert ControlSet(**fields) == pickle.loads(pickle.dumps(control_set)) == control_set
    assert dataclasses.replace(control_set, fixed_cost=0.0, cost=1.0).cost == 1.0


def test_costs_of_the_values_that_are_set() -> None:
    cost = AffineCost({"time": 2.0}, fixed=1.0)
    control_set = ControlSet(["temperature", "time"], cost=cost)
    assert control_set.cost_varies
    assert control_set.cost_at({"temperature": 3.0, "time": 0.5, "other": 9}) == 2.0
    assert control_set == ControlSet(["temperature", "time"], AffineCost([("time", 2)], 1))
    with pytest.raises(InputError, match=r"control set 'temperature\+time'"):
        control_set.cost_at({"time": -1.0})
    # Over no parameters it is a number.
    constant = ControlSet(["time"], ConstantCost(3.0))
    assert constant == ControlSet(["time"], 3.0)
    assert not constant.cost_varies
    assert constant.cost_at({}) == 3.0
    assert ControlSet(["time"]).cost_at({"time": 1.0}) is None


NAN, INF = math.nan, math.inf
LISTS = ([], "xy", None, ["x", "y", "x"], ["x", 1], [""], [["x"], ["x"]])
BY_SPEED = (
    AffineCost({"x": 1.0, "speed": 1.0}),
    ProductCost({"speed": 2}),
    TableCost("speed", {1: 2}),
)


@pytest.mark.parametrize(
    ("name", "refused"),
    [
        ("parameters", [{"parameters": value} for value in LISTS]),
        ("cost", [{"cost": value} for value in (0, -1.0, NAN, INF, True, "1", [1.0], 10**400)]),
        ("argument switching_cost", [{"cost": SwitchingCost({"x": 1.0})}]),
        (r"cost=.* reads \['speed'\]", [{"cost": value} for value in BY_SPEED]),
        (r"cost=.* reads \[0\]", [{"cost": AffineCost({0: 1.0})}]),
        ("fixed_cost", [{"fixed_cost": value} for value in (-1.0, NAN, INF, True, "1", None)]),
        ("fixed_cost", [{"cost": 3.0, "fixed_cost": 2.0}]),
        ("fixed_cost", [{"cost": AffineCost({"x": 2.0}, 1.0), "fixed_cost": 1.0}]),
        ("name", [{"name": value} for value in ("", 3, ["a"])]),
    ],
)
def test_refused_arguments(name: str, refused: list[dict[str, Any]]) -> None:
    for arguments in refused:
        with pytest.raises(InputError, match=name):
            ControlSet(**{"parameters": ["x"], **arguments})


def test_control_sets_are_checked_together() -> None:
    sets = [ControlSet(["y"], 1), ControlSet(["x"], 2), ControlSet(["x", "y"], 2)]
    assert check_control_sets(iter(sets)) == check_control_sets(sets) == tuple(sets)


@pytest.mark.parametrize(
    ("control_sets", "name"),
    [
        ([], "control_sets="),
        (ControlSet(["x"], 1), "control_sets="),
        ([ControlSet(["x"], 1), "y"], r"control_sets\[1\]='y'"),
        ([ControlSet(["x"], 1, "a"), ControlSet(["y"], 2, "a")], "'a'"),
        ([ControlSet(["x", "y"], 1), ControlSet(["y", "x"], 2)], r"'x\+y'.*'y\+x'"),
        ([ControlSet(["x"], 1)] * 2, "same parameters"),
    ],
)
def test_refused_control_sets(control_sets: Any, name: str) -> None:
    with pytest.raises(InputError, match=name):
        check_control_sets(control_sets)

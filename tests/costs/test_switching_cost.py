"""Switching costs, by the settings of two trials."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ax_costaware.costs import AffineCost, SwitchingCost
from ax_costaware.exceptions import InputError

OVEN = SwitchingCost({"oven": 5.0, "lamp": 2}, base=1.0)


@pytest.mark.parametrize(
    ("before", "now", "cost"),
    [
        (None, {"oven": 200.0, "lamp": "red"}, 0.0),
        ({"oven": 200.0, "lamp": "red"}, {"oven": 200.0, "lamp": "red"}, 0.0),
        ({"oven": 200.0, "lamp": "red"}, {"oven": 210.0, "lamp": "red"}, 5.0),
        ({"oven": 200.0, "lamp": "red"}, {"oven": 200, "lamp": "blue"}, 2.0),
        ({"oven": 200.0, "lamp": "red"}, {"oven": 0.0, "lamp": "blue", "dose": 1}, 7.0),
        ({"oven": 0.1 + 0.2}, {"oven": 0.3}, 0.0),  # another way to one number
        ({"oven": 200.0}, {"oven": 200.0001}, 5.0),
        ({"oven": 20240101}, {"oven": 20240102}, 5.0),
        ({"oven": 20240101.0}, {"oven": 20240102}, 5.0),
        ({"oven": 10**15}, {"oven": 10**15 + 1}, 5.0),
        ({"oven": 0.0}, {"oven": 1e-9}, 5.0),
        ({"oven": 1.0}, {"oven": True}, 0.0),
        ({"oven": False}, {"oven": True}, 5.0),
        ({"oven": 200.0}, {"lamp": "red"}, 2.0),  # the lamp was not controlled before
        ({"oven": 200.0, "lamp": "red"}, {"oven": 200.0}, 0.0),  # and is not controlled now
        ({}, {"oven": 200.0}, 5.0),
    ],
)
def test_changes_add_up(before: dict[str, Any] | None, now: dict[str, Any], cost: float) -> None:
    assert OVEN.between(before, now) == cost


def test_value_object() -> None:
    assert SwitchingCost([("oven", 5)]) == SwitchingCost({"oven": np.float64(5)})
    assert SwitchingCost({"oven": 5.0}) != SwitchingCost({"oven": 5.0}, base=1.0)
    assert hash(OVEN) == hash(SwitchingCost({"lamp": 2.0, "oven": 5}, 1.0))
    assert repr(OVEN) == "SwitchingCost({'lamp': 2.0, 'oven': 5.0}, base=1.0)"
    assert repr(SwitchingCost({"oven": 5})) == "SwitchingCost({'oven': 5.0})"
    assert (OVEN.names, OVEN.most) == (("lamp", "oven"), 7.0)
    assert SwitchingCost({"oven": 5}, AffineCost({"days": 1.0})).base == AffineCost({"days": 1.0})


@pytest.mark.parametrize(
    ("changes", "base", "name"),
    [
        ({}, None, "changes"),
        (5.0, None, "changes"),
        ({0: 5.0}, None, "changes has the key 0"),
        ({"": 5.0}, None, "changes has the key ''"),
        ({"oven": 0.0}, None, r"changes\['oven'\]"),
        ({"oven": float("nan")}, None, r"changes\['oven'\]"),
        ({"oven": "much"}, None, r"changes\['oven'\]"),
        ([("oven", 1.0), ("oven", 2.0)], None, "changes has 'oven'"),
        ({"oven": 1.0}, SwitchingCost({"lamp": 1.0}), "base"),
    ],
)
def test_refused_arguments(changes: Any, base: Any, name: str) -> None:
    with pytest.raises(InputError, match=name):
        SwitchingCost(changes, base)

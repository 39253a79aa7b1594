"""Switching costs, by the settings of two trials."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ax_costaware.costs import AffineCost, LinearSwitch, SwitchingCost, TableSwitch
from ax_costaware.exceptions import InputError

OVEN = SwitchingCost({"oven": 5.0, "lamp": 2}, base=1.0)
RESIN = {
    ("A", "B"): 3.0,
    ("B", "A"): 1.0,
    ("A", "C"): 0,
    ("C", "A"): 4,
    ("B", "C"): 5,
    ("C", "B"): 6,
}
PLANT = SwitchingCost(
    {"heat": LinearSwitch(0.05, 0.2, unset=7.0), "resin": TableSwitch(RESIN), "line": 5.0}
)


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


@pytest.mark.parametrize(
    ("before", "now", "cost"),
    [
        (None, {"heat": 100.0, "resin": "A", "line": 1}, 0.0),
        ({"heat": 100.0}, {"heat": 140.0}, 2.0),
        ({"heat": 140.0}, {"heat": 100}, 8.0),
        ({"heat": 0.1 + 0.2}, {"heat": 0.3}, 0.0),
        ({}, {"heat": 140.0}, 7.0),
        ({"heat": 140.0}, {}, 0.0),
        ({"resin": "A"}, {"resin": "B"}, 3.0),
        ({"resin": "B"}, {"resin": "A"}, 1.0),
        ({"resin": "A"}, {"resin": "C"}, 0.0),
        ({"resin": "C"}, {"resin": "C"}, 0.0),
        ({}, {"resin": "C"}, 6.0),
        ({"resin": "gone"}, {"resin": "A"}, 6.0),  # a choice that the table never had
        (
            {"heat": 100.0, "resin": "C", "line": 1},
            {"heat": 90.0, "resin": "B", "line": 2},
            2.0 + 6.0 + 5.0,
        ),
    ],
)
def test_changes_by_distance_and_direction(
    before: dict[str, Any] | None, now: dict[str, Any], cost: float
) -> None:
    assert PLANT.between(before, now) == pytest.approx(cost)


def test_a_table_is_written_in_three_ways() -> None:
    table = TableSwitch(RESIN, unset=2)
    nested: dict[str, dict[str, float]] = {"A": {"A": 0.0}, "B": {}, "C": {}}
    for (before, after), cost in RESIN.items():
        nested[before][after] = cost
    triples = [(before, after, np.float64(cost)) for (before, after), cost in RESIN.items()]
    assert table == TableSwitch(nested, 2.0) == TableSwitch(triples, 2.0)
    assert hash(table) == hash(TableSwitch(table.costs, table.unset))
    assert repr(TableSwitch([("A", "B", 1)], 2)) == "TableSwitch({('A', 'B'): 1.0}, unset=2.0)"
    assert table.reversed.reversed == table != table.reversed
    assert (table.after_unset, TableSwitch(RESIN).after_unset) == (2.0, 6.0)
    numbers = TableSwitch({(0.1 + 0.2, 1.0): 2.0, (1.0, 0.3): 1.0})
    assert (numbers.between(0.3, 1), numbers.between(1, 0.1 + 0.2)) == (2.0, 1.0)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: LinearSwitch(-0.1, 1.0), "up=-0.1"),
        (lambda: LinearSwitch(1.0, "much"), "down='much'"),  # type: ignore[arg-type]
        (lambda: LinearSwitch(0.0, 0.0), "cost > 0 per unit up, or down"),
        (lambda: LinearSwitch(1.0, 1.0, unset=-1.0), "unset=-1.0"),
        (lambda: TableSwitch({}), "costs="),
        (lambda: TableSwitch({"A": 3.0}), "costs="),
        (lambda: TableSwitch([("A", "B")]), "costs="),
        (lambda: TableSwitch({("A", "B"): -1.0}), r"costs\['A', 'B'\]=-1.0"),
        (lambda: TableSwitch({("A", "A"): 1.0}), "the value is kept"),
        (lambda: TableSwitch({("A", "B"): 0.0}), "a cost > 0 of one or more"),
        (lambda: TableSwitch({("A", 1): 2.0}), "the values of costs"),
        (lambda: TableSwitch([("A", "B", 1.0), ("A", "B", 2.0)]), "more than once"),
    ],
)
def test_refused_switches(make: Callable[[], Any], name: str) -> None:
    with pytest.raises(InputError, match=name):
        make()


def test_value_object() -> None:
    assert SwitchingCost([("oven", 5)]) == SwitchingCost({"oven": np.float64(5)})
    assert SwitchingCost({"oven": 5.0}) != SwitchingCost({"oven": 5.0}, base=1.0)
    assert hash(OVEN) == hash(SwitchingCost({"lamp": 2.0, "oven": 5}, 1.0))
    assert repr(OVEN) == "SwitchingCost({'lamp': 2.0, 'oven': 5.0}, base=1.0)"
    assert repr(SwitchingCost({"oven": 5})) == "SwitchingCost({'oven': 5.0})"
    assert OVEN.names == ("lamp", "oven")
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

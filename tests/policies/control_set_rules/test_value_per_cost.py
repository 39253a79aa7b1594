"""The value per cost baseline."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from ax_costaware.policies import ControlSetHistory, LargestValuePerCost
from tests.policies.control_set_rules.tables import Table, history, largest, monotone_tables

SETS = ["a", "b", "ab", "abc"]


@pytest.mark.parametrize(
    ("values", "costs", "affordable", "index"),
    [
        ((1.0, 2.0, 3.0, 4.0), (1, 1, 2, 4), (True,) * 4, 1),
        ((1.0, 2.0, 5.0, 6.0), (1, 1, 2, 4), (True,) * 4, 2),
        ((1.0, 2.0, 3.0, 40.0), (1, 1, 2, 4), (True,) * 4, 3),
        ((1.0, 2.0, 3.0, 40.0), (1, 1, 2, 4), (True, True, True, False), 1),
        # A negative value improves by being dearer, as the docstring says.
        ((-4.0, -3.0, -2.0, -2.0), (1, 1, 1, 4), (True,) * 4, 3),
    ],
)
def test_table(
    values: tuple[float, ...], costs: tuple[float, ...], affordable: tuple[bool, ...], index: int
) -> None:
    decision = LargestValuePerCost().decide(
        history(SETS, costs, affordable=affordable), Table(values)
    )
    assert decision.index == index
    assert decision.in_play == tuple(i for i, flag in enumerate(affordable) if flag)


def test_reason() -> None:
    decision = LargestValuePerCost().decide(
        history(SETS, [1, 1, 2, 4]), Table([1.0, 2.0, 5.0, 6.0])
    )
    assert decision.reason == (
        "a+b has the largest value per cost of the 4 affordable control sets, 2.5: the value 5 at "
        "cost 2."
    )


@given(monotone_tables())
@settings(max_examples=150, deadline=None)
def test_equals_looking_at_every_value(table: tuple[ControlSetHistory, list[float]]) -> None:
    state, values = table
    ratios = [value / cost for value, cost in zip(values, state.costs, strict=True)]
    affordable = [i for i, flag in enumerate(state.affordable) if flag]
    decision = LargestValuePerCost().decide(state, Table(values))
    assert decision.index == largest(state, ratios, affordable)


def test_sets_of_equal_cost_that_cannot_win_are_not_asked_for() -> None:
    table = Table([1.0, 2.0, 3.0, 4.0])
    LargestValuePerCost().decide(history(SETS, [1, 1, 1, 4]), table)
    assert table.calls == [(2, 3)]


def test_equality_and_repr() -> None:
    assert LargestValuePerCost() == LargestValuePerCost()
    assert repr(LargestValuePerCost()) == "LargestValuePerCost()"

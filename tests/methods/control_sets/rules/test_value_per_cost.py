"""The value per cost baseline."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ax_costaware.exceptions import InputError
from ax_costaware.methods import ControlSetHistory, CostEstimate, LargestValuePerCost
from tests.methods.control_sets.rules.tables import Table, history, largest, monotone_tables

SETS = ["a", "b", "ab", "abc"]


_NEAR = (0.1, math.nextafter(0.1, 1.0))


@given(monotone_tables())
@example((history(["ab", "b"], _NEAR[::-1]), [1.0, 1.0]))
@settings(max_examples=60, deadline=None)
def test_equals_looking_at_every_value(table: tuple[ControlSetHistory, list[float]]) -> None:
    state, values = table
    ratios = [value / cost for value, cost in zip(values, state.costs, strict=True)]
    affordable = [i for i, flag in enumerate(state.affordable) if flag]
    decision = LargestValuePerCost().decide(state, Table(values))
    expected = largest(state, ratios, affordable)
    if decision.index != expected:  # costs that differ by rounding are equal to the rule
        chosen = decision.index
        assert state.costs[chosen] == pytest.approx(state.costs[expected], rel=1e-9)
        assert ratios[chosen] == pytest.approx(ratios[expected], rel=1e-9)


def test_sets_of_equal_cost_that_cannot_win_are_not_asked_for() -> None:
    table = Table([1.0, 2.0, 3.0, 4.0])
    LargestValuePerCost().decide(history(SETS, [1, 1, 1, 4]), table)
    assert table.calls == [(2, 3)]


class Bounds(Table):
    """Values, the worst one, and costs at the best values."""

    def __init__(self, values: Sequence[float], least: float, prices: Sequence[float]) -> None:
        super().__init__(values)
        self.least, self.prices = least, prices

    def lower(self, indices: Sequence[int], pointwise: bool = False) -> list[float]:
        raise AssertionError("not asked for")

    upper = lower

    def worst(self) -> float:
        return self.least

    def costs(self, indices: Sequence[int]) -> list[CostEstimate]:
        return [CostEstimate(self.prices[i], None) for i in indices]


ABOVE = LargestValuePerCost(above="worst")


@pytest.mark.parametrize(
    ("values", "prices", "index"),
    [
        ((1.0, 2.0, 3.0, 4.0), (1, 1, 2, 4), 1),
        # Above the worst, -5, they are 1, 2, 3 and 3: being the most expensive is not enough.
        ((-4.0, -3.0, -2.0, -2.0), (1, 1, 1, 4), 2),
        ((1.0, 2.0, 3.0, 40.0), (1, 1, 2, 4), 3),
    ],
)
def test_above_the_worst(values: tuple[float, ...], prices: tuple[float, ...], index: int) -> None:
    least = min(values) - 1.0
    decision = ABOVE.decide(history(SETS, prices), Bounds(values, least, prices))
    ratios = [(value - least) / cost for value, cost in zip(values, prices, strict=True)]
    assert decision.index == index
    assert ratios[index] == max(ratios)
    assert f"value above the worst, {least:.6g}, per cost" in decision.reason


@given(monotone_tables(), st.floats(-50, 50), st.floats(0.01, 100), st.floats(1e-3, 1e3))
@settings(max_examples=60, deadline=None)
def test_neither_origin_nor_units_matter(
    table: tuple[ControlSetHistory, list[float]], shift: float, scale: float, unit: float
) -> None:
    state, values = table
    least, prices = min(values) - 0.5, [float(c) for c in state.costs]
    once = ABOVE.decide(state, Bounds(values, least, prices))
    again = ABOVE.decide(
        replace(state, costs=tuple(unit * c for c in prices)),
        Bounds(
            [scale * v + shift for v in values], scale * least + shift, [unit * c for c in prices]
        ),
    )
    ratios = [(value - least) / cost for value, cost in zip(values, prices, strict=True)]
    assert ratios[again.index] == pytest.approx(ratios[once.index], rel=1e-6)


def costs_unknown_of(sets: Sequence[str], unit: float) -> tuple[ControlSetHistory, Bounds]:
    """Three control sets that were played at costs 1, 1 and 3, and a fourth that never was."""
    paid = (unit, unit, 3 * unit)
    state = history(
        sets,
        (*paid, 1.0),
        4,
        plays=(1, 1, 1, 0),
        known=(False,) * 4,
        reported=(*((cost,) for cost in paid), ()),
    )
    return state, Bounds((1.0, 1.1, 1.2, 1.3), 0.0, (*paid, 1.0))


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e3])
def test_what_costs_nobody_knows_is_tried_first_whatever_the_unit(unit: float) -> None:
    """It is taken to cost as little as the cheapest, and not one unit of cost."""
    found = ABOVE.decide(*costs_unknown_of(["a", "b", "ab", "c"], unit))
    assert found.index == 3
    assert f"at a cost that is not known yet, taken to be {unit:g}." in found.reason
    # As where the caller fixes what only it controls.
    state, told = costs_unknown_of(["a", "b", "ab", "c"], unit)
    alone = ABOVE.decide(replace(state, affordable=(False, False, False, True)), told)
    assert f"at a cost that is not known yet, taken to be {unit:g}." in alone.reason


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e3])
def test_a_cost_that_nobody_knows_is_no_less_than_that_of_a_part(unit: float) -> None:
    """Else the most expensive control set comes first, as the cheapest it is taken for."""
    state, told = costs_unknown_of(["a", "b", "ab", "abc"], unit)
    assert ABOVE.decide(state, told).index == 1
    # Worth its part's cost it is tried, also where that part cannot be paid any more.
    told.values = (1.0, 1.1, 1.2, 3.6)
    assert ABOVE.decide(state, told).index == 3
    told.values = (1.0, 1.1, 1.2, 3.0)
    alone = replace(state, affordable=(True, True, False, True))
    assert ABOVE.decide(alone, told).index == 1


def test_the_worst_has_to_be_known() -> None:
    with pytest.raises(InputError, match="EvaluateBounds"):
        ABOVE.decide(history(SETS, [1, 1, 2, 4]), Table([1.0, 2.0, 5.0, 6.0]))

"""The epsilon schedule: its numbers, its reasons, and Algorithm 1 by brute force."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ax_costaware.methods import ControlSetHistory, EpsilonSchedule
from tests.methods.control_sets.rules.tables import (
    Table,
    all_subsets,
    brute_force,
    history,
    monotone_tables,
)

SETS = ["a", "b", "c", "ab", "ac", "bc", "abc"]
COSTS = [0.1, 0.1, 0.1, 0.2, 0.2, 0.2, 1.0]
VALUES = [1.0, 3.0, 2.0, 4.0, 3.5, 4.5, 5.0]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (EpsilonSchedule(0), (0.0, 0.0, 0.0)),
        (EpsilonSchedule.constant(0.5), (0.5, 0.5, 0.5)),
        (EpsilonSchedule.polynomial(2.0, 0.5), (2.0, math.sqrt(2.0), 2.0 / math.sqrt(3.0))),
        (EpsilonSchedule.geometric(2.0, 0.5), (2.0, 1.0, 0.5)),
    ],
)
def test_schedules(rule: EpsilonSchedule, expected: tuple[float, ...]) -> None:
    assert [rule.epsilon(t) for t in (1, 2, 3)] == pytest.approx(expected)
    assert 0.0 <= rule.epsilon(10**6) <= expected[0]


def test_costs_equal_to_rounding_are_one_group() -> None:
    state = history(["a", "b", "abc"], [0.3, 0.1 + 0.2, 1.0])
    assert EpsilonSchedule.constant(9.0).decide(state, Table([1.0, 2.0, 3.0])).index == 1


@given(table=monotone_tables(), epsilon=st.sampled_from([0.0, 0.5, 1.0, 2.0]) | st.floats(0, 7))
@settings(max_examples=60, deadline=None)
def test_equals_looking_at_every_value(
    table: tuple[ControlSetHistory, list[float]], epsilon: float
) -> None:
    state, values = table
    seen = Table(values)
    decision = EpsilonSchedule.constant(epsilon).decide(state, seen)
    assert decision.index == brute_force(state, values, epsilon)
    assert seen.asked == set(decision.values)
    assert all(state.affordable[i] for i in seen.asked)
    costs = [state.costs[i] for i in decision.in_play]
    assert costs == pytest.approx([state.costs[decision.index]] * len(costs))


TEN = all_subsets("abcdefghij")
RANDOM = np.random.default_rng(1)
IMPORTANCE = dict(zip("abcdefghij", RANDOM.exponential(size=10), strict=True))
PRICE = dict(zip("abcdefghij", RANDOM.uniform(0.5, 2.0, size=10), strict=True))

VALUE_OF: dict[str, Callable[[frozenset[str]], float]] = {
    "additive": lambda names: sum(IMPORTANCE[n] for n in names),
    "saturating": lambda names: math.sqrt(sum(IMPORTANCE[n] for n in names)),
    "inputs nearly alike": lambda names: sum(IMPORTANCE[n] ** 0.3 for n in names),
    "three inputs matter": lambda names: len(names & set("bdh")) + 1e-3 * len(names),
    "all or nothing": lambda names: float({"a", "g", "j"} <= names),
}
COST_OF: dict[str, Callable[[frozenset[str]], float]] = {
    "by number": lambda names: float(len(names)),
    "by input": lambda names: sum(PRICE[n] for n in names),
}


@pytest.mark.parametrize("cost_of", COST_OF)
@pytest.mark.parametrize("value_of", VALUE_OF)
def test_all_subsets_of_ten_inputs(value_of: str, cost_of: str) -> None:
    """Far fewer values than 1023 are asked for, most of all if the answer is at either end."""
    values = [VALUE_OF[value_of](names) for names in TEN]
    state = history(TEN, [COST_OF[cost_of](names) for names in TEN])
    for share in (0.0, 0.02, 0.1, 0.3, 0.5, 0.8, 1.0):
        epsilon, seen = share * max(values), Table(values)
        index = EpsilonSchedule.constant(epsilon).decide(state, seen).index
        assert index == brute_force(state, values, epsilon)
        at_an_end = share == 0.0 or len(TEN[index]) in (1, 10)
        assert len(seen.asked) <= (50 if at_an_end else 450)
        assert len(seen.calls) <= 20

"""The epsilon schedule: its numbers, its reasons, and Algorithm 1 by brute force."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ax_costaware.exceptions import InputError
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


@pytest.mark.parametrize(
    ("epsilon", "index", "in_play"),
    [
        (0.0, 6, (6,)),
        (0.49, 6, (6,)),
        (0.5, 5, (5,)),
        (1.0, 5, (3, 5)),
        (1.99, 5, (3, 4, 5)),
        (2.0, 1, (1,)),
        (100.0, 1, (0, 1, 2)),
    ],
)
def test_table(epsilon: float, index: int, in_play: tuple[int, ...]) -> None:
    decision = EpsilonSchedule.constant(epsilon).decide(history(SETS, COSTS), Table(VALUES))
    assert decision.index == index
    assert set(decision.in_play) <= set(in_play)
    assert decision.index in decision.in_play


def test_epsilon_of_the_decisions_number_is_used() -> None:
    rule = EpsilonSchedule.geometric(2.0, 0.5)
    chosen = [rule.decide(history(SETS, COSTS, t), Table(VALUES)).index for t in (1, 2, 3, 4)]
    assert chosen == [1, 5, 5, 6]


def test_reasons() -> None:
    decision = EpsilonSchedule.constant(1.0).decide(history(SETS, COSTS, 7), Table(VALUES))
    assert decision.reason == (
        "Decision 7 with epsilon 1: the largest value is 5, of a+b+c at cost 1; the cheapest "
        "control sets within epsilon of it cost 0.2, and b+c has the largest value of these, 4.5."
    )
    decision = EpsilonSchedule(0).decide(history(SETS, COSTS), Table(VALUES))
    assert decision.reason == (
        "Decision 1 with epsilon 0: the largest value is 5, of a+b+c at cost 1; no cheaper control "
        "set comes within epsilon of it."
    )


def test_cost_decides_between_equal_values_without_relaxation() -> None:
    decision = EpsilonSchedule(0).decide(history(["ab", "c"], [2, 1]), Table([1.0, 1.0]))
    assert decision.index == 1


def test_costs_equal_to_rounding_are_one_group() -> None:
    state = history(["a", "b", "abc"], [0.3, 0.1 + 0.2, 1.0])
    assert EpsilonSchedule.constant(9.0).decide(state, Table([1.0, 2.0, 3.0])).index == 1


@given(table=monotone_tables(), epsilon=st.sampled_from([0.0, 0.5, 1.0, 2.0]) | st.floats(0, 7))
@settings(max_examples=200, deadline=None)
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


@pytest.mark.parametrize("share", [0.0, 0.02, 0.1, 0.3, 0.5, 0.8, 1.0])
@pytest.mark.parametrize("cost_of", COST_OF)
@pytest.mark.parametrize("value_of", VALUE_OF)
def test_all_subsets_of_ten_inputs(value_of: str, cost_of: str, share: float) -> None:
    values = [VALUE_OF[value_of](names) for names in TEN]
    state = history(TEN, [COST_OF[cost_of](names) for names in TEN])
    epsilon = share * max(values)
    seen = Table(values)
    decision = EpsilonSchedule.constant(epsilon).decide(state, seen)
    assert decision.index == brute_force(state, values, epsilon)
    # Far fewer than 1023, most of all where the answer is at either end, and in few calls.
    at_an_end = share == 0.0 or len(TEN[decision.index]) in (1, 10)
    assert len(seen.asked) <= (50 if at_an_end else 450)
    assert len(seen.calls) <= 20


def test_additive_values_of_ten_inputs_take_few_evaluations_on_the_whole() -> None:
    state = history(TEN, [COST_OF["by number"](names) for names in TEN])
    counts = []
    for seed in range(20):
        weight = np.random.default_rng(seed).exponential(size=10)
        values = [float(sum(weight["abcdefghij".index(n)] for n in names)) for names in TEN]
        for share in (0.0, 0.05, 0.1, 0.2, 0.4):
            seen = Table(values)
            EpsilonSchedule.constant(share * max(values)).decide(state, seen)
            counts.append(len(seen.asked))
    assert np.median(counts) < 60
    assert np.mean(counts) < 110
    assert max(counts) < 450


def test_survives_json() -> None:
    for rule in (EpsilonSchedule(0), EpsilonSchedule.polynomial(1, 0.5)):
        assert EpsilonSchedule(**json.loads(json.dumps(dataclasses.asdict(rule)))) == rule


def test_equality_and_repr() -> None:
    assert EpsilonSchedule(1) == EpsilonSchedule.constant(np.float64(1.0))
    assert EpsilonSchedule.polynomial(1, 0) == EpsilonSchedule.geometric(1, 1)
    assert repr(EpsilonSchedule.geometric(1, 0.5)) == (
        "EpsilonSchedule(initial=1.0, power=0.0, ratio=0.5)"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"initial": -0.1}, r"initial=-0\.1: expected a finite number >= 0\."),
        ({"initial": math.nan}, r"initial=nan: expected a finite number >= 0\."),
        ({"initial": "1"}, r"initial='1': expected a finite number >= 0\."),
        ({"power": -1}, r"power=-1: expected a finite number >= 0\."),
        ({"power": math.inf}, r"power=inf: expected a finite number >= 0\."),
        ({"ratio": 0}, r"ratio=0: expected a number in \(0, 1\]\."),
        ({"ratio": 1.1}, r"ratio=1\.1: expected a number in \(0, 1\]\."),
        ({"ratio": None}, r"ratio=None: expected a number in \(0, 1\]\."),
    ],
)
def test_refuses(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        EpsilonSchedule(**{"initial": 1.0, **arguments})

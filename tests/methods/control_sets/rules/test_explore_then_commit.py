"""Explore then commit, by tables."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ax_costaware.exceptions import InputError
from ax_costaware.methods import ControlSetHistory, ExploreThenCommit
from ax_costaware.methods.control_sets.rules.rule import cost_groups
from tests.methods.control_sets.rules.tables import Table, history, largest, monotone_tables

# The paper's seven control sets of three inputs, with its costs.
SETS = ["a", "b", "c", "ab", "ac", "bc", "abc"]
CHEAP = [0.01, 0.01, 0.01, 0.1, 0.1, 0.1, 1.0]
MODERATE = [0.1, 0.1, 0.1, 0.2, 0.2, 0.2, 1.0]
EXPENSIVE = [0.6, 0.6, 0.6, 0.8, 0.8, 0.8, 1.0]
VALUES = [1.0, 3.0, 2.0, 4.0, 3.5, 4.5, 5.0]


@pytest.mark.parametrize(
    ("costs", "expected"), [(CHEAP, (400, 40)), (MODERATE, (40, 20)), (EXPENSIVE, (6, 5))]
)
def test_adaptive_plays_of_the_paper(costs: list[float], expected: tuple[int, int]) -> None:
    assert ExploreThenCommit.adaptive().plays_per_group(costs) == expected


@pytest.mark.parametrize(
    ("rule", "cost"),
    [
        (ExploreThenCommit.adaptive(), 8.0),
        (ExploreThenCommit(10), 3.0),
        (ExploreThenCommit(0), 0.0),
    ],
)
def test_exploration_cost_of_the_paper(rule: ExploreThenCommit, cost: float) -> None:
    assert rule.exploration_cost(MODERATE) == pytest.approx(cost)


@pytest.mark.parametrize("unit", [1.0, 3.0, 0.7, 1e-3, 86400.0])
def test_adaptive_plays_do_not_depend_on_rounding_or_unit(unit: float) -> None:
    rule = ExploreThenCommit.adaptive()
    for plays in range(5, 500):
        cost = unit * 4 / plays
        assert rule.plays_per_group([cost, unit]) == (plays,)
        assert rule.plays_per_group([cost * (1 + 1e-6), unit]) == (plays - 1,)


def test_adaptive_scale() -> None:
    assert ExploreThenCommit.adaptive(10).plays_per_group([2, 4, 5]) == (25, 12)
    assert ExploreThenCommit.adaptive(0.5).plays_per_group([0.4, 1.0]) == (1,)
    assert ExploreThenCommit.adaptive(0.5).plays_per_group([0.6, 1.0]) == (0,)


def test_plays_per_group() -> None:
    assert ExploreThenCommit(50).plays_per_group(CHEAP) == (50, 50)
    assert ExploreThenCommit((3, 1)).plays_per_group(CHEAP) == (3, 1)
    assert ExploreThenCommit(50).plays_per_group([2.0, 2.0]) == ()
    assert ExploreThenCommit(()).plays_per_group([2.0]) == ()


@pytest.mark.parametrize("plays", [(3,), (3, 1, 2), ()])
def test_refuses_plays_for_another_number_of_groups(plays: tuple[int, ...]) -> None:
    rule = ExploreThenCommit(plays)
    message = (
        rf"has {len(plays)} entries: expected 2, one for each cost group but the most expensive"
    )
    with pytest.raises(InputError, match=message):
        rule.plays_per_group(CHEAP)
    with pytest.raises(InputError, match=message):
        rule.decide(history(SETS, CHEAP), Table(VALUES))


ALL, FIRST = (True,) * 7, (True,) * 3 + (False,) * 4


@pytest.mark.parametrize(
    ("plays", "affordable", "index", "in_play"),
    [
        # The cheapest group has plays left; then the next; then all compete.
        ((0, 0, 0, 0, 0, 0, 0), ALL, 1, (0, 1, 2)),
        ((1, 0, 0, 0, 0, 0, 0), ALL, 1, (0, 1, 2)),
        ((2, 0, 0, 0, 0, 0, 0), ALL, 5, (3, 4, 5)),
        ((1, 1, 0, 0, 0, 0, 0), ALL, 5, (3, 4, 5)),
        ((9, 9, 0, 1, 0, 0, 0), ALL, 5, (3, 4, 5)),
        ((0, 2, 0, 0, 1, 1, 0), ALL, 6, tuple(range(7))),
        ((2, 0, 0, 0, 0, 2, 90), ALL, 6, tuple(range(7))),
        # Plays of a more expensive group do not count for a cheaper one.
        ((0, 0, 0, 5, 0, 0, 5), ALL, 1, (0, 1, 2)),
        # What cannot be afforded is passed over, within a group and as a group.
        ((0, 0, 0, 0, 0, 0, 0), (True, False, True, True, True, True, True), 2, (0, 2)),
        ((0, 0, 0, 0, 0, 0, 0), (False,) * 3 + (True,) * 4, 5, (3, 4, 5)),
        ((2, 0, 0, 0, 0, 0, 0), FIRST, 1, (0, 1, 2)),
        ((2, 0, 0, 0, 2, 0, 0), (True,) * 6 + (False,), 5, tuple(range(6))),
    ],
)
def test_table(
    plays: tuple[int, ...], affordable: tuple[bool, ...], index: int, in_play: tuple[int, ...]
) -> None:
    table = Table(VALUES)
    decision = ExploreThenCommit(2).decide(
        history(SETS, CHEAP, plays=plays, affordable=affordable), table
    )
    assert decision.index == index
    assert decision.in_play == in_play


def test_groups_may_be_of_equal_size() -> None:
    """As Hoang et al. 2025 group control sets of unknown costs, whatever these turn out to be."""
    rule, chosen, plays = ExploreThenCommit(2, by="size"), [], [0] * 7
    for number in range(1, 8):
        costs = np.random.default_rng(number).uniform(size=7).tolist()
        state = history(SETS, costs, number, plays=tuple(plays), known=(False,) * 7)
        decision = rule.decide(state, Table(VALUES))
        plays[decision.index] += 1
        chosen.append(decision.index)
        if number == 1:
            assert "Exploring control sets of size 1, which have 2 of 2" in decision.reason
    assert chosen == [1] * 2 + [5] * 2 + [6] * 3
    assert rule.refusal(dict.fromkeys(SETS)) is rule.exploration_cost(CHEAP) is None
    with pytest.raises(InputError, match=r"expected 2, one for each size group but the largest"):
        ExploreThenCommit([1], by="size").decide(history(SETS, CHEAP), Table(VALUES))


def test_reason_when_exploring() -> None:
    decision = ExploreThenCommit((5, 1)).decide(
        history(SETS, CHEAP, plays=(1, 0, 1, 0, 0, 0, 0)), Table(VALUES)
    )
    assert decision.reason == (
        "Exploring control sets of cost 0.01, which have 3 of 5 plays left: b has the largest "
        "value, 3."
    )
    assert decision.values == {0: 1.0, 1: 3.0, 2: 2.0}


def test_reason_when_committed_and_only_sets_that_can_win_are_asked_for() -> None:
    table = Table(VALUES)
    decision = ExploreThenCommit(0).decide(history(SETS, CHEAP), table)
    assert decision.reason == (
        "No cost group has affordable plays left to explore, so all 7 affordable control sets "
        "compete: a+b+c has the largest value, 5."
    )
    assert table.calls == [(6,)]
    without_full = history(SETS, CHEAP, affordable=(True,) * 6 + (False,))
    table = Table(VALUES)
    assert ExploreThenCommit(0).decide(without_full, table).index == 5
    assert table.calls == [(3, 4, 5)]


def test_equal_values_go_to_more_control_then_to_the_first_declared() -> None:
    rule = ExploreThenCommit(0)
    assert rule.decide(history(["a", "b"], [2, 1]), Table([1.0, 1.0])).index == 0
    assert rule.decide(history(["a", "ab"], [1, 1]), Table([1.0, 1.0])).index == 1
    assert rule.decide(history(["a", "bc"], [1, 2]), Table([1.0, 1.0])).index == 1


@given(table=monotone_tables(), allowance=st.integers(0, 2), data=st.data())
@settings(max_examples=150, deadline=None)
def test_equals_looking_at_every_value(
    table: tuple[ControlSetHistory, list[float]], allowance: int, data: st.DataObject
) -> None:
    state, values = table
    plays = data.draw(st.lists(st.integers(0, 2), min_size=len(values), max_size=len(values)))
    state = ControlSetHistory(state.parameters, state.costs, tuple(plays), state.affordable, 1)
    affordable = [i for i, flag in enumerate(state.affordable) if flag]
    expected = largest(state, values, affordable)
    for group in reversed(cost_groups(state.costs)[:-1]):
        in_play = [i for i in group if i in affordable]
        if sum(plays[i] for i in group) < allowance and in_play:
            expected = largest(state, values, in_play)
    assert ExploreThenCommit(allowance).decide(state, Table(values)).index == expected


def test_a_whole_run_spends_each_groups_plays_in_turn() -> None:
    rule, plays = ExploreThenCommit.adaptive(), [0] * 7
    chosen = []
    for number in range(1, 15):
        state = history(SETS, EXPENSIVE, number, plays=tuple(plays))
        index = rule.decide(state, Table(VALUES)).index
        plays[index] += 1
        chosen.append(index)
    assert chosen == [1] * 6 + [5] * 5 + [6] * 3


@pytest.mark.parametrize(
    "rule",
    [
        ExploreThenCommit(3, by="size"),
        ExploreThenCommit([3, 1]),
        ExploreThenCommit.adaptive(2),
    ],
)
def test_survives_json(rule: ExploreThenCommit) -> None:
    assert ExploreThenCommit(**json.loads(json.dumps(asdict(rule)))) == rule


def test_equality_and_repr() -> None:
    from_numpy = ExploreThenCommit(np.array([3, 1]))  # type: ignore[arg-type]
    assert ExploreThenCommit([3, 1]) == from_numpy
    assert ExploreThenCommit(4) != ExploreThenCommit.adaptive(4)
    assert repr(ExploreThenCommit(3)) == "ExploreThenCommit(plays=3)"
    assert repr(ExploreThenCommit(3, by="size")) == "ExploreThenCommit(plays=3, by='size')"
    assert repr(ExploreThenCommit([3, 1])) == "ExploreThenCommit(plays=(3, 1))"
    assert repr(ExploreThenCommit.adaptive()) == "ExploreThenCommit.adaptive(scale=4.0)"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, r"plays=None, scale=None: expected one of the two\."),
        ({"plays": 3, "scale": 4.0}, r"plays=3, scale=4\.0: expected one of the two\."),
        ({"plays": 3, "by": "name"}, r"by='name': expected one of \['cost', 'size'\]"),
        ({"scale": 4.0, "by": "size"}, r"scale=4\.0 with by='size': expected plays"),
        ({"plays": -1}, r"plays=-1: expected an integer >= 0\."),
        ({"plays": True}, r"plays=True: expected an integer >= 0\."),
        ({"plays": 2.5}, r"plays=2\.5: expected an integer >= 0, or a list of them\."),
        ({"plays": "3"}, r"plays='3': expected an integer >= 0, or a list of them\."),
        ({"plays": [1, -2]}, r"plays\[1\]=-2: expected an integer >= 0\."),
        ({"plays": [1.0]}, r"plays\[0\]=1\.0: expected an integer >= 0\."),
        ({"scale": 0}, r"scale=0: expected a finite number > 0\."),
        ({"scale": float("inf")}, r"scale=inf: expected a finite number > 0\."),
        ({"scale": "4"}, r"scale='4': expected a finite number > 0\."),
    ],
)
def test_refuses(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ExploreThenCommit(**arguments)

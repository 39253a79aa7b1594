"""Explore then commit, by tables."""

from __future__ import annotations

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
    message = rf"has {len(plays)} entries"
    with pytest.raises(InputError, match=message):
        rule.plays_per_group(CHEAP)
    with pytest.raises(InputError, match=message):
        rule.decide(history(SETS, CHEAP), Table(VALUES))


ALL, FIRST = (True,) * 7, (True,) * 3 + (False,) * 4


def test_groups_may_be_of_equal_size() -> None:
    """As Hoang et al. 2025 group control sets of unknown costs, whatever these turn out to be."""
    rule, chosen, plays = ExploreThenCommit(2, by="size"), [], [0] * 7
    for number in range(1, 8):
        costs = np.random.default_rng(number).uniform(size=7).tolist()
        state = history(SETS, costs, number, plays=tuple(plays), known=(False,) * 7)
        decision = rule.decide(state, Table(VALUES))
        plays[decision.index] += 1
        chosen.append(decision.index)
    assert chosen == [1] * 2 + [5] * 2 + [6] * 3
    assert rule.refusal(dict.fromkeys(SETS)) is rule.exploration_cost(CHEAP) is None
    with pytest.raises(InputError, match="expected 2"):
        ExploreThenCommit([1], by="size").decide(history(SETS, CHEAP), Table(VALUES))


def test_only_sets_that_can_win_are_asked_for() -> None:
    table = Table(VALUES)
    ExploreThenCommit(0).decide(history(SETS, CHEAP), table)
    assert table.calls == [(6,)]
    without_full = history(SETS, CHEAP, affordable=(True,) * 6 + (False,))
    table = Table(VALUES)
    assert ExploreThenCommit(0).decide(without_full, table).index == 5
    assert table.calls == [(3, 4, 5)]


@given(table=monotone_tables(), allowance=st.integers(0, 2), data=st.data())
@settings(max_examples=60, deadline=None)
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

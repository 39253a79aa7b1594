"""What a rule is told, what it asks, and what all rules have in common."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ax_costaware.exceptions import InputError
from ax_costaware.methods import (
    ControlSetChoice,
    ControlSetHistory,
    ControlSetRule,
    EpsilonSchedule,
    ExploreThenCommit,
    LargestValuePerCost,
)
from ax_costaware.methods.control_sets.rules.rule import (
    checked_choice,
    cost_groups,
    maximal,
    proper_supersets,
)
from tests.methods.control_sets.rules.tables import Table, history

RULES: tuple[ControlSetRule, ...] = (
    ExploreThenCommit(2),
    ExploreThenCommit(2, by="size"),
    ExploreThenCommit.adaptive(),
    EpsilonSchedule.geometric(1, 0.5),
    EpsilonSchedule(0),
    LargestValuePerCost(),
)
each_rule = pytest.mark.parametrize("rule", RULES, ids=repr)
families = st.lists(
    st.frozensets(st.sampled_from("abcdef"), min_size=1), min_size=1, max_size=12, unique=True
)


@each_rule
def test_rules_are_values(rule: ControlSetRule) -> None:
    assert [other for other in RULES if other == rule] == [rule]
    assert eval(repr(rule)) == rule
    assert hash(rule) == hash(eval(repr(rule)))


@each_rule
@pytest.mark.parametrize(
    "affordable",
    [(True,) * 3, (True, True, False), *np.eye(3, dtype=bool).tolist()],
    ids=lambda flags: "".join(str(int(flag)) for flag in flags),
)
def test_choices_are_affordable_and_say_what_was_seen(
    rule: ControlSetRule, affordable: tuple[bool, ...]
) -> None:
    table = Table([1.0, 2.0, 5.0])
    where = history(["a", "b", "abc"], [1, 2, 3], affordable=affordable)
    choice = rule.decide(where, table)
    assert set(choice.values) == table.asked
    assert all(affordable[i] for i in {*table.asked, *choice.in_play})
    assert all(choice.values[i] == table.values[i] for i in choice.values)
    assert choice.index in choice.in_play
    if sum(affordable) == 1:
        assert choice.in_play == (choice.index,)
    assert f"{choice.values[choice.index]:g}" in choice.reason
    assert choice == rule.decide(where, table.__class__(table.values))


@each_rule
def test_what_cannot_be_decided_is_refused(rule: ControlSetRule) -> None:
    with pytest.raises(InputError, match="affordable="):
        rule.decide(history(["a", "b"], [1, 2], affordable=(False, False)), Table([1.0, 2.0]))
    for values in ([math.nan], [math.inf], [-math.inf], [1.0, 2.0]):
        with pytest.raises(InputError, match="evaluate gave"):
            rule.decide(history(["a"], [1]), lambda _, given=values: given)


@given(families, st.data())
def test_inclusion(sets: list[frozenset[str]], data: st.DataObject) -> None:
    contained = proper_supersets(sets)
    assert contained.tolist() == [[part < whole for whole in sets] for part in sets]
    among = data.draw(st.lists(st.sampled_from(range(len(sets))), min_size=1, unique=True))
    expected = [i for i in sorted(among) if not any(sets[i] < sets[j] for j in among)]
    assert maximal(contained, among) == expected


@pytest.mark.parametrize(
    ("costs", "groups"),
    [
        ([1.0], [(0,)]),
        ([0.1, 1.0, 0.1, 0.2], [(0, 2), (3,), (1,)]),
        ([0.3, 0.1 + 0.2, 0.30001], [(0, 1), (2,)]),
        ([3, 2, 1], [(2,), (1,), (0,)]),
    ],
)
def test_cost_groups(costs: list[float], groups: list[tuple[int, ...]]) -> None:
    assert cost_groups(costs) == groups


def test_history_coerces_what_json_makes_of_it() -> None:
    lists = ControlSetHistory([["a"], ["b", "a"]], [1, 2], [0, 3], [1, 0], 4)  # type: ignore[arg-type]
    assert lists == history(["a", "ab"], [1.0, 2.0], 4, plays=(0, 3), affordable=(True, False))
    assert lists.describe(1) == "a+b"
    assert history(["a", "b"], [1, 2], names=("water", "light")).describe(0) == "water"


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"plays": (0,)}, "'plays': 1"),
        ({"affordable": (True,) * 3}, "'affordable': 3"),
        ({"names": ("one",)}, "'names': 1"),
        ({"costs": (1.0, 0.0)}, r"costs\[1\]=0"),
        ({"costs": (1.0, math.nan)}, r"costs\[1\]=nan"),
        ({"plays": (0, -1)}, r"plays\[1\]=-1"),
        ({"plays": (0, 1.5)}, r"plays\[1\]=1.5"),
        ({"round": 0}, "round=0"),
        ({"parameters": ({"a", "b"}, {"b", "a"})}, "parameters="),
        ({"parameters": (), "costs": (), "plays": (), "affordable": ()}, "'parameters': 0"),
    ],
)
def test_history_refuses(changes: dict[str, Any], name: str) -> None:
    with pytest.raises(InputError, match=name):
        history(["a", "b"], [1, 2], **changes)


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        (None, "a ControlSetChoice"),
        (ControlSetChoice(0, None, (0,), {}), "reason"),  # type: ignore[arg-type]
        (ControlSetChoice(-1, "Last.", (), {}), r"of \[0, 2\]"),
        (ControlSetChoice(1, "Expensive.", (), {}), r"of \[0, 2\]"),
        (ControlSetChoice(3, "Far.", (), {}), r"of \[0, 2\]"),
        (ControlSetChoice(0.5, "Half.", (), {}), r"of \[0, 2\]"),  # type: ignore[arg-type]
        (ControlSetChoice(0, "Some.", (0, 9), {}), "from 0 to 2"),
    ],
)
def test_what_a_rule_of_ones_own_may_choose(choice: Any, message: str) -> None:
    affordable = (True, False, True)
    with pytest.raises(InputError, match=f"ExploreThenCommit chose .*{message}"):
        checked_choice(ExploreThenCommit(1), affordable, choice)
    good = ControlSetChoice(np.int64(2), "Good.", (0, 2), {2: 1.0})  # type: ignore[arg-type]
    chosen = checked_choice(ExploreThenCommit(1), affordable, good)
    assert (chosen.index, type(chosen.index)) == (2, int)

"""What a rule is told and what it asks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from ax_costaware.exceptions import InputError
from ax_costaware.methods import (
    ControlSetChoice,
    ControlSetHistory,
    ControlSetRule,
    EpsilonSchedule,
    ExploreThenCommit,
    LargestValuePerCost,
)
from ax_costaware.methods.control_sets.rules.rule import checked_choice
from tests.methods.control_sets.rules.tables import Table, history

RULES: tuple[ControlSetRule, ...] = (
    ExploreThenCommit(2),
    ExploreThenCommit.adaptive(),
    EpsilonSchedule.constant(0.5),
    EpsilonSchedule(0),
    LargestValuePerCost(),
)
each_rule = pytest.mark.parametrize("rule", RULES, ids=repr)


@each_rule
def test_rules_are_values_that_satisfy_the_protocol(rule: ControlSetRule) -> None:
    assert isinstance(rule, ControlSetRule)
    assert [other for other in RULES if other == rule] == [rule]
    assert eval(repr(rule)) == rule
    assert hash(rule) == hash(eval(repr(rule)))


@each_rule
def test_only_affordable_sets_are_chosen_or_looked_at(rule: ControlSetRule) -> None:
    table = Table([1.0, 2.0, 5.0])
    decision = rule.decide(
        history(["a", "b", "abc"], [1, 2, 3], affordable=(True, True, False)), table
    )
    assert decision.index in (0, 1)
    assert set(decision.in_play) <= {0, 1}
    assert table.asked <= {0, 1}


@each_rule
def test_one_affordable_set_is_chosen(rule: ControlSetRule) -> None:
    for flags in ((True, False, False), (False, True, False), (False, False, True)):
        decision = rule.decide(
            history(["a", "b", "abc"], [1, 2, 3], affordable=flags), Table([1.0, 2.0, 5.0])
        )
        assert decision.index == flags.index(True)
        assert decision.in_play == (decision.index,)


@each_rule
def test_refuses_when_nothing_is_affordable(rule: ControlSetRule) -> None:
    table = Table([1.0, 2.0])
    with pytest.raises(
        InputError,
        match=r"affordable=\[False, False\]: expected at least one True, of control sets of the "
        r"costs \[1\.0, 2\.0\]",
    ):
        rule.decide(history(["a", "b"], [1, 2], affordable=(False, False)), table)
    assert not table.calls


@each_rule
def test_decision_carries_what_was_seen_and_a_sentence(rule: ControlSetRule) -> None:
    table = Table([1.0, 2.0, 5.0])
    decision = rule.decide(history(["a", "b", "abc"], [1, 2, 3]), table)
    assert set(decision.values) == table.asked
    assert all(decision.values[i] == table.values[i] for i in decision.values)
    assert decision.index in decision.in_play
    assert decision.index in decision.values
    assert decision.reason[-1] == "."
    assert f"{decision.values[decision.index]:g}" in decision.reason
    assert decision == rule.decide(history(["a", "b", "abc"], [1, 2, 3]), table)


@each_rule
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_refuses_values_that_are_not_finite(rule: ControlSetRule, value: float) -> None:
    with pytest.raises(InputError, match=r"evaluate gave .* for control set 0: expected a finite"):
        rule.decide(history(["a"], [1]), lambda indices: [value for _ in indices])


@each_rule
def test_refuses_another_number_of_values(rule: ControlSetRule) -> None:
    with pytest.raises(
        InputError, match=r"evaluate gave 2 values for the control sets \[0\]: expected one for"
    ):
        rule.decide(history(["a"], [1]), lambda _: [1.0, 2.0])


def test_history_coerces_what_json_makes_of_it() -> None:
    lists = ControlSetHistory([["a"], ["b", "a"]], [1, 2], [0, 3], [1, 0], 4)  # type: ignore[arg-type]
    assert lists == history(["a", "ab"], [1.0, 2.0], 4, plays=(0, 3), affordable=(True, False))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"plays": (0,)}, r"the history has the lengths .*'plays': 1.*: expected one entry for"),
        ({"affordable": (True,) * 3}, r"'affordable': 3"),
        ({"costs": (1.0, 0.0)}, r"costs\[1\]=0\.0: expected a finite number > 0\."),
        ({"costs": (1.0, math.nan)}, r"costs\[1\]=nan: expected a finite number > 0\."),
        ({"plays": (0, -1)}, r"plays\[1\]=-1: expected an integer >= 0\."),
        ({"plays": (0, 1.5)}, r"plays\[1\]=1\.5: expected an integer >= 0\."),
        ({"names": ("one",)}, r"'names': 1"),
        ({"round": 0}, r"round=0: expected an integer >= 1\."),
        (
            {"parameters": ({"a", "b"}, {"b", "a"})},
            r"parameters=\[\['a', 'b'\], \['a', 'b'\]\]: expected control sets that differ",
        ),
    ],
)
def test_history_refuses(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        history(["a", "b"], [1, 2], **changes)


def test_reasons_call_control_sets_by_their_names() -> None:
    named = history(["a", "b"], [1, 2], names=("water", "light"))
    decision = ExploreThenCommit(0).decide(named, lambda indices: [float(i) for i in indices])
    assert "light has the largest value" in decision.reason
    assert named.describe(0) == "water"


def test_history_refuses_to_be_empty() -> None:
    with pytest.raises(InputError, match=r"the history has the lengths"):
        history([], [])


def test_decisions_compare_by_value() -> None:
    decision = ControlSetChoice(1, "Because.", (0, 1), {1: 2.0})
    assert decision == ControlSetChoice(1, "Because.", (0, 1), {1: 2.0})
    assert decision != ControlSetChoice(0, "Because.", (0, 1), {1: 2.0})


@pytest.mark.parametrize(
    ("decision", "message"),
    [
        (None, "a ControlSetChoice, with a reason"),
        (ControlSetChoice(0, None, (0,), {}), "with a reason"),  # type: ignore[arg-type]
        (ControlSetChoice(-1, "Last.", (), {}), r"one that can be played, of \[0, 2\]"),
        (ControlSetChoice(1, "Expensive.", (), {}), r"one that can be played, of \[0, 2\]"),
        (ControlSetChoice(3, "Far.", (), {}), r"one that can be played, of \[0, 2\]"),
        (ControlSetChoice(0.5, "Half.", (), {}), "one that can be played"),  # type: ignore[arg-type]
        (ControlSetChoice(0, "Some.", (0, 9), {}), "indices from 0 to 2"),
    ],
)
def test_what_a_rule_of_ones_own_may_choose(decision: Any, message: str) -> None:
    """What cannot be paid was played, and -1 was the last one."""
    affordable = (True, False, True)
    with pytest.raises(InputError, match=f"ExploreThenCommit chose .*{message}"):
        checked_choice(ExploreThenCommit(1), affordable, decision)
    good = ControlSetChoice(np.int64(2), "Good.", (0, 2), {2: 1.0})  # type: ignore[arg-type]
    chosen = checked_choice(ExploreThenCommit(1), affordable, good)
    assert (chosen.index, type(chosen.index)) == (2, int)

"""What the money that is left would teach."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ax_costaware.exceptions import InputError
from ax_costaware.policies import CostEstimate, KnowledgePerBudget
from tests.policies.control_set_rules.tables import Table, history


@dataclass
class Worth(Table):
    """Worths, and the plays that were asked about; costs that may differ from the history's."""

    prices: Sequence[float] = ()
    plays: list[int] = field(default_factory=list)

    def knowledge(self, indices: Sequence[int], plays: Sequence[int]) -> list[float]:
        self.plays = list(plays)
        return [self.values[i] for i in indices]

    def costs(self, indices: Sequence[int]) -> list[CostEstimate]:
        return [CostEstimate(self.prices[i], None) for i in indices]

    def lower(self, indices: Sequence[int], pointwise: bool = False) -> list[float]:
        raise AssertionError("no bounds are needed")

    upper = lower

    def worst(self) -> float:
        raise AssertionError("no worst value is needed")


SETS = ["a", "b", "ab"]


def test_the_cheapest_of_those_that_are_worth_nearly_the_most() -> None:
    table = Worth([0.75, 0.6, 1.0], prices=(1, 1, 8))
    decision = KnowledgePerBudget().decide(history(SETS, [1, 1, 8], remaining=40.0), table)
    assert decision.index == 0
    assert decision.in_play == (0,)
    assert table.plays == [40, 40, 5]
    assert decision.reason == (
        "40 trials of a, for 40, are expected to add 0.75 to the best expectation, at most 1 would "
        "be added by any control set; it is the cheapest that adds 70% of that."
    )
    table = Worth([0.65, 0.6, 1.0], prices=(1, 1, 8))
    assert KnowledgePerBudget().decide(history(SETS, [1, 1, 8]), table).index == 2
    assert table.plays == [80, 80, 10]  # without a budget


def test_of_equal_costs_the_one_that_is_worth_most() -> None:
    table = Worth([0.8, 0.9, 1.0], prices=(1, 1.2, 8))
    decision = KnowledgePerBudget().decide(history(SETS, [1, 1, 8]), table)
    assert decision.index == 1
    assert decision.in_play == (0, 1)


def test_costs_are_those_at_the_values_found_and_what_cannot_be_paid_is_not_asked_about() -> None:
    table = Worth([0.9, 0.9, 1.0], prices=(5, 2, 8))
    changes = {"affordable": (True, True, False), "remaining": 7.0}
    decision = KnowledgePerBudget().decide(history(SETS, [1, 1, 8], **changes), table)
    assert decision.index == 1
    assert table.plays == [1, 3]


def test_long_batches_are_cut() -> None:
    table = Worth([1.0, 1.0, 1.0], prices=(0.001, 1, 8))
    KnowledgePerBudget().decide(history(SETS, [0.001, 1, 8], remaining=100.0), table)
    assert table.plays == [100, 100, 12]


@given(
    worth=st.lists(st.floats(0.01, 10), min_size=3, max_size=3),
    costs=st.lists(st.floats(0.1, 10), min_size=3, max_size=3),
    unit=st.sampled_from([2.0**-20, 0.5, 1024.0]),
    scale=st.sampled_from([2.0**-30, 2.0, 2.0**40]),
)
def test_units_change_nothing(
    worth: list[float], costs: list[float], unit: float, scale: float
) -> None:
    rule = KnowledgePerBudget()
    usual = rule.decide(history(SETS, costs, remaining=20.0), Worth(worth, prices=costs))
    others = [unit * cost for cost in costs]
    table = Worth([scale * value for value in worth], prices=others)
    assert rule.decide(history(SETS, others, remaining=20.0 * unit), table).index == usual.index
    assert worth[usual.index] >= 0.7 * max(worth)


@pytest.mark.parametrize("share", [0.0, 1.5, float("nan"), "much"])
def test_bad_shares_are_refused(share: float) -> None:
    with pytest.raises(InputError, match="share"):
        KnowledgePerBudget(share)


def test_values_without_worths_are_refused() -> None:
    with pytest.raises(InputError, match="EvaluateKnowledge"):
        KnowledgePerBudget().decide(history(SETS, [1, 1, 8]), Table([1.0, 1.0, 1.0]))

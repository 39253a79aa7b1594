"""Information per unit of cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ax_costaware.policies import CostEstimate, InformationPerCost
from tests.policies.control_set_rules.tables import Table, history


@dataclass
class Priced(Table):
    """Values, and costs that differ from those of the history."""

    prices: Sequence[float] = ()

    def lower(self, indices: Sequence[int], pointwise: bool = False) -> list[float]:
        """The rule asks for none."""
        raise AssertionError("no lower bounds are needed")

    def upper(self, indices: Sequence[int], pointwise: bool = False) -> list[float]:
        """The rule asks for none."""
        raise AssertionError("no upper bounds are needed")

    def worst(self) -> float:
        """The rule asks for none."""
        raise AssertionError("no worst value is needed")

    def costs(self, indices: Sequence[int]) -> list[CostEstimate]:
        """The prices of ``indices``."""
        return [CostEstimate(self.prices[i], None) for i in indices]


def test_takes_the_most_information_per_cost() -> None:
    decision = InformationPerCost().decide(
        history(["a", "b", "ab"], [1, 2, 8]), Table([0.1, 0.3, 0.9])
    )
    assert decision.index == 1
    assert decision.in_play == (0, 1, 2)
    assert decision.reason == (
        "b tells most about the best query per unit of cost of the 3 affordable control sets: "
        "0.3 nats at an expected cost of 2."
    )


def test_costs_are_those_at_the_values_found() -> None:
    table = Priced([0.1, 0.3, 0.9], prices=(1.0, 5.0, 3.0))
    assert InformationPerCost().decide(history(["a", "b", "ab"], [1, 2, 8]), table).index == 2


def test_nothing_to_learn_is_no_reason_to_fail() -> None:
    assert InformationPerCost().decide(history(["a", "ab"], [1, 2]), Table([0.0, 0.0])).index == 1


@given(
    values=st.lists(st.floats(0.01, 10), min_size=3, max_size=3, unique=True),
    costs=st.lists(st.floats(0.1, 10), min_size=3, max_size=3),
    unit=st.sampled_from([2.0**-20, 0.5, 1024.0]),
)
def test_the_unit_of_cost_changes_nothing(
    values: list[float], costs: list[float], unit: float
) -> None:
    sets = ["a", "b", "ab"]
    usual = InformationPerCost().decide(history(sets, costs), Table(values))
    other = InformationPerCost().decide(history(sets, [unit * c for c in costs]), Table(values))
    assert other.index == usual.index
    ratios = [value / cost for value, cost in zip(values, costs, strict=True)]
    assert ratios[usual.index] == pytest.approx(max(ratios))

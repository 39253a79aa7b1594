"""Times of trials, and what is left of a budget."""

from __future__ import annotations

import pytest

from ax_costaware.methods.money import money_of
from ax_costaware.methods.trial_times import TrialTimes


def test_index_as_time() -> None:
    times = TrialTimes(None, 7)
    assert [times[i] for i in (0, 3, 12)] == [0.0, 3.0, 12.0]
    assert times.now == 7.0


@pytest.mark.parametrize(
    ("reported", "now"),
    [
        ({}, 0.0),
        ({0: 2.5}, 2.5),
        ({0: 1.0, 1: 2.0}, 7.0),  # one step a trial: the sixth trial comes at six steps
        ({0: 0.0, 4: 2.0}, 3.0),  # half a step a trial
        ({0: 0.0, 1: 1.0, 2: 2.0, 3: 50.0}, 53.0),  # a break does not change the pace
        ({0: 5.0, 1: 5.0}, 5.0),
        ({0: 0.0, 1: 9.0, 2: 1.0, 3: 2.0}, 9.0),  # a late trial is after what was reported
    ],
)
def test_time_goes_on_by_the_median_step(reported: dict[int, float], now: float) -> None:
    times = TrialTimes(reported, 6)
    assert times.now == pytest.approx(now)
    assert all(times[i] == t for i, t in reported.items())
    assert times[7] >= times.now


def test_a_budget_pays_to_rounding() -> None:
    """What is left after nine payments of 0.1 from 1 pays for a tenth."""
    money = money_of([], 1.0, [0.1] * 9, free=False)
    assert money.remaining != 0.1
    assert [money.pays(cost) for cost in (0.1, 0.3, 1.0)] == [True, False, False]
    assert not money_of([], 1.0, [0.9001], free=False).pays(0.1)
    assert not money_of([], 1.0, [0.1] * 10, free=False).pays(0.1)


def test_what_is_not_known_is_paid_from_anything_that_is_left() -> None:
    assert money_of([], 2.0, [], free=False).pays(None)
    assert not money_of([], 2.0, [], free=False).pays(3.0)
    assert not money_of([], 2.0, [2.0], free=False).pays(None)


def test_what_is_free_or_without_a_budget_is_always_paid() -> None:
    money = money_of([], None, [5.0], free=False)
    assert (money.spent, money.remaining, money.limit) == (5.0, None, None)
    assert money.pays(1e9)
    free = money_of([], 2.0, [5.0], free=True)
    assert (free.spent, free.remaining) == (0.0, 2.0)
    assert free.pays(1e9)


def test_what_was_left_before_a_batch() -> None:
    money = money_of([], 9.0, [2.0, 3.0], free=False)
    assert (money.before, money.remaining, money.spent) == (9.0, 4.0, 5.0)
    assert money.record() == {"spent": 5.0, "remaining": 4.0}

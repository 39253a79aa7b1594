"""Times of trials, and what is left of a budget."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pytest

from ax_costaware.core import PastTrial, Problem
from ax_costaware.core.account import Budgeted, BudgetState, ledger_of
from ax_costaware.core.history import check_complete
from ax_costaware.core.problem import Pending
from ax_costaware.core.trial_costs import TrialCosts
from ax_costaware.core.trial_times import TrialTimes
from ax_costaware.exceptions import InputError
from ax_costaware.space import Choice, Range, Space
from ax_costaware.space.parameters import Row


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


@dataclass(frozen=True, kw_only=True)
class Priced(Budgeted):
    """Trials that cost what they say."""

    def cost_at(self, parameters: Row) -> float:
        return float(str(parameters["cost"]))


def left(budget: float | None, reserved: list[float], is_free: bool = False) -> BudgetState:
    """What a budget is before any trial, with decisions that are none yet."""
    pending = tuple(Pending(None, {"cost": cost}) for cost in reserved)
    method = Priced(budget=budget, charge_initial=not is_free)
    return method.budget_state(Problem(Space.of([]), pending=pending), initial=is_free)


@pytest.mark.parametrize("answer", ["cost_at", "as_run", "by_others"])
@pytest.mark.parametrize("cost", [math.nan, math.inf, -1.0, "expensive"])
def test_a_cost_of_ones_own_that_is_none_is_refused(answer: str, cost: Any) -> None:
    """It made the spent sum NaN, or less the more was run."""
    trials = [PastTrial(0, {"x": 0.5}, outcome=1.0, is_observed=True)]

    def own(answered: Any) -> Budgeted:
        members: dict[str, Any] = {answer: lambda self, *trial: answered}
        if answer == "cost_at":
            return cast(Budgeted, type("Own", (Budgeted,), members)())
        costs = type("Own", (TrialCosts,), members)
        return cast(Budgeted, type("Owner", (Budgeted,), {"trial_costs": property(costs)})())

    with pytest.raises(InputError, match=f"Own.{answer}={cost!r}"):
        ledger_of(trials, own(cost))
    assert [entry.charged for entry in ledger_of(trials, own(np.float32(0.5)))] == [0.5]


def test_a_budget_pays_to_rounding() -> None:
    """What is left after nine payments of 0.1 from 1 pays for a tenth."""
    state = left(1.0, [0.1] * 9)
    assert state.remaining != 0.1
    assert [state.pays(cost) for cost in (0.1, 0.3, 1.0)] == [True, False, False]
    assert not left(1.0, [0.9001]).pays(0.1)
    assert not left(1.0, [0.1] * 10).pays(0.1)


def test_what_is_not_known_is_paid_from_anything_that_is_left() -> None:
    assert left(2.0, []).pays(None)
    assert not left(2.0, []).pays(3.0)
    assert not left(2.0, [2.0]).pays(None)


def test_what_is_free_or_without_a_budget_is_always_paid() -> None:
    state = left(None, [5.0])
    assert (state.spent, state.remaining, state.limit) == (5.0, None, None)
    assert state.pays(1e9)
    free = left(2.0, [5.0], is_free=True)
    assert (free.spent, free.remaining) == (0.0, 2.0)
    assert free.pays(1e9)


def test_what_was_left_before_a_batch() -> None:
    state = left(9.0, [2.0, 3.0])
    assert (state.remaining_before_batch, state.remaining, state.spent) == (9.0, 4.0, 5.0)
    assert state.record() == {"spent": 5.0, "remaining": 4.0}


@pytest.mark.parametrize(
    ("x", "said"),
    [
        ({}, r"it has no value of \['x'\]"),
        ({"x": 0.35}, r"'x' has the value 0.35"),
        ({"x": "a"}, "'x' has the value 'a'"),
    ],
    ids=["missing", "between", "no number"],
)
def test_trials_without_a_value_of_a_parameter_are_named(x: dict[str, Any], said: str) -> None:
    space = Space.of([Choice("x", (0.1, 0.3), is_ordered=True)])
    trials = [PastTrial(0, {"x": 0.1 + 0.2}), PastTrial(2, x)]
    check_complete(trials[:1], space)
    with pytest.raises(InputError, match=rf"trial 2: {said}.*exclude_trial\(client, 2\)"):
        check_complete(trials, space)


@pytest.mark.parametrize(
    ("scale", "x", "said"),
    [
        ("log_scale", -1.0, "log scale"),
        ("log_scale", 0, "log scale"),
        ("logit_scale", 1.0, "logit scale"),
    ],
)
def test_trials_that_are_not_on_the_scale_of_a_range_are_named(
    scale: str, x: float, said: str
) -> None:
    """Ax lets a trial beyond the bounds be attached."""
    space = Space.of([Range("x", 0.1, 0.5, **{scale: True})])
    trials = [PastTrial(0, {"x": 0.7}), PastTrial(2, {"x": x})]
    check_complete(trials[:1], space)
    with pytest.raises(InputError, match=rf"trial 2: 'x' has the value {x} on a {said}.*client, 2"):
        check_complete(trials, space)

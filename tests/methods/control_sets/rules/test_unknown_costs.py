"""The rule for unknown random costs: phases, running bounds, costs, and what changes nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from ax_costaware.exceptions import InputError
from ax_costaware.methods import (
    ControlSetChoice,
    ControlSetHistory,
    CostEstimate,
    PastChoice,
    UnknownCosts,
)
from ax_costaware.methods.control_sets.rules.unknown_costs import relative_scatter

SETS = (frozenset("a"), frozenset("b"), frozenset("ab"))


@dataclass
class Told:
    """Fixed numbers in place of a model."""

    high: Sequence[float]
    low: Sequence[float]
    least: float = 0.0
    estimates: dict[int, CostEstimate] = field(default_factory=dict)
    means: Sequence[float] = (1.0, 1.0, 1.0)
    looser: float = 0.0

    def __call__(self, indices: Sequence[int]) -> list[float]:
        return [self.high[i] for i in indices]

    def upper(self, indices: Sequence[int], pointwise: bool = False) -> list[float]:
        return [self.high[i] + self.looser * pointwise for i in indices]

    def lower(self, indices: Sequence[int], pointwise: bool = False) -> list[float]:
        return [self.low[i] - self.looser * pointwise for i in indices]

    def worst(self) -> float:
        return self.least

    def costs(self, indices: Sequence[int]) -> list[CostEstimate]:
        return [self.estimates.get(i, CostEstimate(self.means[i], None)) for i in indices]


def history(**changes: Any) -> ControlSetHistory:
    """Nothing was played yet, and the budget is 10."""
    fields: dict[str, Any] = {
        "parameters": SETS,
        "costs": (1.0, 1.0, 1.0),
        "plays": (0, 0, 0),
        "affordable": (True, True, True),
        "round": 1,
        "known": (False, False, False),
        "reported": ((), (), ()),
        "budget": 10.0,
        "remaining": 10.0,
    }
    return ControlSetHistory(**{**fields, **changes})


def exploiting(
    values: dict[int, float] | None = None, lower: float | None = -math.inf, reset: bool = False
) -> PastChoice:
    """An earlier decision of the second phase."""
    upper = {str(index): value for index, value in (values or {}).items()}
    state = {"phase": "exploit", "lower": lower, "upper": upper, "reset": reset}
    return PastChoice(0, 1.0, state)


EQUAL = Told((1.0, 1.0, 1.0), (0.0, 0.0, 0.0))
TOLD = Told(high=(0.95, 0.8, 1.2), low=(0.5, 0.5, 1.0), means=(0.2, 0.1, 1.0))


def exploited(**changes: Any) -> ControlSetHistory:
    """A history whose exploration has ended, with four reports of each cost."""
    fields: dict[str, Any] = {
        "past": (exploiting(),),
        "reported": ((0.2,) * 4, (0.1,) * 4, (1.0,) * 4),
        "costs": (0.2, 0.1, 1.0),
    }
    return history(**{**fields, **changes})


def decide(where: ControlSetHistory, told: Told, **fields: Any) -> ControlSetChoice:
    """One decision of the rule with some fields of its own."""
    return UnknownCosts(**fields).decide(where, told)


def explored(count: int, budget: float | None = None) -> tuple[PastChoice, ...]:
    """Earlier decisions of the first phase, at a cost of one each."""
    return tuple(PastChoice(i % 3, 1.0, {"phase": "explore"}, budget=budget) for i in range(count))


def after_a_larger_budget(budget: float, earlier: float | None) -> dict[str, Any]:
    """Three explored of a budget of 5, and an exploitation that was decided from another one."""
    past = (*explored(3, 5.0), replace(exploiting(), budget=earlier))
    return {"past": past, "reported": ((1.0,),) * 3, "budget": budget, "remaining": budget - 4}


NO_BUDGET = {"past": explored(3), "budget": None, "remaining": None}
AFTER_FIVE = {"past": explored(5), "reported": ((1.0,),) * 3, "remaining": 5.0}
AFTER_INITIAL = {"past": explored(2), "reported": ((1.0,) * 3,) * 3, "remaining": 3.0}


@pytest.mark.parametrize(
    ("fields", "changes", "phase", "index"),
    [
        # It costs at most its share, of what initial trials leave, to the last decimal.
        ({"exploration": 0.6}, AFTER_FIVE, "explore", 2),
        ({"exploration": 0.59}, AFTER_FIVE, "exploit", None),
        ({"exploration": 0.6}, AFTER_INITIAL, "explore", 2),
        ({"exploration": 0.59}, AFTER_INITIAL, "exploit", None),
        # It goes on with a larger budget than that from which it was ended.
        ({"exploration": 0.6}, after_a_larger_budget(10.0, 5.0), "explore", None),
        ({"exploration": 0.6}, after_a_larger_budget(6.0, 5.0), "exploit", None),
        ({"exploration": 0.6}, after_a_larger_budget(10.0, 10.0), "exploit", None),
        ({"exploration": 0.6}, after_a_larger_budget(10.0, 20.0), "exploit", None),
        ({"exploration": 0.6}, after_a_larger_budget(10.0, None), "exploit", None),
        # Rounds limit it without a budget.
        ({"rounds": 1}, NO_BUDGET, "exploit", None),
        ({"rounds": 2}, NO_BUDGET, "explore", 0),
        # A first play needs no known cost; what is not affordable is left out.
        ({}, {"costs": (50.0,) * 3}, "explore", 0),
        ({}, {"affordable": (False, True, True)}, "explore", 1),
    ],
)
def test_the_end_of_exploration(
    fields: dict[str, Any], changes: dict[str, Any], phase: str, index: int | None
) -> None:
    decision = decide(history(**changes), EQUAL, **fields)
    assert decision.state["phase"] == phase
    assert index in (None, decision.index)


def test_pending_trials_count_as_plays() -> None:
    past = (PastChoice(0, 1.0, {"phase": "explore", "lower": None}),)
    decision = decide(history(past=past, pending=True), EQUAL)
    assert (decision.index, decision.state["lower"]) == (1, None)


BEST = {0: 2.0, 1: 2.0, 2: 2.0}
LOOSE = {"looser": 0.3}
BELOW = {"high": (-99.05, -99.2, -98.8), "low": (-99.5, -99.5, -99.0), "least": -100.0}
RARE = {"reported": ((0.1, 0.3), (0.1,) * 4, (0.3,)), "costs": (0.2, 0.1, 0.3)}
A_FIFTH_LEFT = {"past": (*explored(1), *[exploiting()] * 4), "remaining": 1.0}
PRECISE = {0: CostEstimate(0.2, 0.0), 2: CostEstimate(0.3, 0.0)}
IMPRECISE = {0: CostEstimate(0.2, 0.01), 2: CostEstimate(0.3, 0.2)}
FEW = {"reported": ((0.1, 0.3), (), (0.3,))}
SCATTERED = {"reported": ((0.2,) * 4, (0.1,) * 4, (0.8, 1.2, 0.7, 1.3))}


def seen(**changes: Any) -> dict[str, Any]:
    return {"past": (exploiting(**changes),)}


@pytest.mark.parametrize(
    ("fields", "changes", "told", "in_play", "index"),
    [
        # The cheapest whose upper bound reaches the best lower bound less the tolerance.
        ({"tolerance": 0.1}, {}, {}, (0, 2), 0),
        ({"tolerance": 0.25}, {}, {}, None, 1),
        ({"tolerance": 0.0}, {}, {}, None, 2),
        ({"tolerance": 0.1}, {}, BELOW, None, 0),
        ({"tolerance": 0.04}, {}, {}, None, 2),
        ({"tolerance": 0.04, "worst_value": -1.0}, {}, {}, None, 0),
        # It is halved, by default after as many decisions as there are inputs; or decreases.
        ({"tolerance": 0.1, "halve_every": 4}, {"past": (exploiting(),) * 3}, {}, None, 0),
        ({"tolerance": 0.1, "halve_every": 4}, {"past": (exploiting(),) * 8}, {}, None, 2),
        ({"tolerance": 0.1, "halve_every": 0}, {"past": (exploiting(),) * 8}, {}, None, 0),
        ({"tolerance": 0.08}, {"past": (exploiting(),) * 1}, {}, None, 0),
        ({"tolerance": 0.08}, {"past": (exploiting(),) * 2}, {}, None, 2),
        ({"tolerance": 0.24, "decays_with_budget": True}, A_FIFTH_LEFT, {}, (2,), 2),
        ({"tolerance": 0.26, "decays_with_budget": True}, A_FIFTH_LEFT, {}, (0, 2), 0),
        # Running bounds are of all decisions since the exploration, with nothing pending.
        ({"tolerance": 0.1}, seen(values={**BEST, 0: 0.7}, lower=0.2), {}, (2,), 2),
        ({"tolerance": 0.1}, seen(values=BEST, lower=1.1), {}, (2,), 2),
        ({"tolerance": 0.1}, seen(values={0: 0.7, 1: 0.0, 2: 0.0}, lower=None), {}, (0, 2), 0),
        # Bounds may be those of the paper.
        ({"tolerance": 0.0}, {}, LOOSE, (2,), 2),
        ({"tolerance": 0.0, "pointwise_bounds": True}, {}, LOOSE, (0, 1, 2), 1),
        # Costs count by their lower bounds: of few reports it is zero, and the value decides.
        ({"tolerance": 0.1}, RARE, {"means": (0.2, 0.1, 0.3)}, None, 2),
        ({"tolerance": 0.1}, FEW, {"estimates": PRECISE}, None, 0),
        ({"tolerance": 0.1}, {}, {"estimates": IMPRECISE}, None, 2),
        ({"tolerance": 0.1}, {"reported": ((0.2,) * 9, (0.1,) * 9, ())}, {}, None, 2),
        # The scatter of an expensive set does not hide differences between cheap ones.
        ({"tolerance": 0.25}, SCATTERED, {}, None, 1),
    ],
)
def test_exploitation(
    fields: dict[str, Any],
    changes: dict[str, Any],
    told: dict[str, Any],
    in_play: tuple[int, ...] | None,
    index: int,
) -> None:
    decision = decide(exploited(**changes), replace(TOLD, **told), **fields)
    assert decision.index == index
    assert in_play in (None, decision.in_play)


def test_bounds_start_anew_where_none_qualifies() -> None:
    wrong = exploiting({0: 0.1, 1: 0.1, 2: 0.1}, lower=3.0)
    decision = decide(exploited(past=(wrong,)), TOLD, tolerance=0.1)
    assert (decision.state["reset"], decision.in_play) == (True, (0, 2))
    later = PastChoice(0, 1.0, decision.state, decision.values)
    after = decide(exploited(past=(wrong, later)), TOLD, tolerance=0.1)
    assert (after.state["reset"], after.in_play) == (False, (0, 2))


def test_what_is_affordable_compares_with_itself() -> None:
    """Where no budget is left for the best control set, the good ones of the others remain."""
    where = exploited(affordable=(True, True, False))
    decision = decide(where, replace(TOLD, low=(0.9, 0.5, 5.0)), tolerance=0.1)
    assert (decision.in_play, decision.state["reset"]) == ((0,), True)
    less = decide(where, replace(TOLD, low=(0.6, 0.5, 5.0)), tolerance=0.1)
    assert (less.in_play, less.index) == ((0, 1), 1)


def test_bounds_of_another_problem_do_not_count() -> None:
    other = replace(exploiting({0: 0.7, 1: 2.0, 2: 2.0}, lower=1.15), comparable=False)
    assert decide(exploited(past=(other,)), TOLD, tolerance=0.1).in_play == (0, 2)


def test_width_of_the_cost_bound() -> None:
    """Ten trials of cost 1 so far, and the rest buys five more."""
    where = exploited(past=(exploiting(),) * 10, remaining=5.0)
    decision = decide(where, TOLD, tolerance=0.1, halve_every=0, cost_range=0.1)
    bound = 0.2 - 0.1 * math.sqrt(2 * math.log(15) / 4)
    assert f"{bound:.6g}" in decision.reason


def test_follows_algorithm_1_literally() -> None:
    """Lines 3 to 26, on random bounds, also below zero, and random costs in [0, 1]."""
    m, tau, T, alpha, resets = 3, 4, 40, 0.2, 0
    rule = UnknownCosts.published(T, rounds=tau, tolerance=alpha, halve_every=0)
    for seed in range(15):
        rng = np.random.default_rng(seed)
        price, shift = rng.uniform(0.1, 0.9, size=m), rng.uniform(-0.8, 1.0)
        ucb, lcb = np.full(m, np.inf), -np.inf
        past: list[PastChoice] = []
        costs: list[list[float]] = [[] for _ in range(m)]
        for t in range(T):
            truth = np.array([1.0, 1.1, 1.3]) + shift * (t > 25) + min(shift, 0.0)
            u = truth + rng.uniform(0.1, 0.5, size=m)
            low = truth - rng.uniform(0.1, 0.5, size=m)
            told = Told(u, low, least=9.0, means=[np.mean(c) if c else 1.0 for c in costs])
            where = history(
                plays=tuple(map(len, costs)),
                round=t + 1,
                past=tuple(past),
                reported=tuple(map(tuple, costs)),
                budget=None,
                remaining=None,
            )
            decision = rule.decide(where, told)
            lcb = max(lcb, low[2])
            if t < m * tau:
                expected = t % m
                ucb[expected] = min(ucb[expected], u[expected])
            else:
                ucb = np.minimum(ucb, u)
                S1 = [i for i in range(m) if ucb[i] > (1 - alpha) * lcb]
                if not S1:
                    resets += 1
                    lcb, ucb = low[2], u.copy()
                    S1 = [i for i in range(m) if ucb[i] > (1 - alpha) * lcb]
                beta = [math.sqrt(2 * math.log(T) / len(c)) for c in costs]
                c_lcb = [max(np.mean(c) - b, 0.0) for c, b in zip(costs, beta, strict=True)]
                S3 = [i for i in S1 if c_lcb[i] == min(c_lcb[j] for j in S1)]
                # Line 20 leaves no control set where the best bounds are negative and close.
                expected = max(S3, key=lambda i: u[i]) if S3 else decision.index
            assert decision.index == expected
            cost = float(np.clip(price[expected] + rng.normal(0, 0.1), 0.01, 1.0))
            costs[expected].append(cost)
            past.append(PastChoice(expected, cost, decision.state, decision.values))
    assert resets > 5


def test_decisions_of_a_batch_continue_the_exploration() -> None:
    """They are no trials yet and have no state, but take their turn and their part of the share."""
    told = Told((1.0, 2.0, 3.0), (0.0, 0.0, 0.0))
    undelivered: tuple[PastChoice, ...] = ()
    found = []
    for _ in range(4):
        where = history(past=undelivered, reported=((1.0,), (1.0,), (1.0,)))
        decision = decide(where, told, exploration=0.3)
        found.append((decision.index, decision.state["phase"]))
        undelivered += (PastChoice(decision.index, 1.0),)
    assert found[:3] == [(0, "explore"), (1, "explore"), (2, "explore")]
    assert found[3][1] == "exploit"


def test_scatter_is_relative_and_within_control_sets() -> None:
    assert relative_scatter(()) == 0.5
    assert relative_scatter(((3.0,), ())) == 0.5
    assert relative_scatter(((2.0, 2.0), (5.0,), ())) == pytest.approx(math.sqrt(0.25 / 2))
    squares = 0.25 + 2 * 0.5**2 + 2 * (1 / 6) ** 2
    assert relative_scatter(((1.0, 2.0, 3.0), (10.0, 14.0))) == pytest.approx(
        math.sqrt(squares / 4)
    )
    rng = np.random.default_rng(0)
    many = [tuple(mean * rng.normal(1.0, 0.2, size=400)) for mean in (0.1, 10.0)]
    assert relative_scatter(many) == pytest.approx(0.2, abs=0.01)


def test_prints_what_was_given() -> None:
    for rule in (UnknownCosts(tolerance=0.2, rounds=3), UnknownCosts.published(300, -1.0)):
        assert eval(repr(rule)) == rule
    assert repr(UnknownCosts()) == "UnknownCosts()"


def test_turns_the_worst_value_with_the_objective() -> None:
    assert UnknownCosts(worst_value=3.0).oriented(minimize=True).worst_value == -3.0
    assert UnknownCosts(worst_value=3.0).oriented(minimize=False).worst_value == 3.0
    assert UnknownCosts().oriented(minimize=True) == UnknownCosts()


def test_refuses_what_it_cannot_work_with() -> None:
    told = Told((1.0, 1.0, 1.0), (0.0, 0.0, 0.0))
    with pytest.raises(InputError, match="EvaluateBounds"):
        UnknownCosts().decide(history(), lambda indices: [0.0 for _ in indices])
    with pytest.raises(InputError, match="rounds=None"):
        UnknownCosts().decide(history(budget=None), told)
    with pytest.raises(InputError, match="decays_with_budget=True"):
        decide(history(budget=None), told, rounds=1, decays_with_budget=True)
    with pytest.raises(InputError, match="lower bound nan"):
        UnknownCosts().decide(history(), replace(told, low=(0.0, 0.0, math.nan)))
    with pytest.raises(InputError, match="affordable="):
        UnknownCosts().decide(history(affordable=(False,) * 3), told)

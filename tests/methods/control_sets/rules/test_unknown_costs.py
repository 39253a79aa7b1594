"""The rule for unknown random costs: phases, running bounds, costs, and what changes nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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


def play(
    rule: UnknownCosts,
    seed: int,
    value_of: Callable[[float], float] = lambda value: value,
    unit: float = 1.0,
    steps: int = 40,
    budget: float = 30.0,
) -> list[tuple[int, str]]:
    """Decisions and phases of a run on made-up bounds that narrow, with random costs.

    Args:
        rule: The rule.
        seed: Seed of the bounds and costs.
        value_of: Applied to every value of the objective; increasing.
        unit: Multiplies every cost and the budget.
        steps: The most decisions.
        budget: The budget, before the unit.
    """
    rng = np.random.default_rng(seed)
    truth, price = rng.normal(size=3), rng.uniform(0.2, 2.0, size=3)
    truth[2] = truth.max() + abs(rng.normal()) / 5
    spent, past = 0.0, []
    reported: list[list[float]] = [[], [], []]
    made = []
    for step in range(steps):
        width = 3.0 / (1 + step) + rng.uniform(0, 0.2, size=3)
        told = Told(
            high=[value_of(v) for v in truth + width],
            low=[value_of(v) for v in truth - width],
            least=value_of(-4.0),
        )
        means = [np.mean(c) if c else np.mean([*chain(*reported)] or [unit]) for c in reported]
        told.means = [float(mean) for mean in means]
        where = history(
            costs=told.means,
            plays=tuple(map(len, reported)),
            affordable=tuple(spent + mean <= budget * unit for mean in means),
            round=step + 1,
            reported=tuple(map(tuple, reported)),
            past=tuple(past),
            budget=budget * unit,
            remaining=budget * unit - spent,
        )
        if not any(where.affordable):
            break
        decision = rule.decide(where, told)
        cost = unit * price[decision.index] * rng.lognormal(0.0, 0.3)
        reported[decision.index].append(cost)
        spent += cost
        past.append(PastChoice(decision.index, cost, decision.state, decision.values))
        made.append((decision.index, decision.state["phase"]))
    return made


def decide(where: ControlSetHistory, told: Told, **fields: Any) -> ControlSetChoice:
    """One decision of the rule with some fields of its own."""
    return UnknownCosts(**fields).decide(where, told)


class TestExploration:
    def test_plays_every_control_set_in_turn(self) -> None:
        made = play(UnknownCosts(), seed=1)
        explored = [index for index, phase in made if phase == "explore"]
        assert len(explored) > 6
        assert explored == [i % 3 for i in range(len(explored))]

    def test_never_comes_back(self) -> None:
        phases = [phase for _, phase in play(UnknownCosts(), seed=2)]
        assert phases == sorted(phases, key=["explore", "exploit"].index)
        assert "exploit" in phases

    def test_spends_at_most_its_share(self) -> None:
        past = tuple(PastChoice(i % 3, 1.0, {"phase": "explore"}) for i in range(5))
        told = Told((1.0, 1.0, 1.0), (0.0, 0.0, 0.0))
        where = history(past=past, reported=((1.0,),) * 3, remaining=5.0)
        assert decide(where, told, exploration=0.6).state["phase"] == "explore"
        assert decide(where, told, exploration=0.59).state["phase"] == "exploit"

    def test_its_share_is_of_what_initial_trials_leave(self) -> None:
        past = tuple(PastChoice(i, 1.0, {"phase": "explore"}) for i in range(2))
        told = Told((1.0, 1.0, 1.0), (0.0, 0.0, 0.0))
        where = history(past=past, reported=((1.0,) * 3,) * 3, remaining=3.0)  # and 5 before
        decision = decide(where, told, exploration=0.6)
        assert decision.state["phase"] == "explore"
        assert "on which 2 of at most 3 was spent" in decision.reason
        assert decide(where, told, exploration=0.59).state["phase"] == "exploit"

    def test_goes_on_with_a_larger_budget(self) -> None:
        """Within its share; what was decided from one no smaller than now has ended it."""
        explored = tuple(PastChoice(i, 1.0, {"phase": "explore"}, budget=5.0) for i in range(3))
        told = Told((1.0, 1.0, 1.0), (0.0, 0.0, 0.0))
        for budget, earlier, phase in (
            (10.0, 5.0, "explore"),
            (6.0, 5.0, "exploit"),
            (10.0, 10.0, "exploit"),
            (10.0, 20.0, "exploit"),
            (10.0, None, "exploit"),
        ):
            past = (*explored, replace(exploiting(), budget=earlier))
            where = history(past=past, reported=((1.0,),) * 3, budget=budget, remaining=budget - 4)
            assert decide(where, told, exploration=0.6).state["phase"] == phase

    def test_rounds_limit_it_without_a_budget(self) -> None:
        past = tuple(PastChoice(i, 1.0, {"phase": "explore"}) for i in range(3))
        told = Told((1.0, 1.0, 1.0), (0.0, 0.0, 0.0))
        where = history(past=past, budget=None, remaining=None)
        assert decide(where, told, rounds=1).state["phase"] == "exploit"
        assert decide(where, told, rounds=2).index == 0

    def test_a_first_play_needs_no_known_cost(self) -> None:
        where = history(costs=(50.0, 50.0, 50.0), budget=10.0)
        assert decide(where, Told((1.0, 1.0, 1.0), (0.0, 0.0, 0.0))).state["phase"] == "explore"

    def test_leaves_out_what_is_not_affordable(self) -> None:
        where = history(affordable=(False, True, True))
        assert decide(where, Told((1.0, 1.0, 1.0), (0.0, 0.0, 0.0))).index == 1

    def test_pending_trials_count_as_plays(self) -> None:
        past = (PastChoice(0, 1.0, {"phase": "explore", "lower": None}),)
        told = Told((1.0, 1.0, 1.0), (0.0, 0.0, 0.0))
        decision = decide(history(past=past, pending=True), told)
        assert decision.index == 1
        assert decision.state["lower"] is None


class TestExploitation:
    told = Told(high=(0.95, 0.8, 1.2), low=(0.5, 0.5, 1.0), means=(0.2, 0.1, 1.0))

    def where(self, **changes: Any) -> ControlSetHistory:
        fields: dict[str, Any] = {
            "past": (exploiting(),),
            "reported": ((0.2,) * 4, (0.1,) * 4, (1.0,) * 4),
            "costs": (0.2, 0.1, 1.0),
        }
        return history(**{**fields, **changes})

    def test_takes_the_cheapest_that_comes_close(self) -> None:
        decision = decide(self.where(), self.told, tolerance=0.1)
        assert decision.in_play == (0, 2)
        assert decision.index == 0

    def test_a_larger_tolerance_lets_a_cheaper_one_in(self) -> None:
        assert decide(self.where(), self.told, tolerance=0.25).index == 1

    def test_without_tolerance_the_best_remains(self) -> None:
        assert decide(self.where(), self.told, tolerance=0.0).index == 2

    def test_tolerance_is_halved(self) -> None:
        eight = (exploiting(),) * 8
        rule = {"tolerance": 0.1, "halve_every": 4}
        assert decide(self.where(past=eight[:3]), self.told, **rule).index == 0
        assert decide(self.where(past=eight), self.told, **rule).index == 2
        assert decide(self.where(past=eight), self.told, tolerance=0.1, halve_every=0).index == 0

    def test_tolerance_is_halved_after_as_many_decisions_as_inputs(self) -> None:
        rule = UnknownCosts(tolerance=0.08)
        late = self.where(past=(exploiting(),) * 2)
        assert rule.decide(self.where(), self.told).index == 0
        assert rule.decide(late, self.told).index == 2

    def test_running_bounds_remember(self) -> None:
        seen = exploiting({0: 0.7, 1: 2.0, 2: 2.0}, lower=0.2)
        assert decide(self.where(past=(seen,)), self.told, tolerance=0.1).in_play == (2,)
        higher = exploiting({0: 2.0, 1: 2.0, 2: 2.0}, lower=1.1)
        assert decide(self.where(past=(higher,)), self.told, tolerance=0.1).in_play == (2,)

    def test_bounds_from_pending_outcomes_are_not_remembered(self) -> None:
        seen = exploiting({0: 0.7, 1: 0.0, 2: 0.0}, lower=None)
        assert decide(self.where(past=(seen,)), self.told, tolerance=0.1).in_play == (0, 2)

    def test_bounds_start_anew_where_none_qualifies(self) -> None:
        wrong = exploiting({0: 0.1, 1: 0.1, 2: 0.1}, lower=3.0)
        decision = decide(self.where(past=(wrong,)), self.told, tolerance=0.1)
        assert decision.state["reset"] is True
        assert decision.in_play == (0, 2)
        later = PastChoice(0, 1.0, decision.state, decision.values)
        after = decide(self.where(past=(wrong, later)), self.told, tolerance=0.1)
        assert after.state["reset"] is False
        assert after.in_play == (0, 2)

    def test_what_is_affordable_compares_with_itself(self) -> None:
        """Where no budget is left for the best control set, the good ones of the others remain."""
        where = self.where(affordable=(True, True, False))
        decision = decide(where, replace(self.told, low=(0.9, 0.5, 5.0)), tolerance=0.1)
        assert decision.in_play == (0,)
        assert decision.reason.startswith("1 of 2 affordable control sets reaches 0.81, which is")
        assert decision.state["reset"] is True
        less = decide(where, replace(self.told, low=(0.6, 0.5, 5.0)), tolerance=0.1)
        assert less.in_play == (0, 1)
        assert less.index == 1

    def test_negative_bounds_do_not_turn_the_tolerance_around(self) -> None:
        below = replace(
            self.told,
            high=[u - 100 for u in self.told.high],
            low=[v - 100 for v in self.told.low],
            least=-100.0,
        )
        assert decide(self.where(), below, tolerance=0.1).index == 0

    def test_bounds_may_be_those_of_the_paper(self) -> None:
        loose = replace(self.told, looser=0.3)
        assert decide(self.where(), loose, tolerance=0.0).in_play == (2,)
        published = decide(self.where(), loose, tolerance=0.0, pointwise_bounds=True)
        assert published.in_play == (0, 1, 2)
        assert published.state["upper"] == pytest.approx({"0": 1.25, "1": 1.1, "2": 1.5})

    def test_a_worst_value_is_used_in_place_of_the_estimate(self) -> None:
        assert decide(self.where(), self.told, tolerance=0.04).index == 2
        assert decide(self.where(), self.told, tolerance=0.04, worst_value=-1.0).index == 0

    def test_a_rarely_played_set_may_be_cheap(self) -> None:
        rare = self.where(reported=((0.1, 0.3), (0.1,) * 4, (0.3,)), costs=(0.2, 0.1, 0.3))
        told = replace(self.told, means=(0.2, 0.1, 0.3))
        # Widths are sqrt(2 log T) * mean or more: both bounds are zero, and the value decides.
        assert decide(rare, told, tolerance=0.1).index == 2

    def test_a_known_cost_has_no_width(self) -> None:
        known = replace(self.told, estimates={0: CostEstimate(0.2, 0.0), 2: CostEstimate(0.3, 0.0)})
        rare = self.where(reported=((0.1, 0.3), (), (0.3,)))
        assert decide(rare, known, tolerance=0.1).index == 0

    def test_the_error_of_a_cost_model_counts(self) -> None:
        modelled = replace(
            self.told, estimates={0: CostEstimate(0.2, 0.01), 2: CostEstimate(0.3, 0.2)}
        )
        assert decide(self.where(), modelled, tolerance=0.1).index == 2

    def test_a_set_that_was_never_priced_counts_as_free(self) -> None:
        where = self.where(reported=((0.2,) * 9, (0.1,) * 9, ()))
        assert decide(where, self.told, tolerance=0.1).index == 2

    def test_width_of_the_cost_bound(self) -> None:
        where = self.where(past=(exploiting(),) * 10, remaining=5.0)
        decision = decide(where, self.told, tolerance=0.1, halve_every=0, cost_range=0.1)
        # Ten trials of cost 1 so far, and the rest buys five more.
        bound = 0.2 - 0.1 * math.sqrt(2 * math.log(15) / 4)
        assert f"{bound:.6g}" in decision.reason


def test_follows_algorithm_1_literally() -> None:
    """Lines 3 to 26, on random bounds, also below zero, and random costs in [0, 1]."""
    m, tau, T, alpha, resets = 3, 4, 40, 0.2, 0
    rule = UnknownCosts.published(T, rounds=tau, tolerance=alpha, halve_every=0)
    for seed in range(30):
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
    assert resets > 10


def test_the_tolerance_may_follow_the_rest_of_the_budget() -> None:
    """A fifth of it is left after four decisions of cost one from five."""
    past = (PastChoice(0, 1.0, {"phase": "explore"}), *[exploiting()] * 4)
    where = TestExploitation().where(past=past, remaining=1.0)
    for tolerance, in_play in ((0.24, (2,)), (0.26, (0, 2))):
        found = decide(where, TestExploitation.told, tolerance=tolerance, decays_with_budget=True)
        assert found.in_play == in_play  # 0.95 >= 1 - tolerance / 5


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    scale=st.floats(1e-3, 1e3),
    shift=st.floats(-1e3, 1e3),
)
def test_shift_and_scale_of_the_objective_change_nothing(
    seed: int, scale: float, shift: float
) -> None:
    usual = play(UnknownCosts(tolerance=0.2), seed)
    assert play(UnknownCosts(tolerance=0.2), seed, lambda v: scale * v + shift) == usual
    given_worst = UnknownCosts(tolerance=0.2, worst_value=scale * -4.0 + shift)
    assert play(given_worst, seed, lambda v: scale * v + shift) == usual


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), unit=st.floats(1e-3, 1e3))
def test_the_unit_of_cost_changes_nothing(seed: int, unit: float) -> None:
    assert play(UnknownCosts(), seed, unit=unit) == play(UnknownCosts(), seed)
    ranged = UnknownCosts(cost_range=0.7 * unit)
    assert play(ranged, seed, unit=unit) == play(UnknownCosts(cost_range=0.7), seed)


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


def test_a_few_plays_tell_an_expensive_control_set_from_a_cheap_one() -> None:
    """Nine plays each, scattering by a tenth, at twice the cost."""
    rng = np.random.default_rng(1)
    cheap, expensive = (tuple(mean * rng.normal(1.0, 0.1, size=9)) for mean in (64.0, 132.0))
    where = TestExploitation().where(reported=(cheap, (1.0,) * 9, expensive))
    told = replace(TestExploitation.told, means=(64.0, 1.0, 132.0))
    assert decide(where, told, tolerance=0.1).index == 0


def test_costs_of_a_set_with_a_model_say_nothing_of_the_scatter_of_others() -> None:
    modelled = {2: CostEstimate(1.0, 0.1)}
    where = TestExploitation().where(reported=((0.2,) * 4, (0.1,) * 4, (0.3, 2.0, 0.2, 1.5)))
    told = replace(TestExploitation.told, estimates=modelled)
    without = TestExploitation().where(reported=((0.2,) * 4, (0.1,) * 4, (1.0,) * 4))
    assert decide(where, told).reason == decide(without, told).reason


def test_scatter_of_an_expensive_set_does_not_hide_differences_between_cheap_ones() -> None:
    where = TestExploitation().where(reported=((0.2,) * 4, (0.1,) * 4, (0.8, 1.2, 0.7, 1.3)))
    assert decide(where, TestExploitation.told, tolerance=0.25).index == 1


def test_prints_what_was_given() -> None:
    assert repr(UnknownCosts()) == "UnknownCosts()"
    rule = UnknownCosts(tolerance=0.2, rounds=3)
    assert repr(rule) == "UnknownCosts(tolerance=0.2, rounds=3)"
    assert eval(repr(rule)) == rule
    rule = UnknownCosts.published(300, worst_value=-1.0)
    assert eval(repr(rule)) == rule


def test_turns_the_worst_value_with_the_objective() -> None:
    assert UnknownCosts(worst_value=3.0).oriented(minimize=True).worst_value == -3.0
    assert UnknownCosts(worst_value=3.0).oriented(minimize=False).worst_value == 3.0
    assert UnknownCosts().oriented(minimize=True) == UnknownCosts()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"tolerance": 1.0}, r"tolerance=1.0: expected a number in \[0, 1\)"),
        ({"tolerance": -0.1}, r"tolerance=-0.1: expected a number in \[0, 1\)"),
        ({"tolerance": math.nan}, r"tolerance=nan: expected a number in \[0, 1\)"),
        ({"exploration": 0.0}, r"exploration=0.0: expected a number strictly between 0 and 1"),
        ({"exploration": 1.0}, r"exploration=1.0: expected a number strictly between 0 and 1"),
        (
            {"exploration": "half"},
            r"exploration='half': expected a number strictly between",
        ),
        ({"halve_every": -1}, r"halve_every=-1: expected an integer >= 0"),
        ({"halve_every": 1.5}, r"halve_every=1.5: expected an integer >= 0"),
        ({"cost_range": 0.0}, r"cost_range=0.0: expected a finite number > 0"),
        ({"worst_value": math.inf}, r"worst_value=inf: expected a finite number"),
        ({"pointwise_bounds": "no"}, r"pointwise_bounds='no': expected True or False"),
        ({"rounds": 0}, r"rounds=0: expected an integer >= 1"),
        ({"horizon": 1}, r"horizon=1: expected an integer >= 2"),
        ({"models_costs": "no"}, r"models_costs='no': expected True or False"),
        ({"decays_with_budget": 1}, r"decays_with_budget=1: expected True or False"),
        (
            {"decays_with_budget": True, "halve_every": 3},
            r"halve_every=3 with decays_with_budget=True: expected one of the two",
        ),
    ],
)
def test_refuses_bad_fields(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        UnknownCosts(**fields)


def test_refuses_what_it_cannot_work_with() -> None:
    told = Told((1.0, 1.0, 1.0), (0.0, 0.0, 0.0))
    with pytest.raises(InputError, match=r"evaluate=.*expected an EvaluateBounds"):
        UnknownCosts().decide(history(), lambda indices: [0.0 for _ in indices])
    with pytest.raises(InputError, match=r"rounds=None: without a budget"):
        UnknownCosts().decide(history(budget=None), told)
    with pytest.raises(InputError, match=r"decays_with_budget=True: expected a budget"):
        decide(history(budget=None), told, rounds=1, decays_with_budget=True)
    with pytest.raises(InputError, match=r"the lower bound nan for control set 2"):
        UnknownCosts().decide(history(), replace(told, low=(0.0, 0.0, math.nan)))
    with pytest.raises(InputError, match=r"affordable=.*expected at least one True"):
        UnknownCosts().decide(history(affordable=(False,) * 3), told)


def test_bounds_of_another_problem_do_not_count() -> None:
    where = TestExploitation().where
    seen = exploiting({0: 0.7, 1: 2.0, 2: 2.0}, lower=1.15)
    told = TestExploitation.told
    assert decide(where(past=(seen,)), told, tolerance=0.1).in_play == (2,)
    other = replace(seen, comparable=False)
    assert decide(where(past=(other,)), told, tolerance=0.1).in_play == (0, 2)

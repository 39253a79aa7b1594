"""The standing of an experiment, and how many trials a budget is certain to pay for."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
from ax.core.observation import ObservationFeatures
from hypothesis import given
from hypothesis import strategies as st

from ax_costaware import (
    ControlSet,
    Empirical,
    InformationPerCost,
    JointEmpirical,
    Uniform,
    UnknownCosts,
    complete_trial,
)
from ax_costaware.generators.budget import (
    AffordableTrials,
    decision_seed,
    standing,
    undelivered_control_sets,
)
from ax_costaware.generators.control_set_settings import ControlSetSettings
from ax_costaware.generators.method_settings import settings_of_method
from ax_costaware.policies import PastDecision
from tests.ax.cost_toy import make_cost_client, run_with_costs
from tests.ax.toy import make_client, realize, run_trials


@given(
    st.lists(st.integers(1, 20), min_size=1, max_size=4, unique=True),
    st.integers(1, 120),
    st.randoms(use_true_random=False),
)
def test_a_batch_of_the_certain_size_is_always_paid(
    costs: list[int], budget: int, random: object
) -> None:
    """Whatever control sets are chosen; and one trial is always allowed, to say that none is."""
    sets = tuple(ControlSet([f"x{i}"], cost) for i, cost in enumerate(costs))
    if budget < min(costs):
        return
    settings = ControlSetSettings(sets, {}, budget=budget, initial_trials=0)
    experiment = make_client()._experiment
    count = AffordableTrials(settings).num_till_threshold(experiment, set())
    assert count >= 1
    left = float(budget)
    for _ in range(count):
        payable = [c for c, ok in zip(settings.costs, settings.affordable(left), strict=True) if ok]
        assert payable
        left -= random.choice([max(payable), min(payable), *payable])  # type: ignore[attr-defined]


def test_standing_counts_decisions_that_are_no_trials_yet() -> None:
    """Plays, money and the next index; initial decisions are no plays, and may be free."""
    client = make_client(budget=2.0, initial_trials=2)
    settings = settings_of_method(client._generation_strategy, ControlSetSettings)
    run_trials(client, 4)
    where = standing(client._experiment, settings, ["x1+x2"], initial=False)
    assert where.trial_index == 5
    assert where.plays == (2, 1, 0)
    assert where.spent == pytest.approx(0.7)
    assert where.remaining == pytest.approx(1.3)
    assert where.affordable == (True, True, True)
    assert where.history(settings).round == 4
    assert where.history(settings, [True, False, True]).affordable == (True, False, True)
    where = standing(client._experiment, settings, ["x1+x2"], initial=True)
    assert where.plays == (2, 0, 0)


def test_a_reported_cost_replaces_the_expected_one() -> None:
    """What is left may then be too little for a control set that was affordable."""
    client = make_client(budget=2.0, initial_trials=2)
    ((index, arm),) = client.get_next_trials(max_trials=1).items()
    complete_trial(client, index, {"y": 0.0}, realized=realize(index, dict(arm)), cost=1.8)
    where = standing(
        client._experiment,
        settings_of_method(client._generation_strategy, ControlSetSettings),
        [],
        initial=False,
    )
    assert where.remaining == pytest.approx(0.2)
    assert where.affordable == (True, False, False)


def test_undelivered_decisions_are_pending_without_a_trial() -> None:
    """Each counts once, however many metrics there are."""
    pending = {
        metric: [
            ObservationFeatures({"control_set": "a"}, trial_index=3),
            ObservationFeatures({"control_set": "b"}),
            ObservationFeatures({"control_set": "b"}),
        ]
        for metric in ("y", "cost")
    }
    assert undelivered_control_sets(pending) == ["b", "b"]
    assert undelivered_control_sets(None) == []


def test_seeds_differ_between_trials_and_runs() -> None:
    """And are the same every time."""
    seeds = {decision_seed(seed, index) for seed in range(20) for index in range(20)}
    assert len(seeds) == 400
    assert decision_seed(1, 2) == decision_seed(1, 2)


@pytest.mark.parametrize("budget", [8.5, 9.0, 10.0, 13.0, 14.5, 20.0, 31.0])
def test_a_batch_of_learned_costs_is_paid_as_expected(budget: float) -> None:
    """Whatever control sets are chosen, at what they cost on average."""
    client = make_cost_client(budget=budget, initial_trials=0)
    for index, (name, cost) in enumerate(
        [("x1", 1.0), ("x1+x2", 1.5), ("x1+x2", 2.5), ("x1+x2+x3", 3.0)]
    ):
        client.attach_trial({"control_set": name, "x1": 0.5, "x2": 0.5, "x3": 0.5})
        realized = realize(index, {"control_set": name})
        complete_trial(client, index, {"y": 0.0}, realized=realized, cost=cost)
    settings = settings_of_method(client._generation_strategy, ControlSetSettings)
    where = standing(client._experiment, settings, [], initial=False)
    assert where.costs == (1.0, 2.0, 3.0)
    assert where.cheapest == 1.0
    assert where.reported == ((1.0,), (1.5, 2.5), (3.0,))
    assert where.remaining == budget - 8.0
    count = AffordableTrials(settings).num_till_threshold(client._experiment, set())
    assert count >= 1
    for choices in itertools.product(range(3), repeat=min(count, 7) - 1):
        left = budget - 8.0
        for choice in choices:
            payable = [c for c in (1.0, 2.0, 3.0) if c <= left]
            left -= payable[min(choice, len(payable) - 1)] if payable else 0.0
        assert count == 1 or left >= 1.0
    pending = standing(client._experiment, settings, ["x1+x2"], initial=False)
    assert pending.remaining == budget - 10.0
    assert [(p.index, p.charged, p.state) for p in pending.past] == [(1, 2.0, {})]
    dearer = standing(
        client._experiment, settings, ["x1+x2"], False, reserved=[2.5], least=(0.1, None, 50.0)
    )
    assert dearer.remaining == budget - 10.5
    assert dearer.cheapest == 0.1
    assert dearer.affordable == (budget >= 10.6, budget > 10.5, False)


def test_another_strategy_is_told_what_of_the_past_holds_for_it() -> None:
    """Bounds hold for the same control sets and laws, a rule's memory for rules of its kind."""
    client = make_cost_client(rule=UnknownCosts(), budget=30.0)
    run_with_costs(client, 5)
    experiment = client._experiment
    settings = settings_of_method(client._generation_strategy, ControlSetSettings)

    def past(**changes: Any) -> PastDecision:
        *_, last = standing(experiment, replace(settings, **changes), [], initial=False).past
        return last

    assert past().state["phase"] == "explore"
    assert past().comparable
    looser = past(rule=UnknownCosts(tolerance=0.5), budget=50.0)
    assert looser.state == past().state
    assert looser.comparable
    assert past(rule=InformationPerCost()).state == {}
    laws = {**settings.marginals, "x3": Uniform(0.4, 0.6)}
    assert not past(marginals=laws).comparable
    samples = [{**laws, "x3": Empirical([0.1 * i for i in range(n)])} for n in (9, 10)]
    digests = [replace(settings, marginals=marginals).problem_digest for marginals in samples]
    assert len({settings.problem_digest, *digests}) == 3
    frame = {"x1": [0.1 * i for i in range(10)], "x2": [0.1 * i for i in range(10)]}
    moved = {**frame, "x2": [0.1 * ((i + 1) % 10) for i in range(10)]}
    rest = {"x3": settings.marginals["x3"]}
    joint = [replace(settings, marginals=rest, joint=JointEmpirical(f)) for f in (frame, moved)]
    assert joint[0].problem_digest != joint[1].problem_digest

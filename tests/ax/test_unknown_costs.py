"""Whole runs of ``control_set_strategy`` where costs are learned."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
import torch
from ax.exceptions.core import OptimizationShouldStop, UserInputError

from ax_costaware import (
    ControlSet,
    EpsilonSchedule,
    FixedHyperparameters,
    LargestValuePerCost,
    UnknownCosts,
    complete_trial,
    query,
    recommend,
    report_cost,
    spending,
)
from ax_costaware.analysis import CostAndValueAnalysis
from ax_costaware.ax_bridge.node import fitted_problem, method_of_class
from ax_costaware.methods import ControlSetChoice, ControlSetHistory, ControlSetRule, EvaluateBounds
from ax_costaware.methods.control_sets import ControlSets
from ax_costaware.methods.control_sets.query_space import QuerySpace
from tests.ax.cost_toy import (
    RULE,
    UNKNOWN_SETS,
    complete_with_cost,
    cost_of,
    make_cost_client,
    run_with_costs,
)
from tests.ax.toy import arm_of, make_client, objective, realize, record

pytestmark = pytest.mark.usefixtures("short_searches")


@pytest.mark.parametrize("minimize", [False, True])
def test_run_until_budget_is_exhausted(minimize: bool) -> None:
    """The budget is passed by no more than the last surprise, and both phases are there."""
    sign = -1.0 if minimize else 1.0
    client = make_cost_client(minimize=minimize, budget=5.0)
    with pytest.raises(OptimizationShouldStop, match="is expected to cost") as stop:
        run_with_costs(client, 60, sign)
    spent = spending(client)
    last = spent.entries[-1]
    assert last.expected_cost is not None
    surprise = last.charged - last.expected_cost
    assert 4.0 < spent.spent <= 5.0 + max(surprise, 0.0) + 1e-9
    assert all(entry.charged == entry.reported_cost for entry in spent.entries)
    assert f"{spent.spent:g} of 5 is spent" in str(stop.value)
    phases = [record(client, e.trial_index)["decision"].get("state") for e in spent.entries]
    assert phases[:3] == [None] * 3
    assert [phase["phase"] for phase in phases[3:]] == sorted(
        (phase["phase"] for phase in phases[3:]), key="explore exploit".index
    )
    assert {phase["phase"] for phase in phases[3:]} == {"explore", "exploit"}
    best = recommend(client)
    assert best.expected_cost is not None
    assert 0.05 < best.expected_cost < 2.5
    x = {"x1": 0.5, "x2": 0.5, "x3": 0.5, **best.parameters}
    assert objective(x) > -0.2


def test_minimising_the_negative_decides_alike() -> None:
    """Bounds, the least value and the costs have the same orientation."""
    up, down = make_cost_client(budget=20.0), make_cost_client(minimize=True, budget=20.0)
    assert run_with_costs(up, 8) == run_with_costs(down, 8, sign=-1.0)
    for index in range(3, 8):
        assert arm_of(up, index) == pytest.approx(arm_of(down, index), abs=1e-6)
        one, other = (record(c, index)["decision"]["state"] for c in (up, down))
        assert one["lower"] == pytest.approx(other["lower"], abs=1e-6)


def test_another_unit_of_cost_changes_no_decision() -> None:
    """Hours or minutes, a known part included; two bounds of a cost are compared to rounding."""
    minutes = tuple(ControlSet(s.parameters, fixed_cost=60 * s.fixed_cost) for s in UNKNOWN_SETS)
    one = make_cost_client(budget=4.0)
    other = make_cost_client(budget=240.0, control_sets=minutes)
    for _ in range(8):
        ((index, arm),) = one.get_next_trials(max_trials=1).items()
        ((_, again),) = other.get_next_trials(max_trials=1).items()
        assert again == arm
        outcome = objective({**arm, **realize(index, dict(arm))})
        for client, unit in ((one, 1.0), (other, 60.0)):
            complete_trial(
                client,
                index,
                {"y": outcome},
                realized=realize(index, dict(arm)),
                cost=unit * cost_of(index, dict(arm)),
            )
    assert spending(other).spent == pytest.approx(60 * spending(one).spent)
    assert record(one, 7)["decision"]["state"]["phase"] == "exploit"


def test_averages_before_costs_show_more() -> None:
    """The first trials expect what is known: nothing, a known part, and the mean of the others."""
    client = make_cost_client(budget=20.0)
    assert query_cost(client) is None
    complete_with_cost(client, 0, arm_of(client, 0))
    assert query_cost(client) == 0.2
    assert "expected cost 0.2" in record(client, 1)["why"]
    complete_with_cost(client, 1, arm_of(client, 1))
    paid = [cost_of(i, arm_of(client, i)) for i in (0, 1)]
    assert query_cost(client) == pytest.approx(sum(paid) / 2)


def test_an_initial_design_that_runs_out_of_money() -> None:
    """The next control set is not affordable, the cheapest one is, and then none."""
    client = make_cost_client(budget=1.15, initial_trials=9)
    with pytest.raises(OptimizationShouldStop, match="initial design is not finished") as stop:
        run_with_costs(client, 9)
    entries = spending(client).entries
    used = [entry.control_set for entry in entries]
    assert used == ["x1", "x1+x2", "x1+x2+x3", "x1"]
    assert 1.0 < spending(client).spent <= 1.15
    mean = sum(e.charged for e in entries if e.control_set == "x1") / 2
    assert f"the cheapest control set is expected to cost {mean:g}" in str(stop.value)


def test_initial_trials_that_are_free_still_teach_their_costs() -> None:
    """They take nothing from the budget, and the first decision knows what they cost."""
    client = make_cost_client(budget=1.0, charge_initial=False)
    costs = run_with_costs(client, 3)
    assert spending(client).spent == 0.0
    assert query_cost(client) == costs[0]


def query_cost(client: Any) -> float | None:
    """Expected cost of the next trial."""
    (index,) = client.get_next_trials(max_trials=1)
    return query(client, index).expected_cost


def test_a_known_cost_among_unknown_ones() -> None:
    """It is what the decision records, with no error; reported costs change what is charged."""
    sets = (ControlSet(["x1"], cost=0.5), *UNKNOWN_SETS[1:])
    client = make_cost_client(control_sets=sets, budget=20.0, rule=UnknownCosts(rounds=1))
    run_with_costs(client, 7)
    assert record(client, 6)["decision"]["state"]["phase"] == "exploit"
    assert record(client, 3)["decision"]["costs"] == {"x1": [0.5, 0.0]}
    assert record(client, 4)["decision"]["costs"]["x1+x2"][1] is None
    entries = [e for e in spending(client).entries if e.control_set == "x1"]
    assert {entry.expected_cost for entry in entries} == {0.5}
    assert all(entry.charged == entry.reported_cost != 0.5 for entry in entries)
    (index,) = client.get_next_trials(
        max_trials=1, fixed_parameters={"control_set": "x1", "x1": 0.25}
    )
    complete_trial(client, index, {"y": 0.0}, realized={"x2": 0.5, "x3": 0.5})
    assert spending(client).entries[-1].charged == 0.5


def test_missing_cost() -> None:
    """It is refused before anything is written; by Ax's own call the next decision names it."""
    client = make_cost_client(budget=20.0)
    (index,) = client.get_next_trials(max_trials=1)
    trial = client._experiment.trials[index]
    realized = realize(index, arm_of(client, index))
    for raw_data, cost, message in (
        (
            {"y": 0.5},
            None,
            "cost=None: expected .*, the cost of trial 0: of its control set 'x1'",
        ),
        (None, None, "the cost of trial 0: of its control set 'x1'"),
        ({"y": 0.5}, 0.0, "cost=0.0: expected a finite number > 0, the cost of trial 0: .*'x1'"),
    ):
        with pytest.raises(UserInputError, match=message):
            complete_trial(client, index, raw_data, realized=realized, cost=cost)
        assert trial.status.is_running
        assert not trial.run_metadata
    with pytest.raises(UserInputError, match=r"trial 0 is RUNNING: expected one that has ended"):
        report_cost(client, index, 1.0)
    client.complete_trial(index, raw_data={"y": 0.5})
    with pytest.raises(UserInputError, match=r"trials \[0\] were completed without a cost"):
        client.get_next_trials(max_trials=1)
    report_cost(client, index, 0.25)
    assert spending(client).spent == 0.25
    complete_trial(client, index, realized=realized)
    assert spending(client).spent == 0.25
    run_with_costs(client, 3)
    ((index, arm),) = client.get_next_trials(max_trials=1).items()
    client.complete_trial(index, raw_data={"y": 0.5})
    with pytest.raises(UserInputError, match=r"trials \[4\] .*report_cost\(client, 4, cost"):
        client.get_next_trials(max_trials=1)
    with pytest.raises(UserInputError, match=r"trial 4 was completed without the values of"):
        recommend(client)
    complete_trial(client, index, realized=realize(index, dict(arm)), cost=7.0)
    assert recommend(client).expected_cost is not None
    assert spending(client).entries[4].charged == 7.0
    run_with_costs(client, 1)


def test_known_part_is_a_lower_bound_of_what_is_reported() -> None:
    """A cost that is not larger is refused, on completion and afterwards."""
    client = make_cost_client(initial_control_sets=["x1+x2"], rule=UnknownCosts(rounds=1))
    (index,) = client.get_next_trials(max_trials=1)
    realized = realize(index, arm_of(client, index))
    message = "cost=0.2: expected a finite number > 0.2, the cost of trial 0.* fixed_cost=0.2"
    with pytest.raises(UserInputError, match=message):
        complete_trial(client, index, {"y": 0.5}, realized=realized, cost=0.2)
    client.mark_trial_failed(index)
    with pytest.raises(UserInputError, match=message):
        report_cost(client, index, 0.2)
    report_cost(client, index, 0.3)
    assert spending(client).entries[0].charged == 0.3


def test_report_cost_refuses_what_is_no_cost() -> None:
    """And corrects an earlier one; a declared cost may be corrected to nothing."""
    client = make_client(initial_trials=1)
    (index,) = client.get_next_trials(max_trials=1)
    client.complete_trial(index, raw_data={"y": 0.5})
    bad: tuple[Any, ...] = (None, -1.0, math.nan, "1")
    for cost in bad:
        with pytest.raises(UserInputError, match="cost="):
            report_cost(client, index, cost)
    assert spending(client).spent == 0.1
    for cost in (2.0, 0.0):
        report_cost(client, index, cost)
        assert spending(client).spent == cost


def test_batches_reserve_what_is_expected() -> None:
    """Decisions of one batch count each other's plays and expected costs, as pending ones do."""
    client = make_cost_client(budget=20.0)
    first = client.get_next_trials(max_trials=5)
    assert list(first) == [0, 1, 2], "before anything is known nothing limits the initial design"
    for index, arm in first.items():
        complete_with_cost(client, index, dict(arm))
    batch = client.get_next_trials(max_trials=3)
    assert [arm["control_set"] for arm in batch.values()] == ["x1", "x1+x2", "x1+x2+x3"]
    decisions = [record(client, index) for index in batch]
    for one, other in pairwise(decisions):
        assert other["decision"]["remaining"] == pytest.approx(
            one["decision"]["remaining"] - one["expected_cost"]
        )
    assert decisions[0]["decision"]["state"]["lower"] is not None
    assert decisions[1]["decision"]["state"]["lower"] is None, "bounds of what is fantasized"
    expected = sum(d["expected_cost"] for d in decisions)
    assert spending(client).reserved == pytest.approx(expected)
    (index,) = client.get_next_trials(max_trials=1)
    assert record(client, index)["control_set"] == "x1"
    assert record(client, index)["decision"]["spent"] == pytest.approx(
        spending(client).spent - record(client, index)["expected_cost"]
    )


def test_batches_never_lose_trials_to_the_budget() -> None:
    """Whatever is asked for, a batch comes out whole, and the last batch's surprise is all."""
    client = make_cost_client(budget=4.0)
    overshoot = 0.0

    def run_batches() -> None:
        nonlocal overshoot
        while True:
            trials = client.get_next_trials(max_trials=4)
            costs = [complete_with_cost(client, i, dict(arm)) for i, arm in trials.items()]
            expected = [record(client, i)["expected_cost"] or 0.0 for i in trials]
            overshoot = max(sum(costs) - sum(expected), 0.0)

    with pytest.raises(OptimizationShouldStop):
        run_batches()
    assert 3.0 < spending(client).spent <= 4.0 + overshoot + 1e-9


@pytest.mark.usefixtures("full_searches")
def test_costs_that_depend_on_values() -> None:
    """Expected costs follow the values that were set: 0.5 * 4^x3."""
    client = make_cost_client(
        initial_control_sets=["x1", "x1+x2+x3"], initial_trials=26, rule=EpsilonSchedule(0.0)
    )
    run_with_costs(client, 27)
    decision = record(client, 26)
    assert decision["control_set"] == "x1+x2+x3"
    x3 = float(arm_of(client, 26)["x3"])
    assert decision["expected_cost"] == pytest.approx(0.5 * 4.0**x3, rel=0.15)
    assert decision["decision"]["costs"]["x1+x2+x3"][0] == decision["expected_cost"]
    best = recommend(client)
    assert best.control_set == "x1+x2+x3"
    assert best.expected_cost == pytest.approx(0.5 * 4.0 ** best.parameters["x3"], rel=0.15)
    problem = fitted_problem(client._experiment, client._generation_strategy)
    method = method_of_class(client._generation_strategy, ControlSets)
    costs = QuerySpace(problem, method).costs
    assert list(costs.models) == [2]
    tried = [float(arm_of(client, i)["x3"]) for i in range(1, 26, 2)]
    assert costs.least[2] == pytest.approx(0.5 * 4.0 ** min(tried), rel=0.15)
    average = costs.averages[2]
    assert average is not None
    assert costs.least[2] < average
    for x in (0.1, 0.9):
        point = torch.tensor([0.5, 0.5, x], dtype=torch.double)
        estimate = costs.at(2, point)
        assert estimate is not None
        assert estimate.standard_error is not None
        assert abs(estimate.mean - 0.5 * 4.0**x) < 3 * estimate.standard_error + 0.05 * 4.0**x


@dataclass(frozen=True)
class MostExpensive(ControlSetRule):
    """The control set with the most parameters that is affordable."""

    def decide(self, history: ControlSetHistory, evaluate: EvaluateBounds) -> ControlSetChoice:
        """Choose it."""
        allowed = history.affordable_indices()
        index = max(allowed, key=lambda i: len(history.parameters[i]))
        values = {index: float(evaluate([index])[0])}
        return ControlSetChoice(index, "It controls most.", (index,), values)


@pytest.mark.usefixtures("full_searches")
def test_a_control_set_that_is_too_expensive_at_its_best_values_is_passed_over() -> None:
    """Its average cost would fit in what remains, the cost at its best values does not."""

    def expensive(best: float) -> float:
        return 0.1 * 30.0**best

    budget = 10.6

    client = make_client(
        control_sets=(ControlSet(["x1"]), ControlSet(["x1", "x2"]), UNKNOWN_SETS[2]),
        rule=MostExpensive(),
        budget=budget,
        initial_trials=0,
        surrogate_spec=FixedHyperparameters(lengthscale=0.5, noise_variance=1e-4),
    )
    paid = 0.0
    for i in range(16):
        x1 = (i + 0.5) / 16 if i < 14 else 0.5
        arm = {"control_set": "x1+x2" if i >= 14 else "x1+x2+x3", "x1": x1, "x2": 0.5, "x3": 0.5}
        cost = expensive(x1) if i < 14 else 0.2
        paid += cost
        client.attach_trial(arm)
        realized = {"x3": 0.5} if i >= 14 else {}
        # The objective grows with x1, and so does the cost.
        complete_trial(client, i, {"y": x1}, realized=realized, cost=cost)
    left = budget - paid
    assert paid / 16 < left < expensive(0.9)
    (index,) = client.get_next_trials(max_trials=1)
    decision = record(client, index)
    assert decision["control_set"] == "x1+x2"
    assert decision["expected_cost"] == pytest.approx(0.2)
    assert "Control set 'x1+x2+x3' is expected to cost more than what is left" in decision["why"]


@pytest.mark.usefixtures("full_searches")
def test_nothing_is_affordable_at_its_best_values() -> None:
    """The search stops as it does when the budget is used up, and says what to deploy."""
    sets = (ControlSet(["x1"], 5.0), ControlSet(["x1", "x2"], 6.0), UNKNOWN_SETS[2])
    client = make_client(control_sets=sets, rule=MostExpensive(), budget=9.3, initial_trials=0)
    for i in range(14):
        x1 = (i + 0.5) / 14
        arm = {"control_set": "x1+x2+x3", "x1": x1, "x2": 0.5, "x3": 0.5}
        client.attach_trial(arm)
        complete_trial(client, i, {"y": x1}, realized={}, cost=0.1 * 20.0**x1)
    assert spending(client).remaining > 0.2  # type: ignore[operator]
    with pytest.raises(
        OptimizationShouldStop, match=r"'x1\+x2\+x3' is expected to cost more"
    ) as stop:
        client.get_next_trials(max_trials=1)
    assert "of 9.3 is spent" in str(stop.value)
    assert "Deploy control set 'x1+x2+x3'" in str(stop.value)


@pytest.mark.parametrize(
    "rule",
    [EpsilonSchedule(0.1), LargestValuePerCost()],
    ids=repr,
)
def test_other_rules_take_learned_costs(rule: Any) -> None:
    """They see the averages of what was reported."""
    client = make_cost_client(budget=5.0, rule=rule)
    run_with_costs(client, 6)
    assert record(client, 5)["phase"] == "rule"
    assert record(client, 5)["decision"]["state"] == {}


def test_values_that_the_caller_fixes_leave_the_running_bounds_alone() -> None:
    """Bounds of the restricted problem say nothing of the whole one."""
    client = make_cost_client(budget=20.0)
    run_with_costs(client, 4)
    (index,) = client.get_next_trials(
        max_trials=1, fixed_parameters={"control_set": "x1+x2", "x2": 0.01}
    )
    assert record(client, index)["decision"]["state"]["lower"] is None


def test_failed_and_abandoned_trials_need_no_cost() -> None:
    """A failed one is charged what was expected of it, or the average of its control set."""
    client = make_cost_client(budget=20.0)
    (lost,) = client.get_next_trials(max_trials=1)
    client.mark_trial_failed(lost)
    costs = run_with_costs(client, 4)
    (gone,) = client.get_next_trials(max_trials=1)
    client.mark_trial_abandoned(gone)
    run_with_costs(client, 1)
    entries = spending(client).entries
    assert arm_of(client, lost)["control_set"] == "x1"
    same = [c for c, e in zip(costs, entries[1:], strict=False) if e.control_set == "x1"]
    reported = [e.reported_cost for e in entries if e.control_set == "x1" and e.reported_cost]
    assert same
    assert entries[lost].charged == pytest.approx(sum(reported) / len(reported))
    assert entries[gone].charged == 0.0


def test_analysis_with_learned_costs() -> None:
    """What was charged is what was reported."""
    client = make_cost_client(budget=20.0, rule=RULE)
    costs = run_with_costs(client, 5)
    (card,) = client.compute_analyses([CostAndValueAnalysis()], display=False)
    assert card.df["charged"].tolist() == costs  # type: ignore[attr-defined]
    assert "of 20" in card.subtitle  # type: ignore[attr-defined]

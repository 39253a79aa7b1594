"""Whole runs of ``control_set_strategy`` where costs are learned."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import pytest
import torch
from ax.exceptions.core import OptimizationShouldStop, UserInputError

from ax_costaware import (
    ControlSet,
    EpsilonSchedule,
    FixedHyperparameters,
    UnknownCosts,
    complete_trial,
    recommend,
    report_cost,
    spending,
)
from ax_costaware.ax_bridge.node import fitted_problem, method_of_class
from ax_costaware.methods import ControlSetChoice, ControlSetHistory, ControlSetRule, EvaluateBounds
from ax_costaware.methods.control_sets import ControlSets
from ax_costaware.methods.control_sets.query_space import QuerySpace
from tests.ax.cost_toy import (
    UNKNOWN_SETS,
    complete_with_cost,
    make_cost_client,
    run_with_costs,
)
from tests.ax.toy import arm_of, make_client, realize, record

pytestmark = pytest.mark.usefixtures("short_searches")


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

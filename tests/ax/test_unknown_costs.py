"""Whole runs of ``control_set_strategy`` where costs are learned."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import pytest
from ax.exceptions.core import OptimizationShouldStop, UserInputError

from ax_costaware import (
    ControlSet,
    EpsilonSchedule,
    FixedHyperparameters,
    complete_trial,
    recommend,
    report_cost,
    spending,
)
from ax_costaware.methods import ControlSetChoice, ControlSetHistory, ControlSetRule, EvaluateBounds
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


def test_missing_cost() -> None:
    """It is refused before anything is written; by Ax's own call the next decision names it."""
    client = make_cost_client(budget=20.0)
    (index,) = client.get_next_trials(max_trials=1)
    trial = client._experiment.trials[index]
    realized = realize(index, arm_of(client, index))
    for raw_data, cost in (({"y": 0.5}, None), (None, None), ({"y": 0.5}, 0.0)):
        with pytest.raises(UserInputError, match="cost"):
            complete_trial(client, index, raw_data, realized=realized, cost=cost)
        assert (trial.status.is_running, trial.run_metadata) == (True, {})
    client.complete_trial(index, raw_data={"y": 0.5})
    with pytest.raises(UserInputError, match=r"trials \[0\] .*cost"):
        client.get_next_trials(max_trials=1)
    report_cost(client, index, 0.25)
    complete_trial(client, index, realized=realized)
    assert spending(client).spent == 0.25
    run_with_costs(client, 1)


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
    with pytest.raises(OptimizationShouldStop, match=r"Deploy control set 'x1.x2.x3'"):
        client.get_next_trials(max_trials=1)


def test_batches_reserve_what_is_expected() -> None:
    """Before anything is known nothing limits the initial design."""
    client = make_cost_client(budget=20.0)
    first = client.get_next_trials(max_trials=5)
    assert list(first) == [0, 1, 2]
    for index, arm in first.items():
        complete_with_cost(client, index, dict(arm))
    decisions = [record(client, index) for index in client.get_next_trials(max_trials=3)]
    for one, other in pairwise(decisions):
        left = one["decision"]["remaining"] - one["expected_cost"]
        assert other["decision"]["remaining"] == pytest.approx(left)
    expected = sum(decision["expected_cost"] for decision in decisions)
    assert spending(client).reserved == pytest.approx(expected)

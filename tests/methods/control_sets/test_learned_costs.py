"""What control sets are expected to cost, from what trials have cost."""

from __future__ import annotations

import math

import pytest
import torch

from ax_costaware.core.history import PastTrial
from ax_costaware.core.problem import Problem
from ax_costaware.core.traits import CONTROL_SET
from ax_costaware.costs import (
    AffineCost,
    ControlSet,
    SwitchingCost,
    TrialContext,
    WithSwitchingCost,
)
from ax_costaware.exceptions import InputError
from ax_costaware.methods import UnknownCosts
from ax_costaware.methods.control_sets import ControlSets
from ax_costaware.methods.control_sets.learned import (
    ExpectedCosts,
    check_reported_costs,
    costs_to_learn_from,
)
from ax_costaware.methods.control_sets.query_space import QuerySpace
from ax_costaware.space.parameters import Range
from ax_costaware.space.space import Space
from tests.methods.control_sets.toy import CONTROL_SETS, FAST, MARGINALS, UNKNOWN_SETS, run
from tests.methods.control_sets.toy import SPACE as SIMULATED

RULE = UnknownCosts(rounds=1)
BOUNDS = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)
SETS = (ControlSet(["a"], 2.0), ControlSet(["b"]), ControlSet(["a", "b"], fixed_cost=1.0))
SPACE = Space.of([Range("a", 0, 1), Range("b", 0, 1)])


def learned(
    costs: dict[str, dict[int, float]],
    points: dict[int, list[float]],
    sets: tuple[ControlSet, ...] = SETS,
    space: Space = SPACE,
    rule: UnknownCosts = RULE,
) -> ExpectedCosts:
    """Expected costs of control sets, by default the three above, from costs at points."""
    trials = [
        PastTrial(i, {CONTROL_SET: name, "a": points[i][0], "b": points[i][1]}, reported_cost=cost)
        for name, by_trial in costs.items()
        for i, cost in by_trial.items()
    ]
    method = ControlSets(sets, {}, rule=rule)
    return QuerySpace(Problem(space, tuple(trials)), method).costs


def test_constant_costs_are_averages() -> None:
    """Declared, the mean of few reports, and the mean of the others; errors are left to a rule."""
    costs = learned({"b": {0: 3.0, 4: 5.0}}, {0: [0.1, 0.2], 4: [0.3, 0.4]})
    point = torch.tensor([0.5, 0.5], dtype=torch.double)
    assert [costs.at(i, point) for i in range(3)] == [(2.0, 0.0), (4.0, None), (3.0, None)]
    assert costs.averages == costs.least == (2.0, 4.0, 3.0)
    assert not costs.models


@pytest.mark.parametrize("unit", [1.0, 1e-4, 1e5])
def test_costs_that_depend_on_controlled_values_only(unit: float) -> None:
    """A column that the control set does not control is not read; a known part is added."""
    inputs = torch.rand(24, 2, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    points = dict(enumerate(inputs.tolist()))
    of_b = {i: unit * math.exp(2 * x[1]) * (1 + 0.05 * (-1) ** i) for i, x in points.items()}
    costs = learned({"b": of_b}, points)
    assert list(costs.models) == [1]
    one, other = (costs.at(1, torch.tensor([a, 0.5], dtype=torch.double)) for a in (0.0, 1.0))
    assert one == other
    assert one.mean == pytest.approx(unit * math.e, rel=0.05)
    assert one.standard_error is not None
    assert 0.0 < one.standard_error < 0.1 * one.mean
    assert costs.least[1] == pytest.approx(min(of_b.values()), rel=0.15)
    assert costs.averages[1] == pytest.approx(sum(of_b.values()) / 24)
    # As a cost model, of every control set, with switching costs where there are.
    varying = (ControlSet(["a"], AffineCost({"a": 2.0}, fixed=1.0)), *SETS[1:])
    costs = learned({"b": of_b}, points, varying)
    X = torch.rand(2, 3, 2, generator=torch.Generator().manual_seed(1), dtype=torch.double)
    for i, control_set in enumerate(varying):
        found = costs.log_cost(X, TrialContext(control_set)).exp()
        each = [costs.at(i, point) for point in X.reshape(6, 2)]
        assert found.flatten().tolist() == pytest.approx([cost.mean for cost in each if cost])
    switching = WithSwitchingCost(costs, SwitchingCost({"a": 5.0, "b": 7.0}), SPACE)
    context = TrialContext(varying[0], previous={"a": 0.5})
    more = switching.log_cost(X, context).exp() - costs.log_cost(X, context).exp()
    assert more.flatten().tolist() == pytest.approx([5.0] * 6)  # it does not set b


def test_a_rule_may_average_costs_that_depend_on_values() -> None:
    """As in Hoang et al. 2025, line 22."""
    points = {i: [0.5, i / 23] for i in range(24)}
    of_b = {i: math.exp(2 * x[1]) for i, x in points.items()}
    costs = learned({"b": of_b}, points, rule=UnknownCosts.published(50, rounds=1))
    assert costs.at(1, BOUNDS[0]) == (pytest.approx(sum(of_b.values()) / 24), None)


METHOD = ControlSets(UNKNOWN_SETS, MARGINALS, budget=20.0, rule=RULE, initial_trials=3, **FAST)


def test_read_from_the_trials() -> None:
    """By control set, with those of failed trials; none where costs are declared."""
    trials = run(METHOD, 4).trials
    arm = {CONTROL_SET: "x1", "x1": 0.5, "x2": 0.5, "x3": 0.5}
    by_set: dict[str, dict[int, float]] = {str(s.name): {} for s in UNKNOWN_SETS}
    for trial in trials:
        assert trial.reported_cost is not None
        by_set[str(trial.parameters[CONTROL_SET])][trial.index] = trial.reported_cost
    lost = PastTrial(4, arm, status="FAILED")
    assert costs_to_learn_from([*trials, lost], METHOD) == by_set
    lost = PastTrial(4, arm, status="FAILED", reported_cost=0.5)
    by_set["x1"][4] = 0.5
    assert costs_to_learn_from([*trials, lost], METHOD) == by_set
    check_reported_costs([*trials, lost], METHOD)
    problem = Problem(SIMULATED, (*trials, lost))
    average = QuerySpace(problem, METHOD).costs.averages[0]
    assert average == pytest.approx(sum(by_set["x1"].values()) / len(by_set["x1"]))
    declared = ControlSets(CONTROL_SETS, MARGINALS)
    assert costs_to_learn_from([PastTrial(0, arm, reported_cost=3.0)], declared) == {}


def test_costs_that_do_not_fit_the_control_sets() -> None:
    """As after a change of the strategy: refused by a decision, left out elsewhere."""
    trials = run(METHOD, 3).trials
    changed = (*UNKNOWN_SETS[:2], ControlSet(["x1", "x2", "x3"], fixed_cost=50.0))
    method = ControlSets(changed, MARGINALS, rule=RULE)
    assert costs_to_learn_from(trials, method)["x1+x2+x3"] == {}
    message = "trial 2 has the reported cost"
    with pytest.raises(InputError, match=message):
        check_reported_costs(trials, method)


def test_a_cost_that_is_missing() -> None:
    """Of a completed trial; one that failed need not have cost anything."""
    arm = {CONTROL_SET: "x1", "x1": 0.5, "x2": 0.5, "x3": 0.5}
    trials = [PastTrial(0, arm), PastTrial(1, arm, status="FAILED"), PastTrial(2, arm)]
    with pytest.raises(InputError, match=r"trials \[0, 2\] were completed without a cost"):
        check_reported_costs(trials, METHOD)
    check_reported_costs(trials[1:2], METHOD)

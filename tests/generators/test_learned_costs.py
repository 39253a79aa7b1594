"""What control sets are expected to cost, from what trials have cost."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from ax.exceptions.core import UserInputError

from ax_costaware import ControlSet, UnknownCosts, complete_trial, report_cost
from ax_costaware.generators.control_set_settings import ControlSetSettings
from ax_costaware.generators.learned_costs import (
    ExpectedCosts,
    average_costs,
    check_reported_costs,
    costs_to_learn_from,
)
from tests.ax.cost_toy import UNKNOWN_SETS, make_cost_client, run_with_costs
from tests.ax.toy import arm_of, make_client

RULE = UnknownCosts(rounds=1)
BOUNDS = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)
SETS = (ControlSet(["a"], 2.0), ControlSet(["b"]), ControlSet(["a", "b"], fixed_cost=1.0))
COLUMNS = ((0,), (1,), (0, 1))


def learned(costs: dict[str, dict[int, float]], points: dict[int, list[float]]) -> ExpectedCosts:
    """Expected costs of the three control sets above."""
    settings = ControlSetSettings(SETS, {}, rule=RULE)
    rows = {i: torch.tensor(x, dtype=torch.double) for i, x in points.items()}
    return ExpectedCosts.learned(settings, costs, rows, COLUMNS, BOUNDS)


def test_constant_costs_are_averages() -> None:
    """Declared, the mean of few reports, and the mean of the others; errors are left to a rule."""
    costs = learned({"b": {0: 3.0, 4: 5.0}, "a+b": {}}, {0: [0.1, 0.2], 4: [0.3, 0.4]})
    point = torch.tensor([0.5, 0.5], dtype=torch.double)
    assert [costs.at(i, point) for i in range(3)] == [(2.0, 0.0), (4.0, None), (3.0, None)]
    assert costs.averages == costs.least == (2.0, 4.0, 3.0)
    assert not costs.models


def test_nothing_is_known() -> None:
    """No estimate, where no cost is declared or reported."""
    settings = ControlSetSettings((ControlSet(["a"]), ControlSet(["b"])), {}, rule=RULE)
    costs = ExpectedCosts.learned(settings, {"a": {}, "b": {}}, {}, ((0,), (1,)), BOUNDS)
    assert costs.at(0, BOUNDS[0]) is None
    assert costs.least == (None, None)


@pytest.mark.parametrize("unit", [1.0, 1e-4, 1e5])
def test_costs_that_depend_on_controlled_values_only(unit: float) -> None:
    """A column that the control set does not control is not read; a known part is added."""
    inputs = torch.rand(24, 2, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    points = dict(enumerate(inputs.tolist()))
    of_b = {i: unit * math.exp(2 * x[1]) * (1 + 0.05 * (-1) ** i) for i, x in points.items()}
    costs = learned({"b": of_b, "a+b": {}}, points)
    assert list(costs.models) == [1]
    one, other = (costs.at(1, torch.tensor([a, 0.5], dtype=torch.double)) for a in (0.0, 1.0))
    assert one == other
    assert one is not None
    assert one.mean == pytest.approx(unit * math.e, rel=0.05)
    assert one.standard_error is not None
    assert 0.0 < one.standard_error < 0.1 * one.mean
    assert costs.least[1] == pytest.approx(min(of_b.values()), rel=0.15)
    assert costs.averages[1] == pytest.approx(sum(of_b.values()) / 24)


def test_a_control_set_without_columns_has_an_average() -> None:
    """Its values cannot be seen in the model's space."""
    settings = ControlSetSettings((ControlSet(["a"]),), {}, rule=RULE)
    costs = ExpectedCosts.learned(
        settings, {"a": {0: 1.0, 1: 4.0}}, {i: BOUNDS[i] for i in (0, 1)}, ((),), BOUNDS
    )
    assert costs.at(0, BOUNDS[0]) == (2.5, None)


def settings_of(client: Any) -> ControlSetSettings:
    """The settings of its strategy."""
    from ax_costaware.generators.method_settings import settings_of_method

    return settings_of_method(client._generation_strategy, ControlSetSettings)


def test_read_from_the_trials() -> None:
    """By control set, with those of failed trials; none where costs are declared."""
    client = make_cost_client(budget=20.0)
    paid = run_with_costs(client, 4)
    (lost,) = client.get_next_trials(max_trials=1, fixed_parameters={"control_set": "x1"})
    client.mark_trial_failed(lost)
    settings = settings_of(client)
    by_set: dict[str, dict[int, float]] = {s.name: {} for s in UNKNOWN_SETS}
    for index, cost in enumerate(paid):
        by_set[arm_of(client, index)["control_set"]][index] = cost
    assert costs_to_learn_from(client._experiment, settings) == by_set
    report_cost(client, lost, 0.5)
    by_set["x1"][lost] = 0.5
    assert costs_to_learn_from(client._experiment, settings) == by_set
    check_reported_costs(client._experiment, settings)
    average = average_costs(settings, by_set)[0]
    assert average == pytest.approx(sum(by_set["x1"].values()) / len(by_set["x1"]))
    declared = make_client(initial_trials=1)
    (index,) = declared.get_next_trials(max_trials=1)
    complete_trial(declared, index, {"y": 0.0}, realized={"x2": 0.5, "x3": 0.5}, cost=3.0)
    assert costs_to_learn_from(declared._experiment, settings_of(declared)) == {}


def test_costs_that_do_not_fit_the_control_sets() -> None:
    """As after a change of the strategy: refused by a decision, left out elsewhere."""
    client = make_cost_client(budget=20.0)
    run_with_costs(client, 3)
    changed = (*UNKNOWN_SETS[:2], ControlSet(["x1", "x2", "x3"], fixed_cost=50.0))
    settings = ControlSetSettings(changed, settings_of(client).marginals, rule=RULE)
    assert costs_to_learn_from(client._experiment, settings)["x1+x2+x3"] == {}
    message = r"trial 2 has the reported cost .*: expected more than fixed_cost=50"
    with pytest.raises(UserInputError, match=message):
        check_reported_costs(client._experiment, settings)

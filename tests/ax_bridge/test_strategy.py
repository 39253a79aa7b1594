"""The factories: what they refuse, in Ax's own errors, and what their strategies are made of."""

from __future__ import annotations

import pytest
from ax.exceptions.core import UserInputError

from ax_costaware import (
    control_set_parameter,
    control_set_strategy,
    cost_aware_strategy,
    strategy_of,
)
from ax_costaware.ax_bridge.node import CostAwareNode, method_of
from ax_costaware.methods.control_sets import ControlSets
from ax_costaware.methods.cost_aware import CostAware
from tests.ax.toy import CONTROL_SETS, MARGINALS


def test_control_set_parameter() -> None:
    """It names the control sets, and refuses what the strategy would refuse."""
    parameter = control_set_parameter(CONTROL_SETS)
    assert (parameter.name, parameter.values) == ("control_set", ["x1", "x1+x2", "x1+x2+x3"])
    with pytest.raises(UserInputError, match="control_sets"):
        control_set_parameter([])


def test_a_factory_gives_the_strategy_of_its_method() -> None:
    """With all that it was asked for."""
    strategy = cost_aware_strategy(1.0, budget=9.0, initial_trials=3, seed=4)
    method = CostAware(1.0, budget=9.0, initial_trials=3, seed=4)
    assert method_of(strategy) == method
    assert strategy == strategy_of(method)
    (node,) = strategy.nodes_by_name.values()
    assert isinstance(node, CostAwareNode)
    assert node.name == strategy.name == CostAware(1.0).traits.label
    free = control_set_strategy(CONTROL_SETS, MARGINALS, budget=0.3, charge_initial=False)
    assert method_of(free) == ControlSets(CONTROL_SETS, MARGINALS, budget=0.3, charge_initial=False)


def test_what_is_no_method() -> None:
    with pytest.raises(UserInputError, match=r"method=1.0: expected a Method, such as CostAware"):
        strategy_of(1.0)  # type: ignore[arg-type]

"""Finding a method in a strategy."""

from __future__ import annotations

from typing import Any

import pytest
from ax.adapter.registry import Generators
from ax.exceptions.core import UserInputError
from ax.generation_strategy.generation_node import GenerationNode
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.generation_strategy.generator_spec import GeneratorSpec

from ax_costaware.ax_bridge.nodes import method_of, method_of_class
from ax_costaware.methods.control_sets import ControlSets
from ax_costaware.methods.gittins import Gittins
from ax_costaware.methods.method import Method
from tests.ax.toy import CONTROL_SETS, MARGINALS


def strategy_with(method: Any, name: str = "method") -> GenerationStrategy:
    """A strategy with a node before the one that has the method."""
    specs = [
        GeneratorSpec(Generators.SOBOL, generator_kwargs=kwargs) for kwargs in ({}, {name: method})
    ]
    nodes = [GenerationNode(name=f"node{i}", generator_specs=[s]) for i, s in enumerate(specs)]
    return GenerationStrategy(name="mine", nodes=nodes)


@pytest.mark.parametrize("name", ["method", "settings"])
@pytest.mark.parametrize("method", [ControlSets(CONTROL_SETS, dict(MARGINALS)), Gittins(cost=1.0)])
def test_every_method(method: Method, name: str) -> None:
    """It is found whatever node holds it, and under the name that 0.1 and 0.2 stored."""
    assert method_of(strategy_with(method, name)) is method


@pytest.mark.parametrize("method", [None, {"budget": 1.0}, "gittins"])
def test_strategy_of_no_method(method: Any) -> None:
    """The refusal names the strategy, and what makes one."""
    message = r"'mine' .* expected one made by ax_costaware"
    with pytest.raises(UserInputError, match=message):
        method_of(strategy_with(method))
    with pytest.raises(UserInputError, match=message):
        method_of_class(strategy_with(method), ControlSets)
    with pytest.raises(UserInputError, match="strategy 5 does not know what a trial costs"):
        method_of(5)  # type: ignore[arg-type]


def test_strategy_of_another_method() -> None:
    """The refusal says which method it is, and which it has to be."""
    strategy = strategy_with(Gittins(cost=1.0))
    assert method_of_class(strategy, Gittins) == Gittins(cost=1.0)
    message = "'mine' comes from gittins_strategy: expected .* ax_costaware.control_set_strategy"
    with pytest.raises(UserInputError, match=message):
        method_of_class(strategy, ControlSets)

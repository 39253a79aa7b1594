"""Finding a method's settings in a strategy, and the checks that methods share."""

from __future__ import annotations

from typing import Any

import pytest
from ax.adapter.registry import Generators
from ax.exceptions.core import UserInputError
from ax.generation_strategy.generation_node import GenerationNode
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.generation_strategy.generator_spec import GeneratorSpec
from ax_costaware.generators.method_settings import (
    MethodSettings,
    check_bool,
    check_integer,
    checked_budget,
    settings_of_method,
)

from ax_costaware.methods.control_sets import ControlSets
from ax_costaware.methods.gittins import Gittins
from tests.ax.toy import CONTROL_SETS, MARGINALS


def strategy_with(settings: Any) -> GenerationStrategy:
    """A strategy with a node before the one that has the settings."""
    specs = [
        GeneratorSpec(Generators.SOBOL, generator_kwargs=kwargs)
        for kwargs in ({}, {"settings": settings})
    ]
    nodes = [GenerationNode(name=f"node{i}", generator_specs=[s]) for i, s in enumerate(specs)]
    return GenerationStrategy(name="mine", nodes=nodes)


@pytest.mark.parametrize(
    "settings", [ControlSets(CONTROL_SETS, dict(MARGINALS)), Gittins(cost=1.0)]
)
def test_settings_of_every_method(settings: MethodSettings) -> None:
    """They are found whatever node holds them."""
    assert isinstance(settings, MethodSettings)
    assert method_of(strategy_with(settings)) is settings


@pytest.mark.parametrize("settings", [None, {"budget": 1.0}, "gittins"])
def test_strategy_of_no_method(settings: Any) -> None:
    """The refusal names the strategy, and what makes one."""
    message = r"'mine' .* expected one made by ax_costaware"
    with pytest.raises(UserInputError, match=message):
        method_of(strategy_with(settings))
    with pytest.raises(UserInputError, match=message):
        settings_of_method(strategy_with(settings), ControlSets)
    with pytest.raises(UserInputError, match="strategy 5 does not know what a trial costs"):
        method_of(5)  # type: ignore[arg-type]


def test_strategy_of_another_method() -> None:
    """The refusal says which method it is, and which it has to be."""
    strategy = strategy_with(Gittins(cost=1.0))
    assert settings_of_method(strategy, Gittins) == Gittins(cost=1.0)
    message = "'mine' comes from gittins_strategy: expected .* ax_costaware.control_set_strategy"
    with pytest.raises(UserInputError, match=message):
        settings_of_method(strategy, ControlSets)


def test_settings_must_answer_every_question() -> None:
    """A method that leaves one open cannot be made."""

    class Silent(MethodSettings):
        pass

    with pytest.raises(TypeError, match=r"control_set_of.*cost_metric.*declared_cost"):
        Silent()  # type: ignore[abstract]


@pytest.mark.parametrize("budget", [0, -1.0, float("nan"), float("inf"), True, "10", [1]])
def test_budget_is_refused(budget: Any) -> None:
    """By name, with what it takes."""
    with pytest.raises(UserInputError, match=r"budget=.*: expected a finite number > 0, or None"):
        checked_budget(budget)


def test_checks_pass_what_is_right() -> None:
    """And a budget comes back as a float."""
    assert checked_budget(None) is None
    assert type(checked_budget(3)) is float
    check_integer("seed", 0, least=0)
    check_bool("charge_initial", False)
    for value in (-1, 1.0, True, None):
        with pytest.raises(UserInputError, match=r"seed=.*: expected an integer >= 0"):
            check_integer("seed", value, least=0)
    for other in (0, None, "no"):
        with pytest.raises(UserInputError, match=r"charge_initial=.*: expected True or False"):
            check_bool("charge_initial", other)

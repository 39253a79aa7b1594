"""What the factory says before anything is spent."""

from __future__ import annotations

import inspect
import logging
import re

import pytest
from ax.exceptions.core import UserInputError

import ax_costaware as ac
from ax_costaware import (
    ControlSet,
    ExploreThenCommit,
    LargestValuePerCost,
    Uniform,
    control_set_strategy,
)
from ax_costaware.ax_bridge import strategy as strategy_module
from ax_costaware.ax_bridge.node import method_of_class
from ax_costaware.methods.control_sets import ControlSets

CONTROL_SETS = [ControlSet(["a"], 1.0), ControlSet(["a", "b"], 5.0)]
MARGINALS = {"b": Uniform(0.0, 1.0)}
ADAPTIVE = ExploreThenCommit.adaptive()


def _said(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, str]]:
    """Fills with the levels and messages of what is logged of a strategy.

    The logger is one of its own: what other tests and Ax do to the levels of theirs does not
    matter.
    """
    said: list[tuple[int, str]] = []
    logger = logging.Logger("test")
    logger.addFilter(lambda record: bool(said.append((record.levelno, record.getMessage()))))
    monkeypatch.setattr(strategy_module, "logger", logger)
    return said


@pytest.mark.parametrize(
    ("options", "warns"),
    [
        ({"budget": 29.0, "rule": ADAPTIVE}, True),  # 5 initial trials, 20 plays, no trial at 5
        ({"budget": 30.0, "rule": ADAPTIVE}, False),
        ({"budget": 25.0, "rule": ADAPTIVE, "charge_initial": False}, False),
        ({"budget": None, "rule": ADAPTIVE}, False),
        (
            {"budget": 10.0, "rule": ExploreThenCommit.adaptive(scale=0.2), "initial_trials": 4},
            False,
        ),
        ({"budget": 10.0}, False),
    ],
)
def test_says_when_exploring_takes_the_whole_budget(
    options: dict[str, object], warns: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = _said(monkeypatch)
    control_set_strategy(CONTROL_SETS, MARGINALS, **options)  # type: ignore[arg-type]
    warnings = [message for level, message in said if level == logging.WARNING]
    assert len(warnings) == warns
    if warns:
        assert "explores for 25 (initial trials included) of budget=29" in warnings[0]


@pytest.mark.parametrize("costs", [(1.0, 5.0), (1.0, None), (None, None)])
@pytest.mark.parametrize("acquisition", ["ucb", "ei", "ts"])
def test_default_rule_counts_values_from_the_worst_and_improvements_from_the_incumbent(
    costs: tuple[float | None, ...], acquisition: str
) -> None:
    sets = [ControlSet(["a"], costs[0]), ControlSet(["a", "b"], costs[1])]
    strategy = control_set_strategy(sets, MARGINALS, acquisition=acquisition)
    above = "zero" if acquisition == "ei" else "worst"
    assert method_of_class(strategy, ControlSets).rule == LargestValuePerCost(above)


@pytest.mark.parametrize("sets", [[], [1], ["a"], [ControlSet(["a"]), ControlSet(["a"])]])
def test_control_sets_are_checked(sets: list[object]) -> None:
    with pytest.raises(UserInputError, match=r"^control_sets"):
        control_set_strategy(sets, MARGINALS, budget=10.0)  # type: ignore[arg-type]


FACTORIES = {
    "control_set_strategy": ["control_sets", "marginals"],
    "cost_aware_strategy": ["cost"],
    "costly_feedback_strategy": ["rule"],
    "fidelity_strategy": ["cost", "target"],
    "gittins_strategy": ["cost"],
    "indirect_query_strategy": ["target_parameters", "conditional"],
    "resolution_tree_strategy": ["target_parameters", "max_level"],
}


@pytest.mark.parametrize("name", FACTORIES)
def test_every_argument_has_a_text(name: str) -> None:
    factory = getattr(ac, name)
    parameters = inspect.signature(factory).parameters
    assert factory.__name__ == name
    assert {"budget", "seed", "count_attached", "torch_device"} <= parameters.keys()
    positional = [p.name for p in parameters.values() if p.kind != p.KEYWORD_ONLY]
    assert positional == FACTORIES[name]
    documented = re.findall(r"^    (\w+):\n {8}\w", inspect.getdoc(factory) or "", re.M)
    assert documented == list(parameters)


def test_arguments_are_checked_as_those_of_a_function() -> None:
    with pytest.raises(TypeError, match=r"cost_aware_strategy\(\): .*'budgett'"):
        ac.cost_aware_strategy(1.0, budgett=2.0)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"fidelity_strategy\(\): .*'target'"):
        ac.fidelity_strategy(1.0)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"resolution_tree_strategy\(\): .*'raw_samples'"):
        ac.resolution_tree_strategy([], 2, raw_samples=3)  # type: ignore[call-arg]

"""What the factory says before anything is spent."""

from __future__ import annotations

import logging

import pytest
from ax.exceptions.core import UserInputError

from ax_costaware import (
    ControlSet,
    ExploreThenCommit,
    LargestValuePerCost,
    Uniform,
    control_set_strategy,
)
from ax_costaware.ax_bridge import strategy as strategy_module
from ax_costaware.ax_bridge.nodes import method_of_class
from ax_costaware.methods.control_sets import ControlSets
from ax_costaware.policies import EpsilonSchedule

CONTROL_SETS = [ControlSet(["a"], 1.0), ControlSet(["a", "b"], 5.0)]
MARGINALS = {"b": Uniform(0.0, 1.0)}


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
        ({"budget": 29.0}, True),  # 5 initial trials, 20 plays, and no trial at 5
        ({"budget": 30.0}, False),
        ({"budget": 25.0, "charge_initial": False}, False),
        ({"budget": None}, False),
        (
            {"budget": 10.0, "rule": ExploreThenCommit.adaptive(scale=0.2), "initial_trials": 4},
            False,
        ),
        ({"budget": 10.0, "rule": EpsilonSchedule.constant(0.1)}, False),
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


@pytest.mark.parametrize(
    ("costs", "budget", "rule"),
    [
        ((1.0, 5.0), None, ExploreThenCommit.adaptive()),
        ((1.0, 5.0), 100.0, ExploreThenCommit.adaptive()),
        ((1.0, None), 100.0, LargestValuePerCost(above="worst")),
        ((None, None), None, LargestValuePerCost(above="worst")),
    ],
)
def test_default_rule_is_that_for_what_is_known(
    costs: tuple[float | None, ...],
    budget: float | None,
    rule: object,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is in the settings, and the log says which it is and why."""
    said = _said(monkeypatch)
    sets = [ControlSet(["a"], costs[0]), ControlSet(["a", "b"], costs[1])]
    strategy = control_set_strategy(sets, MARGINALS, budget=budget)
    assert method_of_class(strategy, ControlSets).rule == rule
    ((level, message),) = said
    assert level == logging.INFO
    assert message.startswith(f"rule={rule!r} by default: the cost of ")
    unknown = [s.name for s in sets if s.cost is None]
    assert not unknown or str(unknown) in message
    control_set_strategy(sets, MARGINALS, budget=budget, rule=EpsilonSchedule(0.0))
    assert len(said) == 1


@pytest.mark.parametrize("sets", [[], [1], ["a"], [ControlSet(["a"]), ControlSet(["a"])]])
def test_control_sets_are_checked_before_a_rule_is_chosen_for_them(sets: list[object]) -> None:
    with pytest.raises(UserInputError, match=r"^control_sets"):
        control_set_strategy(sets, MARGINALS, budget=10.0)  # type: ignore[arg-type]

"""The checks that methods share, and what a method has to answer."""

from __future__ import annotations

from typing import Any

import pytest

from ax_costaware.exceptions import InputError
from ax_costaware.methods.method import (
    Method,
    check_bool,
    check_integer,
    check_one_of,
    checked_limit,
    initial_place,
)


def test_a_method_must_decide() -> None:
    """One that leaves that open cannot be made."""

    class Silent(Method):
        pass

    with pytest.raises(TypeError, match="decide"):
        Silent()  # type: ignore[abstract]


@pytest.mark.parametrize("budget", [0, -1.0, float("nan"), float("inf"), True, "10", [1]])
def test_budget_is_refused(budget: Any) -> None:
    """By name, with what it takes."""
    with pytest.raises(InputError, match=r"budget=.*: expected a finite number > 0, or None"):
        checked_limit("budget", budget)


def test_checks_pass_what_is_right() -> None:
    """And a budget comes back as a float."""
    assert checked_limit("budget", None) is None
    assert type(checked_limit("budget", 3)) is float
    check_integer("seed", 0, least=0)
    check_bool("charge_initial", False)
    check_one_of("acquisition", "ei", ("ucb", "ei"))
    for value in (-1, 1.0, True, None):
        with pytest.raises(InputError, match=r"seed=.*: expected an integer >= 0"):
            check_integer("seed", value, least=0)
    for other in (0, None, "no"):
        with pytest.raises(InputError, match=r"charge_initial=.*: expected True or False"):
            check_bool("charge_initial", other)
    with pytest.raises(InputError, match=r"acquisition='pi': expected one of \['ucb', 'ei'\]"):
        check_one_of("acquisition", "pi", ("ucb", "ei"))


def test_initial_trials_are_counted() -> None:
    """Where some failed there are more of them than were asked for."""
    assert initial_place(2, 5) == "initial trial 2 of 5"
    assert initial_place(6, 5) == "initial trial 6, since not all of the 5 before it came to an end"

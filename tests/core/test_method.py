"""The settings that methods share, and what a method has to answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ax_costaware.core.history import PastTrial
from ax_costaware.core.method import Method
from ax_costaware.core.model import FixedHyperparameters
from ax_costaware.core.problem import Decision, Problem, Stop
from ax_costaware.core.simulation import Outcome, Simulation
from ax_costaware.exceptions import InputError
from ax_costaware.methods.cost_aware import CostAware
from ax_costaware.methods.fidelity import MultiFidelity
from ax_costaware.space.parameters import Range, Row
from ax_costaware.space.space import Space


def test_a_method_must_decide() -> None:
    """One that leaves that open cannot be made."""

    class Silent(Method):
        pass

    with pytest.raises(TypeError, match="decide"):
        Silent()  # type: ignore[abstract]


class Idle(Method):
    """Decides nothing."""

    def cost_at(self, parameters: Row) -> float:
        """All cost the same."""
        return 1.0

    def decide(self, problem: Problem) -> Stop:
        return Stop("Nothing to do.")


def test_its_name_in_messages() -> None:
    """A user's class goes by its own name, also if it is derived from a method of the package."""

    class Mine(CostAware):
        pass

    assert (Idle().display_name, Mine(1.0).display_name) == ("Idle", "Mine")
    assert CostAware(1.0).display_name == "cost_aware_strategy"


@pytest.mark.parametrize("budget", [0, -1.0, float("nan"), float("inf"), True, "10", [1]])
def test_budget_is_refused(budget: Any) -> None:
    """By name, with what it takes."""
    with pytest.raises(InputError, match=r"budget=.*: expected a finite number > 0, or None"):
        Idle(budget=budget)


def test_settings_are_checked() -> None:
    """And become plain Python values."""
    assert type(Idle(budget=3).budget) is float
    assert Idle(seed=0, num_restarts=None).budget is None
    for value in (-1, 1.0, True, None):
        with pytest.raises(InputError, match=r"seed=.*: expected an integer >= 0"):
            Idle(seed=value)  # type: ignore[arg-type]
    for other in (0, None, "no"):
        with pytest.raises(InputError, match=r"charge_initial=.*: expected True or False"):
            Idle(charge_initial=other)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"num_restarts=0: expected an integer >= 1"):
        Idle(num_restarts=0)


@pytest.mark.parametrize(
    ("begun", "place"),
    [(1, "trial 2 of 5:"), (5, "trial 6, since not all before it have an outcome:")],
)
def test_initial_trials_are_counted(begun: int, place: str) -> None:
    """Where some failed there are more of them than were asked for."""
    ended = tuple(
        PastTrial(i, {"x": 0.5}, "FAILED", record={"phase": "initial"}) for i in range(begun)
    )
    problem = Problem(space=Space.of([Range("x", 0.0, 1.0)]), trials=ended)
    decision = Idle().initial_decision(
        problem, {"x": 0.1}, None, Idle().budget_state(problem), join=":"
    )
    assert decision.why == f"This is initial {place} its values are quasi-random."


@pytest.mark.parametrize(
    "method", [Idle(), MultiFidelity(1.0, target={"z": 1.0})], ids=["points", "targets"]
)
def test_what_is_deployed_has_what_is_fixed(method: Method) -> None:
    """As parameters that were disabled: the next trials have it, and so has what is deployed."""
    space = Space.of([Range(name, 0.0, 1.0) for name in "xyz"], [({"x": 1.0, "y": 1.0}, 1.2)])
    given = FixedHyperparameters(0.3) if isinstance(method, Idle) else None
    simulation = Simulation(method, space, hyperparameters=given)
    for x, y, z in ((0.9, 0.1, 0.5), (0.4, 0.6, 1.0), (0.2, 0.2, 0.5), (0.1, 0.6, 0.5)):
        simulation.tell(Decision({"x": x, "y": y, "z": z}, "given"), Outcome(x))
    problem = replace(simulation.problem(), fixed={"y": 0.6})
    found = method.recommend(problem)
    # With y = 0.6 there is no room for x = 0.9.
    assert [(b.parameters["x"], b.parameters["y"]) for b in found] == [
        (0.4, 0.6),
        (0.2, 0.6),
        (0.1, 0.6),
    ]
    assert [b.trial_index for b in found][:2] == [1, None]

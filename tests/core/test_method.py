"""The settings that methods share, and what a method has to answer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ax_costaware.core.method import Method
from ax_costaware.core.model import FixedHyperparameters
from ax_costaware.core.problem import Decision, Problem, Stop
from ax_costaware.core.simulation import Outcome, Simulation
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

"""Control sets whose values cost to be changed."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from ax_costaware.core.account import ledger_of
from ax_costaware.core.history import PastTrial
from ax_costaware.core.problem import Decision, Stop
from ax_costaware.core.simulation import Simulation
from ax_costaware.core.switching import switching_cost
from ax_costaware.core.traits import CONTROL_SET
from ax_costaware.costs.control_set import ControlSet
from ax_costaware.costs.switching_cost import LinearSwitch, SwitchingCost
from ax_costaware.exceptions import InputError
from ax_costaware.methods import LargestValuePerCost
from ax_costaware.methods.control_sets import ControlSets
from ax_costaware.methods.control_sets.learned import costs_to_learn_from
from ax_costaware.space.parameters import Choice, Range
from ax_costaware.space.space import Space
from tests.methods.control_sets.toy import FAST, MARGINALS, MODEL, Plant

pytestmark = pytest.mark.usefixtures("short_searches")

SETS = (ControlSet(["x1", "x2"], 1.0), ControlSet(["x1", "x2", "x3"], 2.0), ControlSet(["x1"], 0.5))


def method_with(**changes: Any) -> ControlSets:
    """A method for which x2 is expensive to change."""
    given = {"control_sets": SETS[:2], "marginals": MARGINALS, "initial_trials": 4, **FAST}
    return ControlSets(**{**given, "switching_cost": SwitchingCost({"x2": 5.0}), **changes})


def simulation_of(method: ControlSets, **given: Any) -> Simulation:
    """A run that has not begun."""
    ranges = [Range(name, 0, 1) for name in MARGINALS]
    space = Space.of([Choice(CONTROL_SET, tuple(method.names)), *ranges], hidden=[CONTROL_SET])
    return Simulation(method, space, hyperparameters=MODEL, **given)


def trial(index: int, name: str, x2: float, **changes: Any) -> PastTrial:
    """A trial that sets x2, or leaves it to chance."""
    arm = {CONTROL_SET: name, "x1": 0.5, "x2": x2, "x3": 0.5}
    return PastTrial(index, arm, outcome=1.0, is_observed=True, **changes)


def test_charges() -> None:
    """What is not controlled costs nothing, and is to be set anew afterwards."""
    trials = [
        trial(0, "x1+x2", 0.2),
        trial(1, "x1+x2+x3", 0.2),
        trial(2, "x1", 0.5),
        trial(3, "x1+x2", 0.5),
        trial(4, "x1+x2", 0.6, status="ABANDONED"),
        trial(5, "x1+x2", 0.5),
    ]
    method = method_with(control_sets=SETS)
    assert [e.charged for e in ledger_of(trials, method)] == [1.0, 2.0, 0.5, 6.0, 0.0, 1.0]


def run_of(method: ControlSets, count: int) -> Simulation:
    """A run of the toy problem."""
    simulation, plant = simulation_of(method), Plant()
    for _ in range(count):
        decision = simulation.ask()
        if isinstance(decision, Stop):
            break
        change = switching_cost(simulation.problem(), method, decision.parameters)
        outcome = plant(decision.parameters)
        if method.learns_costs:
            outcome = outcome._replace(cost=1.0 + change)
        simulation.tell(decision, outcome)
    return simulation


@pytest.mark.usefixtures("full_searches")
def test_values_are_searched_by_the_size_of_their_change() -> None:
    """A change of x2 that costs by its size is small, and is not zero."""
    changes = {"x2": LinearSwitch(8.0, 8.0, unset=8.0)}
    found = run_of(method_with(switching_cost=SwitchingCost(changes)), 9)
    x2 = [float(str(trial.parameters["x2"])) for trial in found.trials]
    sizes = [abs(now - before) for before, now in pairwise(x2[3:])]
    assert max(sizes) < 0.3
    assert any(size > 0 for size in sizes)
    charged = [entry.switching_cost for entry in found.ledger]
    assert charged[4:] == pytest.approx([8.0 * size for size in sizes])


@pytest.mark.parametrize("learned", [False, True])
def test_an_expensive_setting_is_kept(learned: bool) -> None:
    """Known and learned costs; what is expected is what is charged, within the budget."""
    sets = [ControlSet(s.parameters, None if learned else s.cost) for s in SETS[:2]]
    method = method_with(control_sets=sets, rule=LargestValuePerCost("worst"), budget=40.0)
    simulation = run_of(method, 9)
    entries = simulation.ledger
    assert all(entry.switching_cost == 5.0 for entry in entries[1:4]), "the design is quasi-random"
    assert sum(entry.switching_cost == 0.0 for entry in entries[4:]) >= 3
    for entry in entries[4:]:
        assert entry.charged == pytest.approx(entry.expected_cost, rel=0.1)
    assert sum(entry.charged for entry in entries) <= 40.0
    again = simulation_of(method, trials=list(simulation.trials))
    assert again.ask() == simulation.ask()


def test_what_was_compared_is_recorded_with_its_switching_cost() -> None:
    """Of those that were not chosen, too: a trial before left x3 to chance."""
    method = method_with(switching_cost=SwitchingCost({"x3": 5.0}))
    decision = run_of(method, 4).ask()
    assert decision.details["costs"] == {"x1+x2": [1.0, 0.0], "x1+x2+x3": [7.0, 0.0]}


def test_learned_costs_leave_switching_costs_out() -> None:
    method = method_with(control_sets=[ControlSet(s.parameters) for s in SETS[:2]])
    simulation = run_of(method, 4)
    last, problem = simulation.trials[-1], simulation.problem()
    assert not method.omitted(problem).sentences
    known = costs_to_learn_from(simulation.trials, method)
    simulation.trials[-1] = replace(last, reported_cost=5.0)
    (said,) = method.omitted(simulation.problem()).sentences
    assert "ignores the costs of trials [3]" in said
    left = {name: {i: c for i, c in costs.items() if i != 3} for name, costs in known.items()}
    assert costs_to_learn_from(simulation.trials, method) == left != known
    assert isinstance(simulation.ask(), Decision)


@pytest.mark.parametrize(
    ("switching_cost", "message"),
    [
        (5.0, "switching_cost=5.0"),
        (SwitchingCost({"x2": 1.0}, 1.0), "switching_cost=SwitchingCost"),
        (SwitchingCost({"x4": 1.0}), "changes has 'x4', which the experiment does not have"),
        (
            SwitchingCost({"x3": 1.0}),
            r"changes has 'x3', which no control set sets: .*\['x1', 'x2'\]",
        ),
    ],
)
def test_refusals(switching_cost: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        simulation_of(method_with(control_sets=SETS[:1], switching_cost=switching_cost))


def test_a_cost_by_distance_says_what_follows_an_uncontrolled_input() -> None:
    for switch in (LinearSwitch(1.0, 2.0), LinearSwitch(1.0, 2.0, unset=0.0)):
        method = method_with(switching_cost=SwitchingCost({"x3": switch}))
        if switch.unset is not None:
            simulation_of(method)
            continue
        with pytest.raises(InputError, match=r"changes\['x3'\]: expected also unset="):
            simulation_of(method)


def test_the_initial_design_goes_on_where_one_switching_cost_is_too_expensive() -> None:
    """By a control set that needs none: it stopped, and said that the budget was used up."""
    cycle = ("x1+x2+x3", "x1")
    method = method_with(control_sets=SETS, budget=7.5, initial_control_sets=cycle)
    charged = [entry.charged for entry in run_of(method, 4).ledger]
    assert charged == [2.0, 0.5, 0.5, 0.5]


def test_money_pays_for_what_is_kept() -> None:
    """In the initial design and by the rule, where it does not pay for a switching cost."""
    method = method_with(budget=9.5, initial_trials=3, rule=LargestValuePerCost("worst"))
    simulation = run_of(method, 8)
    charged = [entry.charged for entry in simulation.ledger]
    assert charged[:3] == [1.0, 6.0, 1.0]
    assert charged[3:] == [1.0]

"""The initial design of a resolution tree, and costs by the place of a cell."""

from __future__ import annotations

from typing import Any

from ax_costaware.core import Decision, FixedHyperparameters, Simulation, simulate
from ax_costaware.core.simulation import Outcome
from ax_costaware.costs import AffineCost, TableCost
from ax_costaware.methods import TreeSearch
from ax_costaware.methods.resolution_tree import LEVEL
from ax_costaware.space import Range, Space

TARGETS = [Range("t1", 0, 8), Range("t2", 0, 8)]
SPACE = Space.of([Range(LEVEL, 0, 2, is_integer=True), *TARGETS])


def run(failing: float) -> Simulation:
    """A design of all cells, of which those fail that lie left of a place, the root apart."""
    method = TreeSearch(
        target_parameters=TARGETS,
        max_level=2,
        hyperparameters=FixedHyperparameters(0.3),
        initial_trials=21,
        budget=1000.0,
    )

    def outcome(row: Any, measure: bool) -> Outcome:
        return Outcome(1.0, failed=row[LEVEL] > 0 and row["t1"] < failing)

    return simulate(method, SPACE, outcome, 21)


def test_the_coarsest_cells_come_first() -> None:
    trials = run(0.0).trials
    assert [trial.parameters[LEVEL] for trial in trials] == [0] + [1] * 4 + [2] * 16
    assert len({repr(trial.parameters) for trial in trials}) == 21


def test_parts_of_a_cell_that_failed_come_last() -> None:
    """Each cell is tried once all the same."""
    simulation = run(4.0)
    fine = [t for t in simulation.trials if t.parameters[LEVEL] == 2]
    assert [t.has_failed for t in fine] == [False] * 8 + [True] * 8
    assert len({repr(trial.parameters) for trial in simulation.trials}) == 21


def test_a_cost_object_by_level_is_a_list_of_costs() -> None:
    found = []
    for costs in ([0.5, 1.0, 2.0], TableCost(LEVEL, {0: 0.5, 1: 1.0, 2: 2.0})):
        method = TreeSearch(TARGETS, 2, costs=costs, budget=9.0, num_samples=8)
        simulation = simulate(method, SPACE, lambda row, _: Outcome(row["t1"] - row["t2"]), 9)
        found.append([(t.parameters, t.record["expected_cost"]) for t in simulation.trials])
    assert found[0] == found[1]
    assert len(found[0]) > 5


def test_cheap_places_are_measured_of_those_that_tell_the_same() -> None:
    """The space is symmetric, and so is what is known; the right half costs more."""
    given = FixedHyperparameters(0.2, noise_variance=1e-4)
    cost = AffineCost({"t1": 0.1}, fixed=1.0)
    method = TreeSearch(TARGETS, 2, costs=cost, hyperparameters=given, initial_trials=1)
    simulation = Simulation(method, SPACE)
    for _ in range(2):
        decision = simulation.ask()
        assert isinstance(decision, Decision)
        simulation.tell(decision, Outcome(0.0))
    cell = decision.parameters
    assert float(str(cell["t1"])) < 4
    assert decision.expected_cost == cost.at(cell)

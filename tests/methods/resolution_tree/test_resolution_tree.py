"""The initial design of a resolution tree."""

from __future__ import annotations

from typing import Any

from ax_costaware.core import FixedHyperparameters, Simulation, simulate
from ax_costaware.core.simulation import Outcome
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

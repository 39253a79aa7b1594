"""Learning curves: which points are learned from, as what, and what the model makes of them."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import torch

from ax_costaware.core import Decision, PastTrial, Simulation
from ax_costaware.core.curves import MOST_POINTS, curve_points, thinned
from ax_costaware.core.simulation import Outcome
from ax_costaware.exceptions import InputError
from ax_costaware.methods import CostAware, MultiFidelity
from ax_costaware.space import Range, Space
from tests.methods.test_fidelity import COST, INPUTS, METHOD, SPACE, curve, hill

ROWS: list[dict[str, Any]] = [
    {"x1": 0.1, "x2": 0.2, "epochs": 30},
    {"x1": 0.3, "x2": 0.6, "epochs": 100},
    {"x1": 0.9, "x2": 0.2, "epochs": 8},
]


def run(row: Any, *others: float) -> Outcome:
    """What comes of a trial, with its curve at its end and at some other steps."""
    at = {float(step): curve({**row, "epochs": step}).value or 0.0 for step in others}
    return curve(row)._replace(curve={**at, float(row["epochs"]): curve(row).value or 0.0})


def told(method: Any, steps: Any, space: Space = SPACE) -> Simulation:
    simulation = Simulation(method, space)
    for row in ROWS:
        simulation.tell(Decision(row, "given"), run(row, *steps(row["epochs"])))
    return simulation


@pytest.mark.parametrize("count", [0, 1, 9, 10, 11, 12, 50, 1000])
def test_few_points_stand_for_many(count: int) -> None:
    steps = [float(step) for step in range(5, 5 + count)]
    kept = thinned(steps)
    assert len(kept) == len({*kept}) <= MOST_POINTS
    assert list(kept) == sorted({*kept} & {*steps})
    if count <= MOST_POINTS:
        assert list(kept) == steps
    else:
        assert len(kept) == MOST_POINTS
        assert kept[0] == steps[0]
        # Distances grow.
        gaps = [b - a for a, b in pairwise(kept)]
        assert gaps == sorted(gaps)


def test_an_excluded_trial_may_have_no_parameters() -> None:
    """As one that Ax refused to attach, or one of several arms."""
    found = told(METHOD, lambda last: [2])
    known = curve_points(METHOD, found.problem(), "objective")
    left_out = PastTrial(3, {}, status="ABANDONED", is_excluded=True)
    problem = replace(found.problem(), trials=(*found.trials, left_out))
    assert curve_points(METHOD, problem, "objective") == known


def test_points_are_outcomes_at_lower_fidelities() -> None:
    """The model is that of as many trials, each run to its step."""
    found = told(METHOD, lambda last: [2, 5])
    points = curve_points(METHOD, found.problem(), "objective")
    assert [(p.trial_index, p.inputs["epochs"]) for p in points] == [
        (i, step) for i in range(3) for step in (2.0, 5.0)
    ]
    apart = Simulation(METHOD, SPACE)
    for row in [*ROWS, *(point.inputs for point in points)]:
        apart.tell(Decision(row, "given"), curve(row))
    X = SPACE.encode([{"x1": 0.5, "x2": 0.5, "epochs": epochs} for epochs in (3, 40, 100)])
    with torch.no_grad():
        ours, theirs = (s.problem().model.posterior(X) for s in (found, apart))
    assert torch.allclose(ours.mean, theirs.mean)
    assert torch.allclose(ours.variance, theirs.variance)
    # A curve is no trial: nothing of it is paid, deployed or counted.
    assert len(found.ledger) == len(found.problem().observed) == 3
    assert sum(entry.charged for entry in found.ledger) == pytest.approx(
        sum(COST.at(row) for row in ROWS)
    )


def test_curves_tell_more_of_the_target() -> None:
    rows = [{**row, "epochs": 100} for row in ROWS]
    values = torch.tensor([hill(row) for row in ROWS], dtype=torch.double)
    errors = []
    for steps in (lambda last: [], lambda last: range(1, last)):
        mean, *_ = METHOD.expected(told(METHOD, steps).problem(), rows)
        errors.append(float((mean - values).abs().max()))
    assert errors[1] < 0.5 * errors[0]


def test_what_comes_before_the_first_step_is_left_out() -> None:
    found = told(METHOD, lambda last: [0.5, 2])
    points = curve_points(METHOD, found.problem(), "objective")
    assert {point.inputs["epochs"] for point in points} == {2.0}
    assert not curve_points(METHOD, found.problem(), "another")


def test_progress_in_other_units_is_refused() -> None:
    with pytest.raises(InputError, match=r"trial 0: .*progression is 640: .*'epochs', at most 100"):
        curve_points(METHOD, told(METHOD, lambda last: [640]).problem(), "objective")


def test_which_fidelity_progress_is_measured_in() -> None:
    """A range, if there is one; a method without fidelities learns from outcomes only."""
    ranges = "epochs", "share", "x1"
    targets: dict[str | None, list[dict[str, Any]]] = {
        "epochs": [{"epochs": 9}, {"data": "all", "epochs": 9}, {"size": 3, "epochs": 9}],
        None: [{"share": 1.0, "epochs": 9}, {"data": "all"}],
    }
    for name, alike in targets.items():
        for target in alike:
            traits = MultiFidelity(1.0, target=target).traits
            assert traits.progress_parameter(ranges) == name
    assert CostAware(1.0).traits.progress_parameter(ranges) is None
    several = MultiFidelity(COST, target={"epochs": 100, "s": 1.0}, initial_trials=1)
    space = Space.of([*INPUTS, Range("epochs", 1, 100), Range("s", 0, 1)])
    simulation = Simulation(several, space)
    row = {**ROWS[0], "s": 0.5}
    simulation.tell(Decision(row, "given"), run(row, 3))
    assert not curve_points(several, simulation.problem(), "objective")

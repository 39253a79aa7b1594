"""Every method in a plain loop on another device than the CPU: space, model and searches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from ax_costaware.core import OutcomeConstraint, Simulation, simulate
from ax_costaware.core.simulation import Outcome
from ax_costaware.costs import SwitchingCost
from ax_costaware.methods import ControlSets, CostAware, UnknownCosts
from ax_costaware.space import Choice, Range, Space
from tests.core.test_simulation import CASES, FAST, Case, with_cost
from tests.elsewhere import DEVICES, ELSEWHERE, elsewhere
from tests.methods import test_fidelity as fidelity
from tests.methods.control_sets import toy
from tests.repeats import mostly_slow

pytestmark = pytest.mark.usefixtures("short_searches")

SIMPLEX = Space.of(
    [Range("x1", 0, 1), Range("x2", 0, 1)], equalities=[({"x1": 1.0, "x2": 1.0}, 1.0)]
)


def with_emissions(row: Any, measure: bool) -> Outcome:
    """The hill with its cost, and a metric that has a bound."""
    return with_cost(row, measure)._replace(metrics={"emissions": row["x1"] + row["x2"]})


def billed() -> Any:
    """The plant, whose trials are paid afterwards."""
    plant = toy.Plant()
    return lambda row, measure: plant(row, measure)._replace(cost=1.0 + row["x1"])


def emitting() -> Any:
    """The plant, with a metric that has a bound."""
    plant = toy.Plant()
    return lambda row, measure: plant(row, measure)._replace(metrics={"emissions": row["x1"]})


LEARNED = replace(CASES["gittins, learned costs"].method, cost_model="gp")  # type: ignore[type-var]
UNKNOWN = ControlSets(
    tuple(replace(one, cost=None) for one in toy.CONTROL_SETS),
    toy.MARGINALS,
    rule=UnknownCosts(),
    budget=30.0,
    initial_trials=3,
    **toy.FAST,
)

DEVICE_CASES = {
    **CASES,
    "bounds, and all learned": Case(
        LEARNED, CASES["gittins"].space, lambda: with_emissions, None, {}
    ),
    "bounds on averages": Case(
        CASES["indirect queries"].method,
        CASES["indirect queries"].space,
        lambda: with_emissions,
        None,
        {},
    ),
    "bounds with control sets": Case(
        CASES["control sets"].method, toy.SPACE, emitting, toy.MODEL, {}
    ),
    "equations": Case(
        CostAware(1.0, budget=14.0, initial_trials=3, **FAST), SIMPLEX, lambda: with_cost, None, {}
    ),
    "choices": Case(
        CostAware(SwitchingCost({"x1": 1.0}, base=1.0), budget=14.0, initial_trials=3, **FAST),
        Space.of([Range("x1", 0, 1), Range("x2", 0, 4, is_integer=True), Choice("x3", ("a", "b"))]),
        lambda: with_cost,
        None,
        {},
    ),
    "fidelity": Case(fidelity.METHOD, fidelity.SPACE, lambda: fidelity.curve, None, {}),
    "unknown costs": Case(UNKNOWN, toy.SPACE, billed, None, {}),
}


def ran(name: str, device: str) -> Simulation:
    """The initial trials, and one that the model decides."""
    case = DEVICE_CASES[name]
    count = case.method.initial_trials + 1
    bounds = [OutcomeConstraint("emissions", None, 1.2)] if name.startswith("bounds") else []
    space = case.space.to(torch.device(device))
    return simulate(
        case.method, space, case.make_run(), count, hyperparameters=case.model, constraints=bounds
    )


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "name", mostly_slow(DEVICE_CASES, [name for name in DEVICE_CASES if name != "fidelity"])
)
def test_a_method_computes_where_its_space_is(name: str, device: str) -> None:
    here = ran(name, "cpu")
    with elsewhere(device):
        there = ran(name, device)
        best = there.recommend()
    assert len(there.trials) == len(here.trials)
    assert there.trials[-1].record["phase"] != "initial"
    if device == ELSEWHERE:  # which rounds as the CPU does
        found = there.trials[-1].parameters
        assert found == {
            name: value if isinstance(value, str) else pytest.approx(value, rel=1e-4, abs=1e-6)
            for name, value in here.trials[-1].parameters.items()
        }
        assert best.mean == pytest.approx(here.recommend().mean, rel=1e-4)

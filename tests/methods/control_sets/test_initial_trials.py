"""The initial design: control sets in turn, values that repeat and spread, constraints met."""

from __future__ import annotations

from typing import Any

import pytest
from scipy.stats import kstest

from ax_costaware.core.history import PastTrial
from ax_costaware.core.problem import Decision, Problem, Stop
from ax_costaware.core.traits import CONTROL_SET
from ax_costaware.costs.control_set import ControlSet
from ax_costaware.exceptions import InputError
from ax_costaware.laws import Marginal
from ax_costaware.laws.marginals import Uniform
from ax_costaware.methods.control_sets import ControlSets
from ax_costaware.space.parameters import Choice, Range
from ax_costaware.space.space import Space

SETS = (ControlSet(["x"], 1.0), ControlSet(["z"], 1.0), ControlSet(["x", "z"], 3.0))
MARGINALS: dict[str, Marginal] = {"x": Uniform(0.2, 0.6), "z": Uniform(0.0, 1.0)}


def ask(
    index: int,
    fixed: dict[str, Any] | None = None,
    sums: Any = (),
    paid: float = 0.0,
    **options: Any,
) -> Decision | Stop:
    """Ask for the initial trial after ``index`` others, which cost something together."""
    method = ControlSets(SETS, MARGINALS, **{"initial_trials": 1, **options})
    names = [Range("x", 0, 1), Range("z", 0, 1), Choice(CONTROL_SET, tuple(method.names))]
    past = tuple(
        PastTrial(
            i, {CONTROL_SET: "x"}, reported_cost=paid / max(index, 1), record={"phase": "initial"}
        )
        for i in range(index)
    )
    return method.initial(Problem(Space.of(names, sums, [CONTROL_SET]), past, fixed=fixed or {}))


def arm(index: int, **options: Any) -> dict[str, Any]:
    """The arm of the trial."""
    decision = ask(index, **options)
    chosen = next(s for s in SETS if s.name == decision.parameters[CONTROL_SET])
    assert decision.extra["control_set"] == chosen.name
    assert decision.extra["controlled"] == {n: decision.parameters[n] for n in chosen.parameters}
    assert (decision.phase, decision.expected_cost) == ("initial", chosen.cost)
    return decision.parameters


def test_control_sets_take_turns() -> None:
    """Those named; the next one that may be used where one may not; the cheapest of the rest."""
    assert [arm(i)[CONTROL_SET] for i in range(4)] == ["x", "z", "x", "z"]
    most_expensive = {"initial_control_sets": ("x+z",)}
    assert arm(5, **most_expensive)[CONTROL_SET] == "x+z"
    assert arm(0, fixed={"z": 0.5})[CONTROL_SET] == "z"
    assert arm(1, paid=2.0, budget=4.0, **most_expensive)[CONTROL_SET] == "x"
    stop = ask(1, paid=3.5, budget=4.0)
    assert isinstance(stop, Stop)
    assert "3.5 of 4 is spent" in stop.reason
    assert "no model says what to deploy" in stop.reason


def test_points_repeat_and_spread() -> None:
    """Functions of seed and index; uncontrolled inputs at their nominal values."""
    only = {"initial_control_sets": ("x",)}
    arms = [arm(i, **only) for i in range(8)]
    assert arms == [arm(i, **only) for i in range(8)]
    assert arms != [arm(i, seed=1, **only) for i in range(8)]
    assert {row["z"] for row in arms} == {0.5}
    assert {int(row["x"] * 8) for row in arms} == set(range(8)), "one in each eighth"
    fixed = arm(0, fixed={"x": 0.125}, initial_control_sets=("x+z",))
    assert (fixed["x"], fixed[CONTROL_SET]) == (0.125, "x+z")


def test_points_may_be_uniformly_random() -> None:
    """The initial design of Tay et al. 2023: five uniform points of all inputs."""
    paper = {"initial_control_sets": ("x+z",), "initial_design": "uniform"}
    arms = [arm(i, **paper) for i in range(5)]
    assert arms == [arm(i, **paper) for i in range(5)]
    assert arms != [arm(i, seed=1, **paper) for i in range(5)]
    assert arm(0)["x"] != arms[0]["x"]
    xs = [arm(0, seed=seed, **paper)["x"] for seed in range(100)]
    assert kstest(xs, "uniform").pvalue > 0.01
    decision = ask(0, **paper)
    assert "whose values are uniformly random" in decision.why


def test_constraints_are_met_with_the_rest_at_nominal_values() -> None:
    """Also by a control set that controls only one of the constrained inputs."""
    sums = [({"x": 1.0, "z": 1.0}, 0.6)]
    for name in ("x", "x+z"):
        for index in range(6):
            row = arm(index, sums=sums, initial_control_sets=(name,))
            assert row["x"] + row["z"] <= 0.6 + 1e-8
    with pytest.raises(InputError, match="met the parameter constraints"):
        arm(0, sums=[({"x": 1.0, "z": 1.0}, 0.45)], initial_control_sets=("x",))

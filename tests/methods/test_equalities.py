"""Equality constraints on inputs: every method that sets them keeps to them; the rest refuse."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ax_costaware.core import FixedHyperparameters, Simulation, simulate
from ax_costaware.core.optimize import design_of
from ax_costaware.core.problem import Problem
from ax_costaware.core.simulation import Outcome
from ax_costaware.core.traits import CONTROL_SET
from ax_costaware.costs.control_set import ControlSet
from ax_costaware.costs.cost import AffineCost
from ax_costaware.exceptions import InputError, UnsupportedInputError
from ax_costaware.laws import GaussianConditional
from ax_costaware.laws.marginals import Uniform
from ax_costaware.methods import (
    ControlSets,
    CostAware,
    CostlyFeedback,
    IndirectQueries,
    LargestValuePerCost,
    Method,
    TreeSearch,
)
from ax_costaware.methods.costly_feedback.rules import MeasurementRule
from ax_costaware.methods.resolution_tree import LEVEL
from ax_costaware.space import Choice, Fixed, Range, Space
from ax_costaware.space.parameters import Parameter
from tests.priced import method_of

pytestmark = pytest.mark.usefixtures("short_searches")

MODEL = FixedHyperparameters(lengthscale=0.5, outputscale=0.2, noise_variance=1e-4)
FAST: dict[str, Any] = {"num_restarts": 2, "raw_samples": 32}

PARTS = [Range(name, 0, 1) for name in ("a", "b", "c")]
WHOLE: tuple[dict[str, float], float] = {"a": 1.0, "b": 1.0, "c": 1.0}, 1.0
MIXTURE = Space.of([*PARTS, Choice("kind", ("u", "v"))], equalities=[WHOLE])
SETS = (ControlSet(["a", "b", "c"], cost=1.0), ControlSet(["a", "b", "c", "t"], cost=3.0))
PLANT = Space.of(
    [Choice(CONTROL_SET, tuple(str(s.name) for s in SETS)), *PARTS, Range("t", 0, 1)],
    hidden=[CONTROL_SET],
    equalities=[WHOLE],
)


def error(row: Mapping[str, Any], equality: tuple[Mapping[str, float], float] = WHOLE) -> float:
    """How far a parameterization is from an equality."""
    weights, value = equality
    return abs(math.fsum(w * float(row[name]) for name, w in weights.items()) - value)


def measured(row: Any, measure: bool) -> Outcome:
    """Best at a = 0.5, b = 0.3, c = 0.2, which is not where it would be without the constraint."""
    if not measure:
        return Outcome()
    distance = (row["a"] - 0.6) ** 2 + (row["b"] - 0.4) ** 2 + (row["c"] - 0.3) ** 2
    return Outcome(1 - distance - 0.1 * (row.get("kind") == "u"))


def on_the_plant(row: Any, measure: bool) -> Outcome:
    found = measured(row, measure)
    return found._replace(realized={"t": 0.5} if "t" not in str(row[CONTROL_SET]) else None)


METHODS: dict[str, tuple[Method, Space, FixedHyperparameters | None]] = {
    "gittins": (
        CostAware(AffineCost({"a": 1.0}, fixed=0.5), budget=14.0, initial_trials=3, **FAST),
        MIXTURE,
        MODEL,
    ),
    "gittins, the index": (
        method_of(1.0, lmbda=1e-3, acquisition="gittins", initial_trials=3, **FAST),
        MIXTURE,
        MODEL,
    ),
    "costly feedback": (
        CostlyFeedback(
            rule=MeasurementRule(0.95), budget=9.0, forgetting=0.05, initial_trials=4, **FAST
        ),
        MIXTURE,
        MODEL,
    ),
    "indirect queries": (
        IndirectQueries(
            target_parameters=(Range("t1", 0, 1), Range("t2", 0, 1)),
            conditional=GaussianConditional(
                ((0.5, 0.0, 0.0), (0.0, 0.5, 0.0)), (0.25, 0.25), covariance=1e-4
            ),
            hyperparameters=FixedHyperparameters(lengthscale=0.25, noise_variance=1e-4),
            budget=8.0,
            initial_trials=3,
            num_samples=4,
            **FAST,
        ),
        Space.of(PARTS, equalities=[WHOLE]),
        None,
    ),
    "control sets": (
        ControlSets(
            SETS, {"t": Uniform(0, 1)}, rule=LargestValuePerCost(), budget=14.0, initial_trials=3,
            num_nodes=8, **FAST,
        ),
        PLANT,
        MODEL,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", METHODS)
def test_every_trial_keeps_to_an_equality(name: str) -> None:
    """Initial ones and the model's; and what is recommended does, near the best."""
    method, space, model = METHODS[name]
    run = on_the_plant if space is PLANT else measured
    simulation = simulate(method, space, run, 9, hyperparameters=model)
    assert len(simulation.trials) >= 6
    rows = [trial.parameters for trial in simulation.trials]
    assert max(error(row) for row in rows) <= 1e-9
    assert len({str(row) for row in rows}) > 4
    if name == "indirect queries":
        return
    best = simulation.recommend().parameters
    assert error(best) <= 1e-9
    for part, value in {"a": 0.5, "b": 0.3, "c": 0.2}.items():
        assert best[part] == pytest.approx(value, abs=0.2)
    if name == "control sets":
        # The trials before say the same: a decision is a function of what there is.
        again = Simulation(method, space, hyperparameters=model, trials=simulation.trials[:5])
        decision = again.ask()
        assert decision.parameters == rows[5]  # type: ignore[union-attr]


@settings(max_examples=25, deadline=None)
@given(
    weights=st.lists(st.sampled_from([-1.0, 0.5, 1.0, 1e3]), min_size=2, max_size=9),
    share=st.floats(0.2, 0.8),
    seed=st.integers(0, 1000),
)
def test_designs_and_points_keep_to_an_equality(
    weights: list[float], share: float, seed: int
) -> None:
    """After they are decoded, whatever the number of parameters, their units and other kinds."""
    ranges = [Range(f"x{i}", 0, 4 / abs(w)) for i, w in enumerate(weights)]
    value = math.fsum(w * share * r.upper for w, r in zip(weights, ranges, strict=True))
    equality = {r.name: w for w, r in zip(weights, ranges, strict=True)}, value
    others = [Range("n", 1, 9, is_integer=True), Choice("k", ("u", "v", "w"))]
    others += [Range("rate", 0.01, 1.0, log_scale=True)]
    space = Space.of([*ranges, *others], equalities=[equality])
    rows = [*islice(space.design(seed), 20), *space.decode(space.sobol_points(50, seed))]
    assert len(rows) > 60
    for row in rows:
        assert error(row, equality) <= 1e-8
        assert space.meets(row)
        assert space.contains(row)
    assert [*islice(space.design(seed), 5)] == rows[:5]
    assert len({row["k"] for row in rows}) == 3


def test_two_opposite_inequalities_are_an_equality() -> None:
    """Which is how Ax's Client has it; of integers they stay what they are."""
    weights, limit = WHOLE
    opposite = {name: -weight for name, weight in weights.items()}, -limit
    other = {"a": 1.0, "b": 1.0}, 0.9
    space = Space.of(PARTS, [WHOLE, other, opposite])
    assert (space.equalities, space.sums) == ((WHOLE,), (other,))
    points = space.sobol_points(64, 0)
    assert len(points) == 64
    assert ((points.sum(dim=-1) - 1).abs() < 1e-12).all()
    assert (points[:, 2] >= 0.1 - 1e-9).all()
    counts = [Range(name, 0, 3, is_integer=True) for name in weights]
    whole = Space.of(counts, [WHOLE, opposite])
    assert (whole.equalities, whole.sums) == ((), (WHOLE, opposite))
    assert len(whole.sobol_points(64, 0)) == 3


@pytest.mark.parametrize(
    ("parameter", "reason"),
    [
        (Range("c", 0, 3, is_integer=True), "does not take all values"),
        (Choice("c", (0.0, 0.5), is_ordered=True), "does not take all values"),
        (Choice("c", ("u", "v")), "does not take all values"),
        (Range("c", 0.1, 1.0, log_scale=True), "on another scale"),
        (Range("c", 0.1, 0.9, logit_scale=True), "on another scale"),
        (Fixed("c", "here"), "is no number"),
        (Range("d", 0, 1), "is no parameter"),
    ],
)
def test_an_equality_of_what_is_no_real_number_is_refused(
    parameter: Parameter, reason: str
) -> None:
    with pytest.raises(
        InputError, match=r"equality constraint 'a \+ b \+ c == 1': 'c' .*" + reason
    ):
        Space.of([*PARTS[:2], parameter], equalities=[WHOLE])


def test_what_is_fixed_counts() -> None:
    """A parameter of one value, and what the caller fixes."""
    space = Space.of([*PARTS[:2], Fixed("c", 0.25)], equalities=[WHOLE])
    assert all(error(row) < 1e-12 for row in space.sobol_rows(5))
    every = [Fixed(name, x) for name, x in zip("abc", (0.5, 0.3, 0.2), strict=True)]
    assert len(Space.of([*every, Range("d", 0, 1)], equalities=[WHOLE]).sobol_points(4, 0)) == 4
    fixed = {"a": 0.4, "kind": "v"}
    problem = Problem(MIXTURE.held_at(fixed), fixed=fixed)
    drawn = [*islice(design_of(problem, METHODS["gittins"][0]), 5)]
    points = problem.space.sobol_points(16, 0, problem.held)
    for row in [*drawn, *problem.space.decode(points)]:
        assert (row["a"], row["kind"]) == (0.4, "v")
        assert error(row) < 1e-12
    assert MIXTURE.held_at({"kind": "v"}) is MIXTURE
    grams = [Range(name, 0, 7) for name in "abc"]
    held = Space.of(grams, equalities=[(WHOLE[0], 9.0)]).held_at({"b": 0.1, "c": 3.3})
    assert [(row["b"], row["c"]) for row in held.sobol_rows(2)] == [(0.1, 3.3)] * 2


def test_control_sets_without_some_inputs_of_an_equality_are_refused() -> None:
    sets = (SETS[1], ControlSet(["a", "b"], cost=1.0), ControlSet(["t"], cost=0.5))
    parameters = [Choice(CONTROL_SET, tuple(str(s.name) for s in sets)), *PARTS, Range("t", 0, 1)]
    space = Space.of(parameters, hidden=[CONTROL_SET], equalities=[WHOLE])
    laws = {name: Uniform(0, 1) for name in "abct"}
    for some, name, left in ((sets[:2], r"a\+b", "c"), (sets[::2], "t", "a', 'b', 'c")):
        method = ControlSets(some, laws, rule=LargestValuePerCost(), budget=20.0)
        values = tuple(str(s.name) for s in some)
        fitting = replace(space, hidden={CONTROL_SET: Choice(CONTROL_SET, values)})
        with pytest.raises(
            InputError,
            match=rf"equality constraint 'a \+ b \+ c == 1': control set '{name}' does not "
            rf"control \['{left}'\], so that it cannot be met",
        ):
            Simulation(method, fitting)


def test_a_tree_takes_no_equality() -> None:
    targets = (Range("a", 0, 1), Range("b", 0, 1))
    space = Space.of(
        [Range(LEVEL, 0, 2, is_integer=True), *targets], equalities=[({"a": 1.0, "b": 1.0}, 1.0)]
    )
    with pytest.raises(UnsupportedInputError, match=r"constraints \['a \+ b == 1'\] are not"):
        Simulation(TreeSearch(target_parameters=targets, max_level=2), space)

"""What is refused by the arguments of the control-set method alone; and what the rest means."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from ax_costaware.core.history import PastTrial
from ax_costaware.core.problem import Pending, Problem
from ax_costaware.core.simulation import Simulation
from ax_costaware.core.traits import CONTROL_SET
from ax_costaware.core.trial_costs import NO_LIMIT
from ax_costaware.costs.control_set import ControlSet
from ax_costaware.exceptions import InputError
from ax_costaware.laws.marginals import Uniform
from ax_costaware.methods import ExploreThenCommit, UnknownCosts
from ax_costaware.methods.control_sets import ControlSets
from ax_costaware.space.parameters import Choice, Range
from ax_costaware.space.space import Space
from tests.methods.control_sets.toy import SPACE

CONTROL_SETS = (
    ControlSet(["x1"], cost=0.1),
    ControlSet(["x1", "x2"], cost=0.3),
    ControlSet(["x1", "x2", "x3"], cost=1.0),
)
MARGINALS: dict[str, Any] = {name: Uniform(0.0, 1.0) for name in ("x1", "x2", "x3")}

UNKNOWN = [ControlSet(["x1"])]
BAD: dict[str, tuple[Any, ...]] = {
    "control_sets": ([], CONTROL_SETS[0], [CONTROL_SETS[0]] * 2),
    "marginals": ({"x1": 0.5}, [MARGINALS["x1"]]),
    "budget": (0.05, 0.3),
    "rule": ("etc", ExploreThenCommit((1, 2, 3))),
    "beta": (-1.0,),
    "acquisition": ("pi",),
    "initial_control_sets": ("x1", ["x9"]),
    "initial_design": ("grid",),
    "affordable_only": (1,),
    "num_nodes": (0,),
}


@pytest.mark.parametrize(("name", "value"), [(n, x) for n, values in BAD.items() for x in values])
def test_bad_arguments(name: str, value: Any) -> None:
    arguments = {"control_sets": CONTROL_SETS, "marginals": MARGINALS, name: value}
    with pytest.raises(InputError, match=name):
        ControlSets(**arguments)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"control_sets": UNKNOWN, "rule": ExploreThenCommit(2)}, "rule=.*cost=None"),
        ({"control_sets": UNKNOWN, "rule": UnknownCosts()}, "rounds=None"),
        ({"control_sets": [ControlSet(["x1"], fixed_cost=3.0)], "budget": 2.0}, "budget=2"),
        ({"control_sets": [ControlSet(["x1"], fixed_cost=1.0)], "budget": 4.0}, "initial_trials=5"),
    ],
)
def test_arguments_that_do_not_fit_together(arguments: dict[str, Any], name: str) -> None:
    with pytest.raises(InputError, match=name):
        ControlSets(**{"marginals": MARGINALS, **arguments})


def test_default_initial_control_sets_are_the_cheapest() -> None:
    """All of the cheapest group, in declared order."""
    sets = (ControlSet(["a"], 0.3), ControlSet(["b"], 0.1 + 0.2), ControlSet(["c"], 1.0))
    assert ControlSets(sets, {}).initial_control_sets == ("a", "b")


def test_default_initial_control_sets_are_all_where_a_cost_is_unknown() -> None:
    """Each cost can only be learned from a trial."""
    sets = (ControlSet(["a"]), ControlSet(["b"], 1.0))
    method = ControlSets(sets, {}, rule=UnknownCosts(rounds=1))
    assert method.initial_control_sets == ("a", "b")
    assert method.learns_costs


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        ({}, (None, 4.0, None)),
        ({"b": [9.0]}, (None, 4.0, None)),
        ({"a": [1.0, 3.0]}, (2.0, 4.0, None)),
        ({"a": [1.0, 3.0], "c": [12.0]}, (2.0, 4.0, 12.0)),
        # What is left of a switching cost may be less than the known part, and tells nothing.
        ({"a": [1.0, 3.0], "c": [3.0, 12.0]}, (2.0, 4.0, 12.0)),
    ],
)
def test_expected_costs(
    reported: dict[str | None, list[float]], expected: tuple[float | None, ...]
) -> None:
    """Declared, else the mean of its own, else that of the others, at least the known part."""
    sets = (ControlSet(["a"]), ControlSet(["b"], 4.0), ControlSet(["c"], fixed_cost=3.5))
    found = ControlSets(sets, {}, rule=UnknownCosts(rounds=1)).expected_costs(reported)
    a, b, c = expected
    others = [cost for cost in (a, b, c) if cost is not None]
    mean = sum(others) / len(others)
    assert found == (mean if a is None else a, b, max(mean, 3.5) if c is None else c)


def problem_of(method: ControlSets, trials: tuple[PastTrial, ...] = ()) -> Problem:
    """A problem over all inputs that the control sets name."""
    names = sorted({name for s in method.control_sets for name in s.parameters})
    parameters = [*(Range(name, 0, 1) for name in names), Choice(CONTROL_SET, tuple(method.names))]
    return Problem(Space.of(parameters, hidden=[CONTROL_SET]), trials)


def test_a_space_that_does_not_hide_the_control_set() -> None:
    """The message was that there is none."""
    method = ControlSets(
        (ControlSet(["a"], 1.0), ControlSet(["a", "b"], 2.0)), {"b": Uniform(0, 1)}
    )
    inputs = [Range("a", 0, 1), Range("b", 0, 1)]
    space = Space.of([*inputs, Choice(CONTROL_SET, tuple(method.names))])
    with pytest.raises(InputError, match=r"space does not hide .* hidden=\['control_set'\]"):
        method.check(Problem(space))


def paid(costs: list[tuple[str, float]]) -> tuple[PastTrial, ...]:
    """Trials that were reported to have cost that much."""
    return tuple(
        PastTrial(i, {CONTROL_SET: name, "x1": 0.5, "x2": 0.5, "x3": 0.5}, reported_cost=cost)
        for i, (name, cost) in enumerate(costs)
    )


@given(
    st.lists(st.integers(1, 20), min_size=1, max_size=4, unique=True),
    st.integers(1, 120),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_a_batch_of_the_certain_size_is_always_paid(
    costs: list[int], budget: int, affordable_only: bool, random: object
) -> None:
    """Whatever control sets are chosen; and one trial is always allowed, to say that none is."""
    sets = tuple(ControlSet([f"x{i}"], cost) for i, cost in enumerate(costs))
    if budget < min(costs):
        return
    method = ControlSets(sets, {}, budget=budget, initial_trials=0, affordable_only=affordable_only)
    problem = problem_of(method)
    count = method.trial_costs.num_payable(problem, initial=False)
    assert count >= 1
    for _ in range(count):
        state = method.budget_state(problem)
        payable = [cost for cost in costs if method.is_open(state, cost)]
        assert payable
        assert affordable_only or count == 1 or all(map(state.pays, payable))
        cost = random.choice([max(payable), min(payable), *payable])  # type: ignore[attr-defined]
        row = dict.fromkeys(problem.space.parameters, 0.5) | {CONTROL_SET: f"x{costs.index(cost)}"}
        problem = replace(problem, pending=(*problem.pending, Pending(None, row)))


class OwnLaw(Uniform):
    """A user's own law of an input on the unit interval, of which one answer may be wrong."""

    def __init__(self, **answers: Any) -> None:
        super().__init__(0.0, 1.0)
        for name, answer in answers.items():
            object.__setattr__(self, f"own_{name}", answer)

    def nodes_and_weights(self, n: int) -> Any:
        nodes, weights = super().nodes_and_weights(n)
        return getattr(self, "own_rule", lambda *rule: rule)(nodes, weights)

    def icdf(self, u: Tensor) -> Any:
        return getattr(self, "own_icdf", super().icdf)(u)

    @property
    def nominal(self) -> Any:
        return getattr(self, "own_nominal", 0.5)


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ({"rule": lambda nodes, weights: None}, "nodes_and_weights gave None"),
        ({"rule": lambda nodes, weights: (nodes.numpy(), weights)}, "its nodes: got array"),
        ({"rule": lambda nodes, weights: (nodes / 0, weights)}, "its nodes: got NaN or inf"),
        ({"rule": lambda nodes, weights: (nodes, weights[1:])}, r"its weights: got shape \(7,\)"),
        ({"rule": lambda nodes, weights: (nodes, 2 * weights)}, "its weights has .* the sum 2.0"),
        ({"rule": lambda nodes, weights: (nodes + 3, weights)}, r"nodes_and_weights gave .*\[3.01"),
        ({"icdf": lambda u: 0.5}, "icdf: got 0.5"),
        ({"icdf": lambda u: u - 1}, r"icdf gave values in \[-0.9375, -0.0625\]"),
        ({"nominal": math.nan}, "nominal=nan"),
    ],
)
def test_a_law_of_ones_own_that_is_none_is_refused_at_once(answers: Any, message: str) -> None:
    """Before the initial design is paid, with the name of the input."""
    assert Simulation(ControlSets(CONTROL_SETS, {**MARGINALS, "x2": OwnLaw()}), SPACE).problem()
    method = ControlSets(CONTROL_SETS, {**MARGINALS, "x2": OwnLaw(**answers)})
    with pytest.raises(InputError, match=rf"marginals\['x2'\].*{message}"):
        Simulation(method, SPACE)


def test_a_batch_has_no_limit_without_a_budget_or_a_cost() -> None:
    """One trial at least: that nothing can be paid is said when a trial is asked for."""
    method = ControlSets(CONTROL_SETS, MARGINALS)
    assert method.trial_costs.num_payable(problem_of(method), initial=True) == NO_LIMIT
    unknown = ControlSets((ControlSet(["x1"]),), {}, budget=5.0, rule=UnknownCosts())
    assert unknown.trial_costs.num_payable(problem_of(unknown), initial=True) == NO_LIMIT
    assert (
        unknown.trial_costs.num_payable(problem_of(unknown, paid([("x1", 5.0)])), initial=True) == 1
    )

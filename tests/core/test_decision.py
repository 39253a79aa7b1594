"""A batch repeats no point, and ends where nothing else is worth its price."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from ax_costaware.core.decision import avoiding_repeats, has_much_noise, next_trial, repeated
from ax_costaware.core.method import Method
from ax_costaware.core.model import FixedHyperparameters
from ax_costaware.core.problem import Best, Decision, Pending, Problem, Stop, reproducible
from ax_costaware.core.simulation import Outcome, Simulation, simulate
from ax_costaware.costs.control_set import ControlSet
from ax_costaware.exceptions import InputError
from ax_costaware.laws.marginals import Uniform
from ax_costaware.methods.control_sets import ControlSets
from ax_costaware.methods.cost_aware import CostAware
from ax_costaware.space.parameters import Choice, Range, Row
from ax_costaware.space.space import Space
from tests.priced import method_of

NOISY = FixedHyperparameters(0.8, 0.3, noise_variance=1e-4)
"""More noise than there is, as a model that has seen few outcomes has it."""

INPUTS = [Range("x1", 0.0, 1.0), Range("x2", 0.0, 1.0)]
SETS = (ControlSet(["x1"], 0.5), ControlSet(["x1", "x2"], 1.0))
FAST: dict[str, Any] = {"num_restarts": 2, "raw_samples": 64}
METHODS: dict[str, Method] = {
    "stops": CostAware(
        1.0, lmbda=1e-3, acquisition="log_ei_per_cost", initialize_with_center=False, **FAST
    ),
    "goes on": method_of(1.0, budget=50.0, acquisition="gittins", **FAST),
    "sets all": ControlSets(SETS[1:], {}, budget=50.0, num_nodes=16, **FAST),
}
AT_ONCE = 4


@cache
def _run(name: str) -> Simulation:
    """A method after some trials on a hill without noise, that has nearly found its top."""

    def outcome(x: Row, measure: bool) -> Outcome:
        return Outcome(-((float(str(x["x1"])) - 0.3) ** 2) - (float(str(x["x2"])) - 0.6) ** 2)

    method = METHODS[name]
    return simulate(method, _space(method), outcome, 9, hyperparameters=NOISY)


def _space(method: Method) -> Space:
    names = tuple(str(control_set.name) for control_set in method.traits.control_sets)
    parameters = [*([Choice("control_set", names)] if names else []), *INPUTS]
    return Space.of(parameters, hidden=method.traits.hidden)


def _batch(simulation: Simulation, problem: Problem, most: int = AT_ONCE) -> list[Decision]:
    """Decisions that are made one after the other, until there should be no more."""
    found: list[Decision] = []
    while len(found) < most:
        made = tuple(Pending(None, decision.parameters) for decision in found)
        given = replace(problem, pending=(*problem.pending, *made))
        with reproducible(len(found)):
            decision = next_trial(simulation.method, given, initial=False)
        if isinstance(decision, Stop):
            break
        found.append(decision)
    return found


def _closest(problem: Problem, decisions: list[Decision]) -> float:
    X = problem.space.encode([decision.parameters for decision in decisions])
    apart = (X.unsqueeze(0) - X.unsqueeze(1)).abs().amax(dim=-1)
    return float((apart + torch.eye(len(X))).min())


@pytest.mark.parametrize("name", METHODS)
def test_a_batch_repeats_no_point(name: str) -> None:
    """Whether it is for lack of another one or not; and it has one trial at least."""
    simulation = _run(name)
    problem = simulation.problem()
    batch = _batch(simulation, problem)
    assert batch
    assert _closest(problem, batch) > 0.01
    with reproducible(0):
        first = simulation.method.decide(problem)
    assert first == batch[0], "the first is what it would be alone"


def test_a_batch_ends_where_nothing_else_is_worth_its_price() -> None:
    """With a stopping rule; a strategy that only the budget stops goes to the next best."""
    simulation = _run("stops")
    batch = _batch(simulation, simulation.problem())
    assert 1 <= len(batch) < AT_ONCE
    worth = [decision.value for decision in batch]
    assert all(later < earlier for earlier, later in pairwise(worth))  # type: ignore[operator]
    simulation = _run("goes on")
    assert len(_batch(simulation, simulation.problem())) == AT_ONCE


def test_repeats_average_much_noise() -> None:
    """Then they stay: what is taken for noise is a large part of what outcomes differ by."""
    simulation = _run("goes on")
    problem = simulation.problem()
    assert not has_much_noise(problem)
    noisy = FixedHyperparameters(0.8, 0.3, noise_variance=0.1)
    other = Simulation(simulation.method, simulation.space, False, noisy, simulation.trials)
    assert has_much_noise(other.problem())
    tiny = [replace(trial, outcome=1e-8 * (trial.outcome or 0.0)) for trial in simulation.trials]
    noisy = FixedHyperparameters(0.8, 0.3e-16, noise_variance=0.1e-16)
    assert has_much_noise(
        Simulation(simulation.method, simulation.space, False, noisy, tiny).problem()
    )
    row = {"x1": 0.3, "x2": 0.6}
    given = replace(other.problem(), pending=(Pending(None, row),))
    again = Decision(row, "")
    assert avoiding_repeats(other.method, given, lambda problem: again) is again
    given = replace(problem, pending=given.pending)
    assert isinstance(avoiding_repeats(other.method, given, lambda problem: again), Stop)


def test_what_counts_as_a_repeat() -> None:
    """Next to it in every input, of the same control set, and of one that leaves none to chance."""
    method = ControlSets(SETS, {"x2": Uniform(0.0, 1.0)}, budget=50.0, **FAST)
    problem = Problem(_space(method))

    def row(x1: float, x2: float, place: int = 1) -> dict[str, Any]:
        return {"x1": x1, "x2": x2, "control_set": SETS[place].name}

    near = Pending(None, row(0.305, 0.495))
    others = [row(0.32, 0.5), row(0.3, 0.52), row(0.3, 0.5, 0)]
    pending = (*[Pending(i, other) for i, other in enumerate(others)], near)
    problem = replace(problem, pending=pending)
    assert repeated(method, problem, Decision(row(0.3, 0.5), "")) == [near]
    assert repeated(method, problem, Decision(row(0.3, 0.5, 0), "")) == []
    assert repeated(method, problem, Stop("")) == []


def test_what_is_known_is_observed_often() -> None:
    """The mean stays, and next to nothing is left of the variance there."""
    simulation = _run("goes on")
    problem = simulation.problem()
    row = {"x1": 0.31, "x2": 0.59}
    known = replace(problem, known=(Pending(None, row),))
    X = problem.space.encode([row])
    before, after = problem.model.posterior(X), known.model.posterior(X)
    torch.testing.assert_close(after.mean, before.mean, rtol=1e-6, atol=1e-6)
    assert problem.scale.unit**2 * float(after.variance.detach()) < 1e-4 / 20
    assert replace(problem, known=()).model is problem.model


MIXED = Space.of(
    [Range("x", 0.0, 1.0), Range("n", 1, 9, is_integer=True), Choice("c", ("a", "b"))],
    sums=[({"x": 9.0, "n": 1.0}, 12.0)],
)
TRIAL: dict[str, Any] = {"x": 0.5, "n": 3, "c": "a"}


def _next(
    decision: object, monkeypatch: pytest.MonkeyPatch, initial: bool = True, **fixed: Any
) -> Decision | Stop:
    monkeypatch.setattr(CostAware, "initial" if initial else "decide", lambda *_: decision)
    return next_trial(METHODS["goes on"], Problem(MIXED, fixed=fixed), initial=initial)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"c": "z"}, "for each of"),
        ({"n": 2.5}, "for each of"),
        ({"x": "0.5"}, "for each of"),
        ({"x": None}, "for each of"),
        ({"x": True}, "for each of"),
        ({"x": 1.1}, "for each of"),
        ({"x": 0.9, "n": 9}, "meets the constraints"),
        ({"c": "b"}, "{'c': 'a'}"),
    ],
)
def test_values_that_a_trial_cannot_have(
    changed: Row, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were paid for, rounded, or failed with a TypeError; and what comes after reads them."""
    with pytest.raises(InputError, match=f"Gittins decided on .*{message}"):
        _next(Decision({**TRIAL, **changed}, "given", 1.0), monkeypatch, c="a")


@pytest.mark.parametrize(
    ("decision", "name"),
    [
        (None, "decided on None"),
        (Decision([0.5], "given", 1.0), r"decided on \[0.5\]"),  # type: ignore[arg-type]
        (Decision({"x": 0.5}, "given", 1.0), "decided on {'x': 0.5}"),
        (Decision(TRIAL, "given", "1"), "expected_cost='1'"),  # type: ignore[arg-type]
        (Decision(TRIAL, "given", float("nan")), "expected_cost=nan"),
        (Decision(TRIAL, "given", -1.0), "expected_cost=-1"),
        (Decision(TRIAL, None, 1.0), "why=None"),  # type: ignore[arg-type]
        (Decision(TRIAL, "given", 1.0, {"a": torch.ones(2)}), "details="),
        (Decision(TRIAL, "given", 1.0, {(1, 2): 0}), "details="),  # type: ignore[dict-item]
        (Decision(TRIAL, "given", 1.0, extra={"a": {1}}), "extra="),
        (Stop(None), "a reason"),  # type: ignore[arg-type]
    ],
)
@pytest.mark.parametrize("initial", [False, True])
def test_what_is_no_decision(
    decision: object, name: str, initial: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A method of one's own would pay for it, or for ever after lack a sum of what was spent."""
    with pytest.raises(InputError, match=f"(?s)Gittins.*{name}"):
        _next(decision, monkeypatch, initial)


def test_a_decision_is_what_a_store_gives_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or a loaded experiment would decide by lists where the running one has tuples."""
    row = {"x": torch.tensor(0.5), "n": np.int64(3), "c": np.str_("a")}
    details = {"a": (1, np.int64(2)), "b": {3: torch.tensor(4.0)}}
    given = Decision(row, "given", np.float32(1.0), details, value=torch.tensor(2.0))  # type: ignore[arg-type]
    kept = Decision(TRIAL, "given", 1.0, {"a": [1, 2], "b": {"3": 4.0}}, value=2.0)
    found = _next(given, monkeypatch)
    assert found == kept
    assert {*map(type, found.parameters.values())} == {float, int, str}


@pytest.mark.parametrize("found", [None, [], [{"x1": 0.5}], Best({"x1": 0.5}, 1.0, 1.0)])
def test_a_recommendation_that_is_none(found: object, monkeypatch: pytest.MonkeyPatch) -> None:
    simulation = _run("goes on")
    monkeypatch.setattr(CostAware, "recommend", lambda *_: found)
    with pytest.raises(InputError, match="Gittins recommended"):
        simulation.recommend()


def test_what_is_fixed_is_rounded_as_trials_are(monkeypatch: pytest.MonkeyPatch) -> None:
    space = Space.of([Range("x", -1.0, 1.0, digits=2), Range("l", 1e-4, 1.0, log_scale=True)])
    for fixed, row in (
        ({"x": 0.123456}, {"x": 0.12, "l": 0.5}),
        ({"x": 0.0, "l": 1e-4}, {"x": 1e-17, "l": 1e-4 * (1 + 1e-10)}),
    ):
        decision = Decision(dict(row), "given", 1.0)
        monkeypatch.setattr(CostAware, "initial", lambda *_, decision=decision: decision)
        found = next_trial(METHODS["goes on"], Problem(space, fixed=fixed), initial=True)
        assert isinstance(found, Decision)
    with pytest.raises(InputError, match="as was fixed"):
        next_trial(METHODS["goes on"], Problem(space, fixed={"x": 0.13}), initial=True)

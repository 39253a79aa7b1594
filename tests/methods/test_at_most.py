"""Few parts of several in a trial, and sums of integer parts."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch

from ax_costaware.core import FixedHyperparameters, Simulation, Stop
from ax_costaware.core.simulation import Outcome
from ax_costaware.exceptions import InputError
from ax_costaware.methods import CostAware
from ax_costaware.space import AtMost, Choice, Range, Space
from ax_costaware.space.finite_spaces import all_points

GIVEN = FixedHyperparameters(lengthscale=0.5, outputscale=1.0, noise_variance=1e-6)
NAMES = ("acid", "base", "oil", "salt")
PARTS = [Range(name, 0.0, 1.0) for name in NAMES]
ONE = [dict.fromkeys(NAMES, 1.0)]


def present(row: Any) -> list[str]:
    return [name for name in NAMES if row[name] not in (0, "none")]


def value(row: Any) -> float:
    """Best with 0.7 of oil and 0.3 of salt."""
    return -sum((row[n] - {"oil": 0.7, "salt": 0.3}.get(n, 0.2)) ** 2 for n in NAMES)


@pytest.mark.parametrize(
    ("space", "equals"),
    [
        (Space.of(PARTS), False),
        (Space.of(PARTS, equalities=[(ONE[0], 1.0)]), True),
        (Space.of(PARTS, sums=[(ONE[0], 1.0)]), False),
        (Space.of([Range(n, 0, 20, is_integer=True) for n in NAMES]), False),
    ],
)
def test_few_parts_are_present_in_every_trial(space: Space, equals: bool) -> None:
    method = CostAware(1.0, at_most=[AtMost(2, NAMES)], initial_trials=4, raw_samples=64)
    simulation = Simulation(method, space, hyperparameters=GIVEN)
    for _ in range(9):
        decision = simulation.ask()
        assert not isinstance(decision, Stop)
        row = decision.parameters
        assert len(present(row)) <= 2
        assert space.meets(row, rounding=1e-9)
        if equals:
            assert sum(float(str(row[n])) for n in NAMES) == pytest.approx(1.0)
        simulation.tell(decision, Outcome(value(row)))
    assert len(present(simulation.recommend().parameters)) <= 2
    if space.smooth:
        assert simulation.recommend().mean > -0.2
    fixed = simulation.ask(fixed={"acid": 10 if space.integers else 0.5})
    assert not isinstance(fixed, Stop)
    assert "acid" in present(fixed.parameters)
    assert len(present(fixed.parameters)) <= 2


def test_the_points_of_a_finite_space() -> None:
    parameters = [
        Choice("acid", ("none", "a", "b")),
        *(Range(n, 0, 2, is_integer=True) for n in NAMES[1:]),
    ]
    rule = AtMost(1, {"acid": "none", "base": 0, "oil": 0, "salt": 0})
    space = Space.of(parameters).restricted(at_most=[rule])
    points = all_points(space)
    assert points is not None
    rows = [dict(zip(NAMES, v, strict=True)) for v in product(("none", "a", "b"), *[(0, 1, 2)] * 3)]
    expected = [row for row in rows if len(present(row)) <= 1]
    assert sorted(map(str, space.decode(points))) == sorted(map(str, expected))


def test_sums_of_integer_parts() -> None:
    names = [f"x{i}" for i in range(6)]
    parameters = [Range(name, 0, 12, is_integer=True) for name in names]
    whole = dict.fromkeys(names, 1.0)
    space = Space.of(parameters, [(whole, 12.0), (dict.fromkeys(names, -1.0), -12.0)])
    simulation = Simulation(CostAware(1.0, initial_trials=4), space, hyperparameters=GIVEN)
    for _ in range(8):
        decision = simulation.ask()
        assert not isinstance(decision, Stop)
        row: Any = decision.parameters
        assert sum(row[n] for n in names) == 12
        simulation.tell(decision, Outcome(-sum(abs(row[n] - 2) for n in names)))
    assert simulation.recommend().mean > -torch.inf


@pytest.mark.parametrize(
    ("number", "parts", "message"),
    [
        (0, NAMES, "number=0"),
        (4, NAMES, "expected fewer than these"),
        (1, ["acid", "acid"], "more than once"),
        (1, "acid", "names of two or more parameters"),
        (1, [1, 2], "names of two or more parameters"),
    ],
)
def test_invalid_restrictions(number: int, parts: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        AtMost(number, parts)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (AtMost(1, ["acid", "gold"]), "'gold' is no parameter"),
        (AtMost(1, {"acid": 0, "oil": 7}), "'oil' does not take 7"),
    ],
)
def test_restrictions_that_do_not_fit(rule: AtMost, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Space.of(PARTS).restricted(at_most=[rule])


def test_fixed_values_with_too_many_parts() -> None:
    space = Space.of(PARTS).restricted(at_most=[AtMost(1, NAMES)])
    with pytest.raises(InputError, match=r"has \['acid', 'oil'\]"):
        space.held_at({"acid": 0.5, "oil": 0.5})

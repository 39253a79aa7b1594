"""The parameters of points: what is read from Ax's configurations, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from ax.api.configs import ChoiceParameterConfig, DerivedParameterConfig, RangeParameterConfig
from ax.exceptions.core import UserInputError

from ax_costaware.generators.target_columns import target_space, target_transform
from ax_costaware.generators.target_parameters import (
    MOST_VALUES,
    TargetChoice,
    TargetRange,
    target_parameters,
)


def test_configurations_become_value_objects() -> None:
    found = target_parameters(
        [
            RangeParameterConfig("x", (0, 1), "float"),
            RangeParameterConfig("n", (1, 8), "int", scaling="log"),
            RangeParameterConfig("s", (0, 0.3), "float", step_size=0.1),
            ChoiceParameterConfig("c", ["a", "b"], "str"),
            ChoiceParameterConfig("d", [3, 1], "int", is_ordered=True),
            ChoiceParameterConfig("e", [3, 1], "int", is_ordered=False),
            ChoiceParameterConfig("f", [True, False], "bool", is_ordered=True),
        ]
    )
    assert found == (
        TargetRange("x", 0.0, 1.0),
        TargetRange("n", 1, 8, is_integer=True, log_scale=True),
        TargetChoice("s", (0.0, 0.3 / 3, 2 * 0.3 / 3, 0.3), is_ordered=True),
        TargetChoice("c", ("a", "b")),
        TargetChoice("d", (1, 3), is_ordered=True),
        TargetChoice("e", (3, 1)),
        TargetChoice("f", (True, False)),
    )
    assert target_parameters(found) == found
    assert [p.is_numeric for p in found] == [True, True, True, False, True, False, False]
    assert [p.grid for p in found[3:5]] == [(0.0, 1.0), (1.0, 3.0)]
    assert found[0].grid is None
    assert found[1].grid == tuple(float(i) for i in range(1, 9))
    assert TargetRange("n", 0, MOST_VALUES, is_integer=True).grid is None


def test_columns_and_back() -> None:
    number, letters = TargetRange("n", 1, 9, is_integer=True), TargetChoice("c", ("a", "b"))
    assert [number.decode(v) for v in (-3.0, 2.6, 99.0)] == [1, 3, 9]
    assert isinstance(number.decode(2.6), int)
    assert number.encode(np.float64(4.0)) == 4.0
    assert (letters.encode("b"), letters.decode(0.9)) == (1.0, "b")
    assert TargetChoice("d", (True, False)).encode(np.bool_(False)) == 1.0
    assert TargetRange("x", 0, 1).decode(1.5) == 1.0
    for parameter, value in ((number, "4"), (number, True), (letters, "c"), (letters, 0)):
        with pytest.raises(UserInputError, match=f"{parameter.name!r} has the value {value!r}"):
            parameter.encode(value)
    with pytest.raises(UserInputError, match="has the value 1: expected one of"):
        TargetChoice("d", (True, False)).encode(1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TargetRange("x", 1, 1), r"bounds \(1.0, 1.0\): expected finite numbers"),
        (lambda: TargetRange("x", 0, math.inf), "expected finite numbers"),
        (lambda: TargetRange("x", "0", 1), "has the bound '0': expected a number"),  # type: ignore[arg-type]
        (lambda: TargetRange("x", 0, 1, log_scale=True), "log scale: expected numbers > 0"),
        (lambda: TargetRange("x", 0.5, 2, is_integer=True), "expected whole numbers"),
        (lambda: TargetRange("", 0, 1), "name=''"),
        (lambda: TargetChoice("c", ("a",)), "expected two or more"),
        (lambda: TargetChoice("c", ("a", "a")), "expected two or more different"),
        (lambda: TargetChoice("c", ("a", 1)), "of one kind"),
        (lambda: TargetChoice("c", ("a", "b"), is_ordered=True), "expected numbers, or no order"),
        (lambda: target_parameters("x"), "target_parameters='x': expected a list"),
        (
            lambda: target_parameters([DerivedParameterConfig("y", "x", "float")]),
            "expected RangeParameterConfig or ChoiceParameterConfig",
        ),
        (
            lambda: target_parameters(
                [ChoiceParameterConfig("c", ["a", "b"], "str", dependent_parameters={"a": ["x"]})]
            ),
            "dependent parameters",
        ),
    ],
)
def test_refused(make: Any, message: str) -> None:
    with pytest.raises(UserInputError, match=message):
        make()


def test_the_space_of_searches_and_the_unit_cube() -> None:
    parameters = (
        TargetRange("x", -1, 3),
        TargetRange("n", 1, 100, is_integer=True, log_scale=True),
        TargetChoice("c", ("a", "b", "c")),
    )
    space = target_space(parameters)
    assert space.bounds.tolist() == [[-1, 1, 0], [3, 100, 2]]
    assert sorted(space.choices) == [1, 2]
    transform = target_transform(parameters)
    assert transform is not None
    transform.eval()
    points = torch.tensor([[-1.0, 1.0, 2.0], [1.0, 10.0, 1.0], [3.0, 100.0, 0.0]]).double()
    expected = [[0.0, 0.0, 2.0], [0.5, 0.5, 1.0], [1.0, 1.0, 0.0]]
    assert torch.allclose(transform(points), torch.tensor(expected).double())
    assert torch.allclose(transform.untransform(transform(points)), points)
    # A law may reach beyond the bounds, even below zero.
    outside = transform(torch.tensor([[0.0, -5.0, 0.0]]).double())
    assert outside.isfinite().all()
    assert target_transform(parameters[2:]) is None

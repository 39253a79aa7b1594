"""Parameters as value objects: their values, their columns, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from ax_costaware.exceptions import InputError
from ax_costaware.space.parameters import MOST_INTEGERS, Choice, Fixed, Parameter, Range, takes


def test_values_that_there_are() -> None:
    x, n = Range("x", 0, 1), Range("n", 1, 8, is_integer=True, log_scale=True)
    letters, digits = Choice("c", ("a", "b")), Choice("d", (3, 1), is_ordered=True)
    assert [p.is_numeric for p in (x, n, letters, digits)] == [True, True, False, True]
    assert [p.is_numeric for p in (Choice("f", (True, False)), Fixed("g", 2))] == [False, True]
    assert digits == Choice("d", (1, 3), is_ordered=True)
    assert [p.grid for p in (letters, digits)] == [(0.0, 1.0), (1.0, 3.0)]
    assert x.grid is None
    assert n.grid == tuple(float(i) for i in range(1, 9))
    assert Range("n", 0, MOST_INTEGERS, is_integer=True).grid is None
    assert n.values_up_to(7) is None
    assert n.values_up_to(8) == tuple(range(1, 9))
    assert letters.values_up_to(1) == ("a", "b")
    assert Fixed("g", 2).values_up_to(1) == (2,)


@pytest.mark.parametrize(
    ("parameter", "values"),
    [
        (Range("x", 2.0, 4.0), [2.0, 3.0, 4.0]),
        (Range("x", 0.01, 1.0, log_scale=True), [0.01, 0.1, 1.0]),
        (Range("x", 0.1, 0.9, logit_scale=True), [0.1, 0.5, 0.9]),
        (Range("x", 1, 5, is_integer=True), [1, 3, 5]),
        (Range("x", -3, -1, is_integer=True), [-3, -2, -1]),
        (Range("x", 1, 100, is_integer=True, log_scale=True), [1, 10, 100]),
        (Choice("x", ("a", "b", "c")), ["a", "b", "c"]),
    ],
)
def test_values_on_the_parameters_own_scale(
    parameter: Range | Choice, values: list[object]
) -> None:
    """The ends and the middle of the range, as valid values."""
    found = [parameter.at(u) for u in (0.0, 0.5, 1.0 - 1e-12)]
    is_real = isinstance(parameter, Range) and not parameter.is_integer
    assert found == pytest.approx(values) if is_real else found == values
    assert [type(value) for value in found] == [type(value) for value in values]
    if isinstance(parameter, Range):
        assert all(parameter.lower <= value <= parameter.upper for value in found)  # type: ignore[operator]


def test_columns_and_back() -> None:
    number, letters = Range("n", 1, 9, is_integer=True), Choice("c", ("a", "b"))
    assert [number.decode(v) for v in (-3.0, 2.6, 99.0)] == [1, 3, 9]
    assert isinstance(number.decode(2.6), int)
    assert number.encode(np.float64(4.0)) == 4.0
    assert (letters.encode("b"), letters.decode(0.9)) == (1.0, "b")
    assert Choice("d", (True, False)).encode(np.bool_(False)) == 1.0
    assert Range("x", 0, 1).decode(1.5) == 1.0
    assert [Range("x", 0, 1, digits=1).decode(v) for v in (0.449, 0.97)] == [0.4, 1.0]
    for parameter, value in ((number, "4"), (number, True), (letters, "c"), (letters, 0)):
        with pytest.raises(InputError, match=f"{parameter.name!r} has the value {value!r}"):
            parameter.encode(value)
    with pytest.raises(InputError, match="has the value 1"):
        Choice("d", (True, False)).encode(1)


def test_steps_that_are_rounded_are_known() -> None:
    """Ax makes choices of a range with a step, and 3 * 0.1 is not 0.3."""
    steps = Choice("x", tuple(0.1 * i for i in range(1, 11)), is_ordered=True)
    assert [steps.index(value) for value in (0.3, np.float64(0.7), 1)] == [2, 6, 9]
    assert takes(steps, 0.3)
    for value in (0.31, True, "0.3"):
        assert not takes(steps, value)


def test_scales_of_the_model() -> None:
    """Its logarithm is the decimal one."""
    assert Range("x", 0.01, 1, log_scale=True).to_column(0.1) == pytest.approx(-1.0)
    logit = Range("x", 0.1, 0.9, logit_scale=True)
    assert logit.to_column(0.8) == pytest.approx(math.log(4.0))
    assert Range("x", -1, 1).to_column(0.25) == 0.25


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Range("x", 1, 1), r"bounds \(1.0, 1.0\)"),
        (lambda: Range("x", 0, math.inf), "expected finite numbers"),
        (lambda: Range("x", 0, 1e101), r"bounds \(0.0, 1e\+101\): .* at most 1e\+100 in size"),
        (lambda: Range("x", 0.04, 1, digits=1), "digits=1: .* bounds of no more digits"),
        (lambda: Range("x", 0, 1, digits=1.5), "digits=1.5"),  # type: ignore[arg-type]
        (lambda: Range("x", "0", 1), "has the bound '0'"),  # type: ignore[arg-type]
        (lambda: Range("x", 0, 1, log_scale=True), "log scale"),
        (lambda: Range("x", 0.5, 2, is_integer=True), "expected whole numbers"),
        (lambda: Range("", 0, 1), "name=''"),
        (
            lambda: Range("x", 0.1, 0.5, log_scale=True, logit_scale=True),
            "'x' has log_scale=True, logit_scale=True",
        ),
        (lambda: Range("x", 0, 0.5, logit_scale=True), r"on a logit scale: .* between 0 and 1"),
        (lambda: Range("x", 0.5, 1, logit_scale=True), r"\(0.5, 1.0\) on a logit scale"),
        (lambda: Choice("c", ()), "expected different ones"),
        (lambda: Choice("c", (1, 0), True, log_scale=True), r"\[1, 0\] on a log .* numbers > 0"),
        (lambda: Choice("c", (1, 9), log_scale=True), r"\[1, 9\].* log_scale=True: .* is_ordered"),
        (lambda: Choice("c", ("a", "a")), "expected different ones"),
        (lambda: Choice("c", ("a", 1)), "of one kind"),
        (lambda: Choice("c", ("a", "b"), is_ordered=True), "expected numbers, or no order"),
    ],
)
def test_refused(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


def test_equal_by_value() -> None:
    parameters: list[Parameter] = [Range("x", 0, 1), Choice("c", ("a", "b")), Fixed("f", 1)]
    again = [Range("x", 0.0, 1.0), Choice("c", ("a", "b")), Fixed("f", 1)]
    assert parameters == again
    assert len({*parameters, *again}) == 3

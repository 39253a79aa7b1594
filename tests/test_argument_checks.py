"""Checks that turn arguments into plain Python values."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

from ax_costaware.argument_checks import (
    boolean,
    finite_number,
    instance_of,
    integer_at_least,
    nonnegative_number,
    one_of,
    positive_number,
    sequence_of,
)
from ax_costaware.exceptions import InputError
from ax_costaware.laws.marginals.marginal import column


@pytest.mark.parametrize("value", [2, 2.0, np.float32(2), np.int64(2), Fraction(2)])
def test_real_numbers_become_floats(value: Any) -> None:
    for check in (finite_number, positive_number, nonnegative_number):
        number = check(value, "x")
        assert number == 2.0
        assert type(number) is float


def test_integers_become_ints() -> None:
    assert type(integer_at_least(np.int64(2), 0, "x")) is int


@pytest.mark.parametrize("value", [True, np.nan, np.inf, -np.inf, "2", None, 2j, 10**400], ids=str)
def test_what_is_no_finite_number_is_refused(value: Any) -> None:
    with pytest.raises(InputError, match=r"x=.*: expected a finite number\."):
        finite_number(value, "x")
    with pytest.raises(InputError, match=r"x=.*: expected a finite number > 0\."):
        positive_number(value, "x")


def test_zero_is_not_negative_and_not_positive() -> None:
    assert nonnegative_number(0, "x") == 0.0
    with pytest.raises(InputError, match=r"x=0: expected a finite number > 0\."):
        positive_number(0, "x")
    with pytest.raises(InputError, match="x=-1e-300"):
        nonnegative_number(-1e-300, "x")


@pytest.mark.parametrize(
    "values", [[1, 2], (1, 2), range(1, 3), np.array([1, 2]), torch.tensor([1, 2]), iter([1, 2])]
)
def test_sequences_become_tuples_of_python_values(values: Any) -> None:
    checked = sequence_of(values, "xs", "numbers")
    assert checked == (1, 2)
    assert [type(value) for value in checked] == [int, int]


@pytest.mark.parametrize("values", ["ab", b"ab", 3, None, np.float64(3), torch.tensor(3)])
def test_what_is_no_sequence_is_refused(values: Any) -> None:
    with pytest.raises(InputError, match=r"xs=.*: expected numbers\."):
        sequence_of(values, "xs", "numbers")


def test_columns_are_one_dimensional() -> None:
    assert column(torch.tensor([1, 2])).dtype == torch.double
    with pytest.raises(InputError, match=r"nodes of shape \(\)"):
        column(torch.tensor(1.0))
    with pytest.raises(InputError, match=r"nodes of shape \[1\.0\]"):
        column([1.0])  # type: ignore[arg-type]


def test_what_passes_is_unchanged() -> None:
    assert boolean(False, "x") is False
    assert one_of("ei", "x", ("ucb", "ei")) == "ei"
    assert instance_of(None, "x", int | None, "an integer") is None
    for other in (0, None, "no"):
        with pytest.raises(InputError, match=r"x=.*: expected True or False"):
            boolean(other, "x")
    with pytest.raises(InputError, match="x='pi'"):
        one_of("pi", "x", ("ucb", "ei"))
    with pytest.raises(InputError, match="x='1'"):
        instance_of("1", "x", int, "an integer")

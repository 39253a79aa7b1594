"""Realised inputs by the kind of their parameter."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from ax.core.parameter import ChoiceParameter, FixedParameter, ParameterType, RangeParameter
from ax.core.search_space import SearchSpace
from ax.exceptions.core import UserInputError

from ax_costaware.session.realized import OutOfBoundsWarning, read_realized, warn_out_of_bounds

SPACE = SearchSpace(
    [
        RangeParameter("dose", ParameterType.FLOAT, 0.0, 1.0),
        RangeParameter("share", ParameterType.FLOAT, 0.1, 0.9, logit_scale=True),
        RangeParameter("count", ParameterType.INT, 1, 5),
        ChoiceParameter(
            "wet", ParameterType.BOOL, [False, True], is_ordered=True, sort_values=True
        ),
        ChoiceParameter("level", ParameterType.INT, [1, 2, 4], is_ordered=True, sort_values=True),
        ChoiceParameter("rate", ParameterType.FLOAT, [0.5, 1.0], is_ordered=True, sort_values=True),
        FixedParameter("field", ParameterType.STRING, "north"),
    ]
)

ALL: dict[str, Any] = {
    "dose": 0.5,
    "share": 0.5,
    "count": 3,
    "wet": True,
    "level": 2,
    "rate": 1.0,
}


@pytest.mark.parametrize(
    ("name", "given", "stored"),
    [
        ("dose", 1, 1.0),
        ("dose", np.float32(0.5), 0.5),
        ("count", 4.0, 4),
        ("count", np.int32(2), 2),
        ("wet", np.bool_(False), False),
        ("level", 4.0, 4),
        ("level", np.int64(1), 1),
        ("rate", 1, 1.0),
    ],
)
def test_values_are_stored_in_the_parameters_type(name: str, given: Any, stored: Any) -> None:
    value = read_realized({**ALL, name: given}, SPACE, controlled=[])[name]
    assert value == stored
    assert type(value) is type(stored)


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("dose", None),
        ("dose", np.bool_(True)),
        ("dose", 1j),
        ("share", 1.0),
        ("count", 2.5),
        ("wet", 1),
        ("level", True),
        ("level", "2"),
        ("level", 3),
        ("rate", float("nan")),
    ],
)
def test_values_of_another_kind_are_refused(name: str, given: Any) -> None:
    with pytest.raises(UserInputError, match=rf"realized\['{name}'\]="):
        read_realized({**ALL, name: given}, SPACE, controlled=[])


def test_bounds_are_inside() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_out_of_bounds({"dose": 1.0, "count": 1, "wet": False, "level": 4}, SPACE)
    with pytest.warns(OutOfBoundsWarning, match="count"):
        warn_out_of_bounds({"dose": 1.0, "count": 0}, SPACE)

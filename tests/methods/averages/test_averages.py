"""What the methods of averages share."""

from __future__ import annotations

from typing import Any

import pytest

from ax_costaware.exceptions import InputError
from ax_costaware.methods.averages.indirect_queries import IndirectQueries
from ax_costaware.methods.averages.information import little_left
from ax_costaware.methods.parameters import Choice, Fixed, Range
from ax_costaware.queries import GaussianConditional


def test_the_reason_says_when_nothing_is_left_to_learn() -> None:
    assert little_left(0.1) == ""
    assert "you may stop" in little_left(1e-9)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ("x", "target_parameters='x': expected a list"),
        ((), r"target_parameters=\[\]: expected at least one"),
        ((Fixed("x", 1.0),), "expected ranges and choices"),
        ((Choice("c", ("a",)),), "expected two or more"),
        ((Range("x", 0, 1), Range("x", 0, 2)), r"\['x'\] more than once"),
    ],
)
def test_refused_target_parameters(parameters: Any, message: str) -> None:
    law = GaussianConditional(((1.0,),), covariance=1.0)
    with pytest.raises(InputError, match=message):
        IndirectQueries(target_parameters=parameters, conditional=law)

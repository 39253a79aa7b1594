"""The theory's beta."""

from __future__ import annotations

import math
from typing import Any

import pytest

from ax_costaware.exceptions import InputError
from ax_costaware.methods import TheoreticalBeta


@pytest.mark.parametrize(
    ("norm_bound", "noise_std", "delta", "gain", "m", "expected"),
    [
        (2.0, 0.1, 0.1, 0.0, 7, 2.0 + 0.1 * math.sqrt(2 * (1 + math.log(80)))),
        (0.0, 1.0, 0.5, 3.0, 1, math.sqrt(2 * (4 + math.log(4)))),
        (1, 0.5, 0.05, 12, 1023, 1 + 0.5 * math.sqrt(2 * (13 + math.log(1024 / 0.05)))),
    ],
)
def test_theorem_4_1(
    norm_bound: float, noise_std: float, delta: float, gain: float, m: int, expected: float
) -> None:
    assert TheoreticalBeta(norm_bound, noise_std, delta)(gain, m) == pytest.approx(expected)


def test_equality_and_repr() -> None:
    assert TheoreticalBeta(1, 1) == TheoreticalBeta(1.0, 1.0, delta=0.1)
    assert repr(TheoreticalBeta(1, 2)) == (
        "TheoreticalBeta(norm_bound=1.0, noise_std=2.0, delta=0.1)"
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"norm_bound": -1}, r"norm_bound=-1: expected a finite number >= 0\."),
        ({"norm_bound": math.inf}, r"norm_bound=inf: expected a finite number >= 0\."),
        ({"noise_std": 0}, r"noise_std=0: expected a finite number > 0\."),
        ({"noise_std": "1"}, r"noise_std='1': expected a finite number > 0\."),
        ({"delta": 0}, r"delta=0: expected a number strictly between 0 and 1\."),
        ({"delta": 1.0}, r"delta=1\.0: expected a number strictly between 0 and 1\."),
        ({"delta": math.nan}, r"delta=nan: expected a number strictly between 0 and 1\."),
    ],
)
def test_refuses(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        TheoreticalBeta(**{"norm_bound": 1.0, "noise_std": 1.0, **changes})


@pytest.mark.parametrize(
    ("gain", "m", "message"),
    [
        (-0.1, 3, r"information_gain=-0\.1: expected a finite number >= 0\."),
        (math.nan, 3, r"information_gain=nan: expected a finite number >= 0\."),
        (1.0, 0, r"num_control_sets=0: expected an integer >= 1\."),
    ],
)
def test_refuses_to_be_called_with(gain: float, m: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        TheoreticalBeta(1.0, 1.0)(gain, m)

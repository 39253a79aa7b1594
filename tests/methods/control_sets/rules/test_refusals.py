"""Arguments that rules refuse, by name."""

from __future__ import annotations

import math
from typing import Any

import pytest

from ax_costaware.exceptions import InputError
from ax_costaware.methods import (
    EpsilonSchedule,
    ExploreThenCommit,
    LargestValuePerCost,
    TheoreticalBeta,
    UnknownCosts,
)

REFUSED: list[tuple[Any, dict[str, Any], dict[str, tuple[Any, ...]]]] = [
    (
        EpsilonSchedule,
        {"initial": 1.0},
        {"initial": (-0.1, math.nan, "1"), "power": (-1, math.inf), "ratio": (0, 1.1, None)},
    ),
    (ExploreThenCommit, {"plays": 3}, {"by": ("name",), "plays": (-1, True, 2.5, "3", None)}),
    (ExploreThenCommit, {"plays": None}, {"scale": (0, math.inf, "4")}),
    (LargestValuePerCost, {}, {"above": ("mean",)}),
    (
        TheoreticalBeta,
        {"norm_bound": 1.0, "noise_std": 1.0},
        {
            "norm_bound": (-1, math.inf),
            "noise_std": (0, "1"),
            "delta": (0, 1.0, math.nan),
            "theorem": ("4.3",),
        },
    ),
    (
        UnknownCosts,
        {},
        {
            "tolerance": (1.0, -0.1, math.nan),
            "exploration": (0.0, 1.0, "half"),
            "halve_every": (-1, 1.5),
            "cost_range": (0.0,),
            "worst_value": (math.inf,),
            "pointwise_bounds": ("no",),
            "rounds": (0,),
            "horizon": (1,),
            "models_costs": ("no",),
            "decays_with_budget": (1,),
        },
    ),
]
CASES = [
    (rule, valid, name, value)
    for rule, valid, bad in REFUSED
    for name, values in bad.items()
    for value in values
]


@pytest.mark.parametrize(("rule", "valid", "name", "value"), CASES)
def test_refused_by_name(rule: Any, valid: dict[str, Any], name: str, value: Any) -> None:
    with pytest.raises(InputError, match=f"^{name}="):
        rule(**{**valid, name: value})


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"plays": 3, "scale": 4.0}, "plays=3, scale=4.0"),
        ({"scale": 4.0, "by": "size"}, "scale=4.0 with by='size'"),
        ({"plays": [1, -2]}, r"plays\[1\]=-2"),
        ({"plays": [1.0]}, r"plays\[0\]=1.0"),
    ],
)
def test_plays_that_do_not_fit(arguments: dict[str, Any], name: str) -> None:
    with pytest.raises(InputError, match=name):
        ExploreThenCommit(**arguments)


def test_two_decreases_of_the_tolerance() -> None:
    with pytest.raises(InputError, match="halve_every=3 with decays_with_budget=True"):
        UnknownCosts(decays_with_budget=True, halve_every=3)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        ((-0.1, 3), "information_gain"),
        ((math.nan, 3), "information_gain"),
        ((1.0, 0), "num_control_sets"),
    ],
)
def test_calls_of_beta(call: tuple[float, int], name: str) -> None:
    with pytest.raises(InputError, match=f"^{name}="):
        TheoreticalBeta(1.0, 1.0)(*call)

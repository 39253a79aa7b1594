"""The price of cost, and when to stop."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import norm

from ax_costaware.exceptions import InputError
from ax_costaware.methods import GittinsDecay, GittinsStop, ImprovementPerCostStop

RULES = [GittinsStop, ImprovementPerCostStop]


@pytest.mark.parametrize(
    ("index", "incumbent", "expected"),
    [(1.1, 1.0, 0.8), (1.0, 1.0, 0.2), (0.9, 1.0, 0.2), (-2.0, -3.0, 0.8), (-3.0, -2.0, 0.2)],
)
def test_the_price_falls_when_the_index_does_not_exceed_the_incumbent(
    index: float, incumbent: float, expected: float
) -> None:
    assert GittinsDecay(1.0, factor=4.0).after(0.8, index, incumbent) == expected


def test_the_paper_halves_a_tenth() -> None:
    decay = GittinsDecay()
    lmbda = decay.initial
    for _ in range(3):
        lmbda = decay.after(lmbda, 0.0, 1.0)
    assert lmbda == 0.1 / 8


def test_the_price_stays_above_zero() -> None:
    decay = GittinsDecay(factor=1e200)
    assert decay.after(1e-200, 0.0, 1.0) == sys.float_info.min
    assert decay.after(sys.float_info.min, 0.0, 1.0) == sys.float_info.min
    assert decay.after(5e-324, 0.0, 1.0) == 5e-324


@pytest.mark.parametrize(
    ("index", "incumbent", "stop"),
    [(1.0, 2.0, True), (2.0, 2.0, True), (2.0 + 1e-12, 2.0, False), (-1.0, -2.0, False)],
)
def test_stops_when_no_index_exceeds_the_incumbent(
    index: float, incumbent: float, stop: bool
) -> None:
    assert GittinsStop().decide(index, incumbent, 0.1)[0] is stop


@pytest.mark.parametrize(
    ("log_ratio", "stop"),
    [(math.log(0.1), True), (math.log(0.1) + 1e-12, False), (-800.0, True), (-math.inf, True)],
)
def test_stops_when_no_improvement_exceeds_the_price(log_ratio: float, stop: bool) -> None:
    assert ImprovementPerCostStop().decide(log_ratio, 0.1)[0] is stop


def _log_improvement(mean: float, sd: float, best: float) -> float:
    z = (mean - best) / sd
    return math.log(sd) + math.log(norm.pdf(z) + z * norm.cdf(z))


def _index(mean: float, sd: float, price: float) -> float:
    return brentq(
        lambda g: _log_improvement(mean, sd, g) - math.log(price),
        mean - price - 5 * sd,
        mean + 5 * sd,
        xtol=1e-13,
    )


@pytest.mark.parametrize("seed", range(20))
def test_the_two_rules_agree_at_one_price(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mean, sd, cost = rng.normal(size=4), rng.uniform(0.2, 2, size=4), rng.uniform(0.1, 3, size=4)
    best, lmbda = rng.normal(1.0), 10 ** rng.uniform(-3, 0.5)
    index = max(map(_index, mean, sd, lmbda * cost))
    log_ratio = max(
        _log_improvement(m, s, best) - math.log(c) for m, s, c in zip(mean, sd, cost, strict=True)
    )
    by_index = GittinsStop().decide(index, best, lmbda)
    assert by_index[0] == ImprovementPerCostStop().decide(log_ratio, lmbda)[0]


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_has_its_own_price_or_takes_the_one_in_force(rule: Any) -> None:
    assert rule().price(0.5) == 0.5
    assert rule(0.25).price(0.5) == 0.25
    assert rule(0.25).price(None) == 0.25
    with pytest.raises(InputError, match="lmbda=None"):
        rule().price(None)
    log_ratio = math.log(0.3)
    assert ImprovementPerCostStop(0.25).decide(log_ratio, 0.5)[0] is False
    assert ImprovementPerCostStop().decide(log_ratio, 0.5)[0] is True


_positive = st.floats(1e-300, 1e300)


BAD = [0, -1.0, math.nan, math.inf, True, "1"]


BAD_PRICES = (0, -1.0, math.nan, math.inf, True, "1")
BAD_VALUES = (math.nan, math.inf, -math.inf, None, "1", True)
CALLS: dict[str, list[tuple[Any, tuple[Any, ...]]]] = {
    "initial": [(lambda x: GittinsDecay(initial=x), BAD_PRICES)],
    "factor": [(lambda x: GittinsDecay(factor=x), (*BAD_PRICES, 1.0))],
    "lmbda": [
        (lambda x: GittinsDecay().after(x, 1.0, 1.0), BAD_PRICES),
        (GittinsStop, BAD_PRICES),
        (ImprovementPerCostStop, BAD_PRICES),
        (lambda x: GittinsStop().decide(1.0, 1.0, x), BAD_PRICES),
        (lambda x: ImprovementPerCostStop().decide(1.0, x), BAD_PRICES),
    ],
    "index": [
        (lambda x: GittinsStop().decide(x, 1.0, 0.1), BAD_VALUES),
        (lambda x: GittinsDecay().after(0.1, x, 1.0), BAD_VALUES),
    ],
    "incumbent": [
        (lambda x: GittinsStop().decide(1.0, x, 0.1), BAD_VALUES),
        (lambda x: GittinsDecay().after(0.1, 1.0, x), BAD_VALUES),
    ],
    "log_improvement_per_cost": [
        (lambda x: ImprovementPerCostStop().decide(x, 0.1), (math.nan, math.inf, None, "1", True))
    ],
}


@pytest.mark.parametrize("name", CALLS)
def test_refused_by_name(name: str) -> None:
    for call, values in CALLS[name]:
        for value in values:
            with pytest.raises(InputError, match=f"^{name}="):
                call(value)

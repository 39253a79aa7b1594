"""The price of cost, and when to stop."""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
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
    with pytest.raises(InputError, match=r"lmbda=None: expected a finite number > 0\."):
        rule().price(None)
    log_ratio = math.log(0.3)
    assert ImprovementPerCostStop(0.25).decide(log_ratio, 0.5)[0] is False
    assert ImprovementPerCostStop().decide(log_ratio, 0.5)[0] is True


def test_reasons_say_the_numbers() -> None:
    assert GittinsStop().decide(1.5, 2.0, 0.01) == (
        True,
        "the largest Gittins index falls short of the best value so far by 0.5: at a price of 0.01 "
        "for a unit of cost no trial is worth its cost",
    )
    assert "by 0: " in GittinsStop().decide(2.0, 2.0, 0.01)[1]
    assert GittinsStop(0.125).decide(-2.0, -2.25, 0.01) == (
        False,
        "the largest Gittins index is better than the best value so far by 0.25: at a price of "
        "0.125 for a unit of cost there is a trial worth its cost",
    )
    assert ImprovementPerCostStop().decide(math.log(0.5), 0.01) == (
        False,
        "the expected improvement per unit of cost of the best trial is 0.5, above the price of "
        "0.01 for a unit of cost",
    )
    assert ImprovementPerCostStop().decide(-math.inf, 0.01) == (
        True,
        "the expected improvement per unit of cost of the best trial is 0, not above the price of "
        "0.01 for a unit of cost",
    )
    for log_ratio in (-1e4, 1e4):
        assert f"is exp({log_ratio:g})," in ImprovementPerCostStop().decide(log_ratio, 1.0)[1]


def test_equality_and_repr() -> None:
    assert GittinsDecay() == GittinsDecay(np.float64(0.1), 2)
    assert repr(GittinsDecay(1)) == "GittinsDecay(initial=1.0, factor=2.0, per_mean_cost=True)"
    assert GittinsStop(np.float32(2)) == GittinsStop(2.0)
    assert repr(GittinsStop()) == "GittinsStop(lmbda=None)"
    assert repr(ImprovementPerCostStop(1)) == "ImprovementPerCostStop(lmbda=1.0)"
    assert GittinsStop(1.0) != ImprovementPerCostStop(1.0)


_positive = st.floats(1e-300, 1e300)


@given(
    rule=st.one_of(
        st.builds(GittinsDecay, _positive, st.floats(1.0, 1e300, exclude_min=True)),
        st.builds(GittinsStop, st.none() | _positive),
        st.builds(ImprovementPerCostStop, st.none() | _positive),
    )
)
def test_survives_json(rule: Any) -> None:
    assert type(rule)(**json.loads(json.dumps(dataclasses.asdict(rule)))) == rule


BAD = [0, -1.0, math.nan, math.inf, True, "1"]


@pytest.mark.parametrize("value", BAD, ids=str)
def test_refuses_prices(value: Any) -> None:
    expected = r"=.*: expected a finite number > 0\."
    with pytest.raises(InputError, match=f"initial{expected}"):
        GittinsDecay(initial=value)
    with pytest.raises(InputError, match=f"lmbda{expected}"):
        GittinsDecay().after(value, 1.0, 1.0)
    for rule in RULES:
        with pytest.raises(InputError, match=f"lmbda{expected}"):
            rule(value)
    with pytest.raises(InputError, match=f"lmbda{expected}"):
        GittinsStop().decide(1.0, 1.0, value)
    with pytest.raises(InputError, match=f"lmbda{expected}"):
        ImprovementPerCostStop().decide(1.0, value)


@pytest.mark.parametrize("value", [*BAD, 1.0], ids=str)
def test_refuses_factors(value: Any) -> None:
    with pytest.raises(InputError, match=r"factor=.*: expected a finite number > 1\."):
        GittinsDecay(factor=value)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, None, "1", True], ids=str)
def test_refuses_values(value: Any) -> None:
    for name, pair in {"index": (value, 1.0), "incumbent": (1.0, value)}.items():
        with pytest.raises(InputError, match=rf"{name}=.*: expected a finite number\."):
            GittinsStop().decide(*pair, 0.1)
        with pytest.raises(InputError, match=rf"{name}=.*: expected a finite number\."):
            GittinsDecay().after(0.1, *pair)
    if value != -math.inf:
        with pytest.raises(InputError, match=r"log_improvement_per_cost=.*: expected a finite num"):
            ImprovementPerCostStop().decide(value, 0.1)

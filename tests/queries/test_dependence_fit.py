"""Rank correlations against those of a sample."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import spearmanr

from ax_costaware.exceptions import InputError
from ax_costaware.queries.input_fit import dependence_beyond

NAMES = ("a", "b")


def pairs(n: int, correlation: float, seed: int) -> tuple[list[float], list[float]]:
    """Pairs of normal values."""
    rng = np.random.default_rng(seed)
    a = rng.normal(size=n)
    b = correlation * a + math.sqrt(1 - correlation**2) * rng.normal(size=n)
    return a.tolist(), b.tolist()


def test_false_alarms_and_power() -> None:
    """With one law for both, a level of 0.05 is kept; with another it is seen."""
    past = [pairs(100, 0.6, seed) for seed in range(200)]
    same = [pairs(40, 0.6, 1000 + seed) for seed in range(200)]
    other = [pairs(40, -0.2, 2000 + seed) for seed in range(200)]
    p_same = [dependence_beyond(NAMES, *a, b).p_value for a, b in zip(same, past, strict=True)]
    p_other = [dependence_beyond(NAMES, *a, b).p_value for a, b in zip(other, past, strict=True)]
    # Binomial: 10 of 200 expected, 22 are four standard deviations more.
    assert sum(p < 0.05 for p in p_same) < 22
    assert sum(p < 0.05 for p in p_other) > 180


def test_what_is_reported() -> None:
    values, past = pairs(12, 0.5, 1), pairs(30, 0.9, 2)
    found = dependence_beyond(NAMES, *values, past)
    expected = spearmanr(*values).statistic - spearmanr(*past).statistic
    assert (found.names, found.n) == (NAMES, 12)
    assert found.correlation == pytest.approx(expected)
    backwards = dependence_beyond(NAMES, *past, values)
    assert backwards.p_value == pytest.approx(found.p_value)
    # A perfect correlation on both sides is no disagreement.
    line = list(range(20))
    assert dependence_beyond(NAMES, line, line, (line, line)).p_value == 1.0


def test_too_few_pairs_are_refused() -> None:
    with pytest.raises(InputError, match="9 pairs of values and the sample 30: expected 10"):
        dependence_beyond(NAMES, *pairs(9, 0.0, 1), pairs(30, 0.0, 2))

"""Tests of inputs against the laws that are assumed of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, chisquare, kstest

from ax_costaware.exceptions import InputError
from ax_costaware.laws import (
    Discrete,
    Empirical,
    GaussianCopula,
    Marginal,
    TruncatedNormal,
    Uniform,
)
from ax_costaware.laws.input_fit import (
    CHI_SQUARE,
    KOLMOGOROV,
    TWO_SAMPLES,
    conditional_fit_of,
    fit_of,
    rejected,
)

NORMAL = TruncatedNormal(0.5, 0.2, 0.0, 1.0)
SOIL = Discrete(["sand", "clay", "loam"], [0.3, 0.5, 0.2])
COUNT = Discrete([3, 1, 2], [0.1, 0.6, 0.3])
REPEATS = 200


def check_false_alarms(p_values: list[float], exact: bool = True) -> None:
    """At the levels 0.1 and 0.01, no more than chance allows, nor, if exact, fewer."""
    for level in (0.1, 0.01):
        alarms = sum(p <= level for p in p_values)
        assert alarms <= binom.ppf(1 - 1e-4, len(p_values), level)
    if exact:
        assert sum(p <= 0.1 for p in p_values) >= binom.ppf(1e-4, len(p_values), 0.1)


@pytest.mark.parametrize(
    ("law", "n", "test"),
    [
        (NORMAL, 5, KOLMOGOROV),
        (NORMAL, 60, KOLMOGOROV),
        (SOIL, 60, CHI_SQUARE),
        (COUNT, 100, CHI_SQUARE),
        (COUNT, 6, KOLMOGOROV),
        (Discrete([True, False], [0.99, 0.01]), 50, KOLMOGOROV),
    ],
)
def test_false_alarms_are_as_rare_as_they_say(law: Marginal, n: int, test: str) -> None:
    drawn, p_values = law.decode(law.sample(n * REPEATS, 0)), []
    for seed in range(REPEATS):
        fit = fit_of("x", drawn[n * seed : n * (seed + 1)], law, seed=seed)
        assert (fit.name, fit.n, fit.test) == ("x", n, test)
        p_values.append(fit.p_value)
    check_false_alarms(p_values)


@pytest.mark.parametrize("rows", [30, 300])
def test_a_law_that_is_a_sample_has_an_error_of_its_own(rows: int) -> None:
    """The one-sample test would cry wolf; the approximation of small samples is conservative."""
    rng = np.random.default_rng(0)
    p_values, naive = [], []
    for _ in range(REPEATS):
        law = Empirical(rng.random(rows))  # type: ignore[arg-type]
        x = rng.random(60)
        fit = fit_of("x", x, law)  # type: ignore[arg-type]
        assert fit.test == TWO_SAMPLES
        p_values.append(fit.p_value)
        naive.append(kstest(np.searchsorted(law.samples, x) / rows, "uniform"))
    check_false_alarms(p_values, exact=rows == 300)
    if rows == 30:
        assert sum(found.pvalue <= 0.01 for found in naive) > 0.05 * REPEATS


@pytest.mark.parametrize(
    ("law", "other"),
    [
        (NORMAL, TruncatedNormal(0.7, 0.2, 0.0, 1.0)),
        (NORMAL, Uniform(0, 1)),
        (Empirical(NORMAL.sample(100, 0)), TruncatedNormal(0.8, 0.2, 0.0, 1.0)),
        (SOIL, Discrete(["sand", "clay", "loam"], [0.6, 0.2, 0.2])),
        (COUNT, Discrete([3, 1, 2], [0.4, 0.3, 0.3])),
    ],
)
def test_sees_another_law(law: Marginal, other: Marginal) -> None:
    found = [fit_of("x", other.decode(other.sample(100, s)), law).p_value for s in range(50)]
    assert sum(p <= 0.01 for p in found) >= 40


def test_statistics_are_scipys() -> None:
    x = np.random.default_rng(0).random(30)
    fit = fit_of("x", x, Uniform(-1, 1))  # type: ignore[arg-type]
    wanted = kstest(x, "uniform", args=(-1, 2))
    assert (fit.statistic, fit.p_value) == pytest.approx((wanted.statistic, wanted.pvalue))
    assert fit.realised_mean == pytest.approx(x.mean())
    assert fit.realised_std == pytest.approx(x.std(ddof=1))
    assert fit.assumed_mean == 0.0
    assert fit.assumed_std == pytest.approx(2 / math.sqrt(12))
    values = ["sand"] * 20 + ["clay"] * 22 + ["loam"] * 8
    fit = fit_of("soil", values, SOIL)
    chi = chisquare([20, 22, 8], [15, 25, 10])
    assert (fit.statistic, fit.p_value) == pytest.approx((chi.statistic, chi.pvalue))
    assert (fit.realised_mean, fit.realised_std, fit.assumed_mean, fit.assumed_std) == (None,) * 4
    # Of 20 values, 2 and 3 are expected 6 and 2 times: they are counted together.
    fit = fit_of("count", [1] * 10 + [2] * 4 + [3] * 6, COUNT)
    chi = chisquare([10, 10], [12, 8])
    assert (fit.statistic, fit.p_value) == pytest.approx((chi.statistic, chi.pvalue))


@pytest.mark.parametrize(
    ("values", "law"),
    [
        (["sand", "peat"], SOIL),
        ([1, 2, 4], COUNT),
        ([1.5], COUNT),
        ([True], Discrete([False, True], [1.0, 0.0])),
        ([1], Discrete([False, True])),
    ],
)
def test_a_value_that_the_law_does_not_have_decides(values: Any, law: Marginal) -> None:
    fit = fit_of("x", values, law)
    assert (fit.statistic, fit.p_value) == (math.inf, 0.0)


@pytest.mark.parametrize(
    "values", [[1e-9, 2e-9, 3e-9], [10**9, 10**9 + 1, 10**9 + 2], [0.0, 1e-12, 1e6], [1e-9]]
)
def test_values_of_any_size_are_told_apart(values: list[float]) -> None:
    drawn = values * 30
    assert fit_of("x", drawn, Discrete(values)).p_value > 0.1
    assert fit_of("x", [*drawn, values[-1] * 1.5], Discrete(values)).p_value == 0.0


@pytest.mark.parametrize(("name", "law_size"), [("b", None), ("c", 10_000)])
def test_conditional_laws(name: str, law_size: int | None) -> None:
    """A law that moves with what is controlled; values that move less disagree with it."""
    copula = GaussianCopula(
        {"a": Uniform(0, 1), "b": NORMAL, "c": COUNT},
        [[1, 0.9, 0.9], [0.9, 1, 0.8], [0.9, 0.8, 1]],
    )
    law = copula.marginal(name)
    rows, _ = copula.joint_rows(["a", name], 30 * 40, 0)
    order = np.random.default_rng(0).permutation(len(rows))

    def p_values(factor: float, parts: int) -> list[float]:
        found = []
        for part in order.reshape(30, 40)[:parts]:
            values = [rows[i][name] for i in part]
            given = [{"a": factor * float(rows[i]["a"])} for i in part]
            pairs = [copula.cdf_given(name, v, g) for v, g in zip(values, given, strict=True)]
            fit = conditional_fit_of(name, values, pairs, law, seed=1, law_size=law_size)
            assert fit.n == 40
            assert fit.assumed_mean == law.expectation
            found.append(fit.p_value)
        return found

    check_false_alarms(p_values(1.0, 30))
    assert np.median(p_values(0.6, 10)) < 0.05


def test_seed_of_the_randomised_transform() -> None:
    values = COUNT.decode(COUNT.sample(6, 0))
    assert fit_of("x", values, COUNT, seed=1) == fit_of("x", values, COUNT, seed=1)
    assert fit_of("x", values, COUNT, seed=1) != fit_of("x", values, COUNT, seed=2)


def test_rejected_is_holm_s_procedure() -> None:
    """The example of Holm's rule by hand: levels 0.05/4, 0.05/3, 0.05/2, 0.05/1, up to a no."""
    assert rejected([0.01, 0.04, 0.03, 0.005], 0.05) == (True, False, False, True)
    assert rejected([0.012, 0.016, 0.024, 0.05], 0.05) == (True, True, True, True)
    assert rejected([0.02] * 3, 0.05) == (False, False, False)
    assert rejected([]) == ()
    assert rejected([0.01]) == (True,)


def conditional(probabilities: Any, **options: Any) -> object:
    return conditional_fit_of("x", [0.1], probabilities, NORMAL, **options)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: fit_of("x", [], NORMAL), "values of 'x'"),
        (lambda: fit_of("x", [0.5], 0.5), "law=0.5"),  # type: ignore[arg-type]
        (lambda: fit_of("x", 0.5, NORMAL), "values of 'x'=0.5"),  # type: ignore[arg-type]
        (lambda: fit_of("x", ["a"], NORMAL), r"values of 'x'\[0\]"),
        (lambda: fit_of("x", [0.1, math.nan], NORMAL), r"values of 'x'\[1\]"),
        (lambda: fit_of("x", ["a", 1], SOIL), r"values of 'x'\[1\]"),
        (lambda: fit_of("x", [1], COUNT, seed=-1), "seed=-1"),
        (lambda: conditional([(0.1, 0.1)] * 2), "probabilities has 2 entries"),
        (lambda: conditional([(0.1, 1.1)]), r"probabilities\[0\]\[1\]=1.1"),
        (lambda: conditional([(0.1, 0.1)], law_size=0), "law_size=0"),
        (lambda: rejected([0.1], 0), "significance=0"),
        (lambda: rejected([1.1]), r"p_values\[0\]=1.1"),
    ],
)
def test_refused_arguments(call: Callable[[], object], name: str) -> None:
    with pytest.raises(InputError, match=name):
        call()

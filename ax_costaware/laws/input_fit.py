"""Tests of realized inputs against their assumed distributions.

The tests are SciPy's, on the trials that did not control an input. A small p-value means that such
values are improbable under the assumed distribution. With several inputs, ``rejected`` bounds the
probability of any false alarm.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy.stats import chisquare, ks_2samp, kstest, kstwo

from ax_costaware.argument_checks import (
    finite_number,
    instance_of,
    integer_at_least,
    matrix,
    number_between_zero_and_one,
    probability,
    values_of_one_kind,
)
from ax_costaware.exceptions import InputError
from ax_costaware.laws.marginals import Discrete, Empirical, Marginal, RawValue
from ax_costaware.laws.tables import Array

KOLMOGOROV = "Kolmogorov-Smirnov"
"""Name of the test against a continuous distribution."""

TWO_SAMPLES = "Kolmogorov-Smirnov, two samples"
"""Name of the test against a sample."""

CHI_SQUARE = "chi-square"
"""Name of the test against a discrete distribution."""

_LEAST_EXPECTED = 5.0
"""Smallest expected count of a cell, below which chi-square is inaccurate (Cochran 1954)."""

_SAME_VALUE = 1e-6
"""Tolerance of a value of a discrete distribution, relative to the distance to the next one."""


@dataclass(frozen=True)
class InputFit:
    """Test of the realized values of an input against its assumed distribution."""

    name: str
    """The input."""

    n: int
    """Number of values."""

    statistic: float
    """Statistic of the test; infinite for a value that the distribution does not have."""

    p_value: float
    """Probability of a statistic at least as large under the distribution."""

    test: str
    """Name of the test."""

    realised_mean: float | None
    """Mean of the values; None if they are not numbers, here and below."""

    realised_std: float | None
    """Standard deviation of the values, with ``n - 1`` as the divisor."""

    assumed_mean: float | None
    """Mean of the distribution."""

    assumed_std: float | None
    """Standard deviation of the distribution."""


def fit_of(name: str, values: Sequence[RawValue], law: Marginal, seed: int = 0) -> InputFit:
    """Test values against a distribution.

    - Continuous distributions: Kolmogorov-Smirnov.
    - ``Empirical``: two-sample Kolmogorov-Smirnov, which counts the error of both samples.
    - ``Discrete``: chi-square, with rare neighbors joined. With few values Kolmogorov-Smirnov of
      the randomized probability integral transform (Brockwell 2007).

    Args:
        name: The input.
        values: Realized values in raw units, in the order of the trials.
        law: Assumed distribution; see ``conditional_fit_of`` for one learned from the values.
        seed: Seed of the randomized transform.

    Raises:
        InputError: If there are no values, or one is not a finite number for a numeric
            distribution.
    """
    instance_of(law, "law", Marginal, "a marginal such as Uniform(0, 1)")
    items = _checked(values, name, law.is_numeric)
    if isinstance(law, Discrete):
        return _fit(name, items, *_discrete_test(items, law, seed), law)
    x = np.array(items, dtype=np.float64)
    if isinstance(law, Empirical):
        found = ks_2samp(x, np.array(law.samples), method="asymp")
        return _fit(name, items, found.statistic, found.pvalue, TWO_SAMPLES, law)
    found = kstest(law.cdf(torch.tensor(x)).numpy(), "uniform")
    return _fit(name, items, found.statistic, found.pvalue, KOLMOGOROV, law)


def conditional_fit_of(
    name: str,
    values: Sequence[RawValue],
    probabilities: Sequence[tuple[float, float]],
    law: Marginal,
    seed: int = 0,
    law_size: int | None = None,
) -> InputFit:
    """Test values against distributions that differ from trial to trial.

    Each value is mapped to a uniform draw between ``P(X < value)`` and ``P(X <= value)`` in its
    trial (randomized probability integral transform; Brockwell 2007). The Kolmogorov-Smirnov test
    compares the draws with the uniform distribution.

    Args:
        name: The input.
        values: Realized values in raw units.
        probabilities: Probabilities of ``JointLaw.cdf_given``, a pair for each value.
        law: Marginal distribution over all trials, whose mean and standard deviation are reported.
        seed: Seed of the randomized transform.
        law_size: Number of rows of a distribution that is a sample, whose error then counts.

    Raises:
        InputError: If there are no values, or not one pair of probabilities for each.
    """
    items = _checked(values, name, law.is_numeric)
    bounds = np.array(matrix(probabilities, "probabilities", 2, probability))
    if len(bounds) != len(items):
        raise InputError(
            f"probabilities has {len(bounds)} entries: expected {len(items)} pairs, one for each "
            "value."
        )
    statistic, p_value = _uniform_test(bounds[:, 0], bounds[:, 1], seed, law_size)
    test = KOLMOGOROV if law_size is None else TWO_SAMPLES
    return _fit(name, items, statistic, p_value, test, law)


def rejected(p_values: Sequence[float], significance: float = 0.01) -> tuple[bool, ...]:
    """Return which tests reject, with a familywise error rate of ``significance``.

    Holm's sequential procedure (1979), which is valid for any dependence of the tests.

    Args:
        p_values: The p-value of each test.
        significance: Probability of any rejection if all distributions are right, in ``(0, 1)``.

    Raises:
        InputError: If a p-value is outside ``[0, 1]``, or the significance outside ``(0, 1)``.
    """
    level = number_between_zero_and_one(significance, "significance")
    given = [probability(p, f"p_values[{i}]") for i, p in enumerate(p_values)]
    verdicts = [False] * len(given)
    for rank, i in enumerate(sorted(range(len(given)), key=given.__getitem__)):
        if given[i] > level / (len(given) - rank):
            break
        verdicts[i] = True
    return tuple(verdicts)


def _discrete_test(items: Sequence[RawValue], law: Discrete, seed: int) -> tuple[float, float, str]:
    order = sorted(range(len(law.values)), key=lambda i: law.values[i] if law.is_numeric else i)
    shares = np.array([law.probabilities[i] for i in order])
    shares = shares / shares.sum()
    places = [_place(item, [law.values[i] for i in order]) for item in items]
    if any(place is None or shares[place] == 0 for place in places):
        return math.inf, 0.0, CHI_SQUARE
    index = np.array(places)
    cells = _joined(shares * len(items))
    expected = np.bincount(cells, weights=shares * len(items))
    if len(expected) > 1 and expected.min() >= _LEAST_EXPECTED:
        counts = np.bincount(cells[index], minlength=len(expected))
        found = chisquare(counts, expected * (counts.sum() / expected.sum()))
        return float(found.statistic), float(found.pvalue), CHI_SQUARE
    upper = shares.cumsum().clip(max=1.0)
    lower = (upper - shares).clip(min=0.0)
    return *_uniform_test(lower[index], upper[index], seed, None), KOLMOGOROV


def _joined(expected: Array) -> npt.NDArray[np.int64]:
    """Return the cell of each value: neighbors are joined until each cell expects enough."""
    cells = np.zeros(len(expected), dtype=np.int64)
    cell, total = 0, 0.0
    for i, count in enumerate(expected):
        cells[i] = cell
        total += count
        if total >= _LEAST_EXPECTED:
            cell, total = cell + 1, 0.0
    if cell and total < _LEAST_EXPECTED:  # The last values join the cell before.
        cells[cells == cell] = cell - 1
    return cells


def _uniform_test(
    lower: Array, upper: Array, seed: int, law_size: int | None
) -> tuple[float, float]:
    """Return statistic and p-value of Kolmogorov-Smirnov of uniform draws between bounds."""
    generator = np.random.default_rng(integer_at_least(seed, 0, "seed"))
    draws = lower + generator.random(len(lower)) * (upper - lower)
    found = kstest(draws.clip(0.0, 1.0), "uniform")
    if law_size is None:
        return float(found.statistic), float(found.pvalue)
    rows = integer_at_least(law_size, 1, "law_size")
    size = max(1, round(len(draws) * rows / (len(draws) + rows)))
    return float(found.statistic), float(kstwo.sf(found.statistic, size))


def _fit(
    name: str,
    items: Sequence[RawValue],
    statistic: float,
    p_value: float,
    test: str,
    law: Marginal,
) -> InputFit:
    realised: tuple[float | None, float | None] = (None, None)
    assumed: tuple[float | None, float | None] = (None, None)
    if not isinstance(items[0], str | bool):
        x = np.array(items, dtype=np.float64)
        realised = float(x.mean()), float(x.std(ddof=1)) if len(x) > 1 else 0.0
    if law.is_numeric:
        assumed = law.expectation, math.sqrt(law.variance)
    return InputFit(name, len(items), float(statistic), float(p_value), test, *realised, *assumed)


def _checked(values: Any, name: str, numeric: bool = False) -> tuple[RawValue, ...]:
    """Return checked values of one kind, numbers if ``numeric``."""
    expected = "one or more finite numbers, strings or booleans, all of one kind"
    items = values_of_one_kind(values, f"values of {name!r}", expected)
    if not items:
        raise InputError(f"values of {name!r} are {values!r}: expected {expected}.")
    if numeric:
        finite_number(items[0], f"values of {name!r}[0]")
    return items


def _place(item: RawValue, values: Sequence[RawValue]) -> int | None:
    """Return the position of a value among others, to rounding; None if there is none."""
    if isinstance(item, str | bool) or isinstance(values[0], str | bool):
        same = [i for i, v in enumerate(values) if type(v) is type(item) and v == item]
        return same[0] if same else None
    numbers = [value for value in values if not isinstance(value, str | bool)]
    distances = [abs(value - item) for value in numbers]
    nearest, *others = sorted(range(len(distances)), key=distances.__getitem__)
    unit = distances[others[0]] if others else abs(numbers[nearest])
    return nearest if distances[nearest] <= _SAME_VALUE * unit else None

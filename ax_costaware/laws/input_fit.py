"""Tests of the values that inputs took against the distributions that are assumed of them.

SciPy's tests, on the trials that did not control an input. A small p-value says that values so far
from the assumed distribution are rare where it is right. With several inputs, ``rejected`` bounds
the probability of any false alarm.
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
"""Against a law that is given in full."""

TWO_SAMPLES = "Kolmogorov-Smirnov, two samples"
"""Against a law that is itself a sample."""

CHI_SQUARE = "chi-square"
"""Against the probabilities of finitely many values."""

_LEAST_EXPECTED = 5.0
"""Cells with a lower expected count are joined: chi-square's law is approximate below
(Cochran 1954)."""

_SAME_VALUE = 1e-6
"""Tolerance of a value of a law, as a part of the distance to the next one."""


@dataclass(frozen=True)
class InputFit:
    """Test of the values that an input took against its assumed law."""

    name: str
    """The input."""

    n: int
    """Number of values."""

    statistic: float
    """Statistic of the test; infinite for a value that the law does not have."""

    p_value: float
    """The probability of a statistic at least as large where the law is right."""

    test: str
    """Name of the test."""

    realised_mean: float | None
    """Mean of the values; ``None`` where they are not numbers, here and below."""

    realised_std: float | None
    """Standard deviation of the values, with ``n - 1`` as the divisor."""

    assumed_mean: float | None
    """Mean of the law."""

    assumed_std: float | None
    """Standard deviation of the law."""


def fit_of(name: str, values: Sequence[RawValue], law: Marginal, seed: int = 0) -> InputFit:
    """Test whether values follow a law.

    A continuous law is put to the Kolmogorov-Smirnov test. An ``Empirical`` law is a sample: the
    two-sample test counts the error of both. A ``Discrete`` law is put to the chi-square test, its
    rarest neighbours joined; where the values are too few for that, to the Kolmogorov-Smirnov test
    of the randomised probability integral transform (Brockwell 2007).

    Args:
        name: The input.
        values: The values it took, in the order of the trials, in raw units.
        law: The law that is assumed; of one that is learned from the values see
            ``conditional_fit_of``.
        seed: Seed of the randomised transform.

    Raises:
        InputError: For no values, or one that is no finite number where the law is on numbers.
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
    """Test whether values follow laws that differ from trial to trial.

    Each value is turned into a uniform draw between the probabilities of less than it and of no
    more than it, in its own trial (the randomised probability integral transform; Brockwell 2007);
    the Kolmogorov-Smirnov test compares the draws with the uniform law.

    Args:
        name: The input.
        values: The values it took, in raw units.
        probabilities: For each value, those of ``JointLaw.cdf_given``.
        law: The law over all trials, whose mean and standard deviation are reported.
        seed: Seed of the randomised transform.
        law_size: How many rows the law was made from, if it is a sample, whose error then counts.

    Raises:
        InputError: For no values, or probabilities that are not one pair for each value.
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
    """Return which of several tests reject, with ``significance`` as the chance of any false alarm.

    Holm's sequential procedure (1979), which holds however the tests depend on each other.

    Args:
        p_values: That of each test.
        significance: The chance that any test says no where all laws are right, in ``(0, 1)``.

    Raises:
        InputError: For a p-value outside ``[0, 1]``, or a significance outside ``(0, 1)``.
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
    """A cell for each value: neighbours together until each cell expects enough."""
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
    """Kolmogorov-Smirnov of uniform draws between bounds."""
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
    """Values of one kind, numbers if ``numeric``."""
    expected = "one or more finite numbers, strings or booleans, all of one kind"
    items = values_of_one_kind(values, f"values of {name!r}", expected)
    if not items:
        raise InputError(f"values of {name!r} are {values!r}: expected {expected}.")
    if numeric:
        finite_number(items[0], f"values of {name!r}[0]")
    return items


def _place(item: RawValue, values: Sequence[RawValue]) -> int | None:
    """Return the position of a value among others, to rounding; None if it is not there."""
    if isinstance(item, str | bool) or isinstance(values[0], str | bool):
        same = [i for i, v in enumerate(values) if type(v) is type(item) and v == item]
        return same[0] if same else None
    numbers = [value for value in values if not isinstance(value, str | bool)]
    apart = [abs(value - item) for value in numbers]
    nearest, *others = sorted(range(len(apart)), key=apart.__getitem__)
    unit = apart[others[0]] if others else abs(numbers[nearest])
    return nearest if apart[nearest] <= _SAME_VALUE * unit else None

"""The truncated normal law against 40-digit arithmetic, in the middle and far out in the tails."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from ax_costaware.exceptions import InputError
from ax_costaware.laws import TruncatedNormal, Uniform

PARAMETERS = (
    (0.5, 0.2, 0.0, 1.0),
    (0.1, 0.3, 0.0, 1.0),
    (0.0, 1.0, 0.0, 3.0),  # the mean on a bound
    (0.0, 1.0, -3.0, 0.0),
    (5.0, 2.0, -1.0, 1.0),
    (0.5, 1e-3, 0.0, 1.0),  # narrow: most of the interval has no mass
    (0.5, 1e5, 0.0, 1.0),  # wide: almost uniform
    (0.0, 1.0, 30.0, 31.0),  # far tails, to either side
    (0.0, 0.1, -40.0, -30.0),
    (-1e6, 1.0, 0.0, 1.0),
)
each_parameters = pytest.mark.parametrize("parameters", PARAMETERS, ids=str)

mp: Any = mpmath
forty_digits = partial(mp.workdps, 40)

Parameters = tuple[float, float, float, float]


class Reference:
    """Moments and distribution function by quadrature with 40 digits."""

    def __init__(self, parameters: Parameters) -> None:
        """Integrate the density relative to its maximum over where it is above e^-100."""
        mean, std, lower, upper = map(mp.mpf, parameters)
        self.mode = min(max(mean, lower), upper)
        distance = abs(self.mode - mean)
        reach = 200 * std**2 / (distance + mp.sqrt(distance**2 + 200 * std**2))
        self.lower, self.upper = max(lower, self.mode - reach), min(upper, self.mode + reach)
        self.density: Callable[[Any], Any] = lambda x: mp.exp(
            (distance**2 - (x - mean) ** 2) / (2 * std**2)
        )
        self.mass = self.integral(lambda x: 1)
        self.expectation = self.mode + self.integral(lambda x: x - self.mode) / self.mass
        self.variance = self.integral(lambda x: (x - self.expectation) ** 2) / self.mass

    def integral(self, f: Callable[[Any], Any], upper: Any = None) -> Any:
        upper = self.upper if upper is None else min(max(mp.mpf(upper), self.lower), self.upper)
        return mp.quad(lambda x: f(x) * self.density(x), mp.linspace(self.lower, upper, 9))

    def cdf(self, x: float) -> float:
        return float(self.integral(lambda x: 1, upper=x) / self.mass)


@cache
def reference(parameters: Parameters) -> Reference:
    with forty_digits():
        return Reference(parameters)


@each_parameters
def test_moments(parameters: Parameters) -> None:
    law, exact = TruncatedNormal(*parameters), reference(parameters)
    with forty_digits():
        error = float((mp.mpf(law.expectation) - exact.expectation) / mp.sqrt(exact.variance))
        rounding = 1e-15 * float(abs(exact.expectation) / mp.sqrt(exact.variance))
        assert abs(error) < 1e-12 + rounding
        assert abs(float(mp.mpf(law.variance) / exact.variance) - 1) < 1e-13


def test_moments_agree_with_the_closed_form() -> None:
    for mean, std in itertools.product((0.2, 0.5), (0.1, 0.3, 1.0)):
        law = TruncatedNormal(mean, std, 0.0, 1.0)
        a, b = -mean / std, (1 - mean) / std
        mass = stats.norm.cdf(b) - stats.norm.cdf(a)
        first = (stats.norm.pdf(a) - stats.norm.pdf(b)) / mass
        second = (a * stats.norm.pdf(a) - b * stats.norm.pdf(b)) / mass
        assert law.expectation == pytest.approx(mean + std * first, rel=1e-12)
        assert law.variance == pytest.approx(std**2 * (1 + second - first**2), rel=1e-11)


@each_parameters
def test_distribution_function_and_quantiles(parameters: Parameters) -> None:
    law, exact = TruncatedNormal(*parameters), reference(parameters)
    u = torch.tensor([0.0, 1e-12, 0.01, 0.3, 0.5, 0.9, 1 - 1e-9, 1.0], dtype=torch.double)
    x = law.icdf(u)
    with forty_digits():
        expected = [exact.cdf(value) for value in x.tolist()]
    # In standard deviations, how far the interval is from the mean.
    away = max(law.lower - law.mean, law.mean - law.upper, 0.0) / law.std
    tolerance = 1e-10 if away < 10 else 1e-9 * away
    assert law.cdf(x).tolist() == pytest.approx(expected, abs=tolerance)
    assert law.cdf(x).tolist() == pytest.approx(u.tolist(), abs=tolerance)
    # The least quantile keeps its relative accuracy next to a bound at zero.
    if law.lower == 0.0 and law.mean <= 0.0 and away < 10:
        density = float(exact.density(exact.mode) / exact.mass)
        assert float(x[1]) == pytest.approx(1e-12 / density, rel=1e-6)


def test_quantiles_at_the_ends_are_the_bounds() -> None:
    """Scipy's are off by a rounding there, and past what is next to them."""
    law = TruncatedNormal(mean=3.0620000000000003, std=4.0, lower=1.062, upper=5.062)
    nodes = law.icdf(torch.tensor([0.0, 1.6e-289, 1 - 1e-16, 1.0], dtype=torch.double))
    assert float(nodes[0]) == 1.062
    assert float(nodes[-1]) == 5.062
    assert bool((nodes.diff() >= 0).all())


def test_agrees_with_scipy_in_the_middle() -> None:
    law = TruncatedNormal(0.4, 0.25, 0.0, 1.0)
    scipy_law = stats.truncnorm(-0.4 / 0.25, 0.6 / 0.25, loc=0.4, scale=0.25)
    u = torch.linspace(0, 1, 21, dtype=torch.double)
    assert law.icdf(u).tolist() == pytest.approx(scipy_law.ppf(u).tolist(), abs=1e-13)
    assert law.expectation == pytest.approx(scipy_law.mean(), rel=1e-13)
    assert law.variance == pytest.approx(scipy_law.var(), rel=1e-12)


@each_parameters
@pytest.mark.parametrize("n", [1, 2, 5, 64])
def test_gauss_rule_is_exact_to_degree_2n_minus_1(parameters: Parameters, n: int) -> None:
    law = TruncatedNormal(*parameters)
    nodes, weights = law.nodes_and_weights(n)
    assert len(nodes) == n
    # Legendre polynomials over all that has mass at all, where none of them exceeds one.
    fine, masses, domain = _fine_discretisation(law)
    for degree in range(2 * n):
        basis = np.polynomial.Legendre.basis(degree, domain=domain)
        value = float(basis(nodes.numpy()) @ weights.numpy())
        # A node is rounded, and a Legendre polynomial has slopes up to degree^2.
        rounding = 1e-16 * max(map(abs, domain)) / (domain[1] - domain[0]) * degree**2
        exact = float(basis(fine) @ masses)
        assert value == pytest.approx(exact, abs=1e-11 + rounding), degree


Array = np.ndarray[Any, np.dtype[np.float64]]


def _fine_discretisation(law: TruncatedNormal) -> tuple[Array, Array, tuple[float, float]]:
    """A composite rule of 40 panels over where the density is above e^-40 of its maximum."""
    mode = min(max(law.mean, law.lower), law.upper)
    shift = mode - law.mean
    reach = np.sqrt(shift**2 + 80 * law.std**2) - abs(shift)
    domain = (max(law.lower, mode - reach), min(law.upper, mode + reach))
    panels = np.linspace(*domain, 41)
    points, weights = np.polynomial.legendre.leggauss(60)
    half = np.diff(panels)[:, None] / 2
    x = (panels[:-1, None] + half * (points + 1)).ravel()
    density = np.exp(-(x - mode) * (x - mode + 2 * shift) / (2 * law.std**2))
    masses = (half * weights).ravel() * density
    return x, masses / masses.sum(), domain


@given(
    mean=st.floats(-4, 5),
    share=st.floats(1e-6, 1 - 1e-6),
    width=st.floats(1e-3, 1e3),
)
@settings(max_examples=60, deadline=None)
def test_variance_is_solved_for(mean: float, share: float, width: float) -> None:
    target = share * width**2 / 12
    law = TruncatedNormal.from_variance(mean * width, target, 0.0, width)
    assert law.variance == pytest.approx(target, rel=1e-10)
    assert (law.mean, law.lower, law.upper) == (mean * width, 0.0, width)
    assert law.std**2 >= target * (1 - 1e-9)


@pytest.mark.parametrize("variance", [0.02, 0.04, 0.08])
def test_variance_of_the_papers_experiments(variance: float) -> None:
    law = TruncatedNormal.from_variance(0.5, variance, 0, 1)
    half = 0.5 / law.std
    assert stats.truncnorm(-half, half, scale=law.std).var() == pytest.approx(variance, rel=1e-10)
    assert law.expectation == pytest.approx(0.5, abs=1e-15)


@pytest.mark.parametrize("mean", [-2.0, 0.0, 0.3, 0.5, 1.5])
def test_variance_grows_with_std(mean: float) -> None:
    variances = [
        TruncatedNormal(mean, std, 0.0, 1.0).variance for std in np.geomspace(1e-3, 1e3, 200)
    ]
    assert min(np.diff(variances)) > 0
    assert variances[-1] < Uniform(0, 1).variance


@pytest.mark.parametrize("variance", [1 / 12, 1 / 12 - 1e-17, 0.0834, 1.0])
def test_refuses_a_variance_of_the_uniform_law_or_more(variance: float) -> None:
    with pytest.raises(
        InputError,
        match=r"variance=.*: expected less than 0\.08333333333333333, the variance of the uniform "
        r"distribution on \[0\.0, 1\.0\].*use Uniform",
    ):
        TruncatedNormal.from_variance(0.5, variance, 0, 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0.5, 0.0, 0, 1), r"variance=0\.0: expected a finite number > 0\."),
        ((0.5, -0.1, 0, 1), r"variance=-0\.1: expected a finite number > 0\."),
        ((0.5, math.nan, 0, 1), r"variance=nan: expected a finite number > 0\."),
        ((0.5, 1e-30, 0, 1), r"variance=1e-30 is that of a single value to rounding"),
        ((math.inf, 0.01, 0, 1), r"mean=inf: expected a finite number\."),
        ((0.5, 0.01, 1, 0), r"lower=1, upper=0: expected lower < upper\."),
    ],
)
def test_from_variance_refuses(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        TruncatedNormal.from_variance(*arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((math.nan, 1, 0, 1), r"mean=nan: expected a finite number\."),
        ((0.5, 0, 0, 1), r"std=0: expected a finite number > 0\."),
        ((0.5, -1, 0, 1), r"std=-1: expected a finite number > 0\."),
        ((0.5, True, 0, 1), r"std=True: expected a finite number > 0\."),
        ((0.5, 1, 1, 1), r"lower=1, upper=1: expected lower < upper\."),
        ((0.5, 1e-10, 0, 1), r"std=1e-10 on \[0\.0, 1\.0\] is a single value .* at least 1e-09"),
        ((-1e3, 1e-7, 0, 1), r"is a single value to rounding: expected std at least 0\.001"),
        ((0.5, 1e7, 0, 1), r"std=10000000\.0 .* uniform to rounding: expected std at most 1e\+06"),
    ],
)
def test_refuses(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        TruncatedNormal(*arguments)


@pytest.mark.parametrize(
    "arguments", [(0.5, 1e-9, 0, 1), (0.5, 1e6, 0, 1), (-1e3, 1e-3, 0, 1), (1001, 1e-3, 0, 1)]
)
def test_works_up_to_what_it_refuses(arguments: Parameters) -> None:
    law = TruncatedNormal(*arguments)
    nodes, weights = law.nodes_and_weights(16)
    assert law.lower <= float(nodes @ weights) <= law.upper
    u = torch.linspace(0, 1, 11, dtype=torch.double)
    x = law.icdf(u)
    assert bool(torch.isfinite(x).all())
    # Next to 0.5 and 1 the spacing of doubles is 1e-7 of the law's own scale and more.
    assert bool((x.diff() >= 0).all())


def test_prints_as_the_call_that_makes_it() -> None:
    law = TruncatedNormal(0, 1, -1, 2)
    assert repr(law) == "TruncatedNormal(mean=0.0, std=1.0, lower=-1.0, upper=2.0)"
    assert law == TruncatedNormal(mean=np.float64(0), std=1, lower=-1, upper=2)
    assert law != TruncatedNormal(0, 1, -1, 3)

"""The truncated normal law against 40-digit arithmetic, in the middle and far out in the tails."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ax_costaware.laws import TruncatedNormal

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

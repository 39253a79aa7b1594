"""Sections of the standard normal law, one standard deviation out or a million."""

from __future__ import annotations

from functools import partial
from typing import Any

import mpmath
import numpy as np
import pytest

from ax_costaware.queries.marginals.truncated_normal import (
    central_cdf,
    central_icdf,
    tail_cdf,
    tail_icdf,
)

mp: Any = mpmath
sixty_digits = partial(mp.workdps, 60)

U = np.array([0.0, 1e-15, 1e-8, 0.1, 0.5, 0.9, 1 - 1e-8, 1 - 1e-15, 1.0])


def exact_tail_cdf(t: float, a: float, width: float) -> float:
    with sixty_digits():

        def survival(x: Any) -> Any:
            return mp.erfc((mp.mpf(a) + x) / mp.sqrt(2))

        inner = survival(0)
        return float((inner - survival(mp.mpf(t))) / (inner - survival(mp.mpf(width))))


@pytest.mark.parametrize("a", [0.0, 1e-8, 0.3, 1.0, 8.0, 40.0, 300.0])
@pytest.mark.parametrize("width", [0.01, 1.0, 50.0])
def test_tail(a: float, width: float) -> None:
    t = tail_icdf(U, a, width)
    assert t[0] == 0.0
    assert t[-1] == width
    assert bool((np.diff(t) >= 0).all())
    expected = [exact_tail_cdf(value, a, width) for value in t]
    # A log-survival function of rounding 1e-16 over a mass of the order of the width.
    tolerance = 1e-13 + 1e-14 / width
    assert expected == pytest.approx(U, rel=1e-12, abs=tolerance)
    assert tail_cdf(t, a, width) == pytest.approx(U, rel=1e-12, abs=tolerance)


@pytest.mark.parametrize("a", [1e3, 1e6, 1e9])
def test_far_out_the_tail_is_exponential(a: float) -> None:
    t = tail_icdf(U[:-1], a, 1e9)
    assert t * a == pytest.approx(-np.log1p(-U[:-1]), rel=50 / a**2 + 1e-14)


@pytest.mark.parametrize(("a", "b"), [(-1.0, 1.0), (-40.0, 0.0), (0.0, 3.0), (-0.1, 40.0)])
def test_centre(a: float, b: float) -> None:
    z = central_icdf(U, a, b)
    assert z[0] == a
    assert z[-1] == b
    assert central_cdf(z, a, b) == pytest.approx(U, abs=1e-15)
    with sixty_digits():
        mass = mp.ncdf(mp.mpf(b)) - mp.ncdf(mp.mpf(a))
        below = [(mp.ncdf(mp.mpf(x)) - mp.ncdf(mp.mpf(a))) / mass for x in z]
        above = [(mp.ncdf(-mp.mpf(x)) - mp.ncdf(-mp.mpf(b))) / mass for x in z]
    assert [float(p) for p in below] == pytest.approx(U, abs=1e-15)
    assert [float(p) for p in above] == pytest.approx(1 - U, abs=1e-15)

"""Gauss rules of discrete laws."""

from __future__ import annotations

import numpy as np
import pytest

from ax_costaware.laws.quadrature import gauss_legendre, gauss_rule


@pytest.mark.parametrize("n", [1, 4, 19])
@pytest.mark.parametrize(("shift", "scale"), [(0.0, 1.0), (1e3, 1e-3), (-5.0, 1e6)])
def test_exact_to_degree_2n_minus_1_in_any_units(n: int, shift: float, scale: float) -> None:
    rng = np.random.default_rng(3)
    unit, masses = rng.uniform(-1, 1, 40), rng.exponential(size=40)
    nodes, weights = gauss_rule(shift + scale * unit, masses, n)
    assert weights.sum() == pytest.approx(1.0, abs=1e-14)
    assert bool((np.diff(nodes) > 0).all())
    for degree in range(2 * n):
        basis = np.polynomial.Legendre.basis(degree)
        exact = basis(unit) @ masses / masses.sum()
        assert basis((nodes - shift) / scale) @ weights == pytest.approx(exact, abs=1e-9)


def test_stays_orthogonal_with_nearly_as_many_nodes_as_points() -> None:
    # The plain three-term recurrence is wrong in the first digit here.
    points = np.linspace(0, 1, 80)
    nodes, weights = gauss_rule(points, np.ones(80), 79)
    assert nodes.min() >= 0
    assert nodes.max() <= 1
    for degree in range(158):
        basis = np.polynomial.Legendre.basis(degree, domain=[0, 1])
        assert basis(nodes) @ weights == pytest.approx(basis(points).mean(), abs=1e-12)


def test_gauss_legendre_is_cached_read_only() -> None:
    nodes, weights = gauss_legendre(5)
    assert gauss_legendre(5)[0] is nodes
    assert weights.sum() == pytest.approx(1.0, abs=1e-15)
    for array in (nodes, weights):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0.0

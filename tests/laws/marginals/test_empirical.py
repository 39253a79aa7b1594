"""The law of a sample."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ax_costaware.laws import Empirical


def test_moments_are_those_of_the_sample() -> None:
    samples = np.random.default_rng(0).gamma(2.0, size=101)
    law = Empirical(samples)  # type: ignore[arg-type]
    assert law.expectation == pytest.approx(samples.mean(), rel=1e-14)
    assert law.variance == pytest.approx(samples.var(), rel=1e-13)
    assert (law.lower, law.upper) == (samples.min(), samples.max())


def test_quantiles_are_order_statistics() -> None:
    law = Empirical([4.0, 1.0, 2.0, 2.0])
    u = torch.tensor([0.0, 0.25, 0.26, 0.5, 0.75, 0.76, 1.0], dtype=torch.double)
    assert law.icdf(u).tolist() == [1.0, 1.0, 2.0, 2.0, 2.0, 4.0, 4.0]
    x = torch.tensor([0.9, 1.0, 2.0, 3.9, 4.0], dtype=torch.double)
    assert law.cdf(x).tolist() == [0.0, 0.25, 0.75, 0.75, 1.0]


@pytest.mark.parametrize("n", [1, 2, 10, 64, 99])
def test_gauss_rule_is_exact_to_degree_2n_minus_1(n: int) -> None:
    # Evenly spaced points, for which the plain recurrence breaks down beyond n = 2 sqrt(100).
    samples = np.linspace(-1.0, 1.0, 100)
    law = Empirical(samples)  # type: ignore[arg-type]
    nodes, weights = law.nodes_and_weights(n)
    assert len(nodes) == n
    for degree in range(2 * n):
        basis = np.polynomial.Legendre.basis(degree)
        value = float(basis(nodes.numpy()) @ weights.numpy())
        assert value == pytest.approx(float(basis(samples).mean()), abs=1e-12)


def test_long_samples_are_printed_by_their_range() -> None:
    assert repr(Empirical([2, 1])) == "Empirical(samples=(1.0, 2.0))"
    assert repr(Empirical(range(101))) == "Empirical(<101 samples from 0 to 100, mean 50>)"

"""The uniform law against its closed forms."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from ax_costaware.laws import Uniform


def test_closed_forms() -> None:
    law = Uniform(-2, 4)
    reference = stats.uniform(-2, 6)
    assert law.expectation == reference.mean()
    assert law.variance == pytest.approx(reference.var(), rel=1e-15)
    u = torch.linspace(0, 1, 11, dtype=torch.double)
    assert law.icdf(u).tolist() == pytest.approx(reference.ppf(u).tolist())
    x = torch.linspace(-3, 5, 17, dtype=torch.double)
    assert law.cdf(x).tolist() == pytest.approx(reference.cdf(x).tolist())


@pytest.mark.parametrize("n", [1, 2, 7, 64])
def test_gauss_rule_is_exact_to_degree_2n_minus_1(n: int) -> None:
    law = Uniform(0.5, 3.0)
    nodes, weights = law.nodes_and_weights(n)
    for degree in range(2 * n):
        basis = np.polynomial.Legendre.basis(degree, domain=[0.5, 3.0])
        value = float(torch.tensor(basis(nodes.numpy())) @ weights)
        assert value == pytest.approx(1.0 if degree == 0 else 0.0, abs=1e-13)
    beyond = np.polynomial.Legendre.basis(2 * n, domain=[0.5, 3.0])
    assert abs(float(torch.tensor(beyond(nodes.numpy())) @ weights)) > 1e-3


def test_nodes_are_the_callers_own() -> None:
    law = Uniform(0, 1)
    law.nodes_and_weights(3)[0].zero_()
    law.nodes_and_weights(3)[1].zero_()
    nodes, weights = law.nodes_and_weights(3)
    assert float(nodes @ weights) == pytest.approx(0.5)

"""The posterior predictive law of a Dirichlet process."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ax_costaware.exceptions import InputError
from ax_costaware.laws import Discrete, Learned, Marginal, Uniform
from tests.laws.marginals.laws import LAWS, empiricals, numbers, uniforms

learned = st.builds(
    Learned,
    st.one_of(uniforms, empiricals),
    st.floats(0.1, 100.0),
    st.lists(numbers, max_size=12),
)


@pytest.mark.parametrize("prior", [law for law in LAWS if not isinstance(law, Learned)], ids=repr)
def test_before_data_it_is_the_prior(prior: Marginal) -> None:
    law = Learned(prior)
    u = torch.linspace(0, 1, 41, dtype=torch.double)
    quantiles = prior.icdf(u)
    assert torch.allclose(law.icdf(u), quantiles, rtol=1e-14)
    assert torch.equal(law.cdf(quantiles), prior.cdf(quantiles))
    assert law.is_numeric == prior.is_numeric
    assert law.nominal == prior.nominal
    for n in (1, 3, 64):
        for found, wanted in zip(law.nodes_and_weights(n), prior.nodes_and_weights(n), strict=True):
            assert torch.allclose(found, wanted, rtol=1e-12)


def test_predictive_law_by_hand() -> None:
    law = Learned(Uniform(0, 1), strength=2).updated([0.5, 0.25]).updated([0.5])
    assert law.samples == (0.25, 0.5, 0.5)
    x = torch.tensor([-0.1, 0.2, 0.25, 0.4, 0.5, 0.9, 1.0], dtype=torch.double)
    wanted = [0.0, 0.08, 0.3, 0.36, 0.8, 0.96, 1.0]
    assert law.cdf(x).tolist() == pytest.approx(wanted, abs=1e-15)
    u = torch.tensor([0.0, 0.08, 0.1, 0.2, 0.3, 0.36, 0.41, 0.8, 0.96, 1.0], dtype=torch.double)
    wanted = [0.0, 0.2, 0.25, 0.25, 0.25, 0.4, 0.5, 0.5, 0.9, 1.0]
    assert law.icdf(u).tolist() == pytest.approx(wanted, abs=1e-14)
    assert law.expectation == pytest.approx((2 * 0.5 + 0.25 + 0.5 + 0.5) / 5)
    second = (2 * 1 / 3 + 0.25**2 + 2 * 0.5**2) / 5
    assert law.variance == pytest.approx(second - law.expectation**2)


def test_dirichlet_multinomial_mean() -> None:
    law = Learned(Discrete(["sand", "clay", "loam"], [0.5, 0.5, 0.0]), 4)
    law = law.updated(["loam", "sand", "loam"])
    nodes, weights = law.nodes_and_weights(1)
    assert law.decode(nodes) == ["sand", "clay", "loam"]
    assert weights.tolist() == pytest.approx([3 / 7, 2 / 7, 2 / 7])
    assert law.nominal == "sand"
    with pytest.raises(InputError, match="are not numbers and have no expectation"):
        _ = law.expectation


@pytest.mark.parametrize(
    ("values", "sample", "kind"),
    [((1, 2), 2.0, int), ((1.0, 2.5), np.float64(2.5), float), ((True, False), np.True_, bool)],
)
def test_samples_take_the_kind_of_a_discrete_prior(values: Any, sample: Any, kind: type) -> None:
    law = Learned(Discrete(values)).updated([sample])
    assert type(law.samples[0]) is kind
    nodes, _ = law.nodes_and_weights(1)
    assert {type(value) for value in law.decode(nodes)} == {kind}


@given(law=learned, u=st.lists(st.floats(0, 1), min_size=1, max_size=20))
@settings(max_examples=100, deadline=None)
def test_quantile_is_the_least_node_that_reaches_its_probability(
    law: Learned, u: list[float]
) -> None:
    p = torch.tensor(u, dtype=torch.double)
    nodes = law.icdf(p)
    tolerance = 1e-9
    assert bool((law.cdf(nodes) >= p - tolerance).all())
    below = law.cdf(nodes - 1e-6 * (law.upper - law.lower + 1e-3))
    assert bool(((below <= p + tolerance) | (nodes == law.lower)).all())


@pytest.mark.parametrize("n", [2, 5, 16])
def test_rule_is_exact_to_degree_2n_minus_1(n: int) -> None:
    law = Learned(Uniform(-1, 1), 7.0).updated(np.linspace(-0.9, 0.8, 40).tolist())
    nodes, weights = (part.numpy() for part in law.nodes_and_weights(n))
    for degree in range(1, 2 * n):
        basis = np.polynomial.Legendre.basis(degree)
        mean = float(basis(np.array(law.samples)).mean())  # That under the prior is zero.
        wanted = mean * 40 / 47
        assert float(basis(nodes) @ weights) == pytest.approx(wanted, abs=1e-12)


@given(values=st.lists(st.floats(0, 1), max_size=8), cut=st.integers(0, 8))
def test_only_the_values_count_not_their_order(values: list[float], cut: int) -> None:
    law = Learned(Uniform(0, 1)).updated(values)
    assert law == Learned(Uniform(0, 1)).updated(values[cut:]).updated(values[:cut])
    assert hash(law) == hash(dataclasses.replace(law))
    assert eval(repr(law)) == law

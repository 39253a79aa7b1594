"""The posterior predictive law of a Dirichlet process."""

from __future__ import annotations

import copy
import dataclasses
import math
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ax_costaware.exceptions import InputError
from ax_costaware.laws import Discrete, Empirical, Learned, Marginal, TruncatedNormal, Uniform
from tests.laws.marginals.laws import LAWS, empiricals, marginals, numbers, uniforms

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


def test_values_beyond_the_prior_widen_the_support() -> None:
    law = Learned(Uniform(0, 1)).updated([-1.0, 3.0])
    assert (law.lower, law.upper) == (-1.0, 3.0)
    ends = torch.tensor([0.0, 1.0], dtype=torch.double)
    assert law.icdf(ends).tolist() == [-1.0, 3.0]


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


@given(law=learned, n=st.integers(1, 70))
@settings(max_examples=60, deadline=None)
def test_rule_has_the_moments_of_the_law(law: Learned, n: int) -> None:
    nodes, weights = law.nodes_and_weights(n)
    assert len(nodes) <= n
    assert bool((weights > 0).all())
    assert float(weights.sum()) == pytest.approx(1.0)
    scale = law.upper - law.lower + 1e-3
    assert float(nodes @ weights) == pytest.approx(law.expectation, abs=1e-9 * scale)
    if n > 1:
        variance = float((nodes - law.expectation) ** 2 @ weights)
        assert variance == pytest.approx(law.variance, abs=1e-9 * scale**2)


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


def test_value_object() -> None:
    law = Learned(Uniform(0, 1), 3, [0.5, 0.25])
    law.icdf(torch.tensor([0.5]))
    for other in (copy.deepcopy(law), pickle.loads(pickle.dumps(law))):
        assert other == law
        assert repr(other) == repr(law)
    assert law != Learned(Uniform(0, 1), 3.5, [0.5, 0.25])
    assert law != Learned(Uniform(0, 2), 3, [0.5, 0.25])
    assert law != Learned(Uniform(0, 1), 3, [0.5])
    assert repr(Learned(Uniform(0, 1))) == (
        "Learned(prior=Uniform(lower=0.0, upper=1.0), strength=10.0)"
    )
    assert repr(law.updated([0.5] * 7)).endswith(", strength=3.0, <9 samples>)")
    with pytest.raises(dataclasses.FrozenInstanceError):
        law.strength = 1.0  # type: ignore[misc]


@pytest.mark.parametrize("prior", [marginal for marginal in LAWS if marginal.is_numeric], ids=repr)
def test_samples_outweigh_the_prior(prior: Marginal) -> None:
    if isinstance(prior, Learned):
        return
    atoms = prior.nodes_and_weights(4)[0]
    law = Learned(prior, 1e-9).updated(prior.decode(atoms[-1:]) * 3)
    assert law.expectation == pytest.approx(float(atoms[-1]), abs=1e-6)


def test_law_s_own_uncertainty() -> None:
    """The variance of an expectation over Dirichlet processes, as the docstring gives it."""
    law = Learned(TruncatedNormal(0.3, 0.3, 0.0, 1.0), 4.0).updated([0.9, 0.8, 0.85])
    rng = np.random.default_rng(0)
    draws, depth, concentration = 20_000, 150, 4.0 + 3
    # Sethuraman's stick-breaking; what is left of the stick after 150 pieces is (7/8)^150 = 2e-9.
    beta = rng.beta(1.0, concentration, size=(draws, depth))
    left = np.cumprod(1 - beta, axis=1)
    weights = beta * np.concatenate([np.ones((draws, 1)), left[:, :-1]], axis=1)
    atoms = law.icdf(torch.tensor(rng.random((draws, depth)))).numpy()

    def f(x: Any) -> Any:
        return np.sin(5 * x) + x

    means = (weights * f(atoms)).sum(axis=1)
    nodes, shares = (part.numpy() for part in law.nodes_and_weights(40))
    expectation = float(f(nodes) @ shares)
    variance = float((f(nodes) - expectation) ** 2 @ shares)
    assert means.mean() == pytest.approx(expectation, abs=5 * means.std() / math.sqrt(draws))
    # The relative standard error of a variance is about sqrt(2 / draws) = 0.01.
    assert means.var() == pytest.approx(variance / (concentration + 1), rel=0.04)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0.5,), r"prior=0\.5: expected a marginal such as Uniform"),
        ((Learned(Uniform(0, 1)),), r"prior=Learned\(.*: expected a marginal"),
        ((Uniform(0, 1), 0), r"strength=0: expected a finite number > 0\."),
        ((Uniform(0, 1), math.nan), r"strength=nan: expected a finite number > 0\."),
        ((Uniform(0, 1), 1, [0.5, math.nan]), r"samples\[1\]=nan: expected a finite number\."),
        ((Uniform(0, 1), 1, ["a"]), r"samples\[0\]='a': expected a finite number\."),
        ((Uniform(0, 1), 1, 0.5), r"samples=0\.5: expected a list of finite numbers\."),
        ((Empirical([1.0]), 1, [True]), r"samples\[0\]=True: expected a finite number\."),
        ((Discrete([1, 2]), 1, [3]), r"samples\[0\]=3: expected values of Discrete"),
        ((Discrete([1, 2]), 1, [True]), r"samples\[0\]=True: expected values of Discrete"),
        ((Discrete([True, False]), 1, [1]), r"samples\[0\]=1: expected values of Discrete"),
        ((Discrete(["a"]), 1, "a"), r"samples='a': expected values of Discrete"),
    ],
)
def test_refuses(arguments: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Learned(*arguments)
    with pytest.raises(InputError, match=r"values=0\.5: expected a list of values"):
        Learned(Uniform(0, 1)).updated(0.5)  # type: ignore[arg-type]


@given(prior=marginals)
@settings(max_examples=20, deadline=None)
def test_any_prior_takes_its_own_values(prior: Marginal) -> None:
    values = prior.decode(prior.sample(5, seed=0))
    law = Learned(prior, 2.0).updated(values)
    assert len(law.samples) == 5
    # Each value has a probability of at least 1 / 7, and so is a quantile of one of these.
    quantiles = law.icdf(torch.linspace(0, 1, 71, dtype=torch.double))
    assert set(law.decode(quantiles)) >= set(values)

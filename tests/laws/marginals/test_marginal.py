"""What every marginal promises, whatever its law."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import pickle
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ax_costaware.exceptions import InputError
from ax_costaware.laws import Discrete, Empirical, Learned, Marginal, TruncatedNormal, Uniform
from tests.laws.marginals.laws import LAWS, each_law, each_numeric_law, marginals


@given(law=marginals)
@settings(max_examples=20, deadline=None)
def test_survives_json_pickle_and_copies(law: Marginal) -> None:
    assert dataclasses.is_dataclass(law)
    fields: dict[str, Any] = {f.name: getattr(law, f.name) for f in dataclasses.fields(law)}
    revived = type(law)(**json.loads(json.dumps(fields)))
    for other in (revived, pickle.loads(pickle.dumps(law)), copy.deepcopy(law)):
        assert other == law
        assert hash(other) == hash(law)
        assert repr(other) == repr(law)
    assert dataclasses.replace(law) == law


@each_law
def test_is_frozen_and_equal_only_to_its_like(law: Marginal) -> None:
    assert dataclasses.is_dataclass(law)
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(law, dataclasses.fields(law)[0].name, 1.0)
    assert [other for other in LAWS if other == law] == [law]


@pytest.mark.parametrize(
    "law", [law for law in LAWS if len(getattr(law, "samples", ())) < 9], ids=repr
)
def test_repr_is_the_call_that_makes_it(law: Marginal) -> None:
    names = {c.__name__: c for c in (Uniform, TruncatedNormal, Discrete, Empirical, Learned)}
    assert eval(repr(law), names) == law


@given(law=marginals, n=st.integers(1, 70))
@settings(max_examples=60, deadline=None)
def test_rule_is_a_law_on_the_support(law: Marginal, n: int) -> None:
    nodes, weights = law.nodes_and_weights(n)
    assert nodes.dtype == weights.dtype == torch.double
    assert nodes.ndim == 1
    assert nodes.shape == weights.shape
    assert isinstance(law, Discrete) or len(nodes) <= n
    assert bool((weights > 0).all())
    assert float(weights.sum()) == pytest.approx(1.0, abs=1e-12)
    assert bool((nodes.diff() > 0).all()) or len(nodes) == 1
    if law.is_numeric:
        assert law.lower <= float(nodes[0])
        assert float(nodes[-1]) <= law.upper


@each_numeric_law
@pytest.mark.parametrize("n", [2, 3, 64])
def test_rule_has_the_moments_of_the_law(law: Marginal, n: int) -> None:
    nodes, weights = law.nodes_and_weights(n)
    mean = float(nodes @ weights)
    scale = math.sqrt(law.variance) + 1e-8 * abs(law.expectation) + 1e-12
    assert mean == pytest.approx(law.expectation, abs=1e-8 * scale)
    assert float((nodes - mean) ** 2 @ weights) == pytest.approx(law.variance, abs=1e-8 * scale**2)


@pytest.mark.parametrize("law", [law for law in LAWS if not isinstance(law, Discrete)], ids=repr)
def test_nominal_value_is_the_expectation(law: Marginal) -> None:
    assert law.nominal == law.expectation
    assert law.lower <= law.expectation <= law.upper


@each_law
def test_sample_follows_the_law_and_the_seed(law: Marginal) -> None:
    before = torch.get_rng_state()
    draws = law.sample(4000, seed=1)
    assert torch.equal(torch.get_rng_state(), before)
    assert draws.shape == (4000,)
    assert draws.dtype == torch.double
    assert torch.equal(draws, law.sample(4000, seed=1))
    if len(draws.unique()) > 1:
        assert not torch.equal(draws, law.sample(4000, seed=2))
    # Kolmogorov's bound: the largest gap of 4000 draws exceeds 0.04 with probability 2e-6.
    points = draws.sort().values
    share = torch.arange(1, 4001, dtype=torch.double) / 4000
    last_of_ties = torch.cat([points.diff() > 0, torch.tensor([True])])
    assert float((law.cdf(points) - share)[last_of_ties].abs().max()) < 0.04


@given(law=marginals, u=st.lists(st.floats(0, 1), min_size=1, max_size=20))
@settings(max_examples=100, deadline=None)
def test_quantile_is_the_least_node_that_reaches_its_probability(
    law: Marginal, u: list[float]
) -> None:
    probabilities = torch.tensor(u, dtype=torch.double)
    nodes = law.icdf(probabilities)
    reached = law.cdf(nodes)
    if isinstance(law, Discrete | Empirical):
        assert bool((reached >= probabilities).all())
        support = law.nodes_and_weights(len(nodes) + 1000)[0]
        assert bool(torch.isin(nodes, support).all())
        below = law.cdf(nodes - 1e-6)
        first = nodes == support[0]
        assert bool(((below < probabilities) | first).all())
    else:
        # No closer than the numbers beside the nodes are: far out in a tail these are far apart.
        above, under = (torch.nextafter(nodes, torch.full_like(nodes, to)) for to in (1e9, -1e9))
        spacing = law.cdf(above) - law.cdf(under)
        far = isinstance(law, TruncatedNormal) and not law.lower <= law.mean <= law.upper
        tolerance = 1e-5 if far else 1e-9
        assert bool(((reached - probabilities).abs() <= tolerance + spacing).all())
        order = probabilities.argsort()
        assert bool((nodes[order].diff() >= 0).all())


@each_law
@pytest.mark.parametrize("dtype", [torch.float, torch.double])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_quantiles_and_probabilities_keep_shape_and_dtype(
    law: Marginal, dtype: torch.dtype, shape: tuple[int, ...]
) -> None:
    u = torch.full(shape, 0.3, dtype=dtype)
    nodes = law.icdf(u)
    assert (nodes.shape, nodes.dtype) == (u.shape, dtype)
    assert (law.cdf(nodes).shape, law.cdf(nodes).dtype) == (u.shape, dtype)


@pytest.mark.parametrize(
    "law", [Discrete((0.7, 0.9)), Empirical((0.7, 0.9)), Learned(Empirical((0.7, 0.9)), 2.0, [0.9])]
)
def test_a_value_in_single_precision_is_that_value(law: Marginal) -> None:
    """0.7 is less there, and had the probability of less than 0.7."""
    places = torch.tensor([0.7, 0.9], dtype=torch.double)
    assert law.cdf(places.float()).tolist() == pytest.approx(law.cdf(places).tolist())


@each_law
def test_whole_numbers_are_no_reason_to_round_probabilities(law: Marginal) -> None:
    whole = torch.arange(-2, 5)
    assert torch.equal(law.cdf(whole), law.cdf(whole.double()))


@each_numeric_law
def test_extreme_probabilities_give_the_bounds(law: Marginal) -> None:
    ends = law.icdf(torch.tensor([0.0, 1.0], dtype=torch.double))
    assert ends.tolist() == [law.lower, law.upper]
    outside = torch.tensor([law.lower - 1.0, law.upper + 1.0], dtype=torch.double)
    assert law.cdf(outside).tolist() == [0.0, 1.0]


@each_law
def test_decodes_nodes_to_raw_values(law: Marginal) -> None:
    nodes, _ = law.nodes_and_weights(4)
    raw = law.decode(nodes)
    assert len(raw) == len(nodes)
    if isinstance(law, Discrete):
        assert set(raw) <= set(law.values)
        assert {type(value) for value in raw} == {type(value) for value in law.values}
    else:
        assert raw == nodes.tolist()
    with pytest.raises(InputError, match=r"nodes of shape \(4, 1\)"):
        law.decode(torch.zeros(4, 1))

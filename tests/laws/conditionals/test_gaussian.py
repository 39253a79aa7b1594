"""Points that scatter normally: closed forms, bounds, named means."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.stats import norm
from torch import Tensor

from ax_costaware.exceptions import InputError
from ax_costaware.laws import GaussianConditional, register_conditional_mean

from .rules import column_average, joint_average, tensors_of, uniform

WEIGHT, BIAS = ((15.0, 0.0), (0.0, 15.0)), (-5.0, 0.0)
LOWER, UPPER = (-5.0, 0.0), (10.0, 15.0)
QUERIES = torch.tensor([[0.5, 0.5], [0.1, 0.8], [0.93, 0.02], [0.0, 1.0]], dtype=torch.double)


def bump(x: Tensor, at: float, scale: float = 2.0) -> Tensor:
    return torch.exp(-0.5 * ((x - at) / scale) ** 2)


def smoothed(mean: Tensor, variance: float, at: float, scale: float = 2.0) -> Tensor:
    """The average of a bump under a normal law."""
    total = scale**2 + variance
    return scale / math.sqrt(total) * torch.exp(-0.5 * (mean - at) ** 2 / total)


def test_averages_of_independent_columns_are_the_closed_form() -> None:
    conditional = GaussianConditional(WEIGHT, BIAS, (0.5, 3.9), outside="keep")
    mean = conditional.mean_of(QUERIES)
    assert mean.tolist()[0] == [2.5, 7.5]
    expected = smoothed(mean[:, 0], 0.5, 1.0) * smoothed(mean[:, 1], 3.9, 9.0)
    rule = conditional.column_rule(QUERIES)
    assert rule is not None
    assert rule.nodes.shape == rule.weights.shape == (4, 16, 2)
    found = column_average(rule, [lambda x: bump(x, 1.0), lambda x: bump(x, 9.0)])
    assert torch.allclose(found, expected, rtol=0, atol=2e-8)
    # The joint nodes are fewer in each column.
    joint = joint_average(
        conditional, QUERIES, lambda x: bump(x[..., 0], 1.0) * bump(x[..., 1], 9.0)
    )
    assert torch.allclose(joint, expected, rtol=0, atol=1e-3)


def test_dependent_columns_have_the_covariance_and_the_closed_form() -> None:
    covariance = ((0.5, 0.3), (0.3, 0.9))
    conditional = GaussianConditional(WEIGHT, BIAS, covariance)
    assert conditional.column_rule(QUERIES) is None
    nodes, weights = conditional.nodes_and_weights(QUERIES)
    mean = conditional.mean_of(QUERIES)
    assert torch.allclose((weights[..., None] * nodes).sum(-2), mean)
    centred = nodes - mean[:, None]
    spread = torch.einsum("aj,ajk,ajl->akl", weights, centred, centred)
    assert torch.allclose(spread, torch.tensor(covariance, dtype=torch.double).expand(4, 2, 2))
    found = joint_average(conditional, QUERIES, lambda x: bump(x.sum(-1), 10.0, 3.0))
    expected = smoothed(mean.sum(-1), 0.5 + 0.9 + 0.6, 10.0, 3.0)
    assert torch.allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("query", QUERIES.tolist())
def test_clipped_averages_are_integrals(query: list[float]) -> None:
    conditional = GaussianConditional(
        WEIGHT, BIAS, (0.5, 4.0), lower=LOWER, upper=UPPER, outside="clip"
    )
    A = torch.tensor([query], dtype=torch.double)
    conditional.check_queries(A)
    rule = conditional.column_rule(A)
    assert rule is not None
    assert torch.allclose(rule.weights.sum(-2), torch.ones(1, 2, dtype=torch.double))
    assert float(rule.weights.min()) >= 0
    for i, variance in enumerate((0.5, 4.0)):
        law = norm(float(conditional.mean_of(A)[0, i]), math.sqrt(variance))
        low, high = LOWER[i], UPPER[i]

        def value(x: float) -> float:
            return math.sin(x) + 0.1 * x * x

        inside = quad(lambda x, law=law: value(x) * law.pdf(x), low, high, epsabs=1e-12, limit=200)[
            0
        ]
        expected = inside + value(low) * law.cdf(low) + value(high) * law.sf(high)
        x = rule.nodes[0, :, i]
        found = (rule.weights[0, :, i] * (torch.sin(x) + 0.1 * x * x)).sum()
        assert float(found) == pytest.approx(expected, abs=1e-8)
    nodes, weights = conditional.nodes_and_weights(A)
    assert bool((nodes >= A.new_tensor(LOWER)).all())
    assert bool((nodes <= A.new_tensor(UPPER)).all())
    assert float(weights.sum()) == pytest.approx(1.0)


def test_no_variance_is_a_point() -> None:
    for options in ({}, {"lower": LOWER, "upper": UPPER}):
        conditional = GaussianConditional(WEIGHT, BIAS, **options)
        nodes, weights = conditional.nodes_and_weights(QUERIES)
        assert torch.equal(nodes, conditional.mean_of(QUERIES)[:, None])
        assert torch.equal(weights, torch.ones(4, 1, dtype=torch.double))
    clipped = GaussianConditional([[1.0]], lower=(0,), upper=(1,), outside="clip")
    rule = clipped.column_rule(torch.tensor([[2.0]], dtype=torch.double))
    assert rule is not None
    assert bool((rule.nodes == 1).all())
    assert float(rule.weights.sum()) == pytest.approx(1.0)
    outside = GaussianConditional([[1.0]], lower=(0,), upper=(1,))
    with pytest.raises(InputError, match="up to 1"):
        outside.check_queries(torch.tensor([[2.0]]))


@pytest.mark.parametrize("covariance", [0.5, (0.5, 0.5), ((0.5, 0.3), (0.3, 0.5))])
def test_queries_whose_points_leave_are_refused(covariance: Any) -> None:
    conditional = GaussianConditional(WEIGHT, BIAS, covariance, lower=LOWER, upper=UPPER)
    conditional.check_queries(QUERIES[:1])
    conditional.check_queries(QUERIES[:0])
    with pytest.raises(InputError, match=r"query \(0\.93.*0\.02.*\).*probability of up to 0\.[34]"):
        conditional.check_queries(QUERIES[[0, 2]])
    dataclasses.replace(conditional, outside="keep").check_queries(QUERIES)
    dataclasses.replace(conditional, outside="clip").check_queries(QUERIES)


def test_bounds_are_filled_in_only_where_there_are_none() -> None:
    conditional = GaussianConditional(WEIGHT, BIAS, 0.5)
    conditional.check_queries(QUERIES)
    bounded = conditional.within(np.array(LOWER), torch.tensor(UPPER))
    assert bounded == dataclasses.replace(conditional, lower=LOWER, upper=UPPER)
    assert bounded.within([0, 0], [1, 1]) == bounded
    with pytest.raises(InputError, match="lower"):
        conditional.within([0], [1])


def test_named_means() -> None:
    register_conditional_mean(
        "tests: quarter wave", lambda A: 15 * torch.cos(math.pi * A / 2) - A.new_tensor([5.0, 0.0])
    )
    conditional = GaussianConditional.from_mean("tests: quarter wave", 2, 0.5)
    assert eval(repr(conditional)) == conditional
    assert (conditional.num_query_columns, conditional.num_latent_columns) == (2, None)
    assert conditional.mean_of(torch.zeros(1, 2)).tolist() == [[10.0, 15.0]]
    bounded = conditional.within(LOWER, UPPER)
    assert bounded.num_latent_columns == 2
    with pytest.raises(InputError, match="outside of X"):
        bounded.check_queries(torch.zeros(1, 2))
    A = uniform(3, 2).requires_grad_()
    assert torch.autograd.gradcheck(lambda A: tensors_of(conditional, A), (A,))

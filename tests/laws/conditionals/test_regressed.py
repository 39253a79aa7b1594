"""Conditionals that are a regression with normal scatter."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from ax_costaware.exceptions import InputError
from ax_costaware.laws import GaussianConditional, RegressedConditional
from ax_costaware.laws.conditionals import regressed
from ax_costaware.laws.conditionals.landmarks import half_median_distance, rbf
from ax_costaware.laws.conditionals.leave_one_out import Smoother

from .rules import uniform

Array = npt.NDArray[np.float64]


def mean(A: Array) -> Array:
    """A smooth map that is no line."""
    return np.asarray(np.column_stack([4 * np.cos(2 * A[:, 0]), 3 * A[:, 0] + A[:, 1] ** 2]))


def pairs(num_pairs: int, seed: int = 0, spread: float = 0.3) -> tuple[Array, Array]:
    """Pairs that scatter normally about the map."""
    rng = np.random.default_rng(seed)
    A = rng.random((num_pairs, 2))
    return mean(A) + spread * rng.standard_normal((num_pairs, 2)), A


X, A = pairs(60)
LAW = RegressedConditional(X, A)
QUERIES = uniform(50, 2)


def test_smoother_is_brute_force() -> None:
    """Weights and leave-one-out residuals are those of the bordered system, solved anew."""
    L, ridge = rbf(A / 0.4, A / 0.4), 0.05
    trend = np.column_stack([np.ones(60), A])
    smoother = Smoother(L, trend)

    def solved(rows: Array) -> tuple[Array, Array]:
        T = trend[rows]
        system = np.block(
            [[L[np.ix_(rows, rows)] + ridge * np.eye(len(rows)), T], [T.T, np.zeros((3, 3))]]
        )
        found = np.linalg.solve(system, np.vstack([X[rows], np.zeros((3, 2))]))
        return found[:-3], found[-3:]

    every = np.arange(60)
    weights, residuals = smoother.weights(X, ridge)
    assert np.allclose(weights, solved(every)[0], atol=1e-8)
    for j in (0, 17, 59):
        others = np.delete(every, j)
        kernels, line = solved(others)
        assert np.allclose(X[j] - L[j, others] @ kernels - trend[j] @ line, residuals[j])
    error = smoother.errors(X)(np.array([ridge]))
    assert error[0] == pytest.approx((residuals**2).sum(1).mean())


def test_scatter_is_that_of_the_residuals() -> None:
    law = RegressedConditional(*pairs(400)).normal_law(QUERIES)
    assert law is not None
    assert law.covariance.diagonal().tolist() == pytest.approx([0.09, 0.09], rel=0.15)
    assert float(law.covariance[0, 1]) == 0.0, "columns that scatter apart are independent"
    rng = np.random.default_rng(0)
    shared = 0.5 * rng.standard_normal((400, 1))
    dependent = RegressedConditional(pairs(400)[0] + shared, pairs(400)[1]).normal_law(QUERIES)
    assert dependent is not None
    assert dependent.covariance.flatten().tolist() == pytest.approx(
        [0.34, 0.25, 0.25, 0.34], rel=0.1
    )
    # Three that are clipped have no fast sums.
    X, A = np.column_stack([pairs(400)[0], pairs(400)[0][:, 0]]) + shared, pairs(400)[1]
    X, A = X[:200], A[:200]
    for outside, is_fast in (("clip", True), ("keep", False)):
        law = RegressedConditional(X, A, (-9,) * 3, (9,) * 3, outside=outside)
        assert (law.column_rule(QUERIES) is not None) == is_fast


def test_rules_are_those_of_a_normal_law() -> None:
    """Columns, pairs of them, and joint nodes, moved into the bounds or not."""
    low, high = (-4.0, -0.5), (4.0, 4.0)
    for outside in ("clip", "keep"):
        law = RegressedConditional(X, A, outside=outside).within(low, high)
        own = law._regression
        means = own.mean(QUERIES).tolist()
        for place in (0, 20):
            normal = GaussianConditional(
                np.zeros((2, 2)).tolist(),
                means[place],
                own.scatter(),
                lower=low,
                upper=high,
                outside=outside,
            )
            at = QUERIES[place : place + 1]
            rule, expected = law.column_rule(at), normal.column_rule(at)
            assert rule is not None
            assert expected is not None
            assert torch.allclose(rule.nodes, expected.nodes)
            assert torch.allclose(rule.weights, expected.weights)
    assert law.pair_rule(QUERIES) is None
    finer = LAW.refined(2)
    assert finer.num_nodes == 32
    assert finer._regression is LAW._regression
    assert LAW.refinement(1.0) == 1
    assert LAW.refinement(30.0) > 1


@pytest.mark.parametrize("outside", ["keep", "clip"])
def test_leave_one_out_is_the_distance_of_embeddings(outside: Any) -> None:
    """Of the law about what the others say of each pair, by many draws."""
    bounds = {"lower": (-2.0, 0.0), "upper": (3.0, 2.0)}
    few = RegressedConditional(X[:20], A[:20], outside=outside, **bounds)
    low, high = (-np.inf, np.inf) if outside == "keep" else bounds.values()
    points = X[:20].clip(low, high)
    own = few._regression
    spreads = points.std(0)
    unit = spreads * half_median_distance(points / spreads)
    covariance = np.diag(own.scatter())
    rng = np.random.default_rng(0)

    def drawn(centre: Array) -> Array:
        draws = rng.multivariate_normal(centre, covariance, 20_000)
        return np.asarray(draws.clip(low, high) / unit)

    expected = []
    for point, residual in zip(points, own.residuals, strict=True):
        first, second = drawn(point - residual), drawn(point - residual)
        near = rbf(point[None] / unit, first).mean()
        alike = np.exp(-0.5 * ((first - second) ** 2).sum(1)).mean()
        expected.append(1 - 2 * near + alike)
    assert few.leave_one_out == pytest.approx(np.mean(expected), abs=0.005)


def test_many_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random ones of them are fitted."""
    monkeypatch.setattr(regressed, "_MOST_PAIRS", 100)
    monkeypatch.setattr(regressed, "_MOST_TO_SEARCH", 50)
    law = RegressedConditional(*pairs(400))
    assert law._regression.centres.shape == (100, 2)
    assert law.num_pairs == 400
    found = law.normal_law(QUERIES)
    assert found is not None
    assert np.abs(found.means.numpy() - mean(QUERIES.numpy())).max() < 0.4
    assert 0 < law.leave_one_out < 1


def test_queries_far_from_all_pairs_are_refused() -> None:
    LAW.check_queries(QUERIES)
    LAW.check_queries(QUERIES[:0])
    far = float(A[:, 0].max() + 2.1 * A[:, 0].std())
    with pytest.raises(InputError, match=r"standard deviations of the queries away.*at most 2"):
        LAW.check_queries(torch.tensor([[far, 0.5]], dtype=torch.double))

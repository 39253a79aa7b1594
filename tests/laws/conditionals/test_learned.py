"""Conditionals learned from pairs."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import numpy.typing as npt
import pytest
import torch

from ax_costaware.exceptions import InputError
from ax_costaware.laws import LearnedConditional

Array = npt.NDArray[np.float64]

GRID = torch.linspace(0, 1, 41, dtype=torch.double).unsqueeze(-1)


def pairs(num_pairs: int, seed: int = 0) -> tuple[Array, Array]:
    """Pairs of ``N(3 a - 1, 0.3^2)``."""
    rng = np.random.default_rng(seed)
    A = rng.random((num_pairs, 1))
    return 3 * A - 1 + 0.3 * rng.standard_normal((num_pairs, 1)), A


X, A = pairs(60)
LEARNED = LearnedConditional(X, A)


def test_weights_are_those_of_ridge_regression() -> None:
    learned = LearnedConditional(X, A, lengthscale=0.5, regularization=0.01)
    scaled = A / A.std() / 0.5
    L = np.exp(-0.5 * (scaled - scaled.T) ** 2)
    right = np.exp(-0.5 * (scaled - GRID.numpy().T / A.std() / 0.5) ** 2)
    expected = np.linalg.solve(L + len(A) * 0.01 * np.eye(len(A)), right)
    rule = learned.joint_rule(GRID)
    order = np.argsort(X[:, 0])
    assert np.array_equal(rule.nodes.numpy(), X[order])
    assert np.allclose(rule.weights.numpy(), expected[order].T, atol=1e-12)
    fitted = learned.embedding
    assert (fitted.lengthscale, fitted.regularization) == (0.5, pytest.approx(0.01))


def test_what_is_not_given_is_chosen() -> None:
    chosen = LEARNED.embedding
    part = LearnedConditional(X, A, lengthscale=chosen.lengthscale).embedding
    assert part.regularization == pytest.approx(chosen.regularization)
    part = LearnedConditional(X, A, regularization=chosen.regularization).embedding
    assert part.lengthscale == pytest.approx(chosen.lengthscale)


def test_weights_of_equal_points_are_summed() -> None:
    arms = np.random.default_rng(1).integers(0, 4, size=60)
    learned = LearnedConditional(arms, A, lengthscale=0.5, regularization=0.01)
    rule = learned.joint_rule(GRID)
    assert rule.nodes.tolist() == [[0.0], [1.0], [2.0], [3.0]]
    apart = LearnedConditional(X, A, lengthscale=0.5, regularization=0.01).joint_rule(GRID)
    order = arms[np.argsort(X[:, 0])]
    for arm in range(4):
        expected = apart.weights[:, torch.tensor(order == arm)].sum(-1)
        assert torch.allclose(rule.weights[:, arm], expected, atol=1e-12)
    assert LearnedConditional(arms, A).embedding.projection.shape == (4, 60)


def test_queries_far_from_every_pair_are_refused() -> None:
    learned = LearnedConditional(X, A, lengthscale=0.5)
    learned.check_queries(GRID)
    learned.check_queries(GRID[:0])
    far = float(A.max() + 3.1 * 0.5 * A.std())
    with pytest.raises(InputError, match=r"length-scales away from every pair.*at most 3"):
        learned.check_queries(torch.tensor([[0.5], [far]], dtype=torch.double))
    with pytest.raises(InputError, match="expected finite"):
        learned.check_queries(torch.tensor([[math.nan]]))


def test_bounds() -> None:
    low, high = [-1.0], [2.0]
    with pytest.raises(InputError, match=r"rows outside of X, from \(-1\.0,\) to \(2\.0,\)"):
        LEARNED.within(low, high)
    kept = dataclasses.replace(LEARNED, outside="keep").within(low, high)
    assert torch.equal(kept.joint_rule(GRID).nodes, LEARNED.joint_rule(GRID).nodes)
    clipped = dataclasses.replace(LEARNED, outside="clip").within(low, high)
    nodes = clipped.joint_rule(GRID).nodes
    assert (float(nodes.min()), float(nodes.max())) == (-1.0, 2.0)
    assert len(nodes) < 60
    wide = LEARNED.within([-5.0], [5.0])
    assert wide.within([0.0], [1.0]) == wide


def test_pairs_may_grow() -> None:
    grown = LearnedConditional(X[:50], A[:50], lower=[-9], upper=[9]).with_pairs(X[50:], A[50:])
    assert grown == LearnedConditional(X, A, lower=[-9], upper=[9])
    with pytest.raises(InputError, match="X has 2 columns"):
        LEARNED.with_pairs([[1.0, 2.0]], [[1.0]])
    with pytest.raises(InputError, match="X has 1 rows and A has 2"):
        LEARNED.with_pairs([1.0], [1.0, 2.0])
    with pytest.raises(InputError, match="X has nan in row 0"):
        LEARNED.with_pairs([math.nan], [1.0])


@pytest.mark.parametrize("far", [1e2, 1e4])
def test_a_query_far_from_the_others_does_not_hide_what_these_tell(far: float) -> None:
    rng = np.random.default_rng(0)
    A = np.append(rng.uniform(size=300), far)
    X = np.sin(12 * A) + 0.1 * rng.standard_normal(301)
    queries = torch.linspace(0.1, 0.9, 9, dtype=torch.double).unsqueeze(-1)
    nodes, weights = LearnedConditional(X, A).nodes_and_weights(queries)
    means = (nodes.squeeze(-1) * weights).sum(-1)
    assert float((means - (12 * queries).sin().squeeze(-1)).abs().max()) < 0.1

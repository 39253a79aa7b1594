"""Conditionals learned from more pairs than an exact fit takes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
import torch

from ax_costaware.exceptions import InputError
from ax_costaware.laws import LearnedConditional
from ax_costaware.laws.conditionals import embedding
from ax_costaware.laws.conditionals.embedding import equal_points

from .rules import uniform

Array = npt.NDArray[np.float64]


def pairs(num_pairs: int, d: int, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    A = rng.random((num_pairs, d))
    return np.sin(3 * A) + 0.3 * rng.standard_normal((num_pairs, d)), A


def sample(d: int, lengthscale: float, seed: int = 0) -> Callable[[Array], Array]:
    """Functions ``n x 20`` of points ``n x d``, from a Gaussian process of unit variance."""
    rng = np.random.default_rng(seed)
    frequencies, shifts = rng.standard_normal((d, 500)) / lengthscale, 2 * np.pi * rng.random(500)
    weights = rng.standard_normal((500, 20)) / np.sqrt(250)
    return lambda X: np.asarray(np.cos(X @ frequencies + shifts) @ weights)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take landmarks from 300 pairs on."""
    monkeypatch.setattr(embedding, "MOST_EXACT", 300)
    monkeypatch.setattr(embedding, "MOST_DISTINCT", 300)


def test_landmarks_give_nearly_what_all_pairs_do(monkeypatch: pytest.MonkeyPatch) -> None:
    X, A = pairs(1500, 2)
    f = sample(2, 0.7)
    queries = uniform(200, 2)
    options = {"lengthscale": 1.0, "regularization": 1e-4}
    exact = LearnedConditional(X, A, **options).joint_rule(queries)
    expected = exact.weights.numpy() @ f(exact.nodes.numpy())
    monkeypatch.setattr(embedding, "MOST_EXACT", 300)
    monkeypatch.setattr(embedding, "MOST_DISTINCT", 300)
    rule = LearnedConditional(X, A, **options).joint_rule(queries)
    assert len(rule.nodes) <= 1000
    assert np.abs(rule.weights.numpy() @ f(rule.nodes.numpy()) - expected).max() < 5e-3
    # So are products of the pairs' weights, which are the sampling error of an average.
    W = exact.weights if exact.errors is None else exact.errors
    assert rule.errors is not None
    products = torch.stack([(found @ found.T).diagonal() for found in (W, rule.errors)])
    assert torch.allclose(products[0], products[1], rtol=0.05)
    # With fewer landmarks it is coarser.
    rule = LearnedConditional(X, A, landmarks=60, **options).joint_rule(queries)
    assert rule.nodes.shape == (120, 2)
    errors = rule.weights.numpy() @ f(rule.nodes.numpy()) - expected
    assert 1e-4 < float(np.sqrt(np.mean(errors**2))) < 0.03


@pytest.mark.usefixtures("few")
def test_equal_points_are_not_interpolated(monkeypatch: pytest.MonkeyPatch) -> None:
    _, A = pairs(900, 2)
    arms = np.random.default_rng(0).binomial(4, A[:, 0])
    queries = uniform(50, 2)
    options = {"lengthscale": 2.0, "regularization": 1e-3}
    rule = LearnedConditional(arms, A, **options).joint_rule(queries)
    monkeypatch.setattr(embedding, "MOST_EXACT", 2000)
    exact = LearnedConditional(arms, A, **options).joint_rule(queries)
    assert rule.nodes.tolist() == exact.nodes.tolist() == [[0.0], [1.0], [2.0], [3.0], [4.0]]
    assert torch.allclose(rule.weights, exact.weights, atol=1e-5)


def test_equal_points() -> None:
    codes = np.random.default_rng(0).integers(0, 50, size=(100_000, 1)).astype(float)
    found = equal_points(codes)
    assert found is not None
    assert found.nodes.shape == (50, 1)
    weights = np.ones((100, 2))
    sums = found.finish(found.product(slice(100, 200), weights))
    assert np.array_equal(sums[:, 0], np.bincount(codes[100:200, 0].astype(int), minlength=50))
    # No more than the first rows are looked at where these differ.
    assert equal_points(np.arange(100_000.0).reshape(-1, 1)) is None
    codes[:90_000] = 1
    codes[90_000:, 0] = np.arange(10_000)
    assert equal_points(codes) is None


@pytest.mark.usefixtures("few")
def test_queries_far_from_every_landmark_are_refused() -> None:
    X, A = pairs(400, 2)
    learned = LearnedConditional(X, A, lengthscale=0.5)
    learned.check_queries(torch.tensor(A))
    with pytest.raises(InputError, match="length-scales away"):
        learned.check_queries(torch.tensor([[0.5, 2.0]]))

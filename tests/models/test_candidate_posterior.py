"""The posterior on candidates against the direct formula, whatever the sequence of rounds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ax_costaware.models import CandidatePosterior

POINTS = np.linspace(0, 1, 7)
PRIOR = 1.7 * np.exp(-0.5 * ((POINTS[:, None] - POINTS) / 0.25) ** 2)
NOISE = 0.04


def posterior(
    forgetting: float, tolerance: float = 1e-12, noise: float = NOISE
) -> CandidatePosterior:
    return CandidatePosterior(
        lambda c: PRIOR[c], PRIOR.diagonal().copy(), forgetting, noise, tolerance
    )


def direct(
    observations: list[tuple[int, float, float]], now: float, forgetting: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and covariance by the formula of Bogunovic et al. 2016, equations 7 to 9."""
    if not observations:
        return np.zeros(len(POINTS)), PRIOR
    index = np.array([c for c, _, _ in observations])
    times = np.array([t for _, t, _ in observations])
    values = np.array([y for _, _, y in observations])
    ages = np.abs(times[:, None] - times)
    covariance = PRIOR[np.ix_(index, index)] * (1 - forgetting) ** (ages / 2)
    cross = PRIOR[index] * ((1 - forgetting) ** ((now - times) / 2))[:, None]
    solved = np.linalg.solve(covariance + NOISE * np.eye(len(index)), cross)
    return solved.T @ values, PRIOR - cross.T @ solved


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[tuple[int, float] | None], float]:
    """Rounds, each a candidate with its value or None for a skip, and a forgetting rate."""
    value = st.floats(-3, 3)
    told = st.tuples(st.integers(0, len(POINTS) - 1), value)
    # Often more observations than twice the candidates, so that rows are compressed.
    rounds = draw(st.lists(st.none() | told, min_size=1, max_size=90))
    return rounds, draw(st.sampled_from([0.0, 1e-4, 0.01, 0.2, 0.9]))


@settings(max_examples=100, deadline=None)
@given(histories(), st.integers(0, len(POINTS) - 1))
def test_equals_the_direct_posterior_after_any_sequence(
    history: tuple[list[tuple[int, float] | None], float], looked_at: int
) -> None:
    rounds, forgetting = history
    fast = posterior(forgetting)
    observations: list[tuple[int, float, float]] = []
    for now, told in enumerate(rounds, start=1):
        mean, variance = fast.moments(now)
        expected_mean, expected_covariance = direct(observations, now, forgetting)
        np.testing.assert_allclose(mean, expected_mean, atol=1e-8)
        np.testing.assert_allclose(variance, expected_covariance.diagonal(), atol=1e-8)
        np.testing.assert_allclose(
            fast.covariance(looked_at, now), expected_covariance[looked_at], atol=1e-8
        )
        if told is not None:
            fast.observe(told[0], now, told[1])
            observations.append((told[0], now, told[1]))


def test_dropping_moves_moments_by_about_the_tolerance() -> None:
    generator = np.random.default_rng(0)
    tolerance, forgetting = 1e-3, 0.1
    exact, short = posterior(forgetting), posterior(forgetting, tolerance)
    for now in range(1000):
        candidate, value = int(generator.integers(len(POINTS))), float(generator.normal())
        exact.observe(candidate, now, value)
        short.observe(candidate, now, value)
        for a, b in zip(exact.moments(now + 1), short.moments(now + 1), strict=True):
            np.testing.assert_allclose(a, b, atol=3 * tolerance)
    # The rest is compressed or dropped.
    assert short.num_rows <= 2 * math.log(tolerance) / math.log(1 - forgetting) + 1


@pytest.mark.parametrize("forgetting", [0.0, 1e-9, 0.1])
def test_memory_is_bounded(forgetting: float) -> None:
    fast = posterior(forgetting, 1e-4)
    for now in range(20_000):
        fast.observe(now % len(POINTS), now, math.sin(now))
    assert fast.num_rows < 180
    assert fast._rows.shape[0] <= 64


def test_a_gap_that_forgets_everything_gives_the_prior() -> None:
    fast = posterior(0.3, 1e-4)
    fast.observe(3, 0, 2.0)
    mean, variance = fast.moments(10_000)
    np.testing.assert_array_equal(mean, np.zeros_like(mean))
    np.testing.assert_array_equal(variance, PRIOR.diagonal())
    fast.observe(3, 10_000, 1.0)
    assert fast.num_rows == 1


def test_a_tiny_noise_leaves_no_negative_variance() -> None:
    fast = posterior(0.001, noise=1e-14)
    for now in range(200):
        fast.observe(now % 3, now, 1.0)
        assert (fast.moments(now)[1] >= 0).all()
        assert np.isfinite(fast.moments(now)[0]).all()

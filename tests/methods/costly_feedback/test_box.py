"""A box as the loop's domain: its posterior against formulas, its searches against grids."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from gpytorch.kernels import MaternKernel
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from ax_costaware.acquisition.confidence_search import Compare
from ax_costaware.exceptions import InputError
from ax_costaware.methods import CostlyFeedbackLoop, MeasurementRule
from ax_costaware.methods.costly_feedback import box
from ax_costaware.methods.costly_feedback.box import BoxDomain
from ax_costaware.methods.costly_feedback.domain import Hyperparameters, Observation
from ax_costaware.methods.costly_feedback.rules import RIVAL_CORRELATION

Array = NDArray[np.float64]

BOUNDS = np.array([[2.0, -1.0], [4.0, 0.0]])
LENGTHSCALE, FORGETTING, NOISE, OUTPUTSCALE, MEAN = 0.3, 0.05, 0.01, 4.0, 10.0
BETA = 4.0


def hyperparameters(
    lengthscale: float = LENGTHSCALE, forgetting: float = FORGETTING
) -> Hyperparameters:
    kernel = MaternKernel(nu=1.5).double()
    kernel.lengthscale = torch.tensor(lengthscale, dtype=torch.double)
    return Hyperparameters(kernel, forgetting, NOISE, OUTPUTSCALE, MEAN)


def observations(rounds: Sequence[int], bounds: Array = BOUNDS) -> list[Observation]:
    generator = np.random.default_rng(0)
    found = []
    for t in rounds:
        u = generator.random(2)
        value = MEAN + 2 * math.sin(6 * u[0]) + math.cos(5 * u[1] + 0.02 * t)
        found.append(
            Observation(tuple((bounds[0] + (bounds[1] - bounds[0]) * u).tolist()), t, value)
        )
    return found


def domain(rounds: Sequence[int] = range(1, 31), **options: Any) -> BoxDomain:
    found = BoxDomain(BOUNDS, unit_cube=True, seed=0)
    found.condition(hyperparameters(**options), observations(rounds))
    return found


def prior(a: Array, b: Array) -> Array:
    """Prior covariance of points in the unit cube."""
    r = math.sqrt(3) * cdist(a, b) / LENGTHSCALE
    return np.asarray(OUTPUTSCALE * (1 + r) * np.exp(-r))


def unit(points: Any) -> Array:
    return (np.asarray(points) - BOUNDS[0]) / (BOUNDS[1] - BOUNDS[0])


def direct(seen: Sequence[Observation], points: Array, now: int) -> tuple[Array, Array, Array]:
    """From the formulas, at points of the unit cube.

    Posterior means, variances, and covariances with the first point.
    """
    X = unit([o.key for o in seen])
    t = np.array([float(o.round) for o in seen])
    y = np.array([o.value for o in seen]) - MEAN
    rho = math.sqrt(1 - FORGETTING)
    K = prior(X, X) * rho ** np.abs(t[:, None] - t) + NOISE * np.eye(len(t))
    cross = prior(points, X) * rho ** (now - t)
    mean = MEAN + cross @ np.linalg.solve(K, y)
    solved = np.linalg.solve(K, cross.T)
    variance = OUTPUTSCALE - (cross.T * solved).sum(axis=0)
    return mean, variance, prior(points, points[:1])[:, 0] - cross @ solved[:, 0]


def grid(n: int = 121) -> Array:
    axis = np.linspace(0, 1, n)
    return np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)


@pytest.mark.parametrize("now", [31, 50])
def test_posterior_is_the_formulas_after_conditioning_and_observing(now: int) -> None:
    seen = observations(range(1, 31))
    found = BoxDomain(BOUNDS, unit_cube=True, seed=0)
    found.condition(hyperparameters(), seen[:20])
    for observation in seen[20:]:
        found.observe(observation)
    keys = [o.key for o in observations(range(50, 55))]
    mean, variance, _ = direct(seen, unit(keys), now)
    choices = [found.at(key, now) for key in keys]
    assert [c.mean for c in choices] == pytest.approx(mean.tolist(), rel=1e-9)
    assert [c.variance for c in choices] == pytest.approx(variance.tolist(), rel=1e-7)


@pytest.mark.parametrize("keeps", [True, False])
def test_the_chosen_point_is_the_best_of_a_grid_also_later(keeps: bool) -> None:
    seen = observations(range(1, 31))
    found = BoxDomain(BOUNDS, unit_cube=True, seed=0, keep_point=keeps)
    found.condition(hyperparameters(), seen)
    for now in range(31, 60 if keeps else 40):
        choice = found.choose(now, BETA)
        mean, variance, _ = direct(seen, unit([choice.key]), now)
        assert choice.mean == pytest.approx(mean[0], rel=1e-9)
        assert choice.variance == pytest.approx(variance[0], rel=1e-7)
        value = choice.mean + math.sqrt(BETA * choice.variance)
        if now % 7 == 3:
            means, variances, _ = direct(seen, grid(61), now)
            bounds = means + np.sqrt(BETA * variances)
            # It is exact when it is searched, and the place of an optimum then kept for a while.
            assert value >= bounds.max() - (1e-9 if now == 31 or not keeps else 5e-3)


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("now", [31, 32])
def test_rivals_hold_the_strongest_one(joint: bool, now: int) -> None:
    seen = observations(range(1, 31))
    found = domain()
    found.choose(31, BETA)
    choice = found.choose(now, BETA)
    rivals = found.rivals(choice, now, BETA, MeasurementRule(joint=joint))
    points = np.concatenate([unit([choice.key]), grid(61)])
    far = prior(points, points[:1])[:, 0] < RIVAL_CORRELATION * OUTPUTSCALE
    mean, variance, with_chosen = direct(seen, points, now)
    spread = variance + choice.variance - (2 * with_chosen if joint else 0)
    expected = ((choice.mean - mean[far]) / np.sqrt(spread[far])).min()
    spread = rivals.variance + choice.variance
    if joint:
        assert rivals.covariance is not None
        spread = spread - 2 * rivals.covariance
    assert ((choice.mean - rivals.mean) / np.sqrt(spread)).min() == pytest.approx(
        expected, abs=0.02
    )


@pytest.mark.parametrize("compare", ["correlation", "local_optima"])
def test_there_is_always_a_rival(compare: Compare) -> None:
    found = domain(lengthscale=60.0)
    choice = found.choose(31, BETA)
    rivals = found.rivals(choice, 31, BETA, MeasurementRule(0.9, compare, joint=False))
    # All are alike: the least correlated one is the farthest corner.
    corner = tuple(np.where(unit(choice.key) < 0.5, BOUNDS[1], BOUNDS[0]).tolist())
    assert rivals.mean.tolist() == pytest.approx([found.at(corner, 31).mean])


def test_rivals_are_not_near_a_better_optimum() -> None:
    found = domain(lengthscale=0.1)
    choice = found.choose(31, BETA)
    counts = {}
    for bandwidth in (0.0, 0.3, 2.0):
        rule = MeasurementRule(0.9, "local_optima_only", joint=False, bandwidth=bandwidth)
        counts[bandwidth] = len(found.rivals(choice, 31, BETA, rule).mean)
    assert counts[0.0] > counts[0.3] > counts[2.0] == 0


def test_a_skipped_round_searches_only_once_the_weights_have_fallen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = domain(forgetting=0.02)
    searched = []
    search = found._search
    monkeypatch.setattr(
        found, "_search", lambda now, beta: searched.append(now) or search(now, beta)
    )
    for now in range(31, 45):
        choice = found.choose(now, BETA)
        found.rivals(choice, now, BETA, MeasurementRule())
    # The last observation is of round 30; sqrt(.98) - sqrt(.98)^7 = .058 > .05.
    assert searched == [31, 37, 43]
    found.observe(observations([44])[0])
    for now in range(45, 1000):
        found.choose(now, BETA)
    assert searched[3] == 45
    # Where all is forgotten nothing new is to be found.
    assert len(searched) <= 3 + 20
    assert searched[-1] < 400


def test_a_stored_loop_answers_the_same() -> None:
    """Also on a skipped round, which evaluates what an earlier one searched for."""
    loop = CostlyFeedbackLoop(bounds=BOUNDS, forgetting=0.02)
    for t in range(16):
        x, measure, _ = loop.ask()
        copy = CostlyFeedbackLoop.from_dict(json.loads(json.dumps(loop.to_dict())))
        again = copy.ask()
        assert again.x == pytest.approx(x)
        assert again.measure == measure
        if t < 10:
            loop.tell(math.sin(3 * float(np.sum(x))))
        else:
            loop.skip()


def test_what_is_forgotten_is_dropped() -> None:
    """Weights of 1e-4 are left after 360 rounds: later it is as if the rest had never been."""
    found = domain(rounds=range(1, 1001))
    late = domain(rounds=[])
    kept = [o for o in observations(range(1, 1001)) if o.round > 630]
    late.condition(hyperparameters(), kept)
    key = (3.0, -0.5)
    assert found.at(key, 1001).mean == pytest.approx(late.at(key, 1001).mean)
    assert len(found._observations) == 360


def test_a_function_that_is_not_forgotten_keeps_the_latest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(box, "MOST_OBSERVATIONS", 20)
    found = domain(rounds=range(1, 26), forgetting=0.0)
    found.observe(observations(range(1, 27))[-1])
    assert [o.round for o in found._observations] == list(range(7, 27))
    variance = found.at((3.0, -0.5), 27).variance
    assert found.at((3.0, -0.5), 1_000).variance == pytest.approx(variance)


def test_coordinates() -> None:
    generator = np.random.default_rng(0)
    scaled, raw = (BoxDomain(BOUNDS.tolist(), unit_cube=cube, seed=0) for cube in (True, False))
    for found in (scaled, raw):
        assert found.dimension == 2
        key = found.random_key(generator)
        assert found.point(key).tolist() == list(key)
        assert bool(((found.point(key) >= BOUNDS[0]) & (found.point(key) <= BOUNDS[1])).all())
    assert scaled.inputs((3.0, -0.25)).tolist() == [0.5, 0.75]
    assert raw.inputs((3.0, -0.25)).tolist() == [3.0, -0.25]
    # With one length-scale, two sides of different lengths are not the same model.
    raw.condition(hyperparameters(), observations(range(1, 31)))
    choice = raw.choose(31, BETA)
    best = max(
        raw.at(tuple(key), 31).mean + math.sqrt(BETA * raw.at(tuple(key), 31).variance)
        for key in (BOUNDS[0] + (BOUNDS[1] - BOUNDS[0]) * grid(21)).tolist()
    )
    assert choice.mean + math.sqrt(BETA * choice.variance) >= best - 1e-9


@pytest.mark.parametrize(
    "bounds",
    [
        [[0.0, 1.0]],
        [0.0, 1.0],
        np.empty((2, 0)),
        [[0.0], ["a"]],
        [[0.0, 1.0], [1.0, 1.0]],
        [[2.0], [1.0]],
        [[0.0], [math.inf]],
        [[math.nan], [1.0]],
        [[-1e308], [1e308]],
    ],
)
def test_bad_bounds(bounds: Any) -> None:
    with pytest.raises(InputError, match=r"^bounds"):
        CostlyFeedbackLoop(bounds=bounds)


def test_without_observations_it_is_the_prior() -> None:
    found = domain(rounds=[]).at((3.0, -0.5), 7)
    assert (found.mean, found.variance) == pytest.approx((MEAN, OUTPUTSCALE))

"""Normal scores of inputs, and draws of them within bounds."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal, norm

from ax_costaware.laws import Discrete, Empirical, Learned, TruncatedNormal, Uniform
from ax_costaware.laws.joint.law import uniforms
from ax_costaware.laws.joint.scores import (
    SmoothScores,
    StepScores,
    cut_normal,
    errors_given,
    interpolate,
    score_map,
)

BOUNDS = [(-1.0, 2.0), (-9.0, 0.3), (3.0, 9.0), (8.0, 8.5), (-40.0, -39.0), (60.0, 900.0)]


def double(values: object) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.double)


@pytest.mark.parametrize(("lower", "upper"), BOUNDS)
def test_cut_normal(lower: float, upper: float) -> None:
    """Against 50 digits, however far out the bounds are."""
    v = double([0.01, 0.5, 0.99])
    z, log_probability = cut_normal(double(lower), double(upper), v)
    assert bool(((z >= lower) & (z <= upper)).all())
    with mpmath.workdps(50):
        sign = -1 if lower + upper > 0 else 1
        low, high = sorted((mpmath.mpf(sign * lower), mpmath.mpf(sign * upper)))
        mass = mpmath.ncdf(high) - mpmath.ncdf(low)
        assert float(log_probability) == pytest.approx(float(mpmath.log(mass)), rel=1e-10)
        if abs(lower) < 30:
            shares = [float((mpmath.ncdf(sign * x) - mpmath.ncdf(low)) / mass) for x in z.tolist()]
            wanted = v if sign == 1 else 1 - v
            assert shares == pytest.approx(wanted.tolist(), abs=1e-9)


@pytest.mark.parametrize(("lower", "upper"), BOUNDS)
def test_gradients_of_cut_normal(lower: float, upper: float) -> None:
    bounds = double([lower, upper]).requires_grad_()
    z, log_probability = cut_normal(bounds[0], bounds[1], double(0.3))
    for value in (z, log_probability):
        (gradient,) = torch.autograd.grad(value, bounds, retain_graph=True)
        assert bool(torch.isfinite(gradient).all())
    if abs(lower) < 30:
        assert torch.autograd.gradcheck(
            lambda b: cut_normal(b[0], b[1], double(0.3)), (bounds,), eps=1e-7, atol=1e-5
        )


def test_interpolation() -> None:
    knots, values = double([0.0, 1.0, 3.0]), double([1.0, 2.0, -2.0])
    x = double([-1.0, 0.0, 0.25, 1.0, 2.0, 3.0, 9.0])
    assert interpolate(x, knots, values).tolist() == [1.0, 1.0, 1.25, 2.0, 0.0, -2.0, -2.0]
    assert interpolate(x, knots[:1], values[:1]).tolist() == [1.0] * 7


def test_weights_of_bounded_inputs_average_to_their_probability() -> None:
    """The rectangle probability of the simulator, against SciPy's quadrature."""
    correlation = np.array([[1.0, 0.6, -0.3], [0.6, 1.0, 0.2], [-0.3, 0.2, 1.0]])
    laws = [Discrete([1, 2, 3], [0.2, 0.5, 0.3]), Discrete([0, 1]), Discrete([1, 2], [0.7, 0.3])]
    maps = [score_map(law, lambda raw: double(raw).unsqueeze(-1)) for law in laws]
    factor = torch.linalg.cholesky(torch.tensor(correlation))
    values = [2.0, 1.0, 1.0]
    x = [double([[value]]) for value in values]
    _, log_weights = errors_given(maps, x, factor, uniforms(3, 4096, 0))
    bounds = [score.bounds(v) for score, v in zip(maps, x, strict=True)]  # type: ignore[union-attr]
    lower, upper = (np.array([float(b[k]) for b in bounds]) for k in (0, 1))
    wanted = multivariate_normal(np.zeros(3), correlation).cdf(upper, lower_limit=lower)
    assert float(log_weights.exp().mean()) == pytest.approx(float(wanted), rel=2e-3)


def test_scores_of_continuous_laws_invert() -> None:
    for law in (Uniform(-1, 3), TruncatedNormal(0.1, 0.3, 0.0, 1.0)):
        scores = score_map(law, lambda raw: double(raw).unsqueeze(-1))
        assert isinstance(scores, SmoothScores)
        z = torch.linspace(-3.9, 3.9, 101, dtype=torch.double)
        x = scores.place(z)
        assert torch.allclose(scores.score(x), z, atol=1e-9)
        exact = law.icdf(torch.special.ndtr(z))
        assert torch.allclose(x[:, 0], exact, atol=1e-4 * math.sqrt(law.variance))


def test_which_laws_have_steps() -> None:
    def kind(law: object, columns: int = 1) -> type:
        return type(score_map(law, lambda raw: double([[float(v)] * columns for v in raw])))  # type: ignore[arg-type]

    assert kind(Uniform(0, 1)) is SmoothScores
    assert kind(Learned(Uniform(0, 1)).updated([0.5])) is SmoothScores
    assert kind(Empirical([1, 2, 3])) is SmoothScores
    assert kind(Empirical([1, 2, 3]), columns=2) is StepScores
    assert kind(Empirical([1, 2] * 5)) is StepScores
    assert kind(Discrete([1, 2, 3])) is StepScores
    assert kind(Learned(Discrete([1, 2, 3]))) is StepScores


def test_bounds_between_values_lie_between_theirs() -> None:
    law = Discrete([1, 2, 4], [0.2, 0.5, 0.3])
    for sign in (1.0, -1.0):
        scores = score_map(law, lambda raw, sign=sign: sign * double(raw).unsqueeze(-1))  # type: ignore[misc]
        assert isinstance(scores, StepScores)
        lower, upper = scores.bounds(sign * double([[1.0], [2.0], [3.0], [4.0], [9.0]]))
        inner = norm.ppf([0.2, 0.7])
        assert lower.tolist() == pytest.approx([-9, inner[0], inner.mean(), inner[1], inner[1]])
        assert upper.tolist() == pytest.approx([inner[0], inner[1], (inner[1] + 9) / 2, 9, 9])


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 9, 11, 100])
def test_scores_of_a_sample_increase_over_its_range(size: int) -> None:
    values = [i**2 for i in range(size)]
    scores = score_map(Empirical(values), lambda raw: -torch.tensor(raw).double().unsqueeze(-1))
    x = -torch.linspace(-1.0, size**2, 300, dtype=torch.double).unsqueeze(-1)
    found = scores.score(x) if isinstance(scores, SmoothScores) else scores.bounds(x)[0]
    assert bool((found.diff() >= 0).all())
    assert float(found[-1] + found[0]) == pytest.approx(0.0, abs=1e-9) or size == 1
    assert float(found[-1]) == pytest.approx(norm.ppf(1 - 0.5 / size)) or size == 1

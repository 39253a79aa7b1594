"""The theory's beta."""

from __future__ import annotations

import math

import pytest
import torch

from ax_costaware.methods import TheoreticalBeta
from ax_costaware.models import FixedHyperparameterGP, information_gain


@pytest.mark.parametrize(
    ("norm_bound", "noise_std", "delta", "gain", "m", "a", "b"),
    [
        (2.0, 0.1, 0.1, 0.0, 7, 80, 140),
        (0.0, 1.0, 0.5, 3.0, 1, 4, 4),
        (1, 0.5, 0.05, 12, 1023, 1024 / 0.05, 2046 / 0.05),
    ],
)
def test_theorems(
    norm_bound: float, noise_std: float, delta: float, gain: float, m: int, a: float, b: float
) -> None:
    for theorem, events in (("4.1", a), ("4.4", b)):
        beta = TheoreticalBeta(norm_bound, noise_std, delta, theorem)(gain, m)
        expected = norm_bound + noise_std * math.sqrt(2 * (gain + 1 + math.log(events)))
        assert beta == pytest.approx(expected)


def test_bound_of_lemma_a_4() -> None:
    """With the noise variance 1 + 2 / T, functions of norm B stay within beta * sigma."""
    T, d, m, delta, noise_std = 30, 1, 3, 0.1, 0.1
    rng = torch.Generator().manual_seed(0)
    grid = torch.linspace(0, 1, 101).double().unsqueeze(-1)
    for _ in range(20):
        X, centers = (torch.rand(n, d, generator=rng).double() for n in (T, 8))
        K = (-0.5 * ((centers - centers.T) / 0.2) ** 2).exp()
        weights = torch.randn(8, generator=rng).double()
        norm = float((weights @ K @ weights).sqrt())
        f = lambda x: (-0.5 * ((x - centers.T) / 0.2) ** 2).exp() @ weights  # noqa: B023, E731
        y = f(X) + noise_std * torch.randn(T, generator=rng).double()
        model = FixedHyperparameterGP(X, y.unsqueeze(-1), noise_variance=1 + 2 / T).eval()
        posterior = model.posterior(grid)
        k = (-0.5 * ((X - X.T) / 0.2) ** 2).exp()
        gain = 0.5 * float(torch.logdet(torch.eye(T) + k / (1 + 2 / T)))
        assert information_gain(model) == pytest.approx(gain)
        beta = TheoreticalBeta(norm, noise_std, delta)(gain, m)
        error = (posterior.mean.squeeze(-1) - f(grid)).abs()
        assert (error <= beta * posterior.variance.sqrt().squeeze(-1)).all()


def test_it_is_a_value() -> None:
    beta = TheoreticalBeta(1, 2)
    assert beta == eval(repr(beta)) == TheoreticalBeta(1.0, 2.0, delta=0.1)
    assert hash(beta) == hash(TheoreticalBeta(1.0, 2.0))

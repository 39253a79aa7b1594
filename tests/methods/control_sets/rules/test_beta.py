"""The theory's beta."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from ax_costaware.exceptions import InputError
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


def test_equality_and_repr() -> None:
    assert TheoreticalBeta(1, 1) == TheoreticalBeta(1.0, 1.0, delta=0.1)
    assert repr(TheoreticalBeta(1, 2)) == (
        "TheoreticalBeta(norm_bound=1.0, noise_std=2.0, delta=0.1, theorem='4.1')"
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"norm_bound": -1}, r"norm_bound=-1: expected a finite number >= 0\."),
        ({"norm_bound": math.inf}, r"norm_bound=inf: expected a finite number >= 0\."),
        ({"noise_std": 0}, r"noise_std=0: expected a finite number > 0\."),
        ({"noise_std": "1"}, r"noise_std='1': expected a finite number > 0\."),
        ({"delta": 0}, r"delta=0: expected a number strictly between 0 and 1\."),
        ({"delta": 1.0}, r"delta=1\.0: expected a number strictly between 0 and 1\."),
        ({"theorem": "4.3"}, r"theorem='4.3': expected one of"),
        ({"delta": math.nan}, r"delta=nan: expected a number strictly between 0 and 1\."),
    ],
)
def test_refuses(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        TheoreticalBeta(**{"norm_bound": 1.0, "noise_std": 1.0, **changes})


@pytest.mark.parametrize(
    ("gain", "m", "message"),
    [
        (-0.1, 3, r"information_gain=-0\.1: expected a finite number >= 0\."),
        (math.nan, 3, r"information_gain=nan: expected a finite number >= 0\."),
        (1.0, 0, r"num_control_sets=0: expected an integer >= 1\."),
    ],
)
def test_refuses_to_be_called_with(gain: float, m: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        TheoreticalBeta(1.0, 1.0)(gain, m)

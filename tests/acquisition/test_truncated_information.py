"""The information of a truncation against references in many digits and by plain quadrature."""

from __future__ import annotations

import math
from itertools import pairwise

import mpmath
import pytest
import torch
from scipy.integrate import quad
from scipy.special import log_ndtr
from torch import Tensor

from ax_costaware.acquisition.standard_normal import (
    noisy_truncated_information,
    truncated_information,
)
from tests.repeats import mostly_slow

GAMMAS = (-1e4, -1e3, -40.0, -25.1, -24.9, -5.0, -1.1, -0.5, 0.0, 1e-9, 0.4, 1.0, 3.0, 8.0, 20.0)


def double(value: float) -> Tensor:
    return torch.tensor(value, dtype=torch.double)


def exact(gamma: float) -> tuple[float, float]:
    """Value and slope in 500 digits."""
    with mpmath.workdps(500):
        x = mpmath.mpf(gamma)
        cdf = mpmath.erfc(-x / mpmath.sqrt(2)) / 2
        hazard = mpmath.npdf(x) / cdf
        value = x * hazard / 2 - mpmath.log(cdf)
        return float(value), float(-hazard / 2 * (1 + x * x + x * hazard))


def by_quadrature(gamma: float, rho2: float) -> float:
    """The form of the paper's appendix A, by adaptive quadrature."""
    rho, s = math.sqrt(rho2), math.sqrt(1 - rho2)
    hazard = math.exp(-(gamma**2) / 2 - float(log_ndtr(gamma))) / math.sqrt(2 * math.pi)
    mean, sd = -rho * hazard, math.sqrt(1 - rho2 * hazard * (gamma + hazard))

    def integrand(t: float) -> float:
        log_cdf = float(log_ndtr((gamma - rho * t) / s))
        log_density = -t * t / 2 - 0.5 * math.log(2 * math.pi) + log_cdf - float(log_ndtr(gamma))
        return math.exp(log_density) * log_cdf

    edges = sorted(
        {mean + sd * k for k in (-16, -8, -4, -2, 0, 2, 4, 8, 12)}
        | {(gamma + s * k) / rho for k in (-6, -2, 0, 2, 6)}
    )
    inside = [edge for edge in edges if mean - 16 * sd <= edge <= mean + 12 * sd]
    parts = [quad(integrand, a, b, epsabs=1e-13, epsrel=1e-12)[0] for a, b in pairwise(inside)]
    return 0.5 * rho2 * gamma * hazard + float(sum(parts)) - float(log_ndtr(gamma))


@pytest.mark.parametrize("gamma", GAMMAS)
def test_without_noise_in_many_digits(gamma: float) -> None:
    x = double(gamma).requires_grad_()
    value = truncated_information(x)
    value.backward()
    expected, slope = exact(gamma)
    assert float(value.detach()) == pytest.approx(expected, rel=1e-13, abs=0)
    assert x.grad is not None
    assert float(x.grad) == pytest.approx(slope, rel=1e-9, abs=0)


@pytest.mark.parametrize("rho2", [1e-3, 0.05, 0.3, 0.7, 0.95, 0.999])
@pytest.mark.parametrize("gamma", [-30.0, -8.0, -2.0, -0.3, 0.0, 0.6, 1.5, 3.0, 6.0])
def test_with_noise_by_quadrature(gamma: float, rho2: float) -> None:
    value = noisy_truncated_information(double(gamma), double(rho2))
    assert float(value) == pytest.approx(by_quadrature(gamma, rho2), rel=1e-8, abs=1e-10)


@pytest.mark.parametrize("gamma", mostly_slow([-200.0, -3.0, 0.5, 4.0], [-200.0, 0.5]))
@pytest.mark.parametrize("rho2", [1e-9, 9.9e-5, 1.01e-4, 1 - 1e-9])
def test_with_noise_in_many_digits(gamma: float, rho2: float) -> None:
    with mpmath.workdps(40):
        x, share = mpmath.mpf(gamma), mpmath.mpf(rho2)
        rho, s = mpmath.sqrt(share), mpmath.sqrt(1 - share)

        def cdf(u: mpmath.mpf) -> mpmath.mpf:
            return mpmath.erfc(-u / root) / 2

        root = mpmath.sqrt(2)
        of_all = cdf(x)

        def integrand(t: mpmath.mpf) -> mpmath.mpf:
            below = cdf((x - rho * t) / s)
            return mpmath.npdf(t) * below / of_all * mpmath.log(below)

        hazard = mpmath.npdf(x) / of_all
        mean, sd = -rho * hazard, mpmath.sqrt(1 - share * hazard * (x + hazard))
        edges = {mean + sd * k for k in (-18, -12, -8, -5, -3, -1.5, 0, 1.5, 3, 5, 8, 12)}
        edges |= {(x + s * k) / rho for k in (-8, -4, -2, -1, 0, 1, 2, 4, 8)}
        expected = (
            share * x * hazard / 2 + mpmath.quad(integrand, sorted(edges)) - mpmath.log(of_all)
        )
    value = noisy_truncated_information(double(gamma), double(rho2))
    assert float(value) == pytest.approx(float(expected), rel=1e-8, abs=0)


def test_gradients() -> None:
    gamma = torch.tensor([-60.0, -26, -24, -3, -0.9, 0, 0.3, 2, 7], dtype=torch.double)
    assert torch.autograd.gradcheck(truncated_information, (gamma.requires_grad_(),))
    for share in (2e-5, 3e-3, 0.4, 0.97):
        rho2 = torch.full_like(gamma, share).requires_grad_()
        assert torch.autograd.gradcheck(
            noisy_truncated_information, (gamma, rho2), eps=1e-7, rtol=1e-4
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.double])
def test_extremes_are_finite_and_have_finite_gradients(dtype: torch.dtype) -> None:
    sizes = torch.logspace(-12, 37, 200, dtype=dtype)
    gamma = torch.cat([sizes, -sizes, torch.tensor([0, math.inf, -math.inf], dtype=dtype)])
    gamma.requires_grad_()
    rho2 = torch.tensor([0.0, 1e-30, 1e-4, 0.5, 1 - 1e-7, 1.0], dtype=dtype).unsqueeze(-1)
    rho2.requires_grad_()
    for value in (truncated_information(gamma), noisy_truncated_information(gamma, rho2)):
        assert value.dtype == dtype
        assert bool(torch.isfinite(value).all())
        gradients = torch.autograd.grad(
            value.sum(), (gamma, rho2), allow_unused=True, retain_graph=True
        )
        assert all(bool(torch.isfinite(g).all()) for g in gradients if g is not None)


def test_single_precision_and_shapes() -> None:
    gamma = torch.tensor([[-3.0], [0.5]])
    rho2 = torch.tensor([0.0, 0.2, 1.0])
    values = noisy_truncated_information(gamma, rho2)
    assert values.shape == (2, 3)
    assert torch.allclose(
        values.double(), noisy_truncated_information(gamma.double(), rho2.double())
    )
    assert truncated_information(gamma).shape == gamma.shape
    assert math.isnan(float(truncated_information(double(math.nan))))

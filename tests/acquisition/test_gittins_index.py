"""The Gittins index of a Gaussian box against 60-digit arithmetic, quadrature and differences."""

from __future__ import annotations

import math

import mpmath
import pytest
import torch
from torch import Tensor

from ax_costaware.acquisition import gittins_index
from ax_costaware.acquisition.gittins_index import _solve, gittins_index_of_log_cost

DIGITS = 60


def exact_z(v: mpmath.mpf, near: float) -> mpmath.mpf:
    """The root of ``log(phi(z) + z Phi(z)) = log v`` in high precision."""
    with mpmath.workdps(DIGITS):
        log_v = mpmath.log(v)

        def gap(z: mpmath.mpf) -> mpmath.mpf:
            return mpmath.log(mpmath.npdf(z) + z * mpmath.ncdf(z)) - log_v

        start = mpmath.mpf(near)
        return mpmath.findroot(gap, (start, start * (1 + 1e-6) + 1e-9), tol=1e-40)


def geometric(lowest: float, highest: float, count: int) -> list[float]:
    """Numbers from ``lowest`` to ``highest`` with equal ratios."""
    steps = torch.linspace(math.log(lowest), math.log(highest), count, dtype=torch.double)
    return [math.exp(s) for s in steps.tolist()]


def doubles(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.double)


# Where the root crosses zero, at v = 0.3989, a relative error is the hardest.
VALUES = [*geometric(1e-300, 1e6, 60), *geometric(0.3, 0.5, 20), 0.4, 1.0]


def test_index_to_rounding() -> None:
    for v in VALUES:
        mean, sigma = 0.7, 1.3
        index = float(gittins_index(doubles(mean), doubles(sigma), doubles(v * sigma)))
        with mpmath.workdps(DIGITS):
            z = exact_z(mpmath.mpf(v * sigma) / mpmath.mpf(sigma), float((mean - index) / sigma))
            exact = mpmath.mpf(mean) - mpmath.mpf(sigma) * z
        assert float(abs(index - exact)) <= 1e-14 * (1 + abs(float(exact)) + v), v


def test_gradients_against_high_precision_differences() -> None:
    for v in [*geometric(1e-300, 1e6, 24), 0.39, 0.4, 0.41]:
        sigma = doubles(1.3).requires_grad_()
        cost = doubles(1.3 * v).requires_grad_()
        mean = doubles(0.7).requires_grad_()
        gittins_index(mean, sigma, cost).sum().backward()
        with mpmath.workdps(DIGITS):
            s, c = (mpmath.mpf(x.item()) for x in (sigma, cost))
            near = float(_solve((cost / sigma).log().detach()))

            def index(s: mpmath.mpf, c: mpmath.mpf, near: float = near) -> mpmath.mpf:
                return -s * exact_z(c / s, near)

            step = mpmath.mpf(10) ** -15
            by_sigma = (index(s * (1 + step), c) - index(s * (1 - step), c)) / (2 * step * s)
            by_cost = (index(s, c * (1 + step)) - index(s, c * (1 - step))) / (2 * step * c)
        assert mean.grad is not None
        assert float(mean.grad) == 1.0
        assert sigma.grad is not None
        assert cost.grad is not None
        # At large costs the true slope underflows.
        assert float(sigma.grad) == pytest.approx(float(by_sigma), rel=1e-9, abs=1e-14), v
        assert float(cost.grad) == pytest.approx(float(by_cost), rel=1e-9), v


def test_gradcheck_over_both_branches_and_broadcasting() -> None:
    mean = torch.linspace(-1, 1, 5, dtype=torch.double).requires_grad_()
    sigma = torch.rand(4, 1, dtype=torch.double).add(0.1).requires_grad_()
    cost = doubles(1e-12, 1e-3, 0.3, 2.0).reshape(4, 1).requires_grad_()
    # Relative steps, since the costs differ by twelve orders of magnitude.
    assert torch.autograd.gradcheck(
        lambda m, s, log_cost: gittins_index(m, s, log_cost.exp()),
        (mean, sigma, cost.detach().log().requires_grad_()),
    )
    assert gittins_index(mean, sigma, cost).shape == (4, 5)


def test_everything_is_finite_in_double_precision() -> None:
    costs = doubles(*geometric(1e-300, 1e300, 200)).requires_grad_()
    for deviation in (0.0, 1e-300, 1e-150, 1e-8, 1.0, 1e8, 1e150):
        sigma = torch.full_like(costs, deviation).requires_grad_()
        index = gittins_index(torch.zeros_like(costs), sigma, costs)
        by_sigma, by_cost = torch.autograd.grad(index.sum(), (sigma, costs))
        assert bool(torch.isfinite(index).all()), deviation
        assert bool(torch.isfinite(by_sigma).all()), deviation
        # Below a ratio of 1e-306 the slope itself, 1 / Phi, is beyond the largest number.
        representable = costs.detach() >= 1e-300 * max(deviation, 1.0)
        assert bool(torch.isfinite(by_cost[representable]).all()), deviation


def test_certain_boxes() -> None:
    sigma = doubles(0.0).requires_grad_()
    cost = doubles(0.3).requires_grad_()
    index = gittins_index(doubles(1.0), sigma, cost)
    index.sum().backward()
    assert index.item() == pytest.approx(0.7, rel=1e-15)
    assert sigma.grad is not None
    assert cost.grad is not None
    assert float(sigma.grad) == 0.0
    assert float(cost.grad) == pytest.approx(-1.0, rel=1e-12)
    near = gittins_index(doubles(1.0), doubles(1e-9), doubles(0.3))
    assert float(near) == pytest.approx(0.7, rel=1e-12)


def test_bad_elements_leave_the_others_alone() -> None:
    cost = doubles(0.1, -1.0, math.inf, math.nan, 0.0, 0.2)
    sigma = doubles(1.0, 1.0, 1.0, 1.0, 1.0, -1.0)
    index = gittins_index(torch.zeros(6, dtype=torch.double), sigma, cost)
    alone = gittins_index(doubles(0.0), doubles(1.0), doubles(0.1))
    assert torch.equal(index[:1], alone)
    assert index[[1, 3, 5]].isnan().all()
    assert index[[2, 4]].tolist() == [-math.inf, math.inf]


def test_single_precision() -> None:
    cost = torch.tensor(geometric(1e-36, 1e6, 60)).requires_grad_()
    mean, sigma = torch.zeros_like(cost), torch.ones_like(cost).requires_grad_()
    index = gittins_index(mean, sigma, cost)
    assert index.dtype == torch.float32
    exact = gittins_index(mean.double(), sigma.detach().double(), cost.detach().double())
    assert torch.allclose(index.double(), exact, rtol=1e-6)
    for gradient in torch.autograd.grad(index.sum(), (sigma, cost)):
        assert bool(torch.isfinite(gradient).all())
    # A number that single precision takes for zero.
    tiny = gittins_index(torch.zeros(1), torch.ones(1), 1e-50)
    assert float(tiny) == pytest.approx(float(gittins_index(doubles(0), doubles(1), 1e-50)))


def test_from_the_logarithm_of_a_cost_beyond_all_numbers() -> None:
    """The two regimes of tiny costs meet, and the leading term is right where no number is."""
    for log_cost in (-1e3, -1e5, -0.99e7, -1.01e7, -1e9):
        index = float(gittins_index_of_log_cost(doubles(0.0), doubles(1.0), doubles(log_cost)))
        with mpmath.workdps(DIGITS):
            w = mpmath.mpf(-2 * log_cost) - mpmath.log(2 * mpmath.pi)
            z_squared = w
            for _ in range(50):
                z_squared = w - 2 * mpmath.log(z_squared) + 2 * mpmath.log1p(-3 / z_squared)
        assert index == pytest.approx(float(mpmath.sqrt(z_squared)), rel=1e-5), log_cost
    first, second = gittins_index_of_log_cost(
        doubles(0.0), doubles(1.0), doubles(-1e7 + 1, -1e7 - 1)
    ).tolist()
    assert 0 < second - first < 1e-3


def test_means_that_are_whole_numbers_are_no_reason_to_round() -> None:
    whole = gittins_index(torch.tensor([1, 2]), torch.tensor([1.0, 1.0]), 0.1)
    assert torch.equal(whole, gittins_index(doubles(1.0, 2.0), doubles(1.0, 1.0), 0.1))

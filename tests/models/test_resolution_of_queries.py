"""Queries with a resolution of their own: kernels against quadrature, gradients, and decisions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from gpytorch.kernels import MaternKernel, RBFKernel, ScaleKernel
from torch import Tensor

from ax_costaware.laws import Conditional, GaussianConditional, UniformBoxConditional
from ax_costaware.models import AverageKernel

LENGTHSCALE = 0.3
BOX = UniformBoxConditional("delta", (0,), (1,), "keep")
CLIPPED = UniformBoxConditional("delta", (0,), (1,), "clip")
NORMAL = GaussianConditional(((1.0,),), standard_deviation="delta")
QUERIES = torch.tensor([[0.2, 0.3], [0.5, 0.05], [0.9, 0.4], [0.4, 1.7]], dtype=torch.double)


def kernel_of(conditional: Conditional, kernel: Any = None) -> AverageKernel:
    if kernel is None:
        kernel = ScaleKernel(RBFKernel()).double()
        kernel.base_kernel.lengthscale, kernel.outputscale = LENGTHSCALE, 1.7
    return AverageKernel(kernel, conditional)


def covariance(kernel: AverageKernel, A: Tensor) -> Tensor:
    found: Tensor = kernel(kernel.query_rows(A)).to_dense()
    return found


def quadrature(conditional: Conditional, kernel: Any, A: Tensor) -> Tensor:
    """Averages of the kernel by 400 midpoints of equal probability for each query."""
    u = (torch.arange(400, dtype=torch.double) + 0.5) / 400
    standard = (
        2 * u - 1 if isinstance(conditional, UniformBoxConditional) else torch.special.ndtri(u)
    )
    nodes = A[:, :1] + A[:, 1:] * standard
    if conditional is CLIPPED:
        nodes = nodes.clamp(0, 1)
    dense = kernel(nodes.reshape(-1, 1)).to_dense().detach()
    return dense.reshape(len(A), 400, len(A), 400).mean(dim=(1, 3))


@pytest.mark.parametrize("conditional", [BOX, CLIPPED, NORMAL])
@pytest.mark.parametrize("smooth", [True, False])
def test_kernels_equal_quadrature(conditional: Conditional, smooth: bool) -> None:
    made = kernel_of(conditional, None if smooth else MaternKernel(nu=2.5).double())
    if not smooth:  # joint nodes take standard deviations up to a length-scale
        made.base_kernel.lengthscale = 2.0
    expected = quadrature(conditional, made.base_kernel, QUERIES)
    torch.testing.assert_close(covariance(made, QUERIES), expected, rtol=0, atol=3e-3)


def test_kernels_have_their_closed_forms() -> None:
    (x, y), (s, t) = (torch.meshgrid(column, column, indexing="ij") for column in QUERIES.T)
    total = LENGTHSCALE**2 + s.square() + t.square()
    normal = 1.7 * LENGTHSCALE / total.sqrt() * torch.exp(-0.5 * (x - y).square() / total)
    torch.testing.assert_close(covariance(kernel_of(NORMAL), QUERIES), normal, rtol=0, atol=1e-7)

    def twice_integrated(z: Tensor) -> Tensor:
        scaled = z / (math.sqrt(2) * LENGTHSCALE)
        rise = z * math.sqrt(math.pi / 2) * LENGTHSCALE * torch.erf(scaled)
        return rise + LENGTHSCALE**2 * torch.exp(-(scaled**2))

    ends = [i * j * twice_integrated(x + i * s - y - j * t) for i in (-1, 1) for j in (-1, 1)]
    box = -1.7 * sum(ends) / (4 * s * t)
    torch.testing.assert_close(covariance(kernel_of(BOX), QUERIES), box, rtol=0, atol=1e-7)


@pytest.mark.parametrize("conditional", [BOX, CLIPPED, NORMAL])
def test_gradients_are_those_of_finite_differences(conditional: Conditional) -> None:
    kernel = kernel_of(conditional).requires_grad_(False)
    A = QUERIES.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda A: covariance(kernel, A), (A,))


def test_columns_may_have_resolutions_of_their_own() -> None:
    box = UniformBoxConditional(("high", 0.1, "high", "wide"), outside="keep")
    assert (box.num_latent_columns, box.num_query_columns) == (4, 6)
    assert box.query_order(["wide", "a", "b", "high", "c", "d"]) == (*"abcd", "high", "wide")
    rule = box.column_rule(torch.tensor([[0, 0, 0, 0, 0.5, 2.0]], dtype=torch.double))
    assert rule is not None
    spread = (rule.weights * rule.nodes.square()).sum(dim=-2)
    halves = np.array([0.5, 0.1, 0.5, 2.0])
    assert spread[0].tolist() == pytest.approx(halves**2 / 3)

"""Functionals over two dependent columns that are clipped, against integrals."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from botorch.models.transforms.input import Normalize, Warp
from botorch.sampling.pathwise.features import gen_kernel_features
from gpytorch.kernels import Kernel, RBFKernel, ScaleKernel
from scipy.special import ndtr
from torch import Tensor

from ax_costaware.laws import GaussianConditional
from ax_costaware.models import AverageKernel
from ax_costaware.models.functionals import JointAverages
from ax_costaware.models.grid_averages import GridAverages
from tests.repeats import mostly_slow

LOWER, UPPER = (0.0, -1.0), (1.0, 2.0)
QUERIES = torch.tensor(
    [[0.5, 0.5], [0.0, -1.0], [1.0, 0.2], [0.05, 1.9], [1.4, -1.6]], dtype=torch.double
)
POINTS = torch.tensor([[0.2, 1.0], [0.0, 2.0], [0.5, 0.5], [1.0, -1.0]], dtype=torch.double)


def rbf(first: float, second: float) -> Kernel:
    kernel = ScaleKernel(RBFKernel(ard_num_dims=2)).double()
    kernel.outputscale = 2.0
    kernel.base_kernel.lengthscale = torch.tensor([first, second], dtype=torch.double)
    return kernel.requires_grad_(False)


def law(deviation: float, correlation: float, num_nodes: int = 16) -> GaussianConditional:
    other = 3 * deviation
    covariance = (
        (deviation**2, correlation * deviation * other),
        (correlation * deviation * other, other**2),
    )
    return GaussianConditional(
        np.eye(2),
        covariance=covariance,
        lower=LOWER,
        upper=UPPER,
        outside="clip",
        num_nodes=num_nodes,
    )


def integral(conditional: GaussianConditional, kernel: Kernel, query: Tensor, at: Tensor) -> float:
    """The covariance of an average with a point: closed in one column, composite in the other."""
    ((variance, covariance), (_, other)) = np.array(conditional.covariance)
    deviation, slope = math.sqrt(variance), covariance / math.sqrt(variance)
    rest = math.sqrt(max(other - slope**2, 1e-24))
    nodes, weights = np.polynomial.legendre.leggauss(20)
    ends = np.linspace(-9, 9, 2001)
    half = (ends[1] - ends[0]) / 2
    t = ((ends[:-1, None] + ends[1:, None]) / 2 + nodes * half).ravel()
    mass = np.tile(weights * half, 2000) * np.exp(-0.5 * t**2) / math.sqrt(2 * math.pi)
    first = np.clip(float(query[0]) + deviation * t, LOWER[0], UPPER[0])
    mean = float(query[1]) + slope * t
    h1, h2 = kernel.base_kernel.lengthscale[0].tolist()
    z1, z2 = at.tolist()
    total = h2**2 + rest**2
    middle, width = (mean * h2**2 + z2 * rest**2) / total, rest * h2 / math.sqrt(total)
    low, high = LOWER[1], UPPER[1]
    inside = ndtr((high - middle) / width) - ndtr((low - middle) / width)
    second = h2 / math.sqrt(total) * np.exp(-0.5 * (mean - z2) ** 2 / total) * inside
    second += ndtr((low - mean) / rest) * math.exp(-0.5 * ((low - z2) / h2) ** 2)
    second += ndtr((mean - high) / rest) * math.exp(-0.5 * ((high - z2) / h2) ** 2)
    correlation = np.exp(-0.5 * ((first - z1) / h1) ** 2) * second
    return float(kernel.outputscale) * float(mass @ correlation)


@pytest.mark.parametrize("deviation", [0.01, 0.1, 0.5])
@pytest.mark.parametrize("correlation", mostly_slow([-0.6, 0.3, 0.95, 1.0], [-0.6, 1.0]))
@pytest.mark.parametrize("lengthscales", [(0.3, 1.0), (0.08, 6.0), (0.05, 0.12)])
def test_covariances_with_points_are_integrals(
    deviation: float, correlation: float, lengthscales: tuple[float, float]
) -> None:
    conditional, covar = law(deviation, correlation), rbf(*lengthscales)
    kernel = AverageKernel(covar, conditional)
    rows = kernel.query_rows(QUERIES)
    assert isinstance(kernel.averages(rows), GridAverages)
    found = kernel(rows, kernel.point_rows(POINTS)).to_dense()
    expected = [[integral(conditional, covar, a, x) for x in POINTS] for a in QUERIES]
    torch.testing.assert_close(found, torch.tensor(expected).to(found), rtol=0, atol=3e-6)


SCALES = [(0.3, 1.0), (0.06, 0.5)]


@pytest.mark.parametrize("lengthscales", mostly_slow(SCALES, SCALES[:1]))
def test_covariances_of_averages_are_sums_over_pairs_of_many_nodes(
    lengthscales: tuple[float, float],
) -> None:
    covar = rbf(*lengthscales)
    kernel = AverageKernel(covar, law(0.1, 0.7))
    rows = kernel.query_rows(QUERIES)
    found = kernel(rows).to_dense()
    torch.testing.assert_close(kernel(rows, diag=True), found.diagonal())
    nodes = law(0.1, 0.7, num_nodes=24).pair_rule(QUERIES)
    assert nodes is not None
    first = nodes.first.unsqueeze(-1).expand_as(nodes.second)
    joint = torch.stack([first, nodes.second], dim=-1).flatten(-3, -2)
    weights = (nodes.first_weights.unsqueeze(-1) * nodes.second_weights).flatten(-2)
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(len(QUERIES)).double())
    # The average over one law of the covariances with the points of the other.
    dense = kernel(rows, kernel.point_rows(joint.flatten(0, 1))).to_dense()
    expected = (dense.unflatten(-1, weights.shape) * weights).sum(dim=-1)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)


def test_fourier_features_are_averages() -> None:
    covar, conditional = rbf(0.3, 1.0), law(0.1, 0.7)
    kernel = AverageKernel(covar, conditional)
    features = gen_kernel_features(covar, num_inputs=2, num_outputs=64)
    found = kernel.averages(kernel.query_rows(QUERIES)).features(covar, features)
    nodes = conditional.pair_rule(QUERIES)
    assert nodes is not None
    joint = torch.stack([nodes.first.unsqueeze(-1).expand_as(nodes.second), nodes.second], dim=-1)
    weights = nodes.first_weights.unsqueeze(-1) * nodes.second_weights
    expected = JointAverages(joint.flatten(-3, -2), weights.flatten(-2)).features(covar, features)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


def test_gradients() -> None:
    kernel = AverageKernel(rbf(0.3, 1.0), law(0.1, 0.7))
    A = QUERIES[[0, 3]].clone().requires_grad_()
    fixed = kernel.query_rows(QUERIES)

    def covariances(A: Tensor) -> tuple[Tensor, Tensor]:
        rows = kernel.query_rows(A)
        return kernel(rows, fixed).to_dense(), kernel(rows, diag=True)

    assert torch.autograd.gradcheck(covariances, (A,))


def test_batches_and_transforms() -> None:
    conditional = law(0.1, 0.7)
    bounds = torch.tensor([LOWER, UPPER], dtype=torch.double)
    kernel = AverageKernel(rbf(0.3, 0.4), conditional, Normalize(2, bounds=bounds))
    plain = AverageKernel(rbf(0.3, 1.2), conditional)
    rows = kernel.query_rows(QUERIES)
    expected = plain(rows).to_dense()
    torch.testing.assert_close(kernel(rows).to_dense(), expected)
    batch = torch.stack([rows, rows.flip(0)])
    torch.testing.assert_close(kernel(batch).to_dense()[1].flip(0, 1), expected)
    assert kernel(rows[:0], rows).shape == (0, len(rows))
    warp = Warp(2, [0, 1], bounds=bounds, batch_shape=torch.Size([]))
    warped = AverageKernel(rbf(0.3, 1.2), conditional, warp)
    warped(rows).to_dense().sum().backward()
    assert warp.concentration0.grad is not None
    assert bool(warp.concentration0.grad.isfinite().all())

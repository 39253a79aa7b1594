"""Covariances of a kernel whose hyperparameters stay: GPyTorch's, gradients included."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gpytorch.kernels import Kernel, LinearKernel, MaternKernel, RBFKernel, ScaleKernel

from ax_costaware.models.kernels import FixedKernel, squared_distances


class Halved(MaternKernel):  # type: ignore[misc]
    def forward(self, *arguments: object, **options: object) -> torch.Tensor:
        halved: torch.Tensor = 0.5 * super().forward(*arguments, **options)
        return halved


@pytest.mark.parametrize(
    "kernel",
    [
        MaternKernel(2.5, ard_num_dims=3),
        ScaleKernel(MaternKernel(2.5)),
        ScaleKernel(MaternKernel(2.5, active_dims=(0, 2))),
        ScaleKernel(MaternKernel(2.5), active_dims=(0, 2)),
        ScaleKernel(MaternKernel(2.5), active_dims=(1,)) + MaternKernel(2.5),
        MaternKernel(1.5),
        RBFKernel(ard_num_dims=3),
        Halved(2.5),
        LinearKernel(),
        LinearKernel(ard_num_dims=3),
        LinearKernel(active_dims=(0, 2)) + MaternKernel(2.5, ard_num_dims=3),
    ],
    ids=[
        *("columns", "scaled", "some columns", "some columns of the scale", "and their sum"),
        *("3/2", "squared exponential", "subclass"),
        *("line", "line by columns", "sum"),
    ],
)
def test_they_are_gpytorchs(kernel: Kernel) -> None:
    kernel.double()
    generator = torch.Generator().manual_seed(0)
    for parameter in kernel.parameters():
        noise = torch.randn(parameter.shape, generator=generator, dtype=torch.double)
        parameter.data.add_(0.5 * noise)
    a = torch.rand(4, 3, 3, generator=generator, dtype=torch.double, requires_grad=True)
    b = torch.rand(5, 3, generator=generator, dtype=torch.double)
    b[1] = a[0, 1].detach()  # of no distance
    weights = torch.rand(4, 3, 5, generator=generator, dtype=torch.double)
    fixed = FixedKernel(kernel, 3)
    found, expected = fixed.covariances(a, b), kernel(a, b).to_dense()
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    slopes = [torch.autograd.grad((weights * each).sum(), a)[0] for each in (found, expected)]
    torch.testing.assert_close(*slopes, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(fixed.variances(a), kernel(a, diag=True), rtol=1e-12, atol=1e-12)


def test_a_sum_may_read_some_columns() -> None:
    kernel = (MaternKernel(2.5) + LinearKernel()).double()
    kernel.active_dims = torch.tensor([0, 2])
    X = torch.rand(4, 3, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    torch.testing.assert_close(FixedKernel(kernel, 3).covariances(X, X), kernel(X).to_dense())


def test_squared_distances_lose_nothing_to_cancellation() -> None:
    generator = torch.Generator().manual_seed(0)
    b = 100.0 * torch.rand(40, 16, generator=generator, dtype=torch.double)
    a = b[:30].reshape(5, 6, 16) + 1e-3 * torch.randn(5, 6, 16, generator=generator).double()
    found = squared_distances(a, b)
    assert found.shape == (5, 6, 40)
    exact = (a.numpy().astype(np.longdouble)[:, :, None] - b.numpy()[None, None]) ** 2
    error = np.abs(found.numpy() / exact.sum(axis=-1) - 1)
    # Of the nearest by products of matrices: 1e-8 and more.
    assert float(error.max()) < 1e-14
    assert torch.equal(squared_distances(b, b).diagonal(), torch.zeros(40).double())


@pytest.mark.parametrize(
    ("left", "right"),
    [((3, 2), (4, 2)), ((2, 3, 2), (4, 2)), ((2, 3, 2), (2, 4, 2)), ((3, 2), (2, 4, 2))],
)
def test_squared_distances_have_gradients_of_both(
    left: tuple[int, ...], right: tuple[int, ...]
) -> None:
    generator = torch.Generator().manual_seed(0)
    a, b = (
        torch.rand(shape, generator=generator, dtype=torch.double, requires_grad=True)
        for shape in (left, right)
    )
    assert torch.autograd.gradcheck(squared_distances, (a, b))

import pytest
import torch
from botorch.models.kernels import CategoricalKernel
from gpytorch.kernels import LinearKernel, MaternKernel, ProductKernel, RBFKernel, ScaleKernel

from ax_costaware.models import SeparableKernel


def _with_lengthscales(kernel, *values):
    kernel.lengthscale = torch.tensor([values], dtype=torch.double)
    return kernel


def _kernels():
    ard = _with_lengthscales(RBFKernel(ard_num_dims=3).double(), 0.1, 0.3, 2.0)
    scaled = ScaleKernel(_with_lengthscales(RBFKernel().double(), 0.4)).double()
    scaled.outputscale = 2.5
    categorical = ProductKernel(
        _with_lengthscales(RBFKernel(ard_num_dims=2, active_dims=[0, 1]).double(), 0.2, 0.5),
        _with_lengthscales(CategoricalKernel(active_dims=[2]).double(), 0.7),
    )
    matern = ProductKernel(
        *[
            _with_lengthscales(MaternKernel(nu=nu, active_dims=[i]).double(), 0.3 + i)
            for i, nu in enumerate((0.5, 1.5, 2.5))
        ]
    )
    nested = ScaleKernel(
        RBFKernel(active_dims=[1]).double() * ScaleKernel(RBFKernel(active_dims=[2]).double())
    ).double()
    return {
        "ard": ard,
        "scaled": scaled,
        "categorical": categorical,
        "matern": matern,
        "nested": nested,
    }


def _points(n, seed):
    points = torch.rand(n, 3, dtype=torch.double, generator=torch.Generator().manual_seed(seed))
    points[:, 2] = (3 * points[:, 2]).floor()
    return points


@pytest.mark.parametrize("name", list(_kernels()))
def test_the_product_of_all_columns_is_the_kernel(name):
    kernel = _kernels()[name]
    form = SeparableKernel.from_kernel(kernel, 3)
    x, z = _points(7, 0), _points(5, 1)
    mask = torch.ones(3, dtype=torch.double)
    product = form.outputscale * form.log_factor(x, z, mask).exp()
    assert torch.allclose(product, kernel(x, z).to_dense(), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", list(_kernels()))
def test_masked_parts_multiply_to_the_whole(name):
    kernel = _kernels()[name]
    form = SeparableKernel.from_kernel(kernel, 3)
    x, z = _points(4, 2), _points(6, 3)
    mask = torch.tensor([1.0, 0.0, 1.0], dtype=torch.double)
    parts = form.log_factor(x, z, mask) + form.log_factor(x, z, 1 - mask)
    whole = form.log_factor(x, z, torch.ones(3, dtype=torch.double))
    assert torch.allclose(parts, whole, atol=1e-12)


def test_a_mask_per_row_selects_columns_row_by_row():
    form = SeparableKernel.from_kernel(_kernels()["ard"], 3)
    x, z = _points(2, 4), _points(3, 5)
    masks = torch.tensor([[1.0, 0, 0], [0, 1, 1]], dtype=torch.double)
    rows = form.log_factor(x, z, masks)
    for row in range(2):
        assert torch.allclose(rows[row], form.log_factor(x[[row]], z, masks[row])[0])


def test_short_lengthscales_far_from_the_origin_lose_no_digits():
    kernel = _with_lengthscales(RBFKernel().double(), 1e-3)
    form = SeparableKernel.from_kernel(kernel, 1)
    z = 5.0 + 1e-3 * torch.rand(20, 1, dtype=torch.double)
    x = 5.0 + 1e-3 * torch.rand(10, 1, dtype=torch.double)
    exact = (-0.5 * ((x - z.mT) / kernel.lengthscale) ** 2).exp()
    assert torch.allclose(form.log_factor(x, z, torch.ones(1).double()).exp(), exact, atol=1e-9)


@pytest.mark.parametrize(
    "kernel",
    [
        MaternKernel(nu=2.5, ard_num_dims=3),
        ScaleKernel(LinearKernel()),
        RBFKernel() + RBFKernel(),
        RBFKernel(batch_shape=torch.Size([2])),
    ],
)
def test_other_kernels_are_not_called_products(kernel):
    assert SeparableKernel.from_kernel(kernel, 3) is None

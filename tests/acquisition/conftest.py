import pytest
import torch
from botorch.models import SingleTaskGP
from gpytorch.kernels import MaternKernel, RBFKernel, ScaleKernel

from ax_costaware.laws import TruncatedNormal, sobol_nodes


def _make_model(kernel="rbf", n=14, d=3, seed=0, lengthscale=0.35):
    """A GP with fixed hyperparameters on the unit cube."""
    generator = torch.Generator().manual_seed(seed)
    X = torch.rand(n, d, dtype=torch.double, generator=generator)
    Y = torch.sin(5 * X).sum(dim=-1, keepdim=True)
    base = {
        "rbf": RBFKernel(ard_num_dims=d),
        "matern": MaternKernel(nu=2.5, ard_num_dims=d),
    }[kernel]
    model = SingleTaskGP(X, Y, covar_module=ScaleKernel(base.double()).double())
    model.covar_module.base_kernel.lengthscale = lengthscale
    model.covar_module.outputscale = 1.3
    model.likelihood.noise = 0.01
    return model.eval()


@pytest.fixture
def make_model():
    return _make_model


@pytest.fixture
def model():
    return _make_model()


@pytest.fixture
def marginals():
    return [TruncatedNormal(0.5, 0.2, 0.0, 1.0)] * 3


@pytest.fixture
def rule(marginals):
    return sobol_nodes(marginals, 32)


@pytest.fixture
def bounds():
    return torch.tensor([[0.0] * 3, [1.0] * 3], dtype=torch.double)

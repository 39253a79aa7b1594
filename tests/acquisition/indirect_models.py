"""Small models of averages that the tests of entropy search over queries share."""

from __future__ import annotations

import math

import torch
from botorch.models.transforms.input import Normalize
from gpytorch.kernels import Kernel, RBFKernel, RQKernel, ScaleKernel
from torch import Tensor

from ax_costaware.laws import FiniteConditional, GaussianConditional, LearnedConditional
from ax_costaware.models import ConditionalMeanProcess, ExactPosterior

BOUNDS = torch.tensor([[-5.0, 0.0], [10.0, 15.0]], dtype=torch.double)
QUERY_BOUNDS = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)


def rbf(lengthscale: float = 0.3, outputscale: float = 2.0, d: int = 2) -> Kernel:
    kernel = ScaleKernel(RBFKernel(ard_num_dims=d)).double()
    kernel.base_kernel.lengthscale = torch.full((d,), lengthscale, dtype=torch.double)
    kernel.outputscale = torch.tensor(outputscale, dtype=torch.double)
    return kernel


def rational_quadratic() -> Kernel:
    """A kernel without Fourier features."""
    return RQKernel(ard_num_dims=2).double()


def hills(X: Tensor) -> Tensor:
    x, y = X[..., 0], X[..., 1]
    parabola = y - 5.1 / (4 * math.pi**2) * x.square() + 5 / math.pi * x - 6
    return -parabola.square() / 10 - (1 - 1 / (8 * math.pi)) * x.cos()


def indirect_model(
    n: int = 12, learned: bool = False, sign: float = 1.0, kernel: Kernel | None = None
) -> ConditionalMeanProcess:
    """Branin, about, seen through a map from the unit square."""
    generator = torch.Generator().manual_seed(0)
    A = torch.rand(n, 2, dtype=torch.double, generator=generator)
    conditional: GaussianConditional | LearnedConditional = GaussianConditional(
        ((15.0, 0.0), (0.0, 15.0)), (-5.0, 0.0), (0.5, 2.0), outside="keep"
    )
    if learned:
        pairs = torch.rand(60, 2, dtype=torch.double, generator=generator)
        noise = torch.randn(60, 2, dtype=torch.double, generator=generator)
        X = BOUNDS[0] + 15 * pairs + 0.7 * noise
        conditional = LearnedConditional(
            X.numpy(), pairs.numpy(), lengthscale=0.5, regularization=1e-3
        )
    return ConditionalMeanProcess(
        A,
        sign * hills(BOUNDS[0] + 15 * A).unsqueeze(-1),
        conditional,
        covar_module=rbf() if kernel is None else kernel,
        noise=0.1,
        latent_transform=Normalize(2, bounds=BOUNDS),
    )


def line_model(n: int = 4) -> ConditionalMeanProcess:
    """One column, in [0, 1] for points and queries alike."""
    A = torch.linspace(0.1, 0.9, n, dtype=torch.double).unsqueeze(-1)
    return ConditionalMeanProcess(
        A,
        (9 * A).sin(),
        GaussianConditional(((1.0,),), (0.0,), (0.003,), outside="keep"),
        covar_module=rbf(0.15, 1.0, d=1),
        noise=0.01,
        outcome_transform=None,
    )


def arms_model(
    points: tuple[tuple[float, ...], ...] = ((0.0,), (0.8,)),
    policies: tuple[tuple[float, ...], ...] = ((0.7, 0.3), (0.2, 0.8), (1.0, 0.0)),
    lengthscale: float = 0.6,
) -> ConditionalMeanProcess:
    """Arms that are played by chance: policies over them are what is queried."""
    return ConditionalMeanProcess(
        torch.tensor([[0.0], [1.0], [1.0]], dtype=torch.double)[: len(policies)],
        torch.tensor([[0.3], [-0.4], [-0.2]], dtype=torch.double)[: len(policies)],
        FiniteConditional(policies, points=points),
        covar_module=rbf(lengthscale, 1.3, d=1),
        noise=0.3,
        outcome_transform=None,
    )


def posterior_of(model: ConditionalMeanProcess) -> ExactPosterior:
    return ExactPosterior.of(model)

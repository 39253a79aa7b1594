"""A conditional mean process whose hyperparameters are given, not fitted.

For anybody who knows them from elsewhere: with hyperparameters fixed a run has no fitting noise,
and two runs on one data set agree to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from botorch.models.kernels import CategoricalKernel
from botorch.models.transforms.input import InputTransform
from gpytorch.kernels import Kernel, ProductKernel, RBFKernel, ScaleKernel
from gpytorch.means import ConstantMean
from gpytorch.mlls import MarginalLogLikelihood
from torch import Tensor

from ax_costaware.models.conditional_mean_process import ConditionalMeanProcess, Noise
from ax_costaware.queries.conditionals import Conditional


class FixedConditionalMeanProcess(ConditionalMeanProcess):
    """A ``ConditionalMeanProcess`` that BoTorch's model fitting leaves as it is.

    The kernel of the function is a squared-exponential one, or of an exponential in whether codes
    differ, where a column is one without an order.

    Args:
        train_queries: ``n x p`` queries.
        train_z: ``n x 1`` averages that were observed.
        conditional: The law of a point given a query, over ``d`` columns.
        lengthscale: Length-scale of every column, or ``d`` of them, after ``target_transform``.
        outputscale: Prior variance of the function, in its unit squared.
        noise_variance: Variance of the observation noise, where ``noise`` does not give it.
        mean: Prior mean of the function.
        noise: As for ``ConditionalMeanProcess``.
        target_transform: From points in raw units to the kernel's inputs.
        categorical: Columns of a point that are codes without an order.
        noise_of_query: As for ``ConditionalMeanProcess``.
    """

    def __init__(
        self,
        train_queries: Tensor,
        train_z: Tensor,
        conditional: Conditional,
        lengthscale: float | Sequence[float] = 0.2,
        outputscale: float = 1.0,
        noise_variance: float = 1e-4,
        mean: float = 0.0,
        noise: Noise | None = None,
        target_transform: InputTransform | None = None,
        categorical: Sequence[int] = (),
        noise_of_query: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        d = conditional.num_target_columns
        assert d is not None
        scales = torch.as_tensor(lengthscale, dtype=train_queries.dtype).expand(d)
        constant = ConstantMean().to(train_queries)
        constant.constant.data.fill_(mean)
        if noise is None or (isinstance(noise, Tensor) and bool(torch.isnan(noise).all())):
            noise = noise_variance
        super().__init__(
            train_queries,
            train_z,
            conditional,
            covar_module=_kernel(scales, outputscale, categorical).to(train_queries),
            noise=noise,
            target_transform=target_transform,
            mean_module=constant,
            outcome_transform=None,
            noise_of_query=noise_of_query,
        )
        self.requires_grad_(False)

    def custom_fit(self, mll: MarginalLogLikelihood, **_: Any) -> MarginalLogLikelihood:
        """What ``fit_gpytorch_mll`` calls instead of an optimiser: there is nothing to fit."""
        return mll.eval()


def _kernel(scales: Tensor, outputscale: float, categorical: Sequence[int]) -> ScaleKernel:
    numeric = [column for column in range(len(scales)) if column not in set(categorical)]
    parts: list[Kernel] = []
    if numeric:
        part = RBFKernel(ard_num_dims=len(numeric), active_dims=numeric if categorical else None)
        parts.append(_scaled(part, scales[numeric]))
    if categorical:
        part = CategoricalKernel(ard_num_dims=len(categorical), active_dims=list(categorical))
        parts.append(_scaled(part, scales[list(categorical)]))
    kernel = ScaleKernel(parts[0] if len(parts) == 1 else ProductKernel(*parts)).to(scales)
    # A Python float would go through single precision.
    kernel.outputscale = torch.tensor(outputscale).to(scales)
    return kernel


def _scaled(kernel: Kernel, scales: Tensor) -> Kernel:
    kernel = kernel.to(scales)
    kernel.lengthscale = scales
    return kernel

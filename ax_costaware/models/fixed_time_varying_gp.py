"""A GP over inputs and time whose hyperparameters are given, not fitted.

The kernel of ``TimeVaryingGP`` over a squared-exponential one, for anybody who knows the
hyperparameters from elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from botorch.models.transforms.input import InputTransform
from botorch.models.transforms.outcome import OutcomeTransform
from gpytorch.kernels import RBFKernel, ScaleKernel
from gpytorch.means import ConstantMean
from gpytorch.mlls import MarginalLogLikelihood
from torch import Tensor

from ax_costaware.models.time_varying_gp import TimeVaryingGP


class FixedTimeVaryingGP(TimeVaryingGP):
    """A ``TimeVaryingGP`` that BoTorch's model fitting leaves as it is.

    Args:
        train_X: ``n x (d + 1)`` inputs, the last column of them the time.
        train_Y: ``n x 1`` outcomes.
        train_Yvar: ``n x 1`` known noise variances; they replace ``noise_variance``.
        forgetting: Forgetting rate per unit of time, in (0, 1).
        lengthscale: Length-scale of every input beside the time, or ``d`` of them, after the input
            transform.
        outputscale: Prior variance of the function, after the outcome transform.
        noise_variance: Variance of the observation noise, after the outcome transform.
        mean: Prior mean of the function, after the outcome transform.
        input_transform: Applied to the inputs; it has to leave the time as it is.
        outcome_transform: Applied to the outcomes; none by default, so that hyperparameters are in
            raw units.
    """

    def __init__(
        self,
        train_X: Tensor,
        train_Y: Tensor,
        train_Yvar: Tensor | None = None,
        forgetting: float = 0.01,
        lengthscale: float | Sequence[float] = 0.2,
        outputscale: float = 1.0,
        noise_variance: float = 1e-4,
        mean: float = 0.0,
        input_transform: InputTransform | None = None,
        outcome_transform: OutcomeTransform | None = None,
    ) -> None:
        d = train_X.shape[-1] - 1
        kernel = ScaleKernel(RBFKernel(ard_num_dims=d)).to(train_X)
        # As tensors: GPyTorch rounds Python numbers to single precision.
        kernel.outputscale = train_X.new_tensor(outputscale)
        kernel.base_kernel.lengthscale = torch.as_tensor(lengthscale, dtype=train_X.dtype).expand(d)
        constant = ConstantMean().to(train_X)
        constant.constant.data.fill_(mean)
        super().__init__(
            train_X=train_X,
            train_Y=train_Y,
            train_Yvar=train_Yvar,
            covar_module=kernel,
            forgetting=forgetting,
            noise=noise_variance if train_Yvar is None else None,
            mean_module=constant,
            outcome_transform=outcome_transform,
            input_transform=input_transform,
        )
        self.requires_grad_(False)

    def custom_fit(self, mll: MarginalLogLikelihood, **_: Any) -> MarginalLogLikelihood:
        """What ``fit_gpytorch_mll`` calls instead of an optimiser: there is nothing to fit."""
        return mll.eval()

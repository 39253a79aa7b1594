r"""A GP with a squared-exponential kernel whose hyperparameters are given, not fitted.

The setting of Tay et al. 2023 (Section 5: a length-scale fixed on the unit cube, outputscale 1) and
of anybody who knows the hyperparameters from elsewhere: with them fixed a run has no fitting noise,
and two runs on one data set agree to rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from botorch.models import SingleTaskGP
from botorch.models.transforms.input import InputTransform
from botorch.models.transforms.outcome import OutcomeTransform
from botorch.utils.datasets import SupervisedDataset
from gpytorch.constraints import GreaterThan
from gpytorch.kernels import RBFKernel, ScaleKernel
from gpytorch.likelihoods import GaussianLikelihood
from gpytorch.means import ConstantMean
from gpytorch.mlls import MarginalLogLikelihood
from torch import Tensor


class FixedHyperparameterGP(SingleTaskGP):
    """A ``SingleTaskGP`` that BoTorch's model fitting leaves as it is.

    Args:
        train_X: ``n x d`` inputs.
        train_Y: ``n x 1`` outcomes.
        train_Yvar: ``n x 1`` known noise variances; they replace ``noise_variance``.
        lengthscale: Length-scale of every input, or ``d`` of them, after the input transform.
        outputscale: Prior variance of the function, after the outcome transform.
        noise_variance: Variance of the observation noise, after the outcome transform.
        mean: Prior mean of the function, after the outcome transform.
        input_transform: Applied to the inputs.
        outcome_transform: Applied to the outcomes; none by default, so that hyperparameters are in
            raw units.
    """

    def __init__(
        self,
        train_X: Tensor,
        train_Y: Tensor,
        train_Yvar: Tensor | None = None,
        lengthscale: float | Sequence[float] = 0.2,
        outputscale: float = 1.0,
        noise_variance: float = 1e-4,
        mean: float = 0.0,
        input_transform: InputTransform | None = None,
        outcome_transform: OutcomeTransform | None = None,
    ) -> None:
        d = train_X.shape[-1]
        kernel = ScaleKernel(RBFKernel(ard_num_dims=d)).to(train_X)
        kernel.outputscale = outputscale
        kernel.base_kernel.lengthscale = torch.as_tensor(lengthscale, dtype=train_X.dtype).expand(d)
        constant = ConstantMean().to(train_X)
        constant.constant.data.fill_(mean)
        likelihood = None
        if train_Yvar is None:
            # Half the value as the lower bound: the default one would refuse less than 1e-4.
            constraint = GreaterThan(
                noise_variance / 2, transform=None, initial_value=noise_variance
            )
            likelihood = GaussianLikelihood(noise_constraint=constraint).to(train_X)
        super().__init__(
            train_X=train_X,
            train_Y=train_Y,
            train_Yvar=train_Yvar,
            likelihood=likelihood,
            covar_module=kernel,
            mean_module=constant,
            input_transform=input_transform,
            outcome_transform=outcome_transform,
        )
        self.requires_grad_(False)

    @classmethod
    def construct_inputs(
        cls, training_data: SupervisedDataset, **hyperparameters: float | list[float]
    ) -> dict[str, Any]:
        """Constructor arguments from a data set and the hyperparameters, for Ax's surrogate."""
        return {**super().construct_inputs(training_data=training_data), **hyperparameters}

    def custom_fit(self, mll: MarginalLogLikelihood, **_: Any) -> MarginalLogLikelihood:
        """What ``fit_gpytorch_mll`` calls instead of an optimiser: there is nothing to fit."""
        return mll.eval()

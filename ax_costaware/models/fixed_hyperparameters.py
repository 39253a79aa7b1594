r"""Gaussian processes whose hyperparameters are given, not fitted.

Tay et al. 2023 fix the length-scale on the unit cube, with the output scale 1 (section 5). Without
fits, two runs on the same data agree to rounding. Kernels are squared-exponential, as in the paper,
or Matern 5/2.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
import torch
from botorch.models import SingleTaskGP
from botorch.models.kernels import CategoricalKernel
from botorch.models.transforms.input import InputTransform
from botorch.models.transforms.outcome import OutcomeTransform
from gpytorch.kernels import Kernel, MaternKernel, RBFKernel, ScaleKernel
from gpytorch.means import ConstantMean
from gpytorch.mlls import MarginalLogLikelihood
from torch import Tensor

from ax_costaware.argument_checks import (
    finite_number,
    numbers,
    one_of,
    plain_value,
    positive_number,
)
from ax_costaware.laws import Conditional
from ax_costaware.models.conditional_mean_process import ConditionalMeanProcess, Noise, mixed_kernel
from ax_costaware.models.configurable_gp import ConfigurableGP
from ax_costaware.models.time_varying_gp import TimeVaryingGP, known_noise

KERNELS: dict[str, type[Kernel]] = {"squared_exponential": RBFKernel, "matern": MaternKernel}
"""Kernels by name; ``"matern"`` has nu = 5/2."""


def _skip_fit(self: SingleTaskGP, mll: MarginalLogLikelihood, **_: Any) -> Any:
    """Return the likelihood unchanged: ``fit_gpytorch_mll`` calls this instead of an optimizer."""
    return mll.eval()


class FixedHyperparameterGP(ConfigurableGP):
    """A ``SingleTaskGP`` that BoTorch's model fitting leaves as it is.

    Args:
        train_X: ``n x d`` inputs.
        train_Y: ``n x 1`` outcomes.
        train_Yvar: ``n x 1`` known noise variances; they replace ``noise_variance``.
        lengthscale: Length-scale of every input, or ``d`` of them, after the input transform.
        outputscale: Prior variance of the function, after the outcome transform.
        noise_variance: Variance of the observation noise, after the outcome transform.
        mean: Prior mean of the function, after the outcome transform.
        kernel: ``"squared_exponential"``, or ``"matern"`` for Matern 5/2.
        input_transform: Applied to the inputs.
        outcome_transform: Applied to the outcomes; none by default, so that hyperparameters are in
            raw units.

    Raises:
        InputError: If a hyperparameter is no number of its kind, or length-scales are not ``d``.
    """

    custom_fit = _skip_fit

    def __init__(
        self,
        train_X: Tensor,
        train_Y: Tensor,
        train_Yvar: Tensor | None = None,
        lengthscale: float | Sequence[float] = 0.2,
        outputscale: float = 1.0,
        noise_variance: float = 1e-4,
        mean: float = 0.0,
        kernel: str = "squared_exponential",
        input_transform: InputTransform | None = None,
        outcome_transform: OutcomeTransform | None = None,
    ) -> None:
        super().__init__(
            train_X=train_X,
            train_Y=train_Y,
            train_Yvar=train_Yvar,
            likelihood=known_noise(noise_variance) if train_Yvar is None else None,
            covar_module=_kernel(
                train_X, train_X.shape[-1], lengthscale, outputscale, kernel=kernel
            ),
            mean_module=_constant(train_X, mean),
            input_transform=input_transform,
            outcome_transform=outcome_transform,
        )
        self.requires_grad_(False)


class FixedTimeVaryingGP(TimeVaryingGP):
    """A ``TimeVaryingGP`` that BoTorch's model fitting leaves as it is.

    Args:
        train_X: ``n x (d + 1)`` inputs, the last column of them the time.
        train_Y: ``n x 1`` outcomes.
        train_Yvar: ``n x 1`` known noise variances; they replace ``noise_variance``.
        forgetting: Forgetting rate per unit of time, in (0, 1).
        lengthscale: Length-scale of every input except the time, or ``d`` of them, after the input
            transform.
        outputscale: Prior variance of the function, after the outcome transform.
        noise_variance: Variance of the observation noise, after the outcome transform.
        mean: Prior mean of the function, after the outcome transform.
        kernel: As of ``FixedHyperparameterGP``.
        input_transform: Applied to the inputs; it has to leave the time as it is.
        outcome_transform: Applied to the outcomes; none by default, so that hyperparameters are in
            raw units.

    Raises:
        InputError: If a hyperparameter is no number of its kind, or length-scales are not ``d``.
    """

    custom_fit = _skip_fit

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
        kernel: str = "squared_exponential",
        input_transform: InputTransform | None = None,
        outcome_transform: OutcomeTransform | None = None,
    ) -> None:
        super().__init__(
            train_X=train_X,
            train_Y=train_Y,
            train_Yvar=train_Yvar,
            covar_module=_kernel(
                train_X, train_X.shape[-1] - 1, lengthscale, outputscale, kernel=kernel
            ),
            forgetting=forgetting,
            noise=noise_variance if train_Yvar is None else None,
            mean_module=_constant(train_X, mean),
            outcome_transform=outcome_transform,
            input_transform=input_transform,
        )
        self.requires_grad_(False)


class FixedConditionalMeanProcess(ConditionalMeanProcess):
    """A ``ConditionalMeanProcess`` that BoTorch's model fitting leaves as it is.

    The kernel of the function is squared-exponential, times BoTorch's ``CategoricalKernel`` of
    categorical columns.

    Args:
        train_queries: ``n x p`` queries.
        train_z: ``n x 1`` observed averages.
        conditional: Distribution of a point given a query, over ``d`` columns.
        lengthscale: Length-scale of every column, or ``d`` of them, after ``latent_transform``.
        outputscale: Prior variance of the function, in its unit squared.
        noise_variance: Variance of the observation noise, where ``noise`` does not give it.
        mean: Prior mean of the function.
        noise: As for ``ConditionalMeanProcess``.
        categorical: Columns of a point that are codes without an order.
        **options: ``latent_transform`` and ``noise_of_query``, as for ``ConditionalMeanProcess``.

    Raises:
        InputError: As ``FixedHyperparameterGP`` and ``ConditionalMeanProcess``.
    """

    custom_fit = _skip_fit

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
        categorical: Sequence[int] = (),
        **options: Any,
    ) -> None:
        d = conditional.num_latent_columns
        assert d is not None
        several = isinstance(noise, Tensor | np.ndarray | list | tuple)
        if noise is None or (several and bool(torch.as_tensor(noise).isnan().all())):
            noise = noise_variance
        super().__init__(
            train_queries,
            train_z,
            conditional,
            covar_module=_kernel(train_queries, d, lengthscale, outputscale, categorical),
            noise=noise,
            mean_module=_constant(train_queries, mean),
            outcome_transform=None,
            **options,
        )
        self.requires_grad_(False)


def _kernel(
    like: Tensor,
    d: int,
    lengthscale: float | Sequence[float],
    outputscale: float,
    categorical: Sequence[int] = (),
    kernel: str = "squared_exponential",
) -> ScaleKernel:
    one_of(kernel, "kernel", KERNELS)
    positive_number(outputscale, "outputscale")
    if isinstance(plain_value(lengthscale), Real):
        positive_number(plain_value(lengthscale), "lengthscale")
    else:
        numbers(lengthscale, "lengthscale", d, positive_number)
    made = ScaleKernel(mixed_kernel(d, categorical, KERNELS[kernel])).to(like)
    # As tensors: GPyTorch rounds Python numbers to single precision.
    made.outputscale = like.new_tensor(outputscale)
    scales = like.new_tensor(lengthscale).expand(d)
    for part in made.modules():
        if isinstance(part, RBFKernel | MaternKernel | CategoricalKernel):
            part.lengthscale = scales if part.active_dims is None else scales[part.active_dims]
    return made


def _constant(like: Tensor, mean: float) -> ConstantMean:
    finite_number(mean, "mean")
    return ConstantMean().to(like).initialize(constant=like.new_tensor(mean))

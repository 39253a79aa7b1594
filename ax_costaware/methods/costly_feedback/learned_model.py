"""Hyperparameters of the costly-feedback loop, learned from its measurements.

By the marginal likelihood of a ``TimeVaryingGP``, on the latest measurements.
"""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models.utils.gpytorch_modules import get_covar_module_with_dim_scaled_prior
from botorch.utils.sampling import manual_seed
from gpytorch.kernels import Kernel, MaternKernel, ScaleKernel
from gpytorch.means import ZeroMean
from gpytorch.priors import GammaPrior

from ax_costaware.methods.costly_feedback.domain import Hyperparameters, Point, ResetEvery
from ax_costaware.models.dense_marginal_likelihood import DenseMarginalLogLikelihood
from ax_costaware.models.outcome_scale import OutcomeScale
from ax_costaware.models.time_varying_gp import TimeVaryingGP

_DEFAULT_LENGTHSCALE = 0.2
_DEFAULT_FORGETTING = 0.01
_DEFAULT_NOISE = 0.01

_APART, _RATE_APART = 1e4, 0.5
"""Rounds between blocks, and a rate at which these leave a correlation that underflows."""


def initial_model(
    dimension: int, kernel: Kernel | None, forgetting: float | None, noise: float | None
) -> Hyperparameters:
    """Return given hyperparameters, and defaults for those that are learned later."""
    if kernel is None:
        kernel = MaternKernel(nu=2.5, ard_num_dims=dimension).double()
        kernel.lengthscale = _DEFAULT_LENGTHSCALE
    return Hyperparameters(
        kernel,
        _DEFAULT_FORGETTING if forgetting is None else forgetting,
        _DEFAULT_NOISE if noise is None else noise,
    )


def learned_model(
    inputs: Point,
    rounds: Point,
    values: Point,
    kernel: Kernel | None,
    forgetting: float | ResetEvery | None,
    noise: float | None,
    seed: int,
) -> Hyperparameters:
    """Learn the hyperparameters that are None.

    Args:
        inputs: ``n x d`` points in the kernel's coordinates, the unit cube if ``kernel`` is None.
        rounds: ``n`` rounds of the measurements.
        values: ``n`` measurements.
        kernel: The kernel, in units of the measurements. With None a Matern 5/2 kernel is learned,
            with a mean and a scale of the outcomes.
        forgetting: The forgetting rate per round; or the resets, between which nothing is
            forgotten.
        noise: Variance of the noise, in squared units of the measurements.
        seed: Of the restarts of the fit.

    Raises:
        ModelFittingError: If no fit succeeds.
    """
    rate: float | None
    if isinstance(forgetting, ResetEvery):
        # One draw of the process for each block: that far apart they have nothing in common.
        rounds = _APART * ((rounds - 1) // forgetting.rounds)
        rate, forgetting = _RATE_APART, 0.0
    else:
        rate = forgetting
    X = torch.tensor(np.column_stack([inputs, rounds]), dtype=torch.double)
    Y = torch.tensor(values, dtype=torch.double).unsqueeze(-1)
    scale, mean = OutcomeScale(), 0.0
    if kernel is None:
        scale = OutcomeScale.of(Y)
        # BoTorch's, and a scale: a search measures mostly good points, which vary little.
        matern = get_covar_module_with_dim_scaled_prior(X.shape[-1] - 1, use_rbf_kernel=False)
        covar_module = ScaleKernel(matern, outputscale_prior=GammaPrior(2.0, 0.15))
    else:
        covar_module = deepcopy(kernel).requires_grad_(False)
    model = TimeVaryingGP(
        X,
        scale.to_model(Y),
        covar_module=covar_module,
        forgetting=rate,
        noise=None if noise is None else noise / scale.unit**2,
        mean_module=None if kernel is None else ZeroMean(),
        outcome_transform=None,
    )
    with manual_seed(seed):
        fit_gpytorch_mll(DenseMarginalLogLikelihood(model.likelihood, model))
    if kernel is None:
        kernel = deepcopy(model.spatial_kernel).requires_grad_(False)
        kernel.active_dims = None
        mean = scale.from_model(float(model.mean_module.constant.detach()))
    if forgetting is None:
        forgetting = float(model.forgetting_kernel.forgetting.detach())
    noise = float(model.likelihood.noise.detach()) * scale.unit**2
    return Hyperparameters(kernel, forgetting, noise, outputscale=scale.unit**2, mean=mean)

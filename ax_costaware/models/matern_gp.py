"""BoTorch's usual Gaussian process with the rougher of the two kernels that BoTorch has priors for.

The squared-exponential kernel, which is BoTorch's and Ax's default, takes objectives for smoother
than most are: infinitely often differentiable. Matern 5/2 takes them for twice differentiable, and
is what the papers on costs use (Snoek et al. 2012, section 4.1; Xie et al. 2024, section 4). The
priors of its length-scales grow with the number of columns in the same way (Hvarfner, Hellsten and
Nardi 2024, "Vanilla Bayesian Optimization Performs Great in High Dimensions").

Length-scales and noise may lie anywhere within decades. BoTorch's fit searches for them as they
are; by their logarithms the same optimum takes a quarter of the time.
"""

from __future__ import annotations

import torch
from botorch.models import SingleTaskGP
from botorch.models.transforms.input import InputTransform
from botorch.models.transforms.outcome import OutcomeTransform
from botorch.models.utils.gpytorch_modules import get_covar_module_with_dim_scaled_prior
from botorch.utils.types import DEFAULT, _DefaultType
from gpytorch import Module
from gpytorch.constraints import GreaterThan
from torch import Tensor


class MaternGP(SingleTaskGP):
    """An exact GP of one outcome with a Matern-5/2 kernel and BoTorch's priors.

    Args:
        train_X: ``n x d`` points.
        train_Y: ``n x 1`` outcomes.
        train_Yvar: ``n x 1`` known noise variances; None: fitted.
        outcome_transform: As of ``SingleTaskGP``, which standardises outcomes by default.
        input_transform: As of ``SingleTaskGP``.
    """

    def __init__(
        self,
        train_X: Tensor,
        train_Y: Tensor,
        train_Yvar: Tensor | None = None,
        outcome_transform: OutcomeTransform | _DefaultType | None = DEFAULT,
        input_transform: InputTransform | None = None,
    ) -> None:
        kernel = get_covar_module_with_dim_scaled_prior(train_X.shape[-1], use_rbf_kernel=False)
        super().__init__(
            train_X,
            train_Y,
            train_Yvar,
            covar_module=kernel,
            outcome_transform=outcome_transform,
            input_transform=input_transform,
        )
        search_by_logarithms(self)


def search_by_logarithms(model: Module) -> None:
    """Let fits search for positive hyperparameters by the logarithms of what is above their bounds.

    Args:
        model: One with hyperparameters that have a positive lower bound and no transformation. They
            keep their values.
    """
    for name, parameter, bound in list(model.named_parameters_and_constraints()):
        if isinstance(bound, GreaterThan) and not bound.enforced and bound.lower_bound > 0:
            module, _, own = name.rpartition(".")
            above = GreaterThan(bound.lower_bound, transform=torch.exp, inv_transform=torch.log)
            with torch.no_grad():
                parameter.copy_(above.inverse_transform(parameter))
            model.get_submodule(module).register_constraint(own, above, replace=True)

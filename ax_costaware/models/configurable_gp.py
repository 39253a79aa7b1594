"""Base class of the package's models, BoTorch's ``SingleTaskGP``, with faster fits.

Length-scales, variances and noise vary over decades. BoTorch fits them directly or by a softplus.
Fits of their logarithms reach the same optimum in less time.
"""

from __future__ import annotations

from typing import Any

import torch
from botorch.models import SingleTaskGP
from botorch.models.transforms.input import InputTransform
from botorch.models.transforms.outcome import OutcomeTransform
from botorch.utils.datasets import SupervisedDataset
from botorch.utils.types import DEFAULT, _DefaultType
from gpytorch import Module
from gpytorch.constraints import GreaterThan
from torch import Tensor


class ConfigurableGP(SingleTaskGP):
    """``SingleTaskGP`` whose ``construct_inputs`` passes further constructor arguments."""

    @classmethod
    def construct_inputs(cls, training_data: SupervisedDataset, **options: Any) -> dict[str, Any]:
        """Return constructor arguments from a data set and options, for Ax.

        With ``repeats``, standard errors enter by ``noise``, which smooths them.
        """
        found = super().construct_inputs(training_data)
        if "repeats" in options:
            found.pop("train_Yvar", None)
        return {**found, **options}


class DefaultGP(ConfigurableGP):
    """``SingleTaskGP`` with BoTorch's default kernel and priors, fitted by logarithms.

    Args:
        train_X: ``n x d`` points.
        train_Y: ``n x 1`` outcomes.
        train_Yvar: ``n x 1`` known noise variances; None to infer the noise.
        outcome_transform: As in ``SingleTaskGP``, which standardizes outcomes by default.
        input_transform: As in ``SingleTaskGP``.
    """

    def __init__(
        self,
        train_X: Tensor,
        train_Y: Tensor,
        train_Yvar: Tensor | None = None,
        outcome_transform: OutcomeTransform | _DefaultType | None = DEFAULT,
        input_transform: InputTransform | None = None,
    ) -> None:
        super().__init__(
            train_X,
            train_Y,
            train_Yvar,
            outcome_transform=outcome_transform,
            input_transform=input_transform,
        )
        search_by_logarithms(self)


def search_by_logarithms(model: Module) -> None:
    """Make fits search over ``log(value - lower_bound)`` of positive hyperparameters.

    Args:
        model: The model, whose hyperparameters keep their values. Those that are not fitted do not
            change, nor do those that are used without their constraint, as in BoTorch's ``Warp``.
    """
    for name, parameter, bound in list(model.named_parameters_and_constraints()):
        module, _, own = name.rpartition(".")
        is_searched = own.startswith("raw_") and parameter.requires_grad
        if isinstance(bound, GreaterThan) and is_searched:
            above = GreaterThan(bound.lower_bound, transform=torch.exp, inv_transform=torch.log)
            with torch.no_grad():
                value = bound.transform(parameter) if bound.enforced else parameter
                parameter.copy_(above.inverse_transform(value))
            model.get_submodule(module).register_constraint(own, above, replace=True)

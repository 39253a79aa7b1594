"""BoTorch's usual Gaussian process, as the models of the package are made of it.

Length-scales, variances and noise may lie anywhere within decades. BoTorch's fit searches for them
as they are, or by a softplus; by their logarithms the same optimum takes a part of the time.
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
    """A ``SingleTaskGP`` that is given further constructor arguments beside its data."""

    @classmethod
    def construct_inputs(cls, training_data: SupervisedDataset, **options: Any) -> dict[str, Any]:
        """Constructor arguments from a data set and options, for Ax."""
        return {**super().construct_inputs(training_data), **options}


class DefaultGP(ConfigurableGP):
    """A ``SingleTaskGP`` with BoTorch's default kernel and priors, fitted by logarithms.

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
        super().__init__(
            train_X,
            train_Y,
            train_Yvar,
            outcome_transform=outcome_transform,
            input_transform=input_transform,
        )
        search_by_logarithms(self)


def search_by_logarithms(model: Module) -> None:
    """Let fits search for positive hyperparameters by the logarithms of what is above their bounds.

    Args:
        model: Its hyperparameters with a lower bound keep their values. What is not fitted is left
            as it is, and so is what is read without its constraint, as BoTorch's ``Warp`` does.
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

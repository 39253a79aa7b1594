"""Gaussian process of a rough objective, as in the papers on costs.

The default of BoTorch and Ax has a squared-exponential kernel, whose samples are infinitely often
differentiable, and priors of length-scales that grow with the number of inputs. This model has a
Matern-5/2 kernel, whose samples are twice differentiable, and an output scale. Its Gamma priors are
those of BoTorch until 2024, the same for any number of inputs (Snoek et al. 2012, section 4.1; Xie
et al. 2024, section 4).
"""

from __future__ import annotations

from collections.abc import Sequence

from botorch.models.transforms.input import InputTransform
from botorch.models.transforms.outcome import OutcomeTransform
from botorch.models.utils.gpytorch_modules import get_matern_kernel_with_gamma_prior
from botorch.utils.types import DEFAULT, _DefaultType
from torch import Tensor

from ax_costaware.models.choice_kernel import ChoiceMaternKernel, with_effects
from ax_costaware.models.configurable_gp import ConfigurableGP, search_by_logarithms


class MaternGP(ConfigurableGP):
    """Exact GP of one outcome with a scaled Matern-5/2 kernel and Gamma priors.

    Args:
        train_X: ``n x d`` points.
        train_Y: ``n x 1`` outcomes.
        train_Yvar: ``n x 1`` known noise variances; None to infer the noise.
        outcome_transform: As in ``SingleTaskGP``, which standardizes outcomes by default.
        input_transform: As in ``SingleTaskGP``.
        choices: Columns of each one-hot choice, which share a length-scale; each of its values also
            has an effect of its own, see ``with_effects``.
    """

    knows_choices = True
    """True: the constructor takes ``choices``."""

    def __init__(
        self,
        train_X: Tensor,
        train_Y: Tensor,
        train_Yvar: Tensor | None = None,
        outcome_transform: OutcomeTransform | _DefaultType | None = DEFAULT,
        input_transform: InputTransform | None = None,
        choices: Sequence[Sequence[int]] = (),
    ) -> None:
        kernel = get_matern_kernel_with_gamma_prior(train_X.shape[-1])
        if choices:
            prior = kernel.base_kernel.lengthscale_prior
            kernel.base_kernel = ChoiceMaternKernel(
                train_X.shape[-1], choices, lengthscale_prior=prior
            )
        super().__init__(
            train_X,
            train_Y,
            train_Yvar,
            covar_module=with_effects(kernel, choices),
            outcome_transform=outcome_transform,
            input_transform=input_transform,
        )
        search_by_logarithms(self)

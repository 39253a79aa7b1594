r"""The Pandora's Box Gittins index as an acquisition function (PBGI; Xie et al. 2024, equation 6).

The value of a point is the sure outcome for which one would just not pay :math:`\lambda c(x)` to
see :math:`f(x)`. It is in the objective's unit, and comparable with an outcome in hand: where the
best value so far is at least the largest index, no further measurement is worth its cost.

Xie, Astudillo, Frazier, Scully and Terenin 2024, "Cost-aware Bayesian Optimization via the
Pandora's Box Gittins Index" (NeurIPS).
"""

from __future__ import annotations

import math

from botorch.acquisition.objective import PosteriorTransform
from botorch.models.model import Model
from torch import Tensor

from ax_costaware.acquisition.cost_aware_analytic import CostAwareAnalyticAcquisitionFunction
from ax_costaware.acquisition.gittins_index import gittins_index_of_log_cost
from ax_costaware.acquisition.input_constructor import takes_its_inputs
from ax_costaware.acquisition.log_cost import CostFunction
from ax_costaware.queries.argument_checks import positive_number


@takes_its_inputs
class PandoraBoxGittinsIndex(CostAwareAnalyticAcquisitionFunction):
    r"""The index :math:`g` that solves :math:`E[(f(x) - g)^+] = \lambda c(x)`.

    It needs no incumbent. For minimisation the value is the index of :math:`-f`. The index is
    linear in the posterior mean, so believing points under evaluation at their posterior mean gives
    the exact average over fantasies of their outcomes.

    Args:
        model: A fitted model; with several outcomes it needs a ``posterior_transform``. For an
            ensemble of models the index is averaged over them.
        cost: A number > 0, a callable from points ``n x d`` to ``n`` costs > 0, or an object with
            ``log_expected_cost`` such as ``LogNormalCostModel``; in the user's own unit.
        lmbda: What one unit of cost is worth, in units of the (transformed) objective; > 0.
        maximize: Whether large values of the objective are good.
        posterior_transform: Applied to the posterior.
        X_pending: ``k x d`` points under evaluation.

    Raises:
        InputError: If ``cost``, ``lmbda`` or ``X_pending`` is not of that kind.
        UnsupportedError: If the model has several outcomes and there is no transform.
    """

    def __init__(
        self,
        model: Model,
        cost: CostFunction,
        lmbda: float,
        maximize: bool = True,
        posterior_transform: PosteriorTransform | None = None,
        X_pending: Tensor | None = None,
    ) -> None:
        self.lmbda = positive_number(lmbda, "lmbda")
        super().__init__(model, cost, maximize, posterior_transform, X_pending)

    def _value(self, mean: Tensor, sigma: Tensor, log_cost: Tensor) -> Tensor:
        return gittins_index_of_log_cost(mean, sigma, log_cost + math.log(self.lmbda))

r"""Expected improvement per unit of cost, in logs: the usual peer of the Gittins index.

:math:`\log EI(x) - p \log c(x)`. With :math:`p = 1` it is LogEIPC (Snoek et al. 2012, in logs after
Ament et al. 2023). With :math:`p` falling from one to zero as the budget is spent it is cost
cooling, LogEICC (Lee et al. 2020): cheap points first, good ones in the end. With :math:`p = 0` it
is BoTorch's ``LogExpectedImprovement``.
"""

from __future__ import annotations

from typing import Any

import torch
from botorch.acquisition.analytic import _log_ei_helper
from botorch.acquisition.input_constructors import acqf_input_constructor
from botorch.acquisition.objective import PosteriorTransform
from botorch.models.model import Model
from torch import Tensor

from ax_costaware.acquisition.cost_aware_analytic import CostAwareAnalyticAcquisitionFunction
from ax_costaware.acquisition.incumbent import incumbent
from ax_costaware.acquisition.log_cost import CostFunction
from ax_costaware.exceptions import InputError
from ax_costaware.queries.argument_checks import finite_number, nonnegative_number


class LogExpectedImprovementPerCost(CostAwareAnalyticAcquisitionFunction):
    r"""The logarithm of expected improvement over a power of the expected cost.

    Args:
        model: A fitted model; with several outcomes it needs a ``posterior_transform``. For an
            ensemble of models the improvement is averaged over them.
        best_f: The incumbent, in units of the (transformed) objective: with noise the best
            posterior mean at an evaluated point, see ``incumbent``.
        cost: A number > 0, a callable from points ``n x d`` to ``n`` costs > 0, or an object with
            ``log_expected_cost`` such as ``LogNormalCostModel``; in the user's own unit.
        exponent: Power of the cost, at least zero.
        maximize: Whether large values of the objective are good.
        posterior_transform: Applied to the posterior.
        X_pending: ``k x d`` points under evaluation, believed at their posterior mean; the best of
            them is the incumbent if it is better than ``best_f``.

    Raises:
        InputError: If ``best_f``, ``cost``, ``exponent`` or ``X_pending`` is not of that kind.
        UnsupportedError: If the model has several outcomes and there is no transform.
    """

    _log = True  # an ensemble's improvements are averaged, not their logarithms

    def __init__(
        self,
        model: Model,
        best_f: float | Tensor,
        cost: CostFunction,
        exponent: float = 1.0,
        maximize: bool = True,
        posterior_transform: PosteriorTransform | None = None,
        X_pending: Tensor | None = None,
    ) -> None:
        self.exponent = nonnegative_number(exponent, "exponent")
        if isinstance(best_f, Tensor) and best_f.numel() == 1:
            best_f = best_f.item()
        best = torch.tensor(finite_number(best_f, "best_f"), dtype=torch.double)
        super().__init__(model, cost, maximize, posterior_transform)
        self.best_f: Tensor
        self.register_buffer("best_f", best)
        self.set_X_pending(X_pending)

    def set_X_pending(self, X_pending: Tensor | None = None) -> None:
        """Condition on points under evaluation, instead of those given before.

        They are believed at their posterior mean, and so may be the incumbent.

        Args:
            X_pending: ``k x d`` points, or None.
        """
        super().set_X_pending(X_pending)
        self._believed: Tensor | None = None
        if X_pending is not None and len(X_pending):
            with torch.no_grad():
                mean, _ = self._posterior(X_pending)
            self._believed = (mean if self.maximize else -mean).amax(dim=0)

    def _value(self, mean: Tensor, sigma: Tensor, log_cost: Tensor) -> Tensor:
        best = self.best_f.to(mean) if self.maximize else -self.best_f.to(mean)
        if self._believed is not None:
            best = torch.maximum(best, self._believed)
        gain = (mean - best) / sigma
        value: Tensor = _log_ei_helper(gain) + sigma.log() - self.exponent * log_cost
        return value


@acqf_input_constructor(LogExpectedImprovementPerCost)
def construct_inputs_log_ei_per_cost(
    model: Model,
    cost: CostFunction,
    best_f: float | Tensor | None = None,
    exponent: float = 1.0,
    maximize: bool = True,
    posterior_transform: PosteriorTransform | None = None,
    X_baseline: Tensor | None = None,
    X_pending: Tensor | None = None,
) -> dict[str, Any]:
    """Inputs of ``LogExpectedImprovementPerCost`` from BoTorch's common arguments and its own.

    Without ``best_f`` it is the best posterior mean at ``X_baseline``.
    """
    if best_f is None:
        if X_baseline is None:
            raise InputError("best_f=None: expected a number, or X_baseline to find it at.")
        best_f, _ = incumbent(model, X_baseline, posterior_transform, maximize)
    return {
        "model": model,
        "best_f": best_f,
        "cost": cost,
        "exponent": exponent,
        "maximize": maximize,
        "posterior_transform": posterior_transform,
        "X_pending": X_pending,
    }

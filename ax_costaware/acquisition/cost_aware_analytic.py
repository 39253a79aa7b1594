r"""Analytic cost-aware acquisition functions, and the incumbent of noisy observations.

Each is a formula of three numbers per point: posterior mean, posterior standard deviation, and the
logarithm of the expected cost. Their base computes the three, for maximisation or minimisation. It
uses the cached factor of exact GPs and the posterior of any other model (ensembles included).
Pending points are fantasized at the posterior mean (Kriging believer).

``PandoraBoxGittinsIndex`` is the index of Xie, Astudillo, Frazier, Scully and Terenin 2024,
"Cost-aware Bayesian Optimization via the Pandora's Box Gittins Index" (NeurIPS), equation 6: the
certain value :math:`g` for which :math:`E[(f(x) - g)^+] = \lambda c(x)`. It is in the objective's
unit, and so comparable with the incumbent: if the incumbent is at least the largest index, no
further measurement is worth its cost.

``LogExpectedImprovementPerCost``, the usual peer, is :math:`\log EI(x) - p \log c(x)`. With
:math:`p = 1` it is LogEIPC (Snoek et al. 2012, in logs after Ament et al. 2023). With :math:`p`
falling from one to zero as the budget is spent it is cost cooling, LogEICC (Lee et al. 2020): cheap
points first, good ones in the end. With :math:`p = 0` it is BoTorch's ``LogExpectedImprovement``.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.acquisition.analytic import AnalyticAcquisitionFunction
from botorch.acquisition.objective import PosteriorTransform
from botorch.models.model import Model
from botorch.utils.transforms import (
    average_over_ensemble_models,
    is_ensemble,
    t_batch_mode_transform,
)
from torch import Tensor

from ax_costaware.acquisition.check import check_pending
from ax_costaware.acquisition.criteria import log_expected_gain
from ax_costaware.acquisition.gittins_index import gittins_index_of_log_cost
from ax_costaware.acquisition.pointwise import takes_its_inputs
from ax_costaware.argument_checks import (
    finite_number,
    nonnegative_number,
    positive_number,
)
from ax_costaware.costs import CostFunction, log_cost_function
from ax_costaware.exceptions import InputError
from ax_costaware.models.posterior import FunctionalPosterior, check_one_model, models_in


class CostAwareAnalyticAcquisitionFunction(AnalyticAcquisitionFunction):
    """Base of the analytic cost-aware acquisition functions.

    Args:
        model: A fitted model; with several outcomes it needs a ``posterior_transform``.
        cost: A number > 0, a callable from points ``n x d`` to ``n`` costs > 0, a ``CostModel``
            such as ``LogNormalCostModel``, or a cost of BoTorch, see ``costs.CostFunction``; in
            the user's own unit.
        maximize: True if larger values of the objective are better.
        posterior_transform: Applied to the posterior.
        X_pending: ``k x d`` pending points, fantasized at the posterior mean.
        log_weight: A function from points ``... x d`` to log weights ``...`` of the gain, such as
            the log probability that the trial is feasible; None for none.

    Raises:
        InputError: If ``cost`` or ``X_pending`` is not of that kind.
        UnsupportedError: If the model has several outcomes and there is no transform.
    """

    exponent: float = 1.0

    def __init__(
        self,
        model: Model,
        cost: CostFunction,
        maximize: bool = True,
        posterior_transform: PosteriorTransform | None = None,
        X_pending: Tensor | None = None,
        log_weight: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        super().__init__(model=model, posterior_transform=posterior_transform)
        self.maximize = maximize
        self.cost = cost
        self._log_cost, self._log_weight = log_cost_function(cost), log_weight
        self.set_X_pending(X_pending)

    def set_X_pending(self, X_pending: Tensor | None = None) -> None:
        """Condition on pending points, instead of those given before.

        A sequence of these is how ``optimize_acqf(..., q > 1, sequential=True)`` builds a batch.

        Args:
            X_pending: ``k x d`` points, or None.
        """
        check_pending(X_pending, "d")
        # BoTorch's analytic base class refuses pending points, so skip it.
        AcquisitionFunction.set_X_pending(self, X_pending)
        self._posterior = FunctionalPosterior.of(self.model, self.posterior_transform, X_pending)

    @t_batch_mode_transform(expected_q=1)
    @average_over_ensemble_models  # type: ignore[arg-type]
    def forward(self, X: Tensor) -> Tensor:
        """Evaluate the acquisition function.

        Args:
            X: ``batch_shape x 1 x d`` points.

        Returns:
            A ``batch_shape``-tensor of values.
        """
        points = X.squeeze(-2)
        mean, variance = self._posterior(points)
        log_cost = self.exponent * self._log_cost(points)
        if self._log_weight is not None:
            log_cost = log_cost - self._log_weight(points)
        if is_ensemble(self.model):
            log_cost = log_cost.unsqueeze(-1)
        return self._value(mean if self.maximize else -mean, variance.sqrt(), log_cost)

    @abstractmethod
    def _value(self, mean: Tensor, sigma: Tensor, log_cost: Tensor) -> Tensor:
        """Return the values for means that are to be maximized; shapes broadcast.

        Args:
            mean: The posterior mean.
            sigma: The posterior standard deviation.
            log_cost: ``exponent * log(cost) - log(weight)``.
        """


@takes_its_inputs
class PandoraBoxGittinsIndex(CostAwareAnalyticAcquisitionFunction):
    r"""The index :math:`g` that solves :math:`w(x) E[(f(x) - g)^+] = \lambda c(x)`.

    It needs no incumbent. For minimisation the value is the index of :math:`-f`. The index is
    linear in the posterior mean, so fantasizing pending points at their posterior mean gives
    the exact average over fantasies of their outcomes.

    Args:
        model: A fitted model; with several outcomes it needs a ``posterior_transform``. For an
            ensemble of models the index is averaged over them.
        cost: A number > 0, a callable from points ``n x d`` to ``n`` costs > 0, a ``CostModel``
            such as ``LogNormalCostModel``, or a cost of BoTorch, see ``costs.CostFunction``; in
            the user's own unit.
        lmbda: Value of one unit of cost, in units of the (transformed) objective; > 0.
        maximize: True if larger values of the objective are better.
        posterior_transform: Applied to the posterior.
        X_pending: ``k x d`` pending points.
        log_weight: A function from points ``... x d`` to the logarithms ``...`` of the weights
            :math:`w(x)`, such as the probability that a trial is feasible; None: they are one.

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
        log_weight: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        self.lmbda = positive_number(lmbda, "lmbda")
        super().__init__(model, cost, maximize, posterior_transform, X_pending, log_weight)

    def _value(self, mean: Tensor, sigma: Tensor, log_cost: Tensor) -> Tensor:
        return gittins_index_of_log_cost(mean, sigma, log_cost + math.log(self.lmbda))


def incumbent(
    model: Model,
    X: Tensor,
    posterior_transform: PosteriorTransform | None = None,
    maximize: bool = True,
    risk_aversion: float = 0.0,
) -> tuple[float, int]:
    """Return the best posterior mean at evaluated points.

    With noise, the largest outcome is biased upwards, and the largest posterior mean over the whole
    space may be at an untested point. The best posterior mean at an evaluated point avoids both.
    Where it is uncertain as well, as at points that were evaluated at other fidelities only,
    ``risk_aversion`` gives the best lower confidence bound.

    Args:
        model: A fitted model; an ensemble's means are averaged.
        X: The evaluated points, ``n x d``.
        posterior_transform: Applied to the posterior.
        maximize: True if larger values of the objective are better.
        risk_aversion: Number of standard deviations, >= 0, by which means are made worse.

    Returns:
        The best bound, in the unit and sign of the (transformed) objective, and its row of ``X``.

    Raises:
        InputError: If ``X`` has no row, or ``risk_aversion`` is negative or no number.
        UnsupportedInputError: If the model is a batch of several.
    """
    check_one_model(model)
    if X.ndim != 2 or len(X) == 0:
        raise InputError(f"X: got shape {tuple(X.shape)}; expected (n, d) with n >= 1.")
    risk_aversion = nonnegative_number(risk_aversion, "risk_aversion")
    with torch.no_grad():
        mean, variance = FunctionalPosterior.of(model, posterior_transform).mixture(X)
        off = risk_aversion * variance.sqrt()
        value = mean - off if maximize else mean + off
    row = int(value.argmax() if maximize else value.argmin())
    return float(value[row]), row


@takes_its_inputs
class LogExpectedImprovementPerCost(CostAwareAnalyticAcquisitionFunction):
    r"""The logarithm of expected improvement over a power of the expected cost.

    Args:
        model: A fitted model; with several outcomes it needs a ``posterior_transform``. For an
            ensemble of models the improvement is averaged over them.
        best_f: The incumbent, in units of the (transformed) objective: with noise the best
            posterior mean at an evaluated point, see ``incumbent``.
        cost: A number > 0, a callable from points ``n x d`` to ``n`` costs > 0, a ``CostModel``
            such as ``LogNormalCostModel``, or a cost of BoTorch, see ``costs.CostFunction``; in
            the user's own unit.
        exponent: Power of the cost, at least zero.
        maximize: True if larger values of the objective are better.
        posterior_transform: Applied to the posterior.
        X_pending: ``k x d`` pending points, fantasized at the posterior mean; the best of
            them is the incumbent if it is better than ``best_f``.
        log_weight: A function from points ``... x d`` to logarithms ``...`` that are added, such as
            that of the probability that a trial is feasible; None for none.

    Raises:
        InputError: If ``best_f``, ``cost``, ``exponent`` or ``X_pending`` is not of that kind.
        UnsupportedError: If the model has several outcomes and there is no transform.
    """

    _log = True  # an ensemble's improvements are averaged, not their logarithms

    @staticmethod
    def best_f_at(
        X: Tensor,
        model: Model,
        posterior_transform: PosteriorTransform | None = None,
        maximize: bool = True,
        **_: Any,
    ) -> float:
        """Return the best posterior mean at points ``n x d``, the default incumbent."""
        return incumbent(model, X, posterior_transform, maximize)[0]

    def __init__(
        self,
        model: Model,
        best_f: float | Tensor,
        cost: CostFunction,
        exponent: float = 1.0,
        maximize: bool = True,
        posterior_transform: PosteriorTransform | None = None,
        X_pending: Tensor | None = None,
        log_weight: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        self.exponent = nonnegative_number(exponent, "exponent")
        if isinstance(best_f, Tensor) and best_f.numel() == 1:
            best_f = best_f.item()
        best = torch.tensor(finite_number(best_f, "best_f"), dtype=torch.double)
        super().__init__(model, cost, maximize, posterior_transform, X_pending, log_weight)
        self.best_f: Tensor
        self.register_buffer("best_f", best)

    def set_X_pending(self, X_pending: Tensor | None = None) -> None:
        """Condition on pending points, instead of those given before.

        They are fantasized at the posterior mean, and so may be the incumbent.

        Args:
            X_pending: ``k x d`` points, or None.
        """
        super().set_X_pending(X_pending)
        self._best_pending: Tensor | None = None
        if X_pending is not None and len(X_pending):
            d = X_pending.shape[-1]
            with torch.no_grad():  # with a batch dimension for the models of an ensemble
                mean, _ = self._posterior(
                    X_pending.reshape(-1, *[1] * len(models_in(self.model)), d)
                )
            self._best_pending = (mean if self.maximize else -mean).amax(dim=0)

    def _value(self, mean: Tensor, sigma: Tensor, log_cost: Tensor) -> Tensor:
        best = self.best_f.to(mean) if self.maximize else -self.best_f.to(mean)
        if self._best_pending is not None:
            best = torch.maximum(best, self._best_pending)
        return log_expected_gain(mean - best, sigma) - log_cost

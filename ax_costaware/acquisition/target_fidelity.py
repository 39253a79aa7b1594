r"""Knowledge gradient of a trial at any fidelity about the target fidelity, per unit of cost.

A trial at inputs :math:`x` and fidelity :math:`s` observes :math:`y = f(x, s) + e`. The goal is the
maximum of :math:`g(x) = f(x, s^*)`. Let :math:`g(x) \sim N(\mu, \sigma^2)` in the posterior, and
let :math:`\rho` be its correlation with :math:`y`. The trial moves the mean of :math:`g(x)` by a
normal number of standard deviation :math:`|\rho| \sigma`. Its expected gain over the best mean so
far, :math:`g^+`, is

.. math:: E[(\mu' - g^+)^+] = |\rho| \sigma \, h\left(\frac{\mu - g^+}{|\rho| \sigma}\right),
   \quad h(z) = \varphi(z) + z \Phi(z).

This is the knowledge gradient (Frazier, Powell and Dayanik 2009; with fidelities Poloczek, Wang and
Frazier 2017, "Multi-Information Source Optimization") of the input itself. It needs no inner
optimisation and no sample. At the target and without noise it is the expected improvement.

The gain is linear in the correlation. Where means tie, many cheap trials of low correlation would
therefore seem better than one of high correlation, and would never add up to knowing what to
deploy. So means are replaced by bounds, the mean less :math:`\kappa` standard deviations; after the
trial there are :math:`\sqrt{1 - \rho^2} \sigma` of these. The expected gain over the best bound so
far, :math:`l^+`, is

.. math:: |\rho| \sigma \, h\left(
   \frac{\mu - \kappa \sqrt{1 - \rho^2} \sigma - l^+}{|\rho| \sigma}\right),

which is the same for :math:`\kappa = 0`. A trial of low correlation has a small value, however
cheap it is, with one exception: untried inputs whose bound is above :math:`l^+` already. A cheap
trial then suffices to make them the incumbent.

With constraints, a trial also has to show that its inputs are feasible. Without a correction,
inputs that the model only assumes to be feasible would become the incumbent. The part of the gain
that the trial does not confirm, :math:`(1 - \rho^2) (\mu - \kappa \sigma - l^+)^+`, is therefore
subtracted. It is all of the existing excess if the trial is uninformative, and zero at the target
without noise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from numbers import Integral
from typing import Any

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.models.model import Model
from botorch.utils.safe_math import logdiffexp
from torch import Tensor

from ax_costaware.acquisition.cost_aware_analytic import incumbent
from ax_costaware.acquisition.criteria import log_expected_gain
from ax_costaware.acquisition.pointwise import PointwiseAcquisition, takes_its_inputs
from ax_costaware.argument_checks import (
    finite_number,
    nonnegative_number,
    with_integer_keys,
)
from ax_costaware.costs import CostFunction, log_cost_function
from ax_costaware.exceptions import InputError
from ax_costaware.models.posterior import FunctionalPosterior

_LEAST_SHARE = 1e-8
"""Bound of the explained and of the remaining share of the variance: their roots have an infinite
slope at zero."""


def at_target(X: Tensor, target: Mapping[int, float]) -> Tensor:
    """Return points ``... x d`` with the fidelities at the target; differentiable.

    Raises:
        InputError: If there is no such column.
    """
    columns, d = list(target), X.shape[-1]
    if not all(isinstance(column, Integral) and -d <= column < d for column in columns):
        raise InputError(f"target={dict(target)!r}: expected columns from 0 to {d - 1}.")
    found = X.clone()
    found[..., columns] = X.new_tensor([target[column] for column in columns])
    return found


def _checked_target(target: Any) -> dict[int, float]:
    if not isinstance(target, Mapping):
        raise InputError(f"target={target!r}: expected columns with values, as {{2: 1.0}}.")
    return {i: finite_number(at, f"target[{i}]") for i, at in with_integer_keys(target).items()}


def target_moments(
    posterior: FunctionalPosterior, X: Tensor, target: Mapping[int, float]
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the posterior of an outcome at the target, and the share that trials explain of it.

    Args:
        posterior: Posterior of the outcome.
        X: Points ``n x d``, at any fidelity.
        target: Columns of the fidelities, with their values at the target.

    Returns:
        Mean and variance of the outcome at the target, and the part of this variance that a trial
        explains, its observation noise considered: ``n`` each.
    """
    (_, mean), (own, variance), covariance = posterior.pairs(X, at_target(X, target))
    share = covariance.square() / (variance * (own + posterior.noise_at(X)))
    return mean, variance, share.clamp(_LEAST_SHARE, 1.0)


def _log_less(log_value: Tensor, subtracted: Tensor) -> Tensor:
    """Return ``log(exp(log_value) - max(subtracted, 0))``, bounded from below."""
    counts = subtracted > 0.0
    log_part = subtracted.where(counts, 1.0).log().where(counts, -torch.inf)
    return logdiffexp(log_part.minimum(log_value - _LEAST_SHARE), log_value)


@takes_its_inputs
class LogTargetImprovementPerCost(PointwiseAcquisition):
    r"""Log expected gain over the best bound at the target fidelity, per unit of cost.

    Args:
        model: A fitted Gaussian process of one outcome, with the fidelities among its columns.
        target: Columns of the fidelities, with their values at the target.
        best_f: The best posterior mean at the target so far, less ``risk_aversion`` standard
            deviations, with the sign of maximisation; None: the share of the variance at the target
            that a trial explains replaces the gain.
        cost: A number > 0, a callable from points ``n x d`` to ``n`` costs > 0, a ``CostModel``
            such as ``LogNormalCostModel``, or a cost of BoTorch, see ``costs.CostFunction``; in
            the user's own unit.
        log_weight: A function from points ``n x d`` to ``n`` logarithms that are added, such as
            that of the probability that the trial shows its inputs to be feasible; None for none.
        posterior_transform: A ``ScalarizedPosteriorTransform``: a weight of -1 for minimisation.
        X_pending: ``k x d`` pending points, fantasized at the posterior mean.
        risk_aversion: How many standard deviations are taken off a mean, :math:`\kappa \ge 0`.

    Raises:
        InputError: If ``target``, ``best_f``, ``cost``, ``X_pending`` or ``risk_aversion`` is not
            of that kind.
    """

    @staticmethod
    def best_f_at(
        X: Tensor,
        model: Model,
        target: Mapping[int, float],
        posterior_transform: PosteriorTransform | None = None,
        risk_aversion: float = 0.0,
        **_: Any,
    ) -> float:
        """Return the best bound at the target among the inputs of points ``n x d``."""
        points = at_target(X, _checked_target(target))
        return incumbent(model, points, posterior_transform, risk_aversion=risk_aversion)[0]

    def __init__(
        self,
        model: Model,
        target: Mapping[int, float],
        best_f: float | Tensor | None,
        cost: CostFunction = 1.0,
        log_weight: Callable[[Tensor], Tensor] | None = None,
        posterior_transform: PosteriorTransform | None = None,
        X_pending: Tensor | None = None,
        risk_aversion: float = 0.0,
    ) -> None:
        super().__init__(model=model)
        self.target = _checked_target(target)
        self.risk_aversion = nonnegative_number(risk_aversion, "risk_aversion")
        if isinstance(best_f, Tensor) and best_f.numel() == 1:
            best_f = best_f.item()
        self.best_f = None if best_f is None else finite_number(best_f, "best_f")
        self._log_cost, self._log_weight = log_cost_function(cost), log_weight
        self._posterior_transform = posterior_transform
        self.set_X_pending(X_pending)

    def set_X_pending(self, X_pending: Tensor | None = None) -> None:
        """Condition on pending points, fantasized at the posterior mean; see the base."""
        super().set_X_pending(X_pending)
        self._posterior = FunctionalPosterior.of(self.model, self._posterior_transform, X_pending)

    def moments(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the posterior at the target, and the share that trials explain of it.

        Args:
            X: Points ``n x d``, at any fidelity.

        Returns:
            Mean and variance of the objective at the target, and the part of this variance that a
            trial explains, its observation noise considered: ``n`` each.
        """
        return target_moments(self._posterior, X, self.target)

    def _values(self, points: Tensor) -> Tensor:
        mean, variance, share = self.moments(points)
        if self.best_f is None:
            value = share.log()
        else:
            sigma = (share * variance).sqrt()
            left = ((1.0 - share).clamp_min(_LEAST_SHARE) * variance).sqrt()
            value = log_expected_gain(mean - self.risk_aversion * left - self.best_f, sigma)
            if self._log_weight is not None:
                has = mean - self.risk_aversion * variance.sqrt() - self.best_f
                value = _log_less(value, (1.0 - share) * has)
        value = value - self._log_cost(points)
        if self._log_weight is not None:
            value = value + self._log_weight(points)
        return value

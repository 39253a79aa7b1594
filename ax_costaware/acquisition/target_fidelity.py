r"""What a trial at any fidelity tells of the objective at the target fidelity, per unit of cost.

A trial at inputs :math:`x` and fidelity :math:`s` is answered by :math:`y = f(x, s) + e`, and what
is wanted is the best of :math:`g(x) = f(x, s^*)`. With :math:`\rho` the correlation of :math:`y`
and :math:`g(x)` in the posterior, :math:`g(x) \sim N(\mu, \sigma^2)`, the answer moves the mean of
:math:`g(x)` by a normal number of standard deviation :math:`|\rho| \sigma`, and

.. math:: E[(\mu' - g^+)^+] = |\rho| \sigma \, h\left(\frac{\mu - g^+}{|\rho| \sigma}\right),
   \quad h(z) = \varphi(z) + z \Phi(z),

is what it is expected to add to the best mean so far, :math:`g^+`: the knowledge gradient (Frazier,
Powell and Dayanik 2009; with fidelities Poloczek, Wang and Frazier 2017, "Multi-Information Source
Optimization") of the input itself, which needs no inner optimisation and no sample. At the target
and without noise it is the expected improvement.

That is linear in the correlation, so that where means tie many cheap trials of little correlation
seem better than one of much, and none of them adds up to knowing what to deploy. What can be
counted on is the mean less :math:`\kappa` standard deviations, and these are
:math:`\sqrt{1 - \rho^2} \sigma` after the trial. What it is expected to add to the best such bound
so far, :math:`l^+`, is

.. math:: |\rho| \sigma \, h\left(
   \frac{\mu - \kappa \sqrt{1 - \rho^2} \sigma - l^+}{|\rho| \sigma}\right),

the same for :math:`\kappa = 0`. A trial whose fidelity says little of the target is worth little,
however cheap, unless its inputs are better than the best so far as they are, without having been
tried: that they come to count is worth a cheap trial. Not so where a trial also has to show that
its inputs are feasible, or any that the model takes for feasible would come to count, untested.
Then of :math:`(\mu - \kappa \sigma - l^+)^+`, which they have already, as much is taken off as the
trial leaves of the variance, :math:`1 - \rho^2`: all of it where it tells nothing, nothing at the
target without noise.
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
"""Part of the variance at the target that a trial explains at least, and leaves at least: the roots
have a slope there."""


def at_target(X: Tensor, target: Mapping[int, float]) -> Tensor:
    """Points ``... x d`` with some columns at their values at the target, differentiable.

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


def told_of_target(
    posterior: FunctionalPosterior, X: Tensor, target: Mapping[int, float]
) -> tuple[Tensor, Tensor, Tensor]:
    """What is known of an outcome at the target, and what trials tell of it.

    Args:
        posterior: Of the outcome.
        X: Points ``n x d``, at any fidelity.
        target: Columns of the fidelities, with their values at the target.

    Returns:
        Mean and variance of the outcome at the target, and the part of this variance that a trial
        explains, its observation noise considered: ``n`` each.
    """
    (_, mean), (own, variance), covariance = posterior.pairs(X, at_target(X, target))
    share = covariance.square() / (variance * (own + posterior.noise))
    return mean, variance, share.clamp(_LEAST_SHARE, 1.0)


def _log_less(log_value: Tensor, subtracted: Tensor) -> Tensor:
    """The logarithm of values less a part of them, of which what is negative counts as nothing."""
    counts = subtracted > 0.0
    log_part = subtracted.where(counts, 1.0).log().where(counts, -torch.inf)
    return logdiffexp(log_part.minimum(log_value - _LEAST_SHARE), log_value)


@takes_its_inputs
class LogTargetImprovementPerCost(PointwiseAcquisition):
    r"""The logarithm of what a trial is expected to add to the best bound at the target, per cost.

    Args:
        model: A fitted Gaussian process of one outcome, with the fidelities among its columns.
        target: Columns of the fidelities, with their values at the target.
        best_f: The best posterior mean at the target so far, less ``risk_aversion`` standard
            deviations, with the sign of maximisation; None: what counts is the part of the
            variance at the target that a trial explains.
        cost: A number > 0, a callable from points ``n x d`` to ``n`` costs > 0, a ``CostModel``
            such as ``LogNormalCostModel``, or a cost of BoTorch, see ``costs.CostFunction``; in
            the user's own unit.
        log_weight: A function from points ``n x d`` to ``n`` logarithms that are added, such as
            that of the probability that the trial is feasible, where what inputs have already is no
            gain; None for none.
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
        """The best bound at the target, of the inputs of points ``n x d`` at any fidelity."""
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
        """What is known of the target, and what trials tell of it.

        Args:
            X: Points ``n x d``, at any fidelity.

        Returns:
            Mean and variance of the objective at the target, and the part of this variance that a
            trial explains, its observation noise considered: ``n`` each.
        """
        return told_of_target(self._posterior, X, self.target)

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

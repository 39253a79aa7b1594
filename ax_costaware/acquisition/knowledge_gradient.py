r"""Knowledge gradient of a noisy observation over the points that may be deployed, per cost.

The point with the best posterior mean is deployed in the end, among the evaluated points and the
candidate :math:`x`. An observation at :math:`x` with noise variance :math:`s^2` changes their means
:math:`a_j` to :math:`a_j + b_j Z` with a standard normal :math:`Z` and

.. math:: b_j = \mathrm{Cov}[f(x_j), f(x)] / \sqrt{\mathrm{Var} f(x) + s^2} .

Its value is :math:`E \max_j (a_j + b_j Z) - \max_j a_j` (Frazier, Powell and Dayanik 2009, "The
Knowledge-Gradient Policy for Correlated Normal Beliefs"). With the lines of the upper envelope in
the order of their slopes, and :math:`c_i` where the ``i``-th and the next one cross, it is their
equation 14,

.. math:: \sum_i (b_{i+1} - b_i) \, h(-|c_i|), \quad h(z) = \varphi(z) + z \Phi(z) ,

a sum of positive numbers, of which the logarithm is accurate. For two lines it is the expected gain
of ``target_fidelity``. With the number of repeats as an input, :math:`s^2 = \sigma^2(x) / n`, its
ratio to the cost also decides how often to repeat: the value of a few repeats may be far below that
of many (Frazier and Powell 2010, "Paradoxes in Learning and the Marginal Value of Information").
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from botorch.models.model import Model
from torch import Tensor

from ax_costaware.acquisition.criteria import log_expected_gain
from ax_costaware.acquisition.pointwise import PointwiseAcquisition, takes_its_inputs
from ax_costaware.argument_checks import finite_tensor, nonnegative_number
from ax_costaware.costs import CostFunction, log_cost_function
from ax_costaware.exceptions import InputError
from ax_costaware.models.factor import least
from ax_costaware.models.posterior import ExactPosterior

NUM_DEPLOYABLE = 128
"""Most points that may be deployed: those with the best bounds; others hardly ever become best."""

_HOPELESS = -30.0
"""Log knowledge gradient, in prior standard deviations, below which it is compressed: near points
that are known well it would be -1e5, which hides the differences between all others."""


def log_expected_maximum_gain(mean: Tensor, slope: Tensor) -> Tensor:
    """Return ``log(E[max_j(a_j + b_j Z)] - max_j a_j)`` for a standard normal ``Z``.

    Args:
        mean: ``n x m`` values ``a``.
        slope: ``n x m`` values ``b``.

    Returns:
        ``n`` logarithms, differentiable; minus infinity, to rounding, if all slopes are equal.
    """
    with torch.no_grad():
        flattest = slope == slope.amin(dim=-1, keepdim=True)
        line = mean.where(flattest, -math.inf).argmax(dim=-1, keepdim=True)
        chain, rows = [line], torch.arange(len(mean), device=mean.device)
        while len(rows):  # walk along the envelope: the next line is the first one to be crossed
            steeper = slope[rows] - slope[rows].gather(-1, line[rows])
            crossing = (mean[rows].gather(-1, line[rows]) - mean[rows]) / steeper
            first, following = crossing.where(steeper > 0, math.inf).min(dim=-1, keepdim=True)
            is_crossed = first.isfinite().squeeze(-1)
            rows = rows[is_crossed]
            line = line.clone()
            line[rows] = following[is_crossed]
            chain.append(line)
        lines = torch.cat(chain, dim=-1)
        changes = lines.diff(dim=-1) != 0
    change = slope.gather(-1, lines).diff(dim=-1).where(changes, 1.0)
    gap = mean.gather(-1, lines).diff(dim=-1).abs().where(changes, 0.0)
    terms = log_expected_gain(-gap, change).masked_fill(~changes, torch.finfo(mean.dtype).min)
    found: Tensor = terms.logsumexp(dim=-1)
    return found


@takes_its_inputs
class LogKnowledgeGradientPerCost(PointwiseAcquisition):
    r"""Log knowledge gradient over evaluated points and the candidate, per expected cost.

    Args:
        model: A fitted exact Gaussian process of one outcome, to be maximized. The noise variance
            of an observation is that of ``ExactPosterior.noise_at``.
        X_baseline: ``n x d`` points that may be deployed; of more than ``NUM_DEPLOYABLE`` those
            with the best of mean and two standard deviations.
        cost: A number > 0, a callable from points ``n x d`` to ``n`` costs > 0, a ``CostModel``
            such as ``LogNormalCostModel``, or a cost of BoTorch, see ``costs.CostFunction``; in
            the user's own unit.
        X_pending: ``k x d`` pending points, fantasized at the posterior mean, and deployable.
        is_feasible: ``n`` booleans: which points of ``X_baseline`` may be deployed. None: all.
        log_weight: A function from points ``n x d`` to ``n`` logarithms that are added, such as
            that of the probability that the trial is feasible; None for none.
        exponent: Exponent of the cost, >= 0.

    Raises:
        InputError: If an argument is not of that kind.
        UnsupportedInputError: If the model is another one.
    """

    def __init__(
        self,
        model: Model,
        X_baseline: Tensor,
        cost: CostFunction = 1.0,
        X_pending: Tensor | None = None,
        is_feasible: Tensor | None = None,
        log_weight: Callable[[Tensor], Tensor] | None = None,
        exponent: float = 1.0,
    ) -> None:
        super().__init__(model=model)
        self.exponent = nonnegative_number(exponent, "exponent")
        finite_tensor(X_baseline, "X_baseline", (None, None), "n x d finite numbers, n >= 1")
        if is_feasible is not None:
            if is_feasible.shape != X_baseline.shape[:1] or not bool(is_feasible.any()):
                raise InputError(
                    f"is_feasible: got {is_feasible}; expected {len(X_baseline)} booleans, not all "
                    "False."
                )
            X_baseline = X_baseline[is_feasible]
        self._log_cost, self._log_weight = log_cost_function(cost), log_weight
        self._evaluated = X_baseline
        self.set_X_pending(X_pending)

    def set_X_pending(self, X_pending: Tensor | None = None) -> None:
        """Condition on pending points, and let them be deployed; see the base class."""
        super().set_X_pending(X_pending)
        self._posterior = ExactPosterior.of(self.model, X_pending=X_pending)
        X = self._evaluated
        if X_pending is not None:
            X = torch.cat([X, X_pending.to(X)])
        with torch.no_grad():
            mean, variance = self._posterior(X)
            rows = (mean + 2 * variance.sqrt()).topk(min(NUM_DEPLOYABLE, len(X))).indices
            self.best_f = float(mean.max())
            functionals = self._posterior.functionals(X[rows])
            self._means, self._joint = mean[rows], self._posterior.joint_with(functionals)
            prior = self._posterior.prior_variance(X[rows]).mean()
            self._hopeless = _HOPELESS + 0.5 * prior.log()

    def log_gain(self, points: Tensor) -> Tensor:
        """Return the log knowledge gradient of points ``n x d``, without costs: ``n``."""
        mean, variance, covariance = self._joint(points)
        observed = variance + self._posterior.noise_at(points)
        observed = (observed + least(observed)).sqrt().unsqueeze(-1)
        means = torch.cat([self._means.expand(len(points), -1), mean.unsqueeze(-1)], dim=-1)
        slopes = torch.cat([covariance, variance.unsqueeze(-1)], dim=-1) / observed
        return log_expected_maximum_gain(means, slopes)

    def _values(self, points: Tensor) -> Tensor:
        value = self.log_gain(points)
        below = (self._hopeless - value).clamp_min(0.0)
        value = torch.maximum(value, self._hopeless) - below.log1p()
        value = value - self.exponent * self._log_cost(points)
        return value if self._log_weight is None else value + self._log_weight(points)

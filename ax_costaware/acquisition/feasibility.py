r"""Bounds on further outcomes, and the probability that functionals of the outcomes satisfy them.

Each outcome has a model of its own, independent of the objective's, as in constrained expected
improvement (Gardner et al. 2014, "Bayesian Optimization with Inequality Constraints"). The value of
a trial is its expected gain times its probability :math:`P` of being feasible. The cost-aware
acquisition functions take :math:`\log P` as ``log_weight``.

Bounds apply to a *functional* of an outcome: its value at a point, at a point and the target
fidelity, at a point and a time, an average, or an expectation over random inputs. ``Feasibility``
needs its mean and variance only. Bounds are given in the unit of the metric. Its model and
posterior are on an ``OutcomeScale``, by default that unit itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Generic, TypeAlias, TypeVar

import torch
from botorch.models.model import Model
from botorch.posteriors.gpytorch import GPyTorchPosterior
from botorch.utils.probability.utils import log_ndtr, log_prob_normal_in
from scipy.stats import norm
from torch import Tensor

from ax_costaware.argument_checks import check_fields, finite_number, optional
from ax_costaware.exceptions import InputError, unavailable
from ax_costaware.models.fantasies import fantasized
from ax_costaware.models.outcome_scale import OutcomeScale

Moments: TypeAlias = Callable[[Tensor], tuple[Tensor, Tensor]]
"""Mean and variance of functionals, such as points ``... x d``: each ``...``, or ``... x m`` for an
ensemble of ``m`` models."""

Posterior = TypeVar("Posterior", covariant=True)
Other = TypeVar("Other")

_STEEPNESS = 500.0
"""Factor of the squared shortfall in log probability if feasibility is required."""

_MARGIN = 0.95
"""Factor on the log of a required probability below which the weight falls. It keeps a maximum of
the weighted value where the probability is large enough."""

_LEAST_SHARE = 1e-8
"""Least share of a variance that a trial leaves: the root has an infinite slope at zero."""


@dataclass(frozen=True)
class OutcomeConstraint:
    """Bounds on an outcome of a trial.

    Raises:
        InputError: If there is no bound, one is not finite, or the lower is not below the upper.
    """

    metric: str
    """Name of the metric."""

    lower: float | None = None
    """Least feasible value; None for no such bound."""

    upper: float | None = None
    """Largest feasible value; None for no such bound."""

    fit: Callable[[], Model] = field(default=unavailable, compare=False, repr=False)
    """Callable that returns the model of the metric, fitted to its values on their scale."""

    find_scale: Callable[[], OutcomeScale] = field(default=OutcomeScale, compare=False, repr=False)
    """Callable that returns this scale."""

    def __post_init__(self) -> None:
        check_fields(self, lower=optional(finite_number), upper=optional(finite_number))
        lower, upper = self.lower, self.upper
        if lower is None and upper is None:
            raise InputError(f"metric={self.metric!r} has no bound: expected lower, upper or both.")
        if lower is not None and upper is not None and not lower < upper:
            raise InputError(f"lower={lower!r}: expected less than upper={upper!r}.")

    def __str__(self) -> str:
        lower = "" if self.lower is None else f"{self.lower:g} <= "
        upper = "" if self.upper is None else f" <= {self.upper:g}"
        return f"{lower}{self.metric}{upper}"

    @property
    def ends(self) -> tuple[float, float]:
        """Least and largest feasible value, in the unit of the metric."""
        return (
            -math.inf if self.lower is None else self.lower,
            math.inf if self.upper is None else self.upper,
        )

    @cached_property
    def scale(self) -> OutcomeScale:
        """Scale of the metric in its model."""
        return self.find_scale()

    @cached_property
    def scaled_ends(self) -> tuple[float, float]:
        """Least and largest feasible value, on the scale of the model."""
        lower, upper = map(self.scale.to_model, self.ends)
        return lower, upper

    def model(self, violated: Tensor | None = None) -> Model:
        """Return the model of the metric, with points ``k x d`` fantasized out of bounds."""
        with torch.enable_grad():
            model = self.fit()
        return model if violated is None else fantasized(model, violated, self.violated)

    def log_probability(self, mean: Tensor, variance: Tensor) -> Tensor:
        """Return the log probability that a Gaussian outcome satisfies the bounds.

        Args:
            mean: Posterior means on the scale of the model, of any shape.
            variance: Posterior variances, of the same shape.
        """
        sigma, (lower, upper) = variance.sqrt(), self.scaled_ends
        if self.lower is None:
            return log_ndtr((upper - mean) / sigma)
        if self.upper is None:
            return log_ndtr((mean - lower) / sigma)
        return log_prob_normal_in((lower - mean) / sigma, (upper - mean) / sigma)

    def squared_excess(self, values: Tensor) -> Tensor:
        """Return the squared distances of values, on the scale of the model, to the bounds."""
        lower, upper = self.scaled_ends
        return (values - upper).clamp_min(0.0).square() + (lower - values).clamp_min(0.0).square()

    def violated(self, posterior: GPyTorchPosterior) -> Tensor:
        """Return the values nearest to the means that are a standard deviation out of bounds."""
        mean, sigma = posterior.mean, posterior.variance.sqrt()
        lower, upper = self.scaled_ends
        above, below = mean.clamp_min(upper + sigma), mean.clamp_max(lower - sigma)
        return torch.where(above - mean <= mean - below, above, below)


@dataclass(frozen=True, eq=False)
class Feasibility(Generic[Posterior]):
    """Probability that functionals of the constrained outcomes satisfy their bounds.

    Example:
        >>> limit = OutcomeConstraint("waste", upper=0.1)
        >>> feasibility = Feasibility([(limit, FunctionalPosterior.of(model_of_waste))])
        >>> LogExpectedImprovementPerCost(
        ...     model, best_f, cost, log_weight=feasibility.log_probability
        ... )
    """

    outcomes: Sequence[tuple[OutcomeConstraint, Posterior]]
    """Bounds and posterior of each outcome. The posterior is a function from functionals to their
    means and variances, or an object from which ``over`` derives one."""

    @staticmethod
    def of(
        constraints: Sequence[OutcomeConstraint],
        read: Callable[[Model], Other],
        violated: Tensor | None = None,
    ) -> Feasibility[Other]:
        """Read the posteriors of all constrained outcomes.

        Args:
            constraints: The bounds, with their models.
            read: Returns the posterior of a model, such as ``FunctionalPosterior.of``.
            violated: ``k x d`` points to fantasize out of bounds; None for none.
        """
        return Feasibility([(one, read(one.model(violated))) for one in constraints])

    def over(self, functionals: Callable[[Posterior], Other]) -> Feasibility[Other]:
        """Return the same bounds on other functionals; ``functionals`` maps each posterior."""
        return Feasibility([(bound, functionals(one)) for bound, one in self.outcomes])

    def log_probability(self: Feasibility[Moments], X: Tensor, least: float = -math.inf) -> Tensor:
        """Log probability that all outcomes are within their bounds, with gradients.

        Args:
            X: Functionals, such as points ``... x d``. An ensemble of models is one mixture.
            least: Lower bound of the result.

        Returns:
            A tensor ``...``.
        """
        total = X.new_zeros(X.shape[:-1])
        for bound, moments in self.outcomes:
            mean, variance = moments(X)
            log_probability = bound.log_probability(mean, variance)
            if mean.ndim == X.ndim:
                log_probability = log_probability.logsumexp(dim=-1) - math.log(mean.shape[-1])
            total = total + log_probability
        return total.clamp_min(least)

    def log_probability_shown(
        self: Feasibility[Callable[[Tensor], tuple[Tensor, Tensor, Tensor]]],
        X: Tensor,
        feasibility_threshold: float,
    ) -> Tensor:
        r"""Log probability that a trial shows its inputs to be feasible, with gradients.

        Let an outcome at the target be :math:`N(m, s^2)`, with the correlation :math:`\rho` to the
        outcome of the trial. After the trial its mean is :math:`m' \sim N(m, \rho^2 s^2)` and its
        variance is :math:`(1 - \rho^2) s^2`. It satisfies :math:`y \le u` with probability
        :math:`\Phi(z)` or more if :math:`m' \le u - z \sqrt{1 - \rho^2} s`. The probability of
        that is

        .. math:: \Phi\left(\frac{u - z \sqrt{1 - \rho^2} s - m}{|\rho| s}\right).

        An uninformative trial therefore has a probability of zero, however cheap it is. With
        :math:`k` bounds, each has to hold with the :math:`k`-th root of the threshold, as if they
        were independent. For two bounds of one outcome that is conservative.

        Args:
            X: Points ``n x d`` of trials. The posterior of each outcome returns mean, variance,
                and the share :math:`\rho^2` of this variance that the trial explains.
            feasibility_threshold: Least probability of satisfying all bounds.

        Returns:
            A tensor ``n``.
        """
        ends = [
            end for bound, _ in self.outcomes for end in bound.scaled_ends if math.isfinite(end)
        ]
        z = float(norm.ppf(feasibility_threshold ** (1 / max(len(ends), 1))))
        total = X.new_zeros(X.shape[:-1])
        for bound, moments in self.outcomes:
            mean, variance, share = moments(X)
            moved = (share * variance).sqrt()
            left = ((1.0 - share).clamp_min(_LEAST_SHARE) * variance).sqrt()
            for sign, end in zip((-1.0, 1.0), bound.scaled_ends, strict=True):
                if math.isfinite(end):
                    total = total + log_ndtr((sign * (end - mean) - z * left) / moved)
        return total

    def probability(self: Feasibility[Moments], X: Tensor) -> Tensor:
        """Probability that all outcomes are within their bounds, without gradients."""
        with torch.no_grad():
            return self.log_probability(X).exp()


NO_BOUNDS = Feasibility[Any](())
"""Feasibility without bounds: every functional is feasible."""


def feasibility_weighted(
    value: Tensor,
    log_probability: Tensor,
    worst: float | Tensor | None = None,
    log_threshold: float = 0.0,
    is_required: bool = False,
) -> Tensor:
    r"""Return values weighted by the probability :math:`P` of being feasible.

    The result is :math:`v_{worst} + w \, (v - v_{worst})`. An infeasible point has the worst value,
    as in BoTorch's ``ConstrainedMCObjective``. The weight is :math:`w = \min(P / P_0, 1)`:

    - With :math:`P_0 = 1` the result is the expected value. For an improvement, whose worst value
      is zero, it is constrained expected improvement (Gardner et al. 2014).
    - With :math:`P_0 = \Phi(-\beta)` a point that is feasible by an optimistic confidence bound has
      the weight 1, as in constrained upper confidence bounds (Xu et al. 2023, "Constrained
      Efficient Global Optimization of Expensive Black-box Functions").

    If :math:`P \ge P_0` is required, the weight is :math:`\exp(-s \max(\log P_0 / P, 0)^2)` with a
    large :math:`s`: a smooth cutoff that a search can climb.

    Args:
        value: Values, of any shape.
        log_probability: Logarithms of :math:`P`, of the same shape.
        worst: Value of an infeasible point; None if values are logarithms, whose worst value is
            ``log(0)``.
        log_threshold: Logarithm of :math:`P_0`, at most zero.
        is_required: True to cut off points below :math:`P_0`.
    """
    if is_required:
        shortfall = (_MARGIN * log_threshold - log_probability).clamp_min(0.0)
        log_weight = -_STEEPNESS * shortfall.square()
    else:
        log_weight = (log_probability - log_threshold).clamp_max(0.0)
    if worst is None:
        return value + log_weight
    height = value - worst
    # A value below the worst one must not improve by being infeasible.
    return worst + height * torch.where(height > 0, log_weight, 0.0).exp()


def feasible_first(
    values: Tensor, log_probabilities: Tensor | None, feasibility_threshold: float
) -> list[int]:
    """Return the order of ``n`` values: feasible ones by value, then others by probability.

    Args:
        values: The values.
        log_probabilities: ``n`` log probabilities of being feasible, since the probabilities may
            underflow; None if all are feasible.
        feasibility_threshold: Least probability of a feasible value.
    """
    order: list[int] = values.argsort(descending=True, stable=True).tolist()
    if log_probabilities is not None:
        most = math.log(feasibility_threshold)
        found: list[float] = log_probabilities.clamp_max(most).tolist()
        order.sort(key=lambda i: -found[i])
    return order


def merged(constraints: Sequence[OutcomeConstraint]) -> tuple[OutcomeConstraint, ...]:
    """Return constraints with one per metric, in the order of their first mention.

    Raises:
        InputError: If a metric has several bounds on one side, or no value between its bounds.
    """
    found: dict[str, OutcomeConstraint] = {}
    for new in constraints:
        old = found.setdefault(new.metric, new)
        if old is not new:
            for side in ("lower", "upper"):
                if getattr(old, side) is not None and getattr(new, side) is not None:
                    raise InputError(f"outcome constraints {old} and {new}: expected one of them.")
            lower = new.lower if old.lower is None else old.lower
            upper = new.upper if old.upper is None else old.upper
            found[new.metric] = replace(old, lower=lower, upper=upper)
    return tuple(found.values())

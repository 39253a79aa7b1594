r"""Bounds on further outcomes, and the probability that a trial keeps to them.

Each outcome has a model of its own, independent of the objective's, as in constrained expected
improvement (Gardner et al. 2014, "Bayesian Optimization with Inequality Constraints"). A trial is
then worth what it is expected to gain times the probability :math:`P` that it is feasible, so that
:math:`E[(f - g)^+] P = \lambda c`: where the logarithm of a cost is asked for, it is
:math:`\log c - \log P`. Outcomes and bounds are in raw units of the metric.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import torch
from botorch.models.model import Model
from botorch.posteriors.gpytorch import GPyTorchPosterior
from botorch.utils.probability.utils import log_ndtr, log_prob_normal_in
from torch import Tensor

from ax_costaware.costs.cost_model import ANY_TRIAL, TrialContext
from ax_costaware.exceptions import InputError
from ax_costaware.models.believed import believed
from ax_costaware.models.posterior import FunctionalPosterior
from ax_costaware.queries.argument_checks import check_fields, finite_number, optional

Moments: TypeAlias = Callable[[Tensor], tuple[Tensor, Tensor]]
"""Mean and variance of an outcome at points."""


STEEP, MARGIN = 500.0, 0.95
"""How steeply what is not likely enough to be feasible is left out of what to deploy, and the part
of the logarithm of the probability at which that begins, so that a search ends where it is."""


def unavailable(*_: object, **__: object) -> Any:
    """Stand for a model, an optimizer or a design that a problem was made without."""
    raise RuntimeError("this problem was made without a model, an optimiser or a design.")


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
    """Gives the model of the metric, fitted to its values in raw units."""

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
        """Least and largest feasible value."""
        return (
            -math.inf if self.lower is None else self.lower,
            math.inf if self.upper is None else self.upper,
        )

    def model(self, violated: Tensor | None = None) -> Model:
        """The model of the metric, after points ``k x d`` that count as observed out of bounds."""
        with torch.enable_grad():
            model = self.fit()
        return model if violated is None else believed(model, violated, self.violated)

    def log_probability(self, mean: Tensor, variance: Tensor) -> Tensor:
        """The logarithm of the probability that a Gaussian outcome keeps to the bounds.

        Args:
            mean: Posterior means, of any shape.
            variance: Posterior variances, of the same shape.
        """
        sigma = variance.sqrt()
        if self.lower is None:
            assert self.upper is not None
            return log_ndtr((self.upper - mean) / sigma)
        if self.upper is None:
            return log_ndtr((mean - self.lower) / sigma)
        return log_prob_normal_in((self.lower - mean) / sigma, (self.upper - mean) / sigma)

    def violated(self, posterior: GPyTorchPosterior) -> Tensor:
        """The values next to the posterior means that are out of bounds by a standard deviation."""
        mean, sigma = posterior.mean, posterior.variance.sqrt()
        lower, upper = self.ends
        above, below = mean.clamp_min(upper + sigma), mean.clamp_max(lower - sigma)
        return torch.where(above - mean <= mean - below, above, below)


class Feasibility:
    """The probability that outcomes are within their bounds.

    Args:
        constraints: The bounds, at least one, with their models.
        violated: ``k x d`` points that count as observed out of bounds; None for none.
        read: Gives of a model the mean and variance of what points stand for.
    """

    def __init__(
        self,
        constraints: Sequence[OutcomeConstraint],
        violated: Tensor | None = None,
        read: Callable[[Model], Moments] = FunctionalPosterior.of,
    ) -> None:
        self._parts = [(one, read(one.model(violated))) for one in constraints]

    def __call__(self, X: Tensor) -> Tensor:
        """The logarithm of the probability at points ``... x d``, with gradients: ``...``.

        An ensemble of models is one mixture.
        """
        total = X.new_zeros(X.shape[:-1])
        for constraint, posterior in self._parts:
            mean, variance = posterior(X)
            log_probability = constraint.log_probability(mean, variance)
            if mean.ndim == X.ndim:
                log_probability = log_probability.logsumexp(dim=-1) - math.log(mean.shape[-1])
            total = total + log_probability
        return total

    def probability(self, X: Tensor) -> Tensor:
        """The probability at points ``... x d``, without gradients: ``...``."""
        with torch.no_grad():
            return self(X).exp()

    def enough(self, X: Tensor, feasible: float) -> Tensor:
        """One where points ``... x d`` are as likely to be feasible as they have to be: ``...``.

        Elsewhere it falls to zero, steeply and smoothly.
        """
        lacking = (MARGIN * math.log(feasible) - self(X)).clamp_min(0.0)
        return (-STEEP * lacking.square()).exp()


def feasible_first(values: Tensor, log_chances: Tensor | None, feasible: float) -> list[int]:
    """Places of ``n`` values, the largest first, of those before that are feasible.

    Args:
        values: The values.
        log_chances: ``n`` logarithms of how likely each is to be feasible, which tell apart what is
            too unlikely for a float; None where all are feasible.
        feasible: How likely one has to be; the others come by how likely they are.
    """
    order: list[int] = values.argsort(descending=True, stable=True).tolist()
    if log_chances is not None:
        found: list[float] = log_chances.clamp_max(math.log(feasible)).tolist()
        order.sort(key=lambda i: -found[i])
    return order


def merged(constraints: Sequence[OutcomeConstraint]) -> tuple[OutcomeConstraint, ...]:
    """The constraints with those on one metric made one, by order of their first mention.

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


@dataclass(frozen=True)
class CostOfFeasible:
    """What a trial costs for each one that is feasible: a cost that acquisition functions take."""

    base: Callable[[Tensor], Tensor]
    """Logarithm of the cost at points."""

    feasibility: Feasibility
    """The probability that a trial is feasible."""

    exponent: float = 1.0
    """Power of the cost."""

    least: float = -math.inf
    """Logarithm of a probability below which all count as this one."""

    def log_cost(self, X: Tensor, trial: TrialContext = ANY_TRIAL) -> Tensor:
        """The logarithm at points ``... x d``: ``...``."""
        return self.exponent * self.base(X) - self.feasibility(X).clamp_min(self.least)

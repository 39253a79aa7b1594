r"""Uniform and truncated normal distributions, in the raw units of the parameter.

The random inputs of Tay et al. 2023, *Bayesian Optimization with Cost-varying Variable Subsets*,
section 5, are truncated normal, with a given variance *after* truncation (0.02, 0.04 or 0.08 on the
unit interval): see ``TruncatedNormal.from_variance``. Moments and quadrature rules come from a fine
Gauss-Legendre discretization of the density relative to its maximum, which keeps all digits far in
the tails.

The distribution function and quantiles are those of ``scipy.stats.truncnorm``. Relative to the
standard deviation after truncation they are exact to 1e-8 for an interval up to 40 ``std`` from
``mean``, and to 1e-3 at a million.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from scipy.optimize import brentq
from scipy.stats import truncnorm
from torch import Tensor
from typing_extensions import override

from ax_costaware.argument_checks import (
    check_fields,
    finite_number,
    integer_at_least,
    interval,
    positive_number,
    set_fields,
)
from ax_costaware.exceptions import InputError
from ax_costaware.laws.marginals.marginal import Marginal, floating, unit_interval
from ax_costaware.laws.quadrature import gauss_legendre, gauss_rule
from ax_costaware.laws.tables import Array

_LOG_RANGE = 40.0
"""Range of the log density, below its maximum, that the discretization covers: e^-40 is 4e-18."""

_FINE_NODES = 200
"""Nodes of the discretization, besides twice those of the rule. They integrate ``exp(-40 s^2)`` on
``[-1, 1]``, the narrowest density, to rounding."""

_LEAST_STD, _LARGEST_STD = 1e-9, 1e6
"""Range of ``std`` in widths of the interval: a point below, and uniform above, to rounding."""

_FURTHEST_MEAN = 1e6
"""Largest distance of ``mean`` from the interval, in ``std``: a point beyond, to rounding."""


# Slots make the fields attributes of the class, so that they implement the abstract bounds.
@dataclass(frozen=True, slots=True)
class Uniform(Marginal):
    """Uniform distribution on ``[lower, upper]``.

    Raises:
        InputError: Unless ``lower < upper`` are finite numbers.
    """

    lower: float
    """Smallest value."""

    upper: float
    """Largest value."""

    def __post_init__(self) -> None:
        lower, upper = interval(self.lower, self.upper)
        set_fields(self, lower=lower, upper=upper)

    @property
    @override
    def expectation(self) -> float:
        return self.lower / 2 + self.upper / 2

    @property
    @override
    def variance(self) -> float:
        return (self.upper - self.lower) ** 2 / 12

    @override
    def nodes_and_weights(self, n: int) -> tuple[Tensor, Tensor]:
        nodes, weights = gauss_legendre(integer_at_least(n, 1, "n"))
        half = self.upper / 2 - self.lower / 2
        return torch.tensor(self.expectation + half * nodes), torch.tensor(weights)

    @override
    def cdf(self, nodes: Tensor) -> Tensor:
        return ((floating(nodes) - self.lower) / (self.upper - self.lower)).clamp(0.0, 1.0)

    @override
    def icdf(self, u: Tensor) -> Tensor:
        return (self.lower + (self.upper - self.lower) * unit_interval(u)).clamp_max(self.upper)


@dataclass(frozen=True, slots=True)
class TruncatedNormal(Marginal):
    """Normal distribution ``N(mean, std^2)``, truncated to ``[lower, upper]``.

    ``mean`` may be outside of the interval. ``expectation`` and ``variance`` are those after
    truncation.

    Raises:
        InputError: Unless all are finite numbers with ``std > 0`` and ``lower < upper``; or if the
            distribution is a point or uniform to rounding.
    """

    mean: float
    """Mean before truncation."""

    std: float
    """Standard deviation before truncation."""

    lower: float
    """Smallest value."""

    upper: float
    """Largest value."""

    def __post_init__(self) -> None:
        lower, upper = interval(self.lower, self.upper)
        check_fields(self, mean=finite_number, std=positive_number)
        set_fields(self, lower=lower, upper=upper)
        self._check_scale()

    @classmethod
    def from_variance(
        cls, mean: float, variance: float, lower: float, upper: float
    ) -> TruncatedNormal:
        """Make a distribution with a given variance *after* truncation.

        Args:
            mean: Mean before truncation.
            variance: Variance after truncation, below ``(upper - lower)^2 / 12``, that of the
                uniform distribution, which is the limit for a large ``std``.
            lower: Smallest value.
            upper: Largest value.

        Returns:
            The distribution, whose ``std`` is solved for.

        Raises:
            InputError: As in the constructor, or if no ``std`` has the variance.
        """
        target = positive_number(variance, "variance")
        location = finite_number(mean, "mean")
        low, high = interval(lower, upper)
        limit = Uniform(low, high).variance

        def excess(log_std: float) -> float:
            law = _discretise(location, math.exp(log_std), low, high, _FINE_NODES)
            return _variance(*law) / target - 1.0

        # The variance increases with std, and is at most std^2 (Brascamp and Lieb 1976).
        least = math.log(max(math.sqrt(target), _LEAST_STD * (high - low))) - 1.0
        most = math.log(_LARGEST_STD * (high - low))
        if excess(least) >= 0:
            raise InputError(
                f"variance={variance!r} is that of a single value to rounding: expected more, or "
                "Discrete with one value."
            )
        if target >= limit or excess(most) <= 0:
            raise InputError(
                f"variance={variance!r}: expected less than {limit!r}, the variance of the uniform "
                f"distribution on [{low!r}, {high!r}], the limit of truncated normal ones (use "
                "Uniform for that)."
            )
        solution = brentq(excess, least, most, xtol=1e-15, rtol=4 * np.finfo(np.float64).eps)
        return cls(location, math.exp(solution), low, high)

    @property
    @override
    def expectation(self) -> float:
        offsets, masses = self._discretisation(_FINE_NODES)
        return self._mode + float(masses @ offsets)

    @property
    @override
    def variance(self) -> float:
        return _variance(*self._discretisation(_FINE_NODES))

    @override
    def nodes_and_weights(self, n: int) -> tuple[Tensor, Tensor]:
        nodes, weights = _rule(self, integer_at_least(n, 1, "n"))
        return torch.tensor(nodes), torch.tensor(weights)

    @override
    def cdf(self, nodes: Tensor) -> Tensor:
        p = truncnorm.cdf(nodes.detach().cpu().double().numpy(), *self._standard)
        return torch.as_tensor(p).to(floating(nodes))

    @override
    def icdf(self, u: Tensor) -> Tensor:
        p = unit_interval(u).detach().cpu().double().numpy()
        x = np.clip(truncnorm.ppf(p, *self._standard), self.lower, self.upper)
        # SciPy rounds the quantiles of 0 and 1, which may lie inside of the bounds.
        x = np.where(p == 0, self.lower, np.where(p == 1, self.upper, x))
        return torch.as_tensor(x).to(u)

    @property
    def _mode(self) -> float:
        return min(max(self.mean, self.lower), self.upper)

    @property
    def _standard(self) -> tuple[float, float, float, float]:
        """Arguments of ``truncnorm``."""
        lower, upper = (self.lower - self.mean) / self.std, (self.upper - self.mean) / self.std
        return lower, upper, self.mean, self.std

    def _discretisation(self, size: int) -> tuple[Array, Array]:
        return _discretise(self.mean, self.std, self.lower, self.upper, size)

    def _check_scale(self) -> None:
        width = self.upper - self.lower
        given = f"mean={self.mean!r}, std={self.std!r} on [{self.lower!r}, {self.upper!r}]"
        if self.std > _LARGEST_STD * width:
            raise InputError(
                f"{given} is uniform to rounding: expected std at most {_LARGEST_STD * width:g} "
                "(use Uniform)."
            )
        distance = abs(self._mode - self.mean)
        least = max(_LEAST_STD * width, distance / _FURTHEST_MEAN)
        if self.std < least:
            raise InputError(
                f"{given} is a single value to rounding: expected std at least {least:g} (use "
                "Discrete with one value)."
            )


@lru_cache(maxsize=64)
def _rule(law: TruncatedNormal, size: int) -> tuple[Array, Array]:
    """Return nodes and weights, cached since every decision needs the same ones."""
    offsets, masses = law._discretisation(2 * size + _FINE_NODES)
    nodes, weights = gauss_rule(offsets, masses, size)
    return np.clip(law._mode + nodes, law.lower, law.upper), weights


def _discretise(
    mean: float, std: float, lower: float, upper: float, size: int
) -> tuple[Array, Array]:
    """Return offsets of points from the mode after truncation, and masses that sum to one."""
    mode = min(max(mean, lower), upper)
    shift = mode - mean
    # Largest offset with t^2 + 2 |shift| t <= 2 _LOG_RANGE std^2, without cancellation.
    reach = 2 * _LOG_RANGE * std**2
    reach = reach / (abs(shift) + math.sqrt(shift**2 + reach))
    low, high = max(lower - mode, -reach), min(upper - mode, reach)
    nodes, weights = gauss_legendre(size)
    offsets = low + (high - low) * (nodes + 1) / 2
    masses = weights * np.exp(-offsets * (offsets + 2 * shift) / (2 * std**2))
    return offsets, masses / masses.sum()


def _variance(offsets: Array, masses: Array) -> float:
    return float(masses @ (offsets - masses @ offsets) ** 2)

r"""The normal law cut off at the bounds of an input, in the raw units of the parameter.

The random inputs of Tay et al. 2023, *Bayesian Optimization with Cost-varying Variable Subsets*,
section 5, follow it, with the variance of the law *after* truncation given (0.02, 0.04 or 0.08 on
the unit interval); ``TruncatedNormal.from_variance`` takes that. Moments and quadrature rules come
from a fine Gauss-Legendre discretisation of the density relative to its maximum, which keeps all
digits however far out in a tail the interval lies.

``scipy.stats.truncnorm`` works with differences of log-probabilities, which leaves no digit once
the interval is thousands of standard deviations out, and few of a quantile next to a bound. Here an
interval on one side of the mode is measured from its inner end ``a >= 0``: with the scaled
complementary error function :math:`\mathrm{erfcx}(x) = e^{x^2} \mathrm{erfc}(x)`, the probability
to be further out than ``a + t``, given to be further out than ``a``, is

.. math:: R(t) = e^{-t (t + 2a) / 2}\,
          \mathrm{erfcx}((a + t) / \sqrt 2) \,/\, \mathrm{erfcx}(a / \sqrt 2),

which is exact to rounding at any distance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from scipy.optimize import brentq
from scipy.special import erfcx, ndtr, ndtri
from torch import Tensor
from typing_extensions import override

from ax_costaware.exceptions import InputError
from ax_costaware.queries.argument_checks import (
    check_fields,
    finite_number,
    integer_at_least,
    interval,
    positive_number,
    set_fields,
    unit_interval,
)
from ax_costaware.queries.marginals.marginal import Marginal
from ax_costaware.queries.marginals.uniform import Uniform
from ax_costaware.queries.quadrature import gauss_legendre, gauss_rule

Array = npt.NDArray[np.float64]

_LOG_RANGE = 40.0
"""The discretisation covers where the log-density is within this of its maximum: e^-40 is 4e-18."""

_FINE_NODES = 200
"""Nodes of the discretisation beyond twice those of the rule: they integrate ``exp(-40 s^2)`` on
``[-1, 1]``, the density at its narrowest, to rounding."""

_LEAST_STD, _LARGEST_STD = 1e-9, 1e6
"""Range of ``std`` in widths of the interval. The law is a point below, and uniform above."""

_FURTHEST_MEAN = 1e9
"""Largest distance of ``mean`` from the interval, in ``std``. The law is a point beyond."""

_SQRT_2 = np.sqrt(2.0)

_FURTHEST_TAIL = 40.0
"""In a tail no double is a probability beyond: ``R(40)`` is at most ``e^-800``."""

_MAX_STEPS = 50
"""Newton's iteration for quantiles of a tail needs 4 to 7 steps over the whole range; this is a
bound, no choice."""


# Slots make the fields attributes of the class, so that they implement the abstract bounds.
@dataclass(frozen=True, slots=True)
class TruncatedNormal(Marginal):
    """The law of ``N(mean, std^2)`` given that it falls in ``[lower, upper]``.

    ``mean`` may lie outside the interval. ``expectation`` and ``variance`` are those of the law
    after the cut.

    Raises:
        InputError: Unless all are finite numbers with ``std > 0`` and ``lower < upper``; and for a
            law that is a point or uniform to rounding.
    """

    mean: float
    """Mean of the normal law before it is cut off."""

    std: float
    """Standard deviation of the normal law before it is cut off."""

    lower: float
    """Least value."""

    upper: float
    """Greatest value."""

    def __post_init__(self) -> None:
        lower, upper = interval(self.lower, self.upper)
        check_fields(self, mean=finite_number, std=positive_number)
        set_fields(self, lower=lower, upper=upper)
        self._check_scale()

    @classmethod
    def from_variance(
        cls, mean: float, variance: float, lower: float, upper: float
    ) -> TruncatedNormal:
        """The law with a given variance *after* it is cut off.

        Args:
            mean: Mean of the normal law before it is cut off.
            variance: Variance of the truncated law, below that of the uniform law on the interval,
                ``(upper - lower)^2 / 12``, which is its limit for a large ``std``.
            lower: Least value.
            upper: Greatest value.

        Returns:
            The law whose ``std`` is solved for.

        Raises:
            InputError: As the constructor, and for a variance that no ``std`` attains.
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
                f"law on [{low!r}, {high!r}], which is the widest that a truncated normal law can "
                "be (use Uniform for that)."
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
        size = integer_at_least(n, 1, "n")
        offsets, masses = self._discretisation(2 * size + _FINE_NODES)
        nodes, weights = gauss_rule(offsets, masses, size)
        nodes = np.clip(self._mode + nodes, self.lower, self.upper)
        return torch.tensor(nodes), torch.tensor(weights)

    @override
    def cdf(self, nodes: Tensor) -> Tensor:
        x = np.clip(nodes.detach().cpu().double().numpy(), self.lower, self.upper)
        if self.mean < self.lower:
            p = tail_cdf((x - self.lower) / self.std, *self._tail)
        elif self.mean > self.upper:
            p = 1.0 - tail_cdf((self.upper - x) / self.std, *self._tail)
        else:
            p = central_cdf((x - self.mean) / self.std, *self._standard_bounds)
        return torch.as_tensor(p).to(nodes)

    @override
    def icdf(self, u: Tensor) -> Tensor:
        p = unit_interval(u).detach().cpu().double().numpy()
        if self.mean < self.lower:
            x = self.lower + self.std * tail_icdf(p, *self._tail)
        elif self.mean > self.upper:
            x = self.upper - self.std * tail_icdf(1.0 - p, *self._tail)
        else:
            x = self.mean + self.std * central_icdf(p, *self._standard_bounds)
        return torch.as_tensor(np.clip(x, self.lower, self.upper)).to(u)

    @property
    def _mode(self) -> float:
        return min(max(self.mean, self.lower), self.upper)

    @property
    def _standard_bounds(self) -> tuple[float, float]:
        return (self.lower - self.mean) / self.std, (self.upper - self.mean) / self.std

    @property
    def _tail(self) -> tuple[float, float]:
        """Distance of the nearer bound from ``mean``, and the width, in units of ``std``."""
        return abs(self._mode - self.mean) / self.std, (self.upper - self.lower) / self.std

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


def _discretise(
    mean: float, std: float, lower: float, upper: float, size: int
) -> tuple[Array, Array]:
    """Points as offsets from the mode of the truncated law, and masses that sum to one."""
    mode = min(max(mean, lower), upper)
    shift = mode - mean
    # The furthest offset with t^2 + 2 |shift| t <= 2 _LOG_RANGE std^2, without cancellation.
    reach = 2 * _LOG_RANGE * std**2
    reach = reach / (abs(shift) + math.sqrt(shift**2 + reach))
    low, high = max(lower - mode, -reach), min(upper - mode, reach)
    nodes, weights = gauss_legendre(size)
    offsets = low + (high - low) * (nodes + 1) / 2
    masses = weights * np.exp(-offsets * (offsets + 2 * shift) / (2 * std**2))
    return offsets, masses / masses.sum()


def _variance(offsets: Array, masses: Array) -> float:
    return float(masses @ (offsets - masses @ offsets) ** 2)


# In units of the standard deviation, from the mean or, in a tail, from the inner end.


def tail_cdf(t: Array, a: float, width: float) -> Array:
    """Probability of ``[a, a + t]`` given ``[a, a + width]``, for ``0 <= t <= width``."""
    mass = np.expm1(_log_survival(np.array(min(width, _FURTHEST_TAIL)), a))
    cdf: Array = np.expm1(_log_survival(np.minimum(t, _FURTHEST_TAIL), a)) / mass
    return np.minimum(cdf, 1.0)


def tail_icdf(u: Array, a: float, width: float) -> Array:
    """The ``t`` where ``tail_cdf`` is ``u``.

    Newton's iteration on the log-survival function. That function is concave, and the start (the
    factor of erfcx, which is below one, left out) lies beyond the root, so the steps decrease
    towards it.
    """
    mass = np.expm1(_log_survival(np.array(min(width, _FURTHEST_TAIL)), a))
    target = np.log1p(np.where(u < 1, u, 0.0) * mass)
    t = -2 * target / (np.sqrt(a * a - 2 * target) + max(a, np.finfo(np.float64).tiny))
    for _ in range(_MAX_STEPS):
        hazard = np.sqrt(2 / np.pi) / erfcx((a + t) / _SQRT_2)
        step = (_log_survival(t, a) - target) / hazard
        t = np.maximum(t + step, 0.0)
        if np.all(np.abs(step) <= 4 * np.finfo(np.float64).eps * t):
            break
    return np.where(u < 1, np.minimum(t, width), width)


def central_cdf(z: Array, a: float, b: float) -> Array:
    """Probability of ``[a, z]`` given ``[a, b]``, for ``a <= 0 <= b``."""
    cdf: Array = (ndtr(z) - ndtr(a)) / (ndtr(b) - ndtr(a))
    return np.clip(cdf, 0.0, 1.0)


def central_icdf(u: Array, a: float, b: float) -> Array:
    """The ``z`` where ``central_cdf`` is ``u``."""
    mass = ndtr(b) - ndtr(a)
    below = ndtr(a) + u * mass
    above = ndtr(-b) + (1 - u) * mass
    # Each half from its own tail: a probability near one has no digits left.
    z: Array = np.where(below <= 0.5, ndtri(below), -ndtri(above))
    return np.clip(z, a, b)


def _log_survival(t: Array, a: float) -> Array:
    ratio = erfcx((a + t) / _SQRT_2) / erfcx(a / _SQRT_2)
    log_survival: Array = -t * (t / 2 + a) + np.log(ratio)
    return log_survival

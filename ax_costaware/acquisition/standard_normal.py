r"""Mutual information between a noisy observation of a Gaussian value and a bound on that value.

Let :math:`g \sim N(\nu, v)`, with an observation :math:`z = g + e` and
:math:`\gamma = (f^* - \nu) / \sqrt v`. The information is the reduction of the entropy of :math:`z`
by the condition :math:`g \le f^*`, in nats. With the standard normal density :math:`\phi`,
distribution function :math:`\Phi` and :math:`r = \phi / \Phi` it is, without noise,

.. math:: t(\gamma) = \gamma r(\gamma) / 2 - \log \Phi(\gamma)

(Wang and Jegelka 2017, equation 6). With noise, :math:`\rho^2 = v / (v + s^2)`, the conditioned
:math:`z` has the density of a Gaussian times a normal distribution function (Zhang et al. 2024,
"Indirect Query Bayesian Optimization with Integrated Feedback", appendix A). Its entropy reduces to
the noiseless information and one smooth Gaussian expectation,

.. math:: t(\gamma) - \sqrt{1 - \rho^2} \, r(\gamma) \, E_{w \sim N(0, 1)} [(t / r)(u)], \quad
   u = \sqrt{1 - \rho^2} \, \gamma + \rho w,

in which no large terms cancel. Gauss-Hermite quadrature computes it to rounding. The functions of a
standard normal below are accurate in both tails.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property

import torch
from torch import Tensor

from ax_costaware.laws.quadrature import gauss_hermite
from ax_costaware.models.rowwise import rowwise

LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)
_SQRT_HALF = math.sqrt(0.5)
_SQRT_HALF_PI = math.sqrt(0.5 * math.pi)

_FAR = 25.0
"""Distance beyond which an asymptotic series replaces a difference of large numbers."""

_SERIES = (2.0, -10.0, 74.0, -706.0, 8162.0, -110410.0, 1708394.0, -29752066.0)
"""Coefficients of ``1 + x^2 + x r(x)`` in ``1 / x^2`` for large negative x (OEIS A000698)."""

_LARGEST = 39.0
"""Bound beyond which the information is zero: the density underflows."""

_SMALLEST = -1e100
"""Lower limit of a bound, so that everything stays finite."""

_NUM_NODES = 24
"""Nodes of the quadrature, for an accuracy of about twelve digits."""

_NOISY = 1e-4
"""Share of the signal below which the first term of the expansion is exact to about nine digits."""


class StandardNormal:
    """Functions of a standard normal in double precision, without loss in either tail.

    Attributes:
        x: The points.
        size: ``|x|``.
        on_left: True where they are negative.
        mills: ``Phi(-|x|) / phi(x)``.
        tail: ``Phi(-|x|)``.
        rest: ``Phi(|x|)``.
        hazard: ``r = phi / Phi``.
    """

    def __init__(self, x: Tensor) -> None:
        self.x = x.double()
        self.size = self.x.abs()
        self.on_left = self.x < 0
        self.mills = _SQRT_HALF_PI * torch.special.erfcx(_SQRT_HALF * self.size)
        density = torch.exp(-0.5 * self.size * self.size - LOG_SQRT_2PI)
        self.tail = density * self.mills
        self.rest = 1 - self.tail
        self.hazard = torch.where(self.on_left, 1 / self.mills, density / self.rest)

    @cached_property
    def _left_excess(self) -> Tensor:
        inverse_square = 1 / self.size.clamp_min(_FAR).square()
        series = torch.zeros_like(self.x)
        for coefficient in reversed(_SERIES):
            series = inverse_square * (coefficient + series)
        near = 1 + self.size.clamp_max(_FAR).square() - self.size.clamp_max(_FAR) / self.mills
        return torch.where(self.size > _FAR, series, near)

    @cached_property
    def excess(self) -> Tensor:
        """``1 + x^2 + x r``."""
        right = self.x.clamp_min(0.0)
        on_right = 1 + right.square() + right * self.hazard
        return torch.where(self.on_left, self._left_excess, on_right)

    @cached_property
    def information(self) -> Tensor:
        """``x r / 2 - log Phi``."""
        on_left = 0.5 * (self._left_excess - 1) - self.mills.log() + LOG_SQRT_2PI
        on_right = 0.5 * self.x.clamp_min(0.0) * self.hazard - torch.log1p(-self.tail)
        return torch.where(self.on_left, on_left, on_right)

    @cached_property
    def sum_with_hazard(self) -> Tensor:
        """``x + r``."""
        far_left = (1 - self.excess) / self.size.clamp_min(_SQRT_HALF)
        return torch.where(self.x < -1, far_left, self.x + self.hazard)


def truncated_information(gamma: Tensor) -> Tensor:
    r"""Return the noiseless information, :math:`\gamma r(\gamma) / 2 - \log \Phi(\gamma)`.

    Args:
        gamma: Standardised upper bounds of any shape.

    Returns:
        The information in nats, of that shape; at least zero, falling in ``gamma``, and growing
        as the logarithm of ``-gamma`` on the left. Differentiable once.
    """
    return _of(_information, _limited(gamma))


def noisy_truncated_information(gamma: Tensor, rho2: Tensor) -> Tensor:
    r"""Return the information of a noisy observation about the bound of a noiseless value.

    Args:
        gamma: Standardised upper bounds.
        rho2: The share of the signal in the variance of the observation,
            :math:`v / (v + s^2)`, in [0, 1]; broadcast with ``gamma``.

    Returns:
        The information in nats, in the broadcast shape: zero where ``rho2`` is, and that of
        ``truncated_information`` where ``rho2`` is one. Differentiable once; the slope in ``rho2``
        is infinite at one, and taken for zero there.
    """
    x, share = torch.broadcast_tensors(_limited(gamma), rho2)
    # Much noise hides the shape of the truncated distribution, so only its variance matters.
    expansion = -0.5 * torch.log1p(-share.clamp(0.0, _NOISY) * _of(_reduction, x))
    return torch.where(share < _NOISY, expansion, _quadrature(x, share))


def _limited(gamma: Tensor) -> Tensor:
    return gamma.clamp(max(_SMALLEST, torch.finfo(gamma.dtype).min / 2), _LARGEST)


def _quadrature(x: Tensor, share: Tensor) -> Tensor:
    share = share.clamp(_NOISY, 1.0)
    left = 1 - share
    # The slope of the root is infinite at zero.
    is_left = left > 0
    s = torch.where(is_left, torch.where(is_left, left, torch.ones_like(left)).sqrt(), 0.0)
    nodes, weights = (torch.tensor(array).to(x) for array in gauss_hermite(_NUM_NODES))
    u = (s * x).unsqueeze(-1) + share.sqrt().unsqueeze(-1) * nodes
    ratio, hazard = _of(_information_over_hazard, u), _of(_hazard, x)
    return truncated_information(x) - s * hazard * (ratio @ weights)


def _information(normal: StandardNormal) -> tuple[Tensor, Tensor]:
    """``t``, and its slope."""
    return normal.information, -0.5 * normal.hazard * normal.excess


def _hazard(normal: StandardNormal) -> tuple[Tensor, Tensor]:
    """``r``, and its slope."""
    return normal.hazard, -normal.hazard * normal.sum_with_hazard


def _reduction(normal: StandardNormal) -> tuple[Tensor, Tensor]:
    """``r (x + r)``, by how much the bound reduces the variance of a normal, and its slope."""
    total = normal.sum_with_hazard
    reduction = normal.hazard * total
    rest = torch.where(normal.x < -1, normal.excess - total.square(), 1 - reduction)
    return reduction, normal.hazard * (rest - total.square())


def _information_over_hazard(normal: StandardNormal) -> tuple[Tensor, Tensor]:
    """``t / r``, and its slope."""
    tail = normal.tail.clamp_min(1e-300)
    ratio = -torch.log1p(-tail) / tail  # tends to one
    on_right = 0.5 * normal.x + normal.rest * normal.mills * ratio
    found = torch.where(normal.on_left, normal.information * normal.mills, on_right)
    return found, found * normal.sum_with_hazard - 0.5 * normal.excess


def _of(function: Callable[[StandardNormal], tuple[Tensor, Tensor]], x: Tensor) -> Tensor:
    """Apply a function that returns its values and slopes, elementwise."""

    def in_precision_of_x(rows: Tensor, _: bool) -> tuple[Tensor, Tensor]:
        value, slope = function(StandardNormal(rows))
        return value.to(x).squeeze(-1), slope.to(x)

    return rowwise(x.reshape(-1, 1), in_precision_of_x, max(1, x.numel())).reshape(x.shape)

r"""What an observation tells of an upper bound: the information behind max-value entropy search.

With :math:`g \sim N(\nu, v)`, an observation :math:`z = g + e`, :math:`e \sim N(0, s^2)`, and
:math:`\gamma = (f^* - \nu) / \sqrt v`, the information is how much the entropy of :math:`z` falls
when one is told that :math:`g \le f^*`; in nats, without a unit. With the standard normal density
:math:`\phi`, distribution function :math:`\Phi` and :math:`r = \phi / \Phi` it is, without noise,

.. math:: t(\gamma) = \gamma r(\gamma) / 2 - \log \Phi(\gamma)

(Wang and Jegelka 2017, equation 6). With noise, :math:`\rho^2 = v / (v + s^2)`, the conditioned
:math:`z` has the density of a Gaussian times a normal distribution function (Zhang et al. 2024,
"Indirect Query Bayesian Optimization with Integrated Feedback", appendix A). Its entropy reduces to
the noiseless information and one smooth Gaussian expectation,

.. math:: t(\gamma) - \sqrt{1 - \rho^2} \, r(\gamma) \, E_{w \sim N(0, 1)} [(t / r)(u)], \quad
   u = \sqrt{1 - \rho^2} \, \gamma + \rho w,

in which no large terms cancel, and which Gauss-Hermite quadrature takes to rounding.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import torch
from numpy.polynomial.hermite_e import hermegauss
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)
_SQRT_HALF = math.sqrt(0.5)
_SQRT_HALF_PI = math.sqrt(0.5 * math.pi)

_LARGEST = 39.0
"""Beyond this many standard deviations the bound says nothing: the density is zero in double."""

_SMALLEST = -1e100
"""Bounds below are taken for this one, so that everything stays finite."""

_FAR = 25.0
"""From here on the tail's asymptotic series is better than a difference of large numbers."""

_SERIES = (2.0, -10.0, 74.0, -706.0, 8162.0, -110410.0, 1708394.0, -29752066.0)
"""Of ``1 + x^2 + x r(x)`` in ``1 / x^2`` for large negative x (OEIS A000698)."""

_NUM_NODES = 24
"""The quadrature is then right to about twelve digits."""

_NOISY = 1e-4
"""Below this rho squared the first term of the expansion in it is exact to about nine digits."""


def truncated_information(gamma: Tensor) -> Tensor:
    r"""The information without noise, :math:`t(\gamma) = \gamma r(\gamma) / 2 - \log \Phi(\gamma)`.

    Args:
        gamma: Standardised upper bounds of any shape.

    Returns:
        The information in nats, of that shape; at least zero, falling in ``gamma``, and growing
        as the logarithm of ``-gamma`` on the left. Differentiable once.
    """
    value: Tensor = _Information.apply(_limited(gamma))  # type: ignore[no-untyped-call]
    return value


def noisy_truncated_information(gamma: Tensor, rho2: Tensor) -> Tensor:
    r"""The information where what is observed is noisy and what is bounded is not.

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
    return torch.where(share < _NOISY, _expansion(x, share), _quadrature(x, share))


def _limited(gamma: Tensor) -> Tensor:
    return gamma.clamp(max(_SMALLEST, torch.finfo(gamma.dtype).min / 2), _LARGEST)


def _quadrature(x: Tensor, share: Tensor) -> Tensor:
    share = share.clamp(_NOISY, 1.0)
    left = 1 - share
    # The root has no slope at zero.
    is_left = left > 0
    s = torch.where(is_left, torch.where(is_left, left, torch.ones_like(left)).sqrt(), 0.0)
    nodes, weights = (array.to(x) for array in _gauss_hermite())
    u = (s * x).unsqueeze(-1) + share.sqrt().unsqueeze(-1) * nodes
    ratio: Tensor = _InformationOverHazard.apply(u)  # type: ignore[no-untyped-call]
    hazard: Tensor = _Hazard.apply(x)  # type: ignore[no-untyped-call]
    return truncated_information(x) - s * hazard * (ratio @ weights)


def _expansion(x: Tensor, share: Tensor) -> Tensor:
    """That of a Gaussian: noise hides the shape of what is below it, but for its variance."""
    reduction: Tensor = _Reduction.apply(x)  # type: ignore[no-untyped-call]
    return -0.5 * torch.log1p(-share.clamp(0.0, _NOISY) * reduction)


@lru_cache(maxsize=1)
def _gauss_hermite() -> tuple[Tensor, Tensor]:
    nodes, weights = hermegauss(_NUM_NODES)
    return torch.from_numpy(nodes), torch.from_numpy(weights / math.sqrt(2 * math.pi))


class _Normal:
    """Functions of a standard normal in double precision, without loss in either tail.

    Attributes:
        x: The points.
        on_left: Where they are negative.
        mills: ``Phi(-|x|) / phi(x)``.
        hazard: ``r = phi / Phi``.
        excess: ``1 + x^2 + x r``.
        information: ``x r / 2 - log Phi``.
    """

    def __init__(self, x: Tensor) -> None:
        self.x = x = x.double()
        self.on_left = x < 0
        size = x.abs()
        self.mills = mills = _SQRT_HALF_PI * torch.special.erfcx(_SQRT_HALF * size)
        self.density = torch.exp(-0.5 * size * size - _LOG_SQRT_2PI)
        self.tail = self.density * mills
        self.hazard = torch.where(self.on_left, 1 / mills, self.density / (1 - self.tail))
        inverse_square = 1 / size.clamp_min(_FAR).square()
        series = torch.zeros_like(x)
        for coefficient in reversed(_SERIES):
            series = inverse_square * (coefficient + series)
        near = 1 + size.clamp_max(_FAR).square() - size.clamp_max(_FAR) / mills
        left_excess = torch.where(size > _FAR, series, near)
        right = torch.where(self.on_left, torch.zeros_like(x), x)
        self.excess = torch.where(
            self.on_left, left_excess, 1 + right.square() + right * self.hazard
        )
        on_left = 0.5 * (left_excess - 1) - mills.log() + _LOG_SQRT_2PI
        on_right = 0.5 * right * self.hazard - torch.log1p(-self.tail)
        self.information = torch.where(self.on_left, on_left, on_right)

    @property
    def sum_with_hazard(self) -> Tensor:
        """``x + r``."""
        far_left = (1 - self.excess) / self.x.abs().clamp_min(_SQRT_HALF)
        return torch.where(self.x < -1, far_left, self.x + self.hazard)

    @property
    def information_over_hazard(self) -> Tensor:
        """``t / r``."""
        tail = self.tail.clamp_min(1e-300)
        ratio = -torch.log1p(-tail) / tail  # tends to one
        on_right = 0.5 * self.x + (1 - self.tail) * self.mills * ratio
        return torch.where(self.on_left, self.information * self.mills, on_right)


class _Elementwise(Function):
    """A function of one number whose slope is found with its value."""

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        slope: Tensor = ctx.saved_tensors[0]
        return grad * slope


class _Information(_Elementwise):
    """``t``."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        normal = _Normal(x)
        ctx.save_for_backward((-0.5 * normal.hazard * normal.excess).to(x))
        return normal.information.to(x)


class _Hazard(_Elementwise):
    """``r``."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        normal = _Normal(x)
        ctx.save_for_backward((-normal.hazard * normal.sum_with_hazard).to(x))
        return normal.hazard.to(x)


class _Reduction(_Elementwise):
    """``r (x + r)``: by how much the bound reduces the variance of a standard normal."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        normal = _Normal(x)
        total = normal.sum_with_hazard
        reduction = normal.hazard * total
        rest = torch.where(x < -1, normal.excess - total.square(), 1 - reduction)
        ctx.save_for_backward((normal.hazard * (rest - total.square())).to(x))
        return reduction.to(x)


class _InformationOverHazard(_Elementwise):
    """``t / r``."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        normal = _Normal(x)
        ratio = normal.information_over_hazard
        ctx.save_for_backward((ratio * normal.sum_with_hazard - 0.5 * normal.excess).to(x))
        return ratio.to(x)

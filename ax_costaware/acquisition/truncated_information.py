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
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from numpy.polynomial.hermite_e import hermegauss
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from ax_costaware.acquisition.standard_normal import StandardNormal

_LARGEST = 39.0
"""Beyond this many standard deviations the bound says nothing: the density is zero in double."""

_SMALLEST = -1e100
"""Bounds below are taken for this one, so that everything stays finite."""

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
    return _of(_information, _limited(gamma))


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
    ratio, hazard = _of(_information_over_hazard, u), _of(_hazard, x)
    return truncated_information(x) - s * hazard * (ratio @ weights)


def _expansion(x: Tensor, share: Tensor) -> Tensor:
    """That of a Gaussian: noise hides the shape of what is below it, but for its variance."""
    return -0.5 * torch.log1p(-share.clamp(0.0, _NOISY) * _of(_reduction, x))


@lru_cache(maxsize=1)
def _gauss_hermite() -> tuple[Tensor, Tensor]:
    nodes, weights = hermegauss(_NUM_NODES)
    return torch.from_numpy(nodes), torch.from_numpy(weights / math.sqrt(2 * math.pi))


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
    ratio = normal.information_over_hazard
    return ratio, ratio * normal.sum_with_hazard - 0.5 * normal.excess


def _of(function: Callable[[StandardNormal], tuple[Tensor, Tensor]], x: Tensor) -> Tensor:
    value: Tensor = _Elementwise.apply(x, function)  # type: ignore[no-untyped-call]
    return value


class _Elementwise(Function):
    """A function of one number whose slope is found with its value."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, function: Callable[[StandardNormal], tuple[Tensor, Tensor]]
    ) -> Tensor:
        value, slope = function(StandardNormal(x))
        ctx.save_for_backward(slope.to(x))
        return value.to(x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (slope,) = ctx.saved_tensors
        return grad * slope, None

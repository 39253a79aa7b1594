r"""The Gittins index of a Gaussian box (Weitzman 1979; Xie et al. 2024, equations 5 and 10).

The index of a box with value :math:`f \sim N(\mu, \sigma^2)` that costs :math:`c` to open is the
:math:`g` that solves :math:`E[(f - g)^+] = c`: the value of a sure alternative at which opening the
box is worth just its cost. With :math:`z = (\mu - g) / \sigma`, the standard normal density
:math:`\phi` and distribution function :math:`\Phi`, and :math:`h(z) = \phi(z) + z \Phi(z)` it is
:math:`g = \mu - \sigma z` where :math:`\log h(z) = \log(c / \sigma)`.

:math:`\log h` is smooth, increasing and concave, so three Halley steps from a rational first guess
solve the equation to rounding for every cost, element by element, and gradients follow from the
implicit function theorem: :math:`dg = d\mu + (\phi / \Phi) d\sigma - \sigma (h / \Phi) d\log c`.
Tails go through the scaled complementary error function, in which nothing cancels or overflows.

Xie, Astudillo, Frazier, Scully and Terenin 2024, "Cost-aware Bayesian Optimization via the
Pandora's Box Gittins Index" (NeurIPS). Values are in the unit of ``mean``; a cost is in the same
unit, that is, already multiplied by the exchange rate lambda.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from ax_costaware.acquisition.standard_normal import LOG_SQRT_2PI, StandardNormal

_LARGE = 50.0
"""From this log(c / sigma) on, the index is ``mean - cost`` to every digit."""

_SMALL = -1e7
"""Below this log(c / sigma) the leading terms of the expansion are exact to rounding."""

_LARGEST = 1e300
"""A cost of zero has an infinite logarithm, which must not be subtracted from itself."""

_GUESS = (18.0, 3.023, -8.245, -0.734, 5.82, 0.5193)
"""A rational function of ``sqrt(1.5 - log(c / sigma))``, a least-squares fit to within 0.01."""

_HALLEY_STEPS = 3


def gittins_index(mean: Tensor, sigma: Tensor, cost: Tensor | float) -> Tensor:
    r"""The Gittins index of boxes with Gaussian values.

    The three arguments are broadcast; each element is solved on its own. An element with a
    negative or NaN ``sigma`` or ``cost`` is NaN, one of infinite cost is ``-inf``, and one that
    costs nothing is ``inf``, unless its ``sigma`` is zero. With ``sigma`` zero the index is
    ``mean - cost``.

    Args:
        mean: Means of the values, of any shape.
        sigma: Standard deviations of the values, at least zero.
        cost: Costs, positive, in the unit of ``mean``: already multiplied by lambda.

    Returns:
        The indices, in the broadcast shape and the dtype of ``mean``; differentiable in all three
        arguments (once).
    """
    costs = torch.as_tensor(cost, dtype=mean.dtype, device=mean.device)
    return gittins_index_of_log_cost(mean, sigma, costs.log())


def gittins_index_of_log_cost(mean: Tensor, sigma: Tensor, log_cost: Tensor) -> Tensor:
    """As ``gittins_index``, from the logarithm of the cost, which neither over- nor underflows."""
    mean, sigma, log_cost = torch.broadcast_tensors(mean, sigma, log_cost)
    index: Tensor = _GittinsIndex.apply(mean, sigma, log_cost)  # type: ignore[no-untyped-call]
    return index


class _GittinsIndex(Function):
    """The index, with its gradient by the implicit function theorem."""

    @staticmethod
    def forward(ctx: Any, mean: Tensor, sigma: Tensor, log_cost: Tensor) -> Tensor:
        # In double precision throughout: the equation is solved in logs, and digits of a large
        # logarithm are lost in single precision.
        log_sigma, log_c = sigma.double().log(), log_cost.double()
        log_v = log_c - log_sigma
        z = _solve(log_v.clamp(_SMALL, _LARGE))
        w = -2 * log_v
        tail = torch.sqrt(w - 2 * w.clamp_max(_LARGEST).log() - 2 * LOG_SQRT_2PI)
        normal = StandardNormal(torch.where(log_v < _SMALL, -tail, z))
        z, cost, is_right = normal.x, log_c.exp(), ~normal.on_left
        # Where z > 0, sigma z = cost - sigma h(-z), also for sigma = 0 where z is infinite.
        excess = torch.where(is_right, cost - sigma * _log_h_of_tail(normal).exp(), sigma * z)
        # sigma h / Phi, where sigma h is the cost.
        slope = torch.where(is_right, cost / normal.rest, sigma * (1 / normal.mills - normal.size))
        is_certain = sigma == 0
        excess, slope = (torch.where(is_certain, cost, part) for part in (excess, slope))
        hazard = normal.hazard.masked_fill(is_certain, 0.0)
        ctx.save_for_backward(hazard.to(sigma), slope.to(log_cost))
        return mean - excess.to(mean)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        hazard, slope = ctx.saved_tensors
        return grad, grad * hazard, -grad * slope


def _log_h_of_tail(normal: StandardNormal) -> Tensor:
    """``log h(-|z|)``."""
    size = normal.size
    return torch.log1p(-size * normal.mills) - 0.5 * size * size - LOG_SQRT_2PI


def _solve(log_v: Tensor) -> Tensor:
    """The ``z`` with ``log h(z) = log_v``, for ``_SMALL <= log_v <= _LARGE``."""
    s = torch.sqrt((1.5 - log_v).clamp_min(1.0))
    p0, p1, p2, p3, q1, q2 = _GUESS
    guess = (p0 + s * (p1 + s * (p2 + s * p3))) / (1 + s * (q1 + s * q2))
    z = torch.where(log_v > 0.4, log_v.exp(), guess)
    for _ in range(_HALLEY_STEPS):
        normal = StandardNormal(z)
        log_tail = _log_h_of_tail(normal)
        h = normal.size + log_tail.exp()  # on the right
        gap = torch.where(normal.on_left, log_tail, h.log()) - log_v
        # h / Phi
        ratio = torch.where(normal.on_left, 1 / normal.mills - normal.size, h / normal.rest)
        z = z - gap * ratio / (1 - 0.5 * gap * (ratio * normal.hazard - 1))
    return z

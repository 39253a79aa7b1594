r"""The Gittins index of Gaussian boxes, and the price of cost at which it spends a budget.

The index (Weitzman 1979; Xie et al. 2024, equations 5 and 10) of a box with value
:math:`f \sim N(\mu, \sigma^2)` that costs :math:`c` to open is the :math:`g` that solves
:math:`E[(f - g)^+] = c`: the value of a certain alternative at which opening the box just pays for
its cost. Let :math:`z = (\mu - g) / \sigma`, with the standard normal density :math:`\phi` and
distribution function :math:`\Phi`, and :math:`h(z) = \phi(z) + z \Phi(z)`. Then
:math:`g = \mu - \sigma z` where :math:`\log h(z) = \log(c / \sigma)`.

:math:`\log h` is smooth, increasing and concave, so three Halley steps from a rational first guess
solve the equation to rounding for every cost, element by element, and gradients follow from the
implicit function theorem: :math:`dg = d\mu + (\phi / \Phi) d\sigma - \sigma (h / \Phi) d\log c`.
Tails go through the scaled complementary error function, in which nothing cancels or overflows.

Xie, Astudillo, Frazier, Scully and Terenin 2024, "Cost-aware Bayesian Optimization via the
Pandora's Box Gittins Index" (NeurIPS). Values are in the unit of ``mean``; a cost is in the same
unit, that is, already multiplied by the exchange rate lambda.

The price of cost. Boxes with independent values :math:`f_i \sim N(\mu_i, \sigma_i^2)` cost
:math:`c_i` to open. At the price :math:`\lambda` box i has the Gittins index :math:`\alpha_i` of
the cost :math:`\lambda c_i`, and the policy opens boxes in the order of decreasing indices until
the best value seen is at least the next index. With the boxes numbered in that order, box i is
opened if and only if the values of all earlier boxes are below :math:`\alpha_i`: otherwise the
policy would have stopped earlier, since the indices decrease. Its expected cost is

.. math:: S(\lambda) = \sum_i c_i\, [b < \alpha_i] \prod_{j < i}
          \Phi\left(\frac{\alpha_i - \mu_j}{\sigma_j}\right)

where b is a best value known before, or :math:`-\infty`. The policy maximises the
expected best value minus :math:`\lambda` times the expected cost, so S never rises with
:math:`\lambda`: it is the slope, up to sign, of a maximum of functions that are affine in
:math:`\lambda`. The :math:`\lambda` with :math:`S(\lambda) = B` is the multiplier of the problem to
spend at most B on average, by the duality of theorem 2 in Xie et al. 2024. Prices are in units of
the values per unit of cost. S jumps where the order of two boxes changes, or an index falls to b.

A box that is feasible with probability :math:`p_i`, independently of its value, has the index g
that solves :math:`p_i E[(f_i - g)^+] = \lambda c_i`. This is the index at the cost
:math:`\lambda c_i / p_i`. Its value is below :math:`\alpha` with probability
:math:`1 - p_i (1 - \Phi)`.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Any

import torch
from scipy.optimize import brentq
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from ax_costaware.acquisition.criteria import log_expected_gain
from ax_costaware.acquisition.standard_normal import LOG_SQRT_2PI, StandardNormal
from ax_costaware.argument_checks import finite_number, first_bad, positive_number
from ax_costaware.exceptions import InputError

_LARGE = 50.0
"""From this log(c / sigma) on, the index is ``mean - cost`` to every digit."""

_SMALL = -1e7
"""Below this log(c / sigma) the leading terms of the expansion are exact to rounding."""

_LARGEST = 1e300
"""Bound of a logarithm: that of a cost of zero is infinite, and inf - inf is NaN."""

_GUESS = (18.0, 3.023, -8.245, -0.734, 5.82, 0.5193)
"""A rational function of ``sqrt(1.5 - log(c / sigma))``, a least-squares fit to within 0.01."""

_HALLEY_STEPS = 3

_BLOCK_ROWS = 64
"""Boxes per block: few enough to stop early, enough to keep the overhead small."""

_BLOCK_PAIRS = 2**22
"""Most pairs of boxes per block, which bounds the memory."""

_NEGLIGIBLE = 1e-16
"""Relative expected cost below which all remaining boxes together are left out."""

_TOLERANCE = 1e-10
"""Relative error of the price."""

_ROUNDING = 1e-15
"""Relative excess of a budget that is rounding only."""

_SQRT_2 = math.sqrt(2.0)

_LARGEST_LOG = 700.0
"""Logarithms of prices are sought within plus and minus this: the prices are floats."""


def gittins_index(mean: Tensor, sigma: Tensor, cost: Tensor | float) -> Tensor:
    r"""Return the Gittins index of boxes with Gaussian values.

    The three arguments are broadcast; each element is solved on its own. An element with a
    negative or NaN ``sigma`` or ``cost`` is NaN, one of infinite cost is ``-inf``, and one that
    costs nothing is ``inf``, unless its ``sigma`` is zero. With ``sigma`` zero the index is
    ``mean - cost``.

    Args:
        mean: Means of the values, of any shape.
        sigma: Standard deviations of the values, at least zero.
        cost: Costs, positive, in the unit of ``mean``: already multiplied by lambda.

    Returns:
        The indices, in the broadcast shape and the dtype of ``mean``, double where its numbers are
        whole; differentiable in all three arguments (once).
    """
    mean = mean if mean.is_floating_point() else mean.double()
    costs = torch.as_tensor(cost, dtype=torch.double, device=mean.device)
    return gittins_index_of_log_cost(mean, sigma, costs.log())


def gittins_index_of_log_cost(mean: Tensor, sigma: Tensor, log_cost: Tensor) -> Tensor:
    """Return ``gittins_index`` for the log of the cost, which neither overflows nor underflows."""
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


def expected_spend(
    mean: Tensor,
    sigma: Tensor,
    cost: Tensor,
    lmbda: float,
    best_f: float | None = None,
    log_probability: Tensor | None = None,
) -> float:
    """Return the expected cost of the Gittins policy on independent boxes.

    Boxes are processed in blocks until the rest is negligible. The effort is quadratic in the
    number of boxes that are likely to be opened, the memory linear.

    Args:
        mean: ``n`` means of the values, the larger the better.
        sigma: ``n`` standard deviations, at least zero; a box with zero has a known value.
        cost: ``n`` costs, positive.
        lmbda: The price of cost, positive, in units of the values per unit of cost.
        best_f: The best value known before; without it the first box is always opened.
        log_probability: ``n`` logarithms of the probability that a value counts, at most zero;
            None: all count.

    Returns:
        The expected cost of all boxes that are opened, in the unit of ``cost``.

    Raises:
        InputError: If the tensors are not of one shape ``n``, or any entry or number is not what
            this says.
    """
    boxes = _checked(mean, sigma, cost, log_probability)
    price = positive_number(lmbda, "lmbda")
    return _spend(*boxes, math.log(price), _best(best_f))


def lambda_for_budget(
    mean: Tensor,
    sigma: Tensor,
    cost: Tensor,
    budget: float,
    best_f: float | None = None,
    log_probability: Tensor | None = None,
) -> float:
    """Return the price of cost at which the expected cost of the Gittins policy is a budget.

    Args:
        mean: ``n`` means of the values, the larger the better.
        sigma: ``n`` standard deviations, at least zero; a box with zero has a known value.
        cost: ``n`` costs, positive.
        budget: Expected cost, positive, in the unit of ``cost``.
        best_f: The best value known before; without it the first box is always opened.
        log_probability: ``n`` logarithms of the probability that a value counts, at most zero;
            None: all count.

    Returns:
        The least price, to a relative 1e-9 and from above, at which the expected cost is at most
        the budget. It equals the budget, or is the value below a jump over the budget. 0.0 if the
        budget does not bind at any price.

    Raises:
        InputError: If the tensors are not of one shape ``n``, or any entry or number is not what
            this says; or if ``budget`` is below the expected cost at any price: without ``best_f``
            one box is opened, that of the least cost, or of the least cost over its probability.
    """
    boxes = means, sigmas, costs, _ = _checked(mean, sigma, cost, log_probability)
    allowed, best = positive_number(budget, "budget"), _best(best_f)
    if best_f is None and allowed < float(costs.min()):
        raise InputError(
            f"budget={budget!r}: expected at least the least cost, {float(costs.min()):g}, which "
            "is spent at any price."
        )
    if allowed >= float(costs.sum()):
        return 0.0

    def excess(log_price: float, threshold: float | None = None) -> float:
        spend = _spend(*boxes, log_price, best, threshold)
        # Below zero if the budget is spent to the last digit, so that the least such price counts.
        return math.log(spend / allowed) - _ROUNDING if spend > 0 else -_LARGEST_LOG

    def is_enough(log_price: float) -> bool:
        return excess(log_price, allowed) <= 0

    edges = _edges(*boxes, best)
    # Start at the price at which the spread of the values equals the mean cost.
    spread = float(sigmas.mean() + means.std(correction=0))
    start = math.log(spread / float(costs.mean())) if spread > 0 else 0.0
    start = min(max(start, -_LARGEST_LOG), _LARGEST_LOG)
    log_price = _least_without_excess(excess, is_enough, start, edges)
    if log_price == math.inf:
        raise InputError(f"budget={budget!r}: expected more than what is spent at any price.")
    return math.exp(log_price)


def _edges(
    mean: Tensor, sigma: Tensor, cost: Tensor, log_probability: Tensor | None, best: float
) -> list[float]:
    """Return the increasing log prices at which an index equals ``best``: the spend jumps there."""
    if best == -math.inf:
        return []
    gain = mean - best
    log_ei = torch.where(sigma > 0, log_expected_gain(gain, sigma), gain.clamp_min(0.0).log())
    edges = log_ei - cost.log()
    if log_probability is not None:
        edges = edges + log_probability
    known: list[float] = edges[edges.abs() < _LARGEST_LOG].sort().values.tolist()
    return known


def _least_without_excess(
    excess: Callable[[float], float],
    is_enough: Callable[[float], bool],
    start: float,
    edges: Sequence[float],
) -> float:
    """Return the least log price without excess, from above; infinite if there is no root.

    ``is_enough`` (no excess) is faster than ``excess``. At ``edges`` the spend jumps; bracketing
    them first saves Brent's method about fifty steps at a jump.
    """
    low = high = start
    step = 1.0
    first = bisect_left(edges, True, key=lambda edge: is_enough(edge + _TOLERANCE))
    if first < len(edges):
        high = edges[first] - _TOLERANCE
        if not is_enough(high):
            return edges[first] + _TOLERANCE
    else:
        while not is_enough(high):
            if high == _LARGEST_LOG:
                return math.inf
            low = high
            high, step = min(high + step, _LARGEST_LOG), 2 * step
    if first > 0:
        low = edges[first - 1] + _TOLERANCE
    else:
        low = min(low, high)
        while is_enough(low):
            if low == -_LARGEST_LOG:
                return -math.inf
            high = low
            low, step = max(low - step, -_LARGEST_LOG), 2 * step
    root = float(brentq(excess, low, high, xtol=_TOLERANCE))
    # Brent's method may end on either side of a jump.
    step = _TOLERANCE
    while root < high and not is_enough(root):
        root, step = min(root + step, high), 2 * step
    return root


def _spend(
    mean: Tensor,
    sigma: Tensor,
    cost: Tensor,
    log_probability: Tensor | None,
    log_price: float,
    best: float,
    threshold: float | None = None,
) -> float:
    """Return the expected cost, or a partial sum that is on the same side of ``threshold``."""
    log_cost = cost.log() + log_price
    if log_probability is not None:
        log_cost = log_cost - log_probability
    index, order = gittins_index_of_log_cost(mean, sigma, log_cost).sort(
        descending=True, stable=True
    )
    num_opened = int((index > best).sum())
    index, order = index[:num_opened], order[:num_opened]
    mean, width, cost = mean[order], _SQRT_2 * sigma[order], cost[order]
    counts = None if log_probability is None else log_probability[order].exp()
    rows = min(_BLOCK_ROWS, max(1, _BLOCK_PAIRS // max(1, num_opened)))
    spend, left = 0.0, float(cost.sum())
    for start in range(0, num_opened, rows):
        end = min(start + rows, num_opened)
        opened = _all_below(index[start:end], mean[:end], width[:end], counts)
        spend += float(opened @ cost[start:end])
        left -= float(cost[start:end].sum())
        # No later box is opened more often than the last of this block.
        rest = float(opened[-1]) * left
        if rest <= _NEGLIGIBLE * spend:
            break
        if threshold and not spend * (1 - _TOLERANCE) <= threshold <= (spend + rest) * (
            1 + _TOLERANCE
        ):
            break
    return spend


def _all_below(index: Tensor, mean: Tensor, width: Tensor, counts: Tensor | None = None) -> Tensor:
    """Return, for each of the last boxes, the probability that all boxes before it are below it."""
    z = (mean - index.unsqueeze(-1)) / width
    # A known value, of zero width, is not below an index that it equals.
    z = z.nan_to_num_(nan=math.inf, posinf=math.inf, neginf=-math.inf)
    below = 0.5 * torch.special.erfc(z)
    if counts is not None:
        below = 1 - counts[: len(mean)] * (1 - below)
    not_before = torch.ones(len(index), len(index), dtype=torch.bool).triu()
    below[:, -len(index) :].masked_fill_(not_before, 1.0)
    product: Tensor = below.prod(dim=-1)
    return product


def _best(best_f: float | None) -> float:
    return -math.inf if best_f is None else finite_number(best_f, "best_f")


def _checked(
    mean: Tensor, sigma: Tensor, cost: Tensor, log_probability: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    tensors = {"mean": mean, "sigma": sigma, "cost": cost}
    if log_probability is not None:
        tensors["log_probability"] = log_probability
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor) or tensor.ndim != 1 or len(tensor) != len(mean):
            shape = tuple(tensor.shape) if isinstance(tensor, Tensor) else tensor
            raise InputError(
                f"{name} of shape {shape!r}: expected a tensor of shape n, the same for mean, "
                "sigma, cost and log_probability."
            )
    if len(mean) == 0:
        raise InputError("mean, sigma and cost are empty: expected at least one box.")
    mean, sigma, cost, *known = (
        tensor.detach().to(device="cpu", dtype=torch.double) for tensor in tensors.values()
    )
    for name, tensor, good, expected in (
        ("mean", mean, mean.isfinite(), "finite means"),
        ("sigma", sigma, sigma.isfinite() & (sigma >= 0), "finite standard deviations >= 0"),
        ("cost", cost, cost.cumsum(0).isfinite() & (cost > 0), "costs > 0 of a finite sum"),
        *(("log_probability", given, given <= 0, "logarithms <= 0") for given in known),
    ):
        if (entry := first_bad(good)) is not None:
            raise InputError(f"{name}[{entry}]={float(tensor[entry])!r}: expected {expected}.")
    return mean, sigma, cost, known[0] if known else None

r"""What a trial of a control set tells about the best reachable query.

A control set's own value can be low and the trial still worth its cost, for what it teaches about
the function. Let :math:`q^* = (i^*, x^*)` be the query with the best expectation and
:math:`g^* = E f(x^*, X^{-i^*})` its value, both sampled from the posterior. An observation
:math:`y = f(x) + e`, :math:`e \sim N(0, s^2)`, where a trial really lands, tells of the optimum as
a linear observation

.. math:: I(x) = -\frac{1}{2}\, \mathrm{mean}_{q^*} \log\!\left(1 -
   \frac{\mathrm{Cov}[f(x), g^*]^2}{\mathrm{Var}[g^*]\,(\mathrm{Var} f(x) + s^2)}\right)

(Hvarfner, Hutter and Nardi 2022, "Joint Entropy Search for Maximally-Informed Bayesian
Optimization"). Where the best query leaves nothing to chance, :math:`g^*` is :math:`\max f`, and
what is left of :math:`f(x)` is bounded by it: the information of that bound is added, which is that
of max-value entropy search (Wang and Jegelka 2017) in its noise-aware form. Both are averaged over
what the control set leaves to chance, :math:`E\, I(x_C, X_R)`, in nats. That information per unit
cost could replace numbers of plays is named as future work by Tay et al. 2023, "Bayesian
Optimization with Cost-varying Variable Subsets".

The information of a bound: with :math:`g \sim N(\nu, v)`, an observation :math:`z = g + e` and
:math:`\gamma = (f^* - \nu) / \sqrt v`, it is how much the entropy of :math:`z` falls when one is
told that :math:`g \le f^*`; in nats, without a unit. With the standard normal density :math:`\phi`,
distribution function :math:`\Phi` and :math:`r = \phi / \Phi` it is, without noise,

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

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from ax_costaware.acquisition.criteria import Spread
from ax_costaware.acquisition.rowwise import remaining_variance
from ax_costaware.acquisition.standard_normal import StandardNormal
from ax_costaware.models.cached_posterior import CachedPosterior
from ax_costaware.queries.quadrature import gauss_hermite

# The optimum itself, observed without noise, would tell infinitely much; and what is known of it
# already to this share of its prior variance is rounding.
_LARGEST_SHARE = 1 - 1e-9
_LEAST_VARIANCE = 1e-9

_LARGEST = 39.0
"""Beyond this many standard deviations the bound says nothing: the density is zero in double."""

_SMALLEST = -1e100
"""Bounds below are taken for this one, so that everything stays finite."""

_NUM_NODES = 24
"""The quadrature is then right to about twelve digits."""

_NOISY = 1e-4
"""Below this rho squared the first term of the expansion in it is exact to about nine digits."""


@dataclass(frozen=True, eq=False)
class BestQueries:
    """Samples of the best query, prepared against a posterior, on its latent scale.

    Attributes:
        nodes: ``r x d`` nodes of all samples, transformed.
        membership: ``r x s``: the weight of each node in each sample.
        solved: ``n x s``: the inverse times the covariances of the training inputs and the values.
        means: ``s`` posterior means of the values.
        variances: ``s`` posterior variances of the values.
        bounds: ``s`` sampled values where they bound the whole function, else None: from above, or
            from below where the posterior's scale is negative.
        points: ``s x d`` sampled points, not transformed.
    """

    nodes: Tensor
    membership: Tensor
    solved: Tensor
    means: Tensor
    variances: Tensor
    bounds: Tensor | None
    points: Tensor

    @classmethod
    def prepare(
        cls,
        posterior: CachedPosterior,
        points: Tensor,
        queries: Sequence[tuple[Tensor, Tensor]],
        bounds: Tensor | None = None,
    ) -> BestQueries:
        """Evaluate once what does not depend on where a trial lands.

        Args:
            posterior: The posterior.
            points: ``s x d`` sampled points.
            queries: Per sample, its ``m x d`` nodes and ``m`` weights.
            bounds: ``s`` sampled values, on the latent scale, where they bound the function.
        """
        with torch.no_grad():
            nodes = posterior.transform(torch.cat([nodes for nodes, _ in queries]))
            membership = torch.block_diag(*[w.to(nodes).unsqueeze(-1) for _, w in queries])
            among = posterior.prior_covariance(nodes, nodes) @ membership
            prior = (membership * among).sum(dim=0)
            k = posterior.prior_covariance(posterior.X, nodes) @ membership
            solved = posterior.inverse @ k
            variances = prior - (k * solved).sum(dim=0)
            return cls(
                nodes=nodes,
                membership=membership,
                solved=solved,
                means=posterior.prior_mean + k.mT @ posterior.alpha,
                variances=torch.maximum(variances, _LEAST_VARIANCE * prior),
                bounds=bounds,
                points=points,
            )


@dataclass(frozen=True, eq=False)
class Information:
    """The information of trials in the place of a posterior's mean; see ``NodePosterior``.

    Attributes:
        posterior: The posterior.
        best: Samples of the best query.
    """

    posterior: CachedPosterior
    best: BestQueries

    most_nodes: ClassVar[tuple[int | None, int]] = (16, 8)

    @property
    def width(self) -> int:
        """See ``NodePosterior``."""
        return len(self.posterior.X) + len(self.best.nodes)

    def moments(self, nodes: Tensor, weights: Tensor, spread: Spread) -> tuple[Tensor, Tensor]:
        """See ``NodePosterior``: the expected information, in nats, which has no spread."""
        information = self.information(nodes.flatten(0, 1)).reshape(weights.shape)
        expected = torch.linalg.vecdot(weights, information)
        return expected, torch.zeros_like(expected)

    def information(self, points: Tensor) -> Tensor:
        """The information of an observation at each of ``p x d`` points, in nats: ``p``."""
        posterior, best = self.posterior, self.best
        t = posterior.transform(points)
        k = posterior.prior_covariance(t, posterior.X)
        variance = remaining_variance(posterior.prior_variance(t), k, posterior.inverse)
        variance = variance.unsqueeze(-1)
        noise = posterior.noise.mean()
        cross = posterior.prior_covariance(t, best.nodes) @ best.membership - k @ best.solved
        reduction = torch.minimum(cross.square() / best.variances, _LARGEST_SHARE * variance)
        information = -0.5 * torch.log1p(-reduction / (variance + noise))
        if best.bounds is not None:
            left = variance - reduction
            mean = (posterior.prior_mean + k @ posterior.alpha).unsqueeze(-1)
            mean = mean + cross / best.variances * (best.bounds - best.means)
            # Where the objective is minimised, the latent function is bounded from below.
            gamma = posterior.scale.sign() * (best.bounds - mean) / left.sqrt()
            information = information + noisy_truncated_information(gamma, left / (left + noise))
        return information.mean(dim=-1)


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
    nodes, weights = (torch.tensor(array).to(x) for array in gauss_hermite(_NUM_NODES))
    u = (s * x).unsqueeze(-1) + share.sqrt().unsqueeze(-1) * nodes
    ratio, hazard = _of(_information_over_hazard, u), _of(_hazard, x)
    return truncated_information(x) - s * hazard * (ratio @ weights)


def _expansion(x: Tensor, share: Tensor) -> Tensor:
    """That of a Gaussian: noise hides the shape of what is below it, but for its variance."""
    return -0.5 * torch.log1p(-share.clamp(0.0, _NOISY) * _of(_reduction, x))


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

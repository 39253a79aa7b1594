r"""What a GP posterior says of a partial query, with everything that can be computed once kept.

A partial query controls the columns :math:`C` and leaves the columns :math:`R` to chance. For a
product kernel :math:`k = s\, k_C k_R` the part that belongs to the random inputs does not depend on
the values that are controlled, so with training inputs :math:`X` and nodes :math:`z_j`,
:math:`w_j` of the random inputs

* :math:`E\,f = m + s \sum_n k_C(x, X_n)\, \bar k_R(X_n)\, \alpha_n` with
  :math:`\bar k_R = \sum_j w_j k_R(z_j, \cdot)`: one plain GP evaluation whatever the nodes;
* :math:`\mathrm{Var}\,[E f] = s \bar{\bar k}_R - v^\top (K + \Sigma)^{-1} v` with
  :math:`v = s\, k_C \bar k_R`;
* :math:`E\,\sigma = \sum_j w_j \sigma(x, z_j)` is not linear and needs the nodes, but all of them
  together are one matrix product, and its gradient with respect to :math:`k_C` comes with it.

Everything is on the latent scale of the GP (see ``CachedPosterior``). Source: Tay et al. 2023,
*Bayesian Optimization with Cost-varying Variable Subsets*, section 4.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable

from ax_costaware.models.block_sums import BlockSums
from ax_costaware.models.cached_posterior import CachedPosterior
from ax_costaware.models.separable_kernel import SeparableKernel

# Rows times nodes times training points held at once: 2^19 doubles are 4 MiB, which stays in the
# cache of one core and keeps the peak memory of a decision flat however many rows there are.
CHUNK_ELEMENTS = 2**19

# Posterior variances below this share of the prior variance are rounding. It also bounds the
# gradient of the standard deviation at an observed point.
MIN_RELATIVE_VARIANCE = 1e-12


@dataclass(frozen=True, eq=False)
class PartialQuery:
    r"""One control set, prepared against one posterior.

    Attributes:
        posterior: The posterior.
        mask: ``d``-tensor, one for a controlled column and zero for a random one.
        nodes: ``m x n``: the random part of the kernel between each node and the training inputs,
            times the output scale.
        weights: ``m`` weights of the nodes, summing to one.
        mean_factor: ``n``: the output scale times :math:`\bar k_R`.
        prior_variance: The prior variance of :math:`E f`.
        outputscale: The prior variance of :math:`f`.
    """

    posterior: CachedPosterior
    mask: Tensor
    nodes: Tensor
    weights: Tensor
    mean_factor: Tensor
    prior_variance: Tensor
    outputscale: Tensor

    @classmethod
    def prepare(
        cls,
        posterior: CachedPosterior,
        kernel: SeparableKernel,
        controlled: list[int],
        nodes: Tensor,
        weights: Tensor,
        blocks: BlockSums | None = None,
    ) -> PartialQuery:
        """Evaluate the random part of the kernel once.

        Args:
            posterior: The posterior.
            kernel: Its kernel's product form.
            controlled: The controlled columns.
            nodes: ``m x d`` joint nodes of the inputs; controlled columns are ignored.
            weights: ``m`` weights.
            blocks: The one-dimensional sums of independent inputs. Where given, they make the
                linear parts exact to rounding.
        """
        nodes, weights = nodes.to(posterior.X), weights.to(posterior.X)
        mask = torch.zeros(posterior.num_inputs).to(posterior.X)
        mask[controlled] = 1.0
        random = 1.0 - mask
        with torch.no_grad():
            if not bool(random.any()):
                one = torch.ones_like(weights[:1])
                ones = torch.ones_like(posterior.X[:1, 0]).expand(1, len(posterior.X))
                factor = kernel.outputscale * ones
                scale = kernel.outputscale
                return cls(posterior, mask, factor, one, factor[0], scale, scale)
            transformed = posterior.transform(nodes)
            factors = kernel.log_factor(transformed, posterior.X, random).exp()
            linear = None if blocks is None else blocks.combine(controlled, posterior.num_inputs)
            if linear is not None:
                mean_factor, variance = linear
            else:
                mean_factor = weights @ factors
                among = kernel.log_factor(transformed, transformed, random).exp()
                variance = weights @ among @ weights
        return cls(
            posterior=posterior,
            mask=mask,
            nodes=kernel.outputscale * factors,
            weights=weights,
            mean_factor=kernel.outputscale * mean_factor,
            prior_variance=kernel.outputscale * variance,
            outputscale=kernel.outputscale,
        )

    def mean(self, controlled_factor: Tensor) -> Tensor:
        """Latent ``E f`` minus the prior mean for a ``p x n`` controlled kernel factor."""
        return controlled_factor @ (self.mean_factor * self.posterior.alpha)

    def variance(self, controlled_factor: Tensor) -> Tensor:
        """Latent posterior variance of ``E f`` for a ``p x n`` controlled kernel factor."""
        explained: Tensor = QuadraticForm.apply(  # type: ignore[no-untyped-call]
            controlled_factor * self.mean_factor, self.posterior.inverse
        )
        variance = self.prior_variance - explained
        return variance.clamp_min(MIN_RELATIVE_VARIANCE * float(self.prior_variance))

    @cached_property
    def _explained(self) -> Tensor:
        """``n x n``: the inverse times the expected products of the random part of the kernel."""
        return self.posterior.inverse * ((self.nodes.mT * self.weights) @ self.nodes)

    def root_mean_variance(self, controlled_factor: Tensor) -> Tensor:
        r"""Latent :math:`\sqrt{E\,\sigma^2} \ge E\,\sigma` for a ``p x n`` controlled factor.

        Unlike :math:`E\,\sigma` it needs one quadratic form however many nodes there are, and
        its maxima lie close to those of :math:`E\,\sigma`: good enough to find where to search.
        """
        prior = float(self.outputscale)
        explained: Tensor = QuadraticForm.apply(  # type: ignore[no-untyped-call]
            controlled_factor, self._explained
        )
        return (prior - explained).clamp_min(MIN_RELATIVE_VARIANCE * prior).sqrt()

    def expected_std(self, controlled_factor: Tensor) -> Tensor:
        """Latent ``E sigma`` for a ``p x n`` controlled kernel factor."""
        std: Tensor = _ExpectedStd.apply(  # type: ignore[no-untyped-call]
            controlled_factor, self.nodes, self.weights, self.posterior.inverse, self.outputscale
        )
        return std


class QuadraticForm(torch.autograd.Function):
    """``k' A k`` for every row ``k`` of a ``p x n``-tensor and a symmetric ``n x n`` matrix."""

    @staticmethod
    def forward(ctx: Any, k: Tensor, matrix: Tensor) -> Tensor:
        """The ``p`` values."""
        product = k @ matrix
        ctx.save_for_backward(product)
        value: Tensor = torch.linalg.vecdot(product, k)
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        """The gradient with respect to the rows; none with respect to the matrix."""
        (product,) = ctx.saved_tensors  # type: ignore[attr-defined]
        return 2 * grad_output.unsqueeze(-1) * product, None


class _ExpectedStd(torch.autograd.Function):
    """``sum_j w_j sqrt(s - k_j' A k_j)`` with ``k_j = c * r_j``; gradient with respect to ``c``.

    Autograd would keep the ``p x m x n`` intermediates of every step. The gradient needs nothing
    but the products that the value needs anyway, so both are computed in one pass over chunks
    of rows.
    """

    @staticmethod
    def forward(
        ctx: Any, controlled: Tensor, nodes: Tensor, weights: Tensor, inverse: Tensor, prior: Tensor
    ) -> Tensor:
        num_rows, n = controlled.shape
        m = len(weights)
        needs_gradient = ctx.needs_input_grad[0]
        std = torch.empty_like(controlled[:, 0])
        gradient = torch.empty_like(controlled) if needs_gradient else None
        step = max(1, CHUNK_ELEMENTS // (m * n))
        floor = MIN_RELATIVE_VARIANCE * float(prior)
        for start in range(0, num_rows, step):
            rows = slice(start, start + step)
            k = controlled[rows].unsqueeze(1) * nodes  # p x m x n
            solved = (k.view(-1, n) @ inverse).view_as(k)
            explained = torch.linalg.vecdot(solved, k)
            sigma = (prior - explained).clamp_min(floor).sqrt()  # p x m
            std[rows] = sigma @ weights
            if gradient is not None:
                share = -(weights / sigma).unsqueeze(1)  # p x 1 x m
                gradient[rows] = (share @ solved.mul_(nodes)).squeeze(1)
        ctx.save_for_backward(gradient)
        return std

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = ctx.saved_tensors  # type: ignore[attr-defined]
        return grad_output.unsqueeze(-1) * gradient, None, None, None, None

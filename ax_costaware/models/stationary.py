"""Correlations of stationary kernels between points, with cheap gradients by the length-scales."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def squared_exponential(squares: Tensor) -> tuple[Tensor, Tensor]:
    """The correlation at squared distances in length-scales, and its derivative by them."""
    correlation = squares.mul(-0.5).exp()
    return correlation, -0.5 * correlation


def matern(squares: Tensor) -> tuple[Tensor, Tensor]:
    """The same for smoothness 5/2."""
    distances = (5 * squares).sqrt()
    slope = (-distances).exp()
    linear = (distances + 1) * slope
    return linear + (5 / 3) * squares * slope, (-5 / 6) * linear


def correlation(
    X: Tensor, lengthscale: Tensor, shape: Callable[[Tensor], tuple[Tensor, Tensor]]
) -> Tensor:
    """Correlations of points, differentiable by the length-scales only.

    The gradient takes products of matrices ``n x n`` and ``n x d``, and keeps no other ``n x n``
    matrix than one.

    Args:
        X: ``n x d`` points.
        lengthscale: One, or ``d``, of any shape.
        shape: ``squared_exponential`` or ``matern``.

    Returns:
        ``n x n`` correlations.
    """
    found: Tensor = _Correlation.apply(X, lengthscale, shape)  # type: ignore[no-untyped-call]
    return found


class _Correlation(torch.autograd.Function):
    """The correlations of points ``n x d`` under a stationary kernel with length-scales."""

    @staticmethod
    def forward(
        ctx: Any,
        X: Tensor,
        lengthscale: Tensor,
        shape: Callable[[Tensor], tuple[Tensor, Tensor]],
    ) -> Tensor:
        # From their middle, so that less cancels.
        scaled = (X - X.mean(dim=0)) / lengthscale.reshape(-1)
        norms = scaled.square().sum(dim=-1)
        squares = torch.addmm(norms.unsqueeze(-1) + norms, scaled, scaled.mT, alpha=-2)
        squares = squares.clamp_min_(0.0).fill_diagonal_(0.0)
        correlation, derivative = shape(squares)
        ctx.save_for_backward(scaled, derivative, lengthscale)
        return correlation

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor, None]:
        scaled, derivative, lengthscale = ctx.saved_tensors
        weights = gradient * derivative
        # The sum of weights times squared differences, for each column.
        margins = weights.sum(dim=0) + weights.sum(dim=1)
        by_column = margins @ scaled.square() - 2 * (scaled * (weights @ scaled)).sum(dim=0)
        flat = lengthscale.reshape(-1)
        by_column = -2 * by_column / flat
        if len(flat) == 1:
            by_column = by_column.sum()
        return None, by_column.reshape(lengthscale.shape), None

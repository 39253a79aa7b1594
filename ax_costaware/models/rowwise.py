"""Functions of many rows that return their gradients with their values, for inner loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable

from ax_costaware.models.factor import least

# Largest product of rows, nodes and training points in memory: 2^19 doubles are 4 MiB, which fit
# into the cache of one core and limit the peak memory of a decision.
CHUNK_ELEMENTS = 2**19

# Part of the prior variance below which posterior variances are rounding errors. It also bounds the
# gradient of the standard deviation at an observed point.
MIN_RELATIVE_VARIANCE = 1e-12


def rowwise(
    X: Tensor, function: Callable[[Tensor, bool], tuple[Tensor, Tensor | None]], step: int
) -> Tensor:
    """Evaluate a function of rows with its own gradient, ``step`` rows at a time.

    Args:
        X: ``p x d`` rows.
        function: Function of rows, and of a flag that asks for gradients, to a value per row, and
            the gradient of each value with respect to its row.
        step: Number of rows at a time, at least one.

    Returns:
        ``p`` values, differentiable once with respect to ``X``.
    """
    values: Tensor = _Rowwise.apply(X, function, step)  # type: ignore[no-untyped-call]
    return values


def in_chunks(X: Tensor, function: Callable[[Tensor], Tensor], step: int) -> Tensor:
    """Evaluate a differentiable function of rows, ``step`` rows at a time; see ``rowwise``.

    Autograd alone would keep the intermediate results of all chunks.
    """

    def with_gradient(rows: Tensor, needs_gradient: bool) -> tuple[Tensor, Tensor | None]:
        if not needs_gradient:
            return function(rows), None
        with torch.enable_grad():
            points = rows.detach().requires_grad_(True)
            values = function(points)
            (gradient,) = torch.autograd.grad(values.sum(), points)
        return values.detach(), gradient

    return rowwise(X, with_gradient, step)


def remaining_variance(prior: Tensor, k: Tensor, matrix: Tensor) -> Tensor:
    """Return posterior variances ``prior - k' A k``, clamped above rounding errors.

    Args:
        prior: Prior variances, ``p`` or a scalar.
        k: ``p x n`` covariances with the data.
        matrix: ``A``, a symmetric ``n x n`` matrix without a gradient.
    """
    return left_of(prior, rowwise(k, quadratic_form(matrix), max(1, len(k))))


def quadratic_form(matrix: Tensor) -> Callable[[Tensor, bool], tuple[Tensor, Tensor | None]]:
    """Return ``k' A k`` as a function of rows ``k`` for ``rowwise``; ``A`` is symmetric."""

    def form(rows: Tensor, needs_gradient: bool) -> tuple[Tensor, Tensor | None]:
        product = rows @ matrix
        return torch.linalg.vecdot(product, rows), 2 * product if needs_gradient else None

    return form


def left_of(prior: Tensor, explained: Tensor) -> Tensor:
    """Return prior variances minus their explained part, clamped above rounding errors."""
    smallest = (MIN_RELATIVE_VARIANCE * prior.detach()).clamp_min(least(prior))
    return torch.maximum(prior - explained, smallest)


class _Rowwise(torch.autograd.Function):
    """See ``rowwise``."""

    @staticmethod
    def forward(ctx: Any, X: Tensor, function: Any, step: int) -> Tensor:
        needs_gradient = ctx.needs_input_grad[0]
        if len(X) <= step:
            values: Tensor
            values, gradient = function(X, needs_gradient)
        else:
            parts = [function(rows, needs_gradient) for rows in X.split(step)]
            values = torch.cat([part[0] for part in parts])
            gradient = torch.cat([part[1] for part in parts]) if needs_gradient else None
        ctx.save_for_backward(gradient)
        return values

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = ctx.saved_tensors  # type: ignore[attr-defined]
        return grad_output.unsqueeze(-1) * gradient, None, None

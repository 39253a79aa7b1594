"""Functions of many rows whose gradients come with their values, for inner loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable

from ax_costaware.models.factor import least

# Rows times nodes times training points held at once: 2^19 doubles are 4 MiB, which stays in the
# cache of one core and keeps the peak memory of a decision flat however many rows there are.
CHUNK_ELEMENTS = 2**19

# Posterior variances below this share of the prior variance are rounding. It also bounds the
# gradient of the standard deviation at an observed point.
MIN_RELATIVE_VARIANCE = 1e-12


def rowwise(
    X: Tensor, function: Callable[[Tensor, bool], tuple[Tensor, Tensor | None]], step: int
) -> Tensor:
    """A function of rows that computes its own gradient, ``step`` rows at a time.

    Args:
        X: ``p x d`` rows.
        function: From rows, and whether a gradient is needed, to their values, one for each, and
            the gradient of each with respect to its row.
        step: Rows at a time, at least one.

    Returns:
        ``p`` values, differentiable once with respect to ``X``.
    """
    values: Tensor = _Rowwise.apply(X, function, step)  # type: ignore[no-untyped-call]
    return values


def in_chunks(X: Tensor, function: Callable[[Tensor], Tensor], step: int) -> Tensor:
    """A differentiable function of rows, ``step`` rows at a time; see ``rowwise``.

    Autograd alone would keep what every chunk has computed until the last one is done.
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
    """Return posterior variances ``prior - k' A k``, kept above rounding.

    Args:
        prior: Prior variances, ``p`` or a scalar.
        k: ``p x n`` covariances with the data.
        matrix: ``A``, a symmetric ``n x n`` matrix, of which no gradient is taken.
    """
    return left_of(prior, rowwise(k, quadratic_form(matrix), max(1, len(k))))


def quadratic_form(matrix: Tensor) -> Callable[[Tensor, bool], tuple[Tensor, Tensor | None]]:
    """``k' A k`` of rows ``k`` with a symmetric ``n x n`` matrix ``A``: for ``rowwise``."""

    def form(rows: Tensor, needs_gradient: bool) -> tuple[Tensor, Tensor | None]:
        product = rows @ matrix
        return torch.linalg.vecdot(product, rows), 2 * product if needs_gradient else None

    return form


def left_of(prior: Tensor, explained: Tensor) -> Tensor:
    """Return prior variances less their explained part, kept above rounding."""
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

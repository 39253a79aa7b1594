r"""Kernels as plain tensors: product kernels, fixed ones, and correlations with cheap gradients.

For a product kernel :math:`k(x, x') = s \prod_l k_l(x_l, x'_l)` the expectation over independent
uncontrolled inputs factorizes. The factors of controlled and of uncontrolled inputs are
evaluated separately. All one-dimensional factors here are positive. The product is therefore a sum
of logarithms, and a mask selects columns: ``log_factor(x, z, mask)`` is
:math:`\sum_l m_l \log k_l(x_l, z_l)`.

``SeparableKernel`` reads ``RBFKernel`` (isotropic or ARD), ``CategoricalKernel``, any
``MaternKernel`` on one column, and products and scalings of these: BoTorch's defaults and their
mixed-input variants without sums of kernels.

``correlation`` has cheap gradients by the length-scales. ``FixedKernel`` has fixed hyperparameters.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from botorch.models.kernels import CategoricalKernel
from gpytorch.kernels import (
    AdditiveKernel,
    Kernel,
    LinearKernel,
    MaternKernel,
    ProductKernel,
    RBFKernel,
    ScaleKernel,
)
from torch import Tensor
from torch.autograd.function import once_differentiable

from ax_costaware.models.choice_kernel import ChoiceMaternKernel


@dataclass(frozen=True)
class SeparableKernel:
    """Product of an output scale and kernels of single columns.

    Attributes:
        outputscale: Prior variance, a scalar tensor.
        inverse_lengthscale: Inverse length-scales of the RBF factors, ``d``; zero for columns
            without one.
        penalty: Minus the log of the categorical factors of two different values, ``d``; zero for
            columns that are not categorical.
        matern: ``(column, lengthscale, nu)`` of each one-dimensional Matern factor.
    """

    outputscale: Tensor
    inverse_lengthscale: Tensor
    penalty: Tensor
    matern: tuple[tuple[int, Tensor, float], ...]

    @classmethod
    def from_kernel(cls, kernel: Kernel, num_inputs: int) -> SeparableKernel | None:
        """Read a GPyTorch kernel.

        Args:
            kernel: The covariance module of a GP without batch dimensions.
            num_inputs: The number ``d`` of input columns.

        Returns:
            The product form, detached from its parameters; None if the kernel is not a product of
            the kernels above.
        """
        if len(kernel.batch_shape) > 0:
            return None
        columns = torch.arange(num_inputs)
        parameter = next(kernel.parameters(), torch.zeros((), dtype=torch.double))
        zeros = torch.zeros(num_inputs, dtype=parameter.dtype, device=parameter.device)
        form = cls(
            outputscale=zeros.new_ones(()), inverse_lengthscale=zeros, penalty=zeros, matern=()
        )
        return form._times(kernel, columns)

    def _times(
        self, kernel: Kernel, columns: Tensor, selected: bool = False
    ) -> SeparableKernel | None:
        """Return this product times ``kernel`` on ``columns`` of the input.

        ``selected`` is True if ``columns`` are already the kernel's active ones: a ``ScaleKernel``
        has the active columns of its base, which must not be selected twice.
        """
        if kernel.active_dims is not None and not selected:
            columns = columns[kernel.active_dims.cpu()]
        if isinstance(kernel, ScaleKernel):
            scaled = replace(self, outputscale=self.outputscale * kernel.outputscale.detach())
            return scaled._times(kernel.base_kernel, columns, selected=True)
        if isinstance(kernel, ProductKernel):
            form: SeparableKernel | None = self
            for factor in kernel.kernels:
                form = None if form is None else form._times(factor, columns)
            return form
        if kernel.has_lengthscale:
            lengthscale = kernel.lengthscale.detach().reshape(-1).expand(len(columns))
            at = columns.to(lengthscale.device)
        # `type(...) is`: a subclass may compute something else from the same parameters.
        if type(kernel) is RBFKernel:
            squared = self.inverse_lengthscale.square().index_add(0, at, lengthscale.pow(-2))
            return replace(self, inverse_lengthscale=squared.sqrt())
        if type(kernel) is CategoricalKernel:
            share = (lengthscale * len(columns)).reciprocal()
            return replace(self, penalty=self.penalty.index_add(0, at, share))
        if type(kernel) is MaternKernel and len(columns) == 1:
            factor = (int(columns[0]), lengthscale[0], float(kernel.nu))
            return replace(self, matern=(*self.matern, factor))
        return None

    def log_factor(self, x: Tensor, z: Tensor, mask: Tensor) -> Tensor:
        r"""Return the log of the product over the masked columns, without the output scale.

        Args:
            x: Points ``batch_shape x p x d``.
            z: Points ``n x d`` or ``batch_shape x n x d``.
            mask: Mask of columns, ``batch_shape x p x d`` or ``d``, of zeros and ones.

        Returns:
            ``batch_shape x p x n`` logarithms, differentiable with respect to ``x``, except in
            categorical columns, where the kernel is piecewise constant.
        """
        # The expanded square turns the sum over columns into matrix products. Centering keeps the
        # terms small, so that cancellation costs only a few units of rounding.
        centre = z.mean(dim=-2, keepdim=True)
        xs = (x - centre) * self.inverse_lengthscale
        zs = (z - centre) * self.inverse_lengthscale
        weighted = mask * xs
        square = (weighted * xs).sum(dim=-1, keepdim=True) - 2 * weighted @ zs.mT
        log_k = -0.5 * (square + mask.expand_as(xs) @ zs.square().mT).clamp_min(0.0)
        for column in torch.nonzero(self.penalty).flatten().tolist():
            differs = x[..., column].unsqueeze(-1) != z[..., column].unsqueeze(-2)
            log_k = log_k - mask[..., column, None] * self.penalty[column] * differs
        for column, lengthscale, nu in self.matern:
            difference = x[..., column].unsqueeze(-1) - z[..., column].unsqueeze(-2)
            log_k = log_k + mask[..., column, None] * _log_matern(
                difference.abs() / lengthscale, nu
            )
        return log_k

    def covariances(self, a: Tensor, b: Tensor) -> Tensor:
        """Return covariances ``... x p x q`` of points ``... x p x d`` and ``... x q x d``."""
        return self.outputscale * self.log_factor(a, b, b.new_ones(b.shape[-1])).exp()

    def variances(self, points: Tensor) -> Tensor:
        """Return prior variances ``...`` of points ``... x d``."""
        return self.outputscale.expand(points.shape[:-1])


def _log_matern(distance: Tensor, nu: float) -> Tensor:
    """Return the log Matern correlation at distances in length-scales, ``nu`` in 1/2, 3/2, 5/2."""
    r = math.sqrt(2 * nu) * distance
    if nu == 0.5:
        return -r
    if nu == 1.5:
        return torch.log1p(r) - r
    return torch.log1p(r + r.square() / 3) - r


def squared_exponential(squares: Tensor) -> tuple[Tensor, Tensor]:
    """Return the correlation at squared distances in length-scales, and its derivative."""
    correlation = squares.mul(-0.5).exp()
    return correlation, -0.5 * correlation


def matern(squares: Tensor) -> tuple[Tensor, Tensor]:
    """Return the Matern-5/2 correlation at squared distances, and its derivative."""
    distances = squares.mul(5.0).sqrt_()
    slope = distances.neg().exp_()
    linear = distances.add_(1.0).mul_(slope)
    return squares.mul(5 / 3).mul_(slope).add_(linear), linear.mul_(-5 / 6)


class _Matern(torch.autograd.Function):
    """``matern`` as an autograd function."""

    @staticmethod
    def forward(ctx: Any, squares: Tensor) -> Tensor:
        correlation, derivative = matern(squares)
        ctx.save_for_backward(derivative)
        return correlation

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (derivative,) = ctx.saved_tensors
        slope: Tensor = gradient * derivative
        return slope


def matern_correlation(squares: Tensor) -> Tensor:
    """Return Matern-5/2 correlations at squared distances in length-scales."""
    found: Tensor = _Matern.apply(squares)  # type: ignore[no-untyped-call]
    return found


class _SquaredDistances(torch.autograd.Function):
    """See ``squared_distances``."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        ctx.save_for_backward(a, b)
        rows = a.flatten(0, -2) if b.ndim == 2 else a  # cdist would copy ``b`` for each batch
        squares = torch.cdist(rows, b, compute_mode="donot_use_mm_for_euclid_dist").square_()
        return squares.unflatten(0, a.shape[:-1]) if b.ndim == 2 else squares

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None]:
        a, b = ctx.saved_tensors
        origin, weights = b[..., :1, :], 2 * gradient
        left, right = a - origin, b - origin
        slope_a = slope_b = None
        if ctx.needs_input_grad[0]:
            slope_a = weights.sum(dim=-1, keepdim=True) * left - weights @ right
            slope_a = slope_a.sum_to_size(a.shape)
        if ctx.needs_input_grad[1]:
            slope_b = weights.sum(dim=-2).unsqueeze(-1) * right - weights.mT @ left
            slope_b = slope_b.sum_to_size(b.shape)
        return slope_a, slope_b


def squared_distances(a: Tensor, b: Tensor) -> Tensor:
    """Return squared distances ``... x p x q`` of points ``... x p x d`` from ``... x q x d``.

    They are sums of squares. The expanded square loses digits: variances near data, and the log of
    the improvement there, would be so noisy that line searches fail.
    """
    squares: Tensor = _SquaredDistances.apply(a, b)  # type: ignore[no-untyped-call]
    return squares


class FixedKernel:
    """A kernel whose hyperparameters stay, and are read once.

    Matern kernels of smoothness 5/2, scaled or not, linear ones and sums of them are evaluated
    without GPyTorch's overhead.

    Args:
        kernel: A kernel without a batch shape.
        num_columns: Columns ``d`` of its points.
    """

    def __init__(self, kernel: Kernel, num_columns: int) -> None:
        is_sum = type(kernel) is AdditiveKernel and kernel.active_dims is None
        parts = kernel.kernels if is_sum else ()
        self._parts = [FixedKernel(part, num_columns) for part in parts]
        self._slopes = _slopes_of(kernel, num_columns)
        self._matern = _matern_of(kernel)
        self._columns = kernel.active_dims if self._matern is not None else None
        self._kernel = kernel

    def covariances(self, a: Tensor, b: Tensor) -> Tensor:
        """Return covariances of points, differentiable by points and not by hyperparameters.

        Args:
            a: ``... x p x d`` points.
            b: ``... x q x d`` points.

        Returns:
            ``... x p x q`` covariances.
        """
        if self._parts:
            return torch.stack([part.covariances(a, b) for part in self._parts]).sum(dim=0)
        if self._slopes is not None:
            return (self._slopes * a) @ b.mT
        if self._matern is None:
            covariance: Tensor = self._kernel(a, b).to_dense()
            return covariance
        outputscale, lengthscale = self._matern
        if self._columns is not None:
            a, b = a[..., self._columns], b[..., self._columns]
        squares = squared_distances(a / lengthscale, b / lengthscale)
        return outputscale * matern_correlation(squares)

    def variances(self, points: Tensor) -> Tensor:
        """Return prior variances ``...`` of points ``... x d``."""
        if self._parts:
            return torch.stack([part.variances(points) for part in self._parts]).sum(dim=0)
        if self._slopes is not None:
            return points.square() @ self._slopes
        if self._matern is None:
            variance: Tensor = self._kernel(points, diag=True)
            return variance
        return self._matern[0].to(points).expand(points.shape[:-1])


def _slopes_of(kernel: Kernel, num_columns: int) -> Tensor | None:
    """The variances of a linear kernel's slopes, zero of columns that it does not read, ``d``."""
    if type(kernel) is not LinearKernel or kernel.variance.numel() != 1:
        return None
    variance: Tensor = kernel.variance.detach().reshape(())
    if kernel.active_dims is None:
        return variance.expand(num_columns)
    return variance.new_zeros(num_columns).index_fill(0, kernel.active_dims, float(variance))


def is_matern(kernel: Kernel) -> bool:
    """Return True for a Matern kernel of smoothness 5/2 and nothing else."""
    return type(kernel) in (MaternKernel, ChoiceMaternKernel) and kernel.nu == 2.5


def _matern_of(kernel: Kernel) -> tuple[Tensor, Tensor] | None:
    """Output scale and length-scales of a Matern-5/2 kernel of its columns; None of another."""
    outputscale = torch.ones(())
    # `type(...) is`: a subclass may compute something else from the same parameters.
    if type(kernel) is ScaleKernel:
        outputscale, kernel = kernel.outputscale.detach(), kernel.base_kernel
    if not is_matern(kernel) or len(kernel.batch_shape) > 0:
        return None
    return outputscale, kernel.lengthscale.detach()


def correlation(
    X: Tensor, lengthscale: Tensor, shape: Callable[[Tensor], tuple[Tensor, Tensor]]
) -> Tensor:
    """Return correlations of points, differentiable by the length-scales only.

    The gradient needs products of matrices ``n x n`` and ``n x d``, and one saved ``n x n`` matrix.

    Args:
        X: ``n x d`` points.
        lengthscale: One length-scale or ``d`` of them, of any shape.
        shape: ``squared_exponential`` or ``matern``.

    Returns:
        ``n x n`` correlations.
    """
    found: Tensor = _Correlation.apply(X, lengthscale, shape)  # type: ignore[no-untyped-call]
    return found


class _Correlation(torch.autograd.Function):
    """Correlations of points ``n x d`` under a stationary kernel, as an autograd function."""

    @staticmethod
    def forward(
        ctx: Any,
        X: Tensor,
        lengthscale: Tensor,
        shape: Callable[[Tensor], tuple[Tensor, Tensor]],
    ) -> Tensor:
        # Centering keeps the terms of the expanded square small.
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


class IndependentKernel(Kernel):  # type: ignore[misc]
    """Covariance one of a point with itself, and zero with every other.

    With it the points of a finite set are the arms of a bandit. It has no parameters.
    """

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any) -> Tensor:
        """Covariances of ``... x n x d`` with ``... x m x d`` points, ``... x n x m``."""
        same = (x1 == x2) if diag else (x1.unsqueeze(-2) == x2.unsqueeze(-3))
        return same.all(dim=-1).to(x1.dtype)

"""Kernels for one-hot choices: a shared length-scale of their columns, and effects of values.

With a length-scale per column, the length-scale of an untried value would have its prior only. A
shared one transfers what was learned from the tried values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from gpytorch.kernels import AdditiveKernel, Kernel, LinearKernel, MaternKernel
from gpytorch.priors import GammaPrior, Prior
from torch import Tensor

from ax_costaware.exceptions import InputError

_DISTANCE = 0.25
"""Distance of different values of a one-hot choice, in widths of a column."""


_EFFECT_PRIOR = 2.0, 0.3
"""Shape and rate of the Gamma prior of the variance of an effect. Its mode is about three times the
variance of the outcomes, so that few values without an effect do not rule out others with one."""


class ChoiceEffectKernel(LinearKernel):  # type: ignore[misc]
    """Covariance ``v 1[a = b]`` of independent effects of the values of a one-hot choice.

    Args:
        columns: Columns of the choice.
    """

    def __init__(self, columns: Sequence[int]) -> None:
        super().__init__(active_dims=tuple(columns), variance_prior=GammaPrior(*_EFFECT_PRIOR))
        self.variance = torch.ones(1)

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any) -> Tensor:
        """Return the covariance as a dense tensor.

        A low-rank one, as of ``LinearKernel``, would make GPyTorch factorize the other terms.
        """
        variance: Tensor = self.variance
        if diag:
            return variance.squeeze(-1) * (x1 * x2).sum(dim=-1)
        return variance * (x1 @ x2.mT)


def with_effects(kernel: Kernel, choices: Sequence[Sequence[int]]) -> Kernel:
    r"""Return a kernel plus independent effects of the values of each choice.

    .. math::
        k(x, x') + \sum_j v_j \, 1[x_j = x'_j] .

    The variance :math:`v_j` is that between values. Without it, many outcomes at one good value
    make the whole kernel small, and an untried value then seems hardly better than the others.

    Args:
        kernel: The kernel.
        choices: Columns of each one-hot choice.
    """
    if not choices:
        return kernel
    return AdditiveKernel(*map(ChoiceEffectKernel, choices), kernel)


def shared_lengthscales(
    columns: Sequence[int], choices: Sequence[Sequence[int]], num_columns: int
) -> tuple[Tensor, Tensor]:
    """Return the length-scale of each column as an index, and its factor.

    Args:
        columns: Indices of the columns.
        choices: Columns of each one-hot choice, which have one length-scale.
        num_columns: Number of all columns.

    Returns:
        Two tensors with an entry per column. The factors are such that different values of a choice
        have the distance of ``_DISTANCE`` widths of a column.

    Raises:
        InputError: If a column of a choice does not exist, or is repeated.
    """
    flat = [column for block in choices for column in block]
    if any(column not in range(num_columns) for column in flat) or len({*flat}) < len(flat):
        raise InputError(
            f"choices={choices!r}: expected for each choice its columns, each of them once, from 0 "
            f"to {num_columns - 1}."
        )
    first = {column: block[0] for block in choices for column in block}
    named = [first.get(column, column) for column in columns]
    different = sorted(set(named))
    widths = [math.sqrt(2.0) / _DISTANCE if column in first else 1.0 for column in columns]
    places = torch.tensor([different.index(i) for i in named], dtype=torch.long)
    return places, torch.tensor(widths, dtype=torch.double)


class ChoiceMaternKernel(MaternKernel):  # type: ignore[misc]
    """Matern-5/2 kernel with one length-scale for all columns of a one-hot choice.

    Args:
        num_columns: Number of columns.
        choices: Columns of each one-hot choice.
        lengthscale_prior: Prior of the length-scales, one per parameter.
        **options: As in ``MaternKernel``.
    """

    def __init__(
        self,
        num_columns: int,
        choices: Sequence[Sequence[int]],
        lengthscale_prior: Prior | None = None,
        **options: Any,
    ) -> None:
        places, widths = shared_lengthscales(range(num_columns), choices, num_columns)
        super().__init__(nu=2.5, ard_num_dims=int(places.max()) + 1, **options)
        if lengthscale_prior is not None:
            self.register_prior(
                "lengthscale_prior", lengthscale_prior, _lengthscale_of, _set_lengthscale_of
            )
        # GPyTorch checks the number of columns against it.
        self.ard_num_dims = num_columns
        self.register_buffer("parameter_of", places)
        self.register_buffer("widths", widths)

    @property
    def parameter_lengthscale(self) -> Tensor:
        """Length-scale of each parameter, ``1 x p``."""
        found: Tensor = self.raw_lengthscale_constraint.transform(self.raw_lengthscale)
        return found

    @property
    def lengthscale(self) -> Tensor:
        """Length-scale of each column, ``1 x d``; the setter takes one per parameter."""
        found = self.parameter_lengthscale
        columns: Tensor = found[..., self.parameter_of] * self.widths.to(found)
        return columns

    @lengthscale.setter
    def lengthscale(self, value: Tensor) -> None:
        above = self.raw_lengthscale_constraint
        value = torch.as_tensor(value).to(self.raw_lengthscale).expand_as(self.raw_lengthscale)
        self.initialize(raw_lengthscale=above.inverse_transform(value))


def _lengthscale_of(kernel: ChoiceMaternKernel) -> Tensor:
    return kernel.parameter_lengthscale


def _set_lengthscale_of(kernel: ChoiceMaternKernel, value: Tensor) -> None:
    kernel.lengthscale = value

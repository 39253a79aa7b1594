"""What every marginal can do.

A marginal is the law of one input in the trials that do not control it, in the raw units of the
parameter: :math:`X_l` of Tay et al. 2023, *Bayesian Optimization with Cost-varying Variable
Subsets*, section 3. Marginals are frozen, compare by value, print themselves as the call that makes
them, and cost next to nothing to construct: quadrature rules are computed when they are asked for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TypeAlias

import torch
from torch import Tensor

from ax_costaware.argument_checks import integer_at_least
from ax_costaware.exceptions import InputError

RawValue: TypeAlias = float | int | str | bool
"""A value of a parameter as the user writes it."""


class Marginal(ABC):
    """The law of one input.

    Tensors of nodes hold values of the input; those of a ``Discrete`` over strings or booleans hold
    positions in its ``values``. ``decode`` turns either into raw values.
    """

    @property
    def is_numeric(self) -> bool:
        """Whether the input is a number, so that moments and support exist."""
        return True

    @property
    @abstractmethod
    def expectation(self) -> float:
        """The mean of the law.

        It is not called ``mean`` because that of a ``TruncatedNormal`` is before the cut.

        Raises:
            InputError: If the values are not numbers.
        """

    @property
    @abstractmethod
    def variance(self) -> float:
        """The variance of the law; for a sample, the sum of squares over their number.

        Raises:
            InputError: If the values are not numbers.
        """

    @property
    @abstractmethod
    def lower(self) -> float:
        """The least value of the support.

        Raises:
            InputError: If the values are not numbers.
        """

    @property
    @abstractmethod
    def upper(self) -> float:
        """The greatest value of the support.

        Raises:
            InputError: If the values are not numbers.
        """

    @property
    def nominal(self) -> RawValue:
        """One value that stands for the law: its expectation, or the most probable value."""
        return self.expectation

    @abstractmethod
    def nodes_and_weights(self, n: int) -> tuple[Tensor, Tensor]:
        """A quadrature rule of the law.

        Args:
            n: The most nodes to use, at least one. A ``Discrete`` law gives its atoms whatever
                ``n``.

        Returns:
            ``m`` increasing nodes and ``m`` positive weights that sum to one, both double. A
            continuous law gives its Gauss rule of ``m = n`` nodes, exact for polynomials of
            degree ``2n - 1``.

        Raises:
            InputError: If ``n`` is not an integer of at least one.
        """

    @abstractmethod
    def cdf(self, nodes: Tensor) -> Tensor:
        """Distribution function at nodes of any shape, in their shape and dtype.

        Where the nodes are whole numbers it is double.
        """

    @abstractmethod
    def icdf(self, u: Tensor) -> Tensor:
        """Quantile function: the least node whose ``cdf`` is at least ``u``.

        Args:
            u: Probabilities, of any shape.

        Returns:
            Nodes in the shape and dtype of ``u``.

        Raises:
            InputError: If an entry of ``u`` is outside ``[0, 1]``.
        """

    def decode(self, nodes: Tensor) -> list[RawValue]:
        """Raw values, as an arm carries them, of an ``m``-tensor of nodes.

        Raises:
            InputError: If ``nodes`` has not exactly one dimension, or holds something that is no
                node of a ``Discrete`` law.
        """
        return list(column(nodes).tolist())

    def sample(self, n: int, seed: int) -> Tensor:
        """``n`` independent draws, as double nodes; the same for the same seed.

        Raises:
            InputError: If ``n`` is not an integer of at least one, or ``seed`` is negative.
        """
        generator = torch.Generator().manual_seed(integer_at_least(seed, 0, "seed"))
        size = integer_at_least(n, 1, "n")
        return self.icdf(torch.rand(size, generator=generator, dtype=torch.double))


def unit_interval(u: Tensor) -> Tensor:
    """``u`` unchanged.

    Raises:
        InputError: If an entry is outside ``[0, 1]`` or NaN, or ``u`` is not of floating point.
    """
    if not isinstance(u, Tensor) or not u.is_floating_point():
        raise InputError(f"u={u!r}: expected a floating-point tensor of probabilities.")
    outside = ~((u >= 0) & (u <= 1))
    if bool(outside.any()):
        raise InputError(f"u has the entry {float(u[outside][0])!r}: expected values in [0, 1].")
    return u


def column(nodes: Tensor) -> Tensor:
    """``nodes`` as a double tensor on the CPU.

    Raises:
        InputError: Unless ``nodes`` has one dimension.
    """
    if not isinstance(nodes, Tensor) or nodes.ndim != 1:
        shape = tuple(nodes.shape) if isinstance(nodes, Tensor) else nodes
        raise InputError(f"nodes of shape {shape!r}: expected a tensor with one dimension.")
    return nodes.detach().to(device="cpu", dtype=torch.double)


def floating(numbers: Tensor) -> Tensor:
    """The same numbers, as double where they are whole ones."""
    return numbers if numbers.is_floating_point() else numbers.double()

"""Interface of all marginals.

A marginal is the distribution of one input in trials that do not control it, in the raw units of
the parameter: :math:`X_l` of Tay et al. 2023, *Bayesian Optimization with Cost-varying Variable
Subsets*, section 3. Marginals are frozen, compare by value, and print as the call that makes them.
Quadrature rules are computed on demand.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TypeAlias

import torch
from torch import Tensor

from ax_costaware.argument_checks import integer_at_least
from ax_costaware.exceptions import InputError

RawValue: TypeAlias = float | int | str | bool
"""Value of a parameter as the user writes it."""


class Marginal(ABC):
    """Distribution of one input.

    Nodes are values of the input. Those of a ``Discrete`` over strings or booleans are positions in
    its ``values``. ``decode`` turns either into raw values.
    """

    @property
    def is_numeric(self) -> bool:
        """True if the input is a number, so that moments and support exist."""
        return True

    @property
    @abstractmethod
    def expectation(self) -> float:
        """Mean of the distribution.

        It is not called ``mean``, since ``TruncatedNormal.mean`` is the mean before truncation.

        Raises:
            InputError: If the values are not numbers.
        """

    @property
    @abstractmethod
    def variance(self) -> float:
        """Variance of the distribution; for a sample with the divisor ``n``.

        Raises:
            InputError: If the values are not numbers.
        """

    @property
    @abstractmethod
    def lower(self) -> float:
        """Smallest value of the support.

        Raises:
            InputError: If the values are not numbers.
        """

    @property
    @abstractmethod
    def upper(self) -> float:
        """Largest value of the support.

        Raises:
            InputError: If the values are not numbers.
        """

    @property
    def nominal(self) -> RawValue:
        """Representative value: the expectation, or the most probable value."""
        return self.expectation

    @abstractmethod
    def nodes_and_weights(self, n: int) -> tuple[Tensor, Tensor]:
        """Return a quadrature rule of the distribution.

        Args:
            n: Largest number of nodes, at least one. ``Discrete`` ignores it, and returns all its
                atoms.

        Returns:
            ``m`` increasing nodes and ``m`` positive weights that sum to one, both double. For a
            continuous distribution the Gauss rule of ``m = n`` nodes, exact for polynomials of
            degree ``2n - 1``.

        Raises:
            InputError: If ``n`` is not an integer of at least one.
        """

    @abstractmethod
    def cdf(self, nodes: Tensor) -> Tensor:
        """Return the distribution function at nodes, in their shape and dtype.

        It is double for nodes of an integer dtype.
        """

    @abstractmethod
    def icdf(self, u: Tensor) -> Tensor:
        """Return quantiles: the smallest node whose ``cdf`` is at least ``u``.

        Args:
            u: Probabilities, of any shape.

        Returns:
            Nodes in the shape and dtype of ``u``.

        Raises:
            InputError: If an entry of ``u`` is outside ``[0, 1]``.
        """

    def decode(self, nodes: Tensor) -> list[RawValue]:
        """Return the raw values, as an arm has them, of ``m`` nodes.

        Raises:
            InputError: If ``nodes`` has not exactly one dimension, or an entry is not a node of a
                ``Discrete`` distribution.
        """
        return list(column(nodes).tolist())

    def sample(self, n: int, seed: int) -> Tensor:
        """Return ``n`` independent draws as double nodes, a function of the seed.

        Raises:
            InputError: If ``n`` is not an integer of at least one, or ``seed`` is negative.
        """
        generator = torch.Generator().manual_seed(integer_at_least(seed, 0, "seed"))
        size = integer_at_least(n, 1, "n")
        return self.icdf(torch.rand(size, generator=generator, dtype=torch.double))


def unit_interval(u: Tensor) -> Tensor:
    """Return ``u``, checked to be probabilities.

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
    """Return ``nodes`` as a double tensor on the CPU.

    Raises:
        InputError: Unless ``nodes`` has one dimension.
    """
    if not isinstance(nodes, Tensor) or nodes.ndim != 1:
        shape = tuple(nodes.shape) if isinstance(nodes, Tensor) else nodes
        raise InputError(f"nodes of shape {shape!r}: expected a tensor with one dimension.")
    return nodes.detach().to(device="cpu", dtype=torch.double)


def floating(numbers: Tensor) -> Tensor:
    """Return numbers of a floating-point dtype: double for those of an integer dtype."""
    return numbers if numbers.is_floating_point() else numbers.double()

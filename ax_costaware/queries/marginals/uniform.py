"""The uniform law on an interval, in the raw units of the parameter."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from typing_extensions import override

from ax_costaware.queries.argument_checks import (
    integer_at_least,
    interval,
    set_fields,
)
from ax_costaware.queries.marginals.marginal import Marginal, unit_interval
from ax_costaware.queries.quadrature import gauss_legendre


# Slots make the fields attributes of the class, so that they implement the abstract bounds.
@dataclass(frozen=True, slots=True)
class Uniform(Marginal):
    """The uniform law on ``[lower, upper]``.

    Raises:
        InputError: Unless ``lower < upper`` are finite numbers.
    """

    lower: float
    """Least value."""

    upper: float
    """Greatest value."""

    def __post_init__(self) -> None:
        lower, upper = interval(self.lower, self.upper)
        set_fields(self, lower=lower, upper=upper)

    @property
    @override
    def expectation(self) -> float:
        return self.lower / 2 + self.upper / 2

    @property
    @override
    def variance(self) -> float:
        return (self.upper - self.lower) ** 2 / 12

    @override
    def nodes_and_weights(self, n: int) -> tuple[Tensor, Tensor]:
        nodes, weights = gauss_legendre(integer_at_least(n, 1, "n"))
        half = self.upper / 2 - self.lower / 2
        return torch.tensor(self.expectation + half * nodes), torch.tensor(weights)

    @override
    def cdf(self, nodes: Tensor) -> Tensor:
        return ((nodes - self.lower) / (self.upper - self.lower)).clamp(0.0, 1.0)

    @override
    def icdf(self, u: Tensor) -> Tensor:
        return (self.lower + (self.upper - self.lower) * unit_interval(u)).clamp_max(self.upper)

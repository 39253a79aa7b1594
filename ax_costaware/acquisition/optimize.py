"""The best point of an acquisition function."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from torch import Tensor

Values = TypeVar("Values", float, Tensor)


@dataclass(frozen=True, eq=False)
class Optimum(Generic[Values]):
    """A point with its value, or a batch of points with one value each."""

    point: Tensor
    """The point, ``d``; of a batch ``batch_shape x d``."""

    value: Values
    """The value of what was maximized there; of a batch, a tensor of shape ``batch_shape``."""

    feasibility: float | None = None
    """Probability that it is feasible; None without constraints, or if nobody asked."""

    trial: int | None = None
    """Position of the observed trial that evaluated it; None if none did."""

    is_restricted: bool = False
    """True if a better point costs more than what is left."""

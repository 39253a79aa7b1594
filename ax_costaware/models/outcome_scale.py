"""Scale on which an outcome is modeled: of order one, and larger is better."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Values = TypeVar("Values", float, Tensor, NDArray[np.float64])

_ROUNDING = 64
"""Standard deviation below which outcomes count as equal, in rounding errors of the largest one."""


@dataclass(frozen=True)
class OutcomeScale:
    """Map ``y -> sign * (y - location) / unit`` of an outcome in the user's unit.

    It is applied once, where outcomes become tensors. Models, acquisition functions and their
    tolerances are on the scale. Records and reports are mapped back.
    """

    location: float = 0.0
    """Outcome that is zero on the scale."""

    unit: float = 1.0
    """Size of one on the scale, in the outcome's unit."""

    sign: float = 1.0
    """-1 if smaller outcomes are better."""

    @classmethod
    def of(cls, outcomes: Tensor, minimize: bool = False) -> OutcomeScale:
        """Return the scale of mean zero and variance one, as in BoTorch's ``Standardize``.

        Outcomes that are equal to rounding have the unit one.

        Args:
            outcomes: ``n`` or ``n x 1`` outcomes, at least one.
            minimize: True if smaller values are better.
        """
        limits = torch.finfo(outcomes.dtype)
        spread = float(outcomes.std()) if outcomes.numel() > 1 else 0.0
        least = max(_ROUNDING * limits.eps * float(outcomes.abs().max()), limits.tiny**0.5)
        unit = spread if spread >= least else 1.0
        return cls(float(outcomes.mean()), unit, -1.0 if minimize else 1.0)

    def to_model(self, outcome: Values) -> Values:
        """Return outcomes on the scale."""
        return self.sign * ((outcome - self.location) / self.unit)

    def from_model(self, value: Values) -> Values:
        """Return values on the scale as outcomes."""
        return self.location + self.sign * (self.unit * value)

    def maximized(self, value: Values) -> Values:
        """Return values on the scale in the outcome's unit, with the sign of maximization."""
        return self.sign * self.location + self.unit * value

    def moments(self, mean: Values, variance: Values) -> tuple[Values, Values]:
        """Return a posterior mean and variance on the scale as those of the outcome."""
        return self.from_model(mean), self.unit**2 * variance

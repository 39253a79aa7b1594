"""Functions of a standard normal that lose no digits however far out in either tail."""

from __future__ import annotations

import math
from functools import cached_property

import torch
from torch import Tensor

LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)
_SQRT_HALF = math.sqrt(0.5)
_SQRT_HALF_PI = math.sqrt(0.5 * math.pi)

_FAR = 25.0
"""From here on the tail's asymptotic series is better than a difference of large numbers."""

_SERIES = (2.0, -10.0, 74.0, -706.0, 8162.0, -110410.0, 1708394.0, -29752066.0)
"""Of ``1 + x^2 + x r(x)`` in ``1 / x^2`` for large negative x (OEIS A000698)."""


class StandardNormal:
    """Functions of a standard normal in double precision, without loss in either tail.

    Attributes:
        x: The points.
        size: ``|x|``.
        on_left: Where they are negative.
        mills: ``Phi(-|x|) / phi(x)``.
        tail: ``Phi(-|x|)``.
        rest: ``Phi(|x|)``.
        hazard: ``r = phi / Phi``.
    """

    def __init__(self, x: Tensor) -> None:
        self.x = x.double()
        self.size = self.x.abs()
        self.on_left = self.x < 0
        self.mills = _SQRT_HALF_PI * torch.special.erfcx(_SQRT_HALF * self.size)
        density = torch.exp(-0.5 * self.size * self.size - LOG_SQRT_2PI)
        self.tail = density * self.mills
        self.rest = 1 - self.tail
        self.hazard = torch.where(self.on_left, 1 / self.mills, density / self.rest)

    @cached_property
    def _left_excess(self) -> Tensor:
        inverse_square = 1 / self.size.clamp_min(_FAR).square()
        series = torch.zeros_like(self.x)
        for coefficient in reversed(_SERIES):
            series = inverse_square * (coefficient + series)
        near = 1 + self.size.clamp_max(_FAR).square() - self.size.clamp_max(_FAR) / self.mills
        return torch.where(self.size > _FAR, series, near)

    @cached_property
    def excess(self) -> Tensor:
        """``1 + x^2 + x r``."""
        right = self.x.clamp_min(0.0)
        on_right = 1 + right.square() + right * self.hazard
        return torch.where(self.on_left, self._left_excess, on_right)

    @cached_property
    def information(self) -> Tensor:
        """``x r / 2 - log Phi``."""
        on_left = 0.5 * (self._left_excess - 1) - self.mills.log() + LOG_SQRT_2PI
        on_right = 0.5 * self.x.clamp_min(0.0) * self.hazard - torch.log1p(-self.tail)
        return torch.where(self.on_left, on_left, on_right)

    @cached_property
    def sum_with_hazard(self) -> Tensor:
        """``x + r``."""
        far_left = (1 - self.excess) / self.size.clamp_min(_SQRT_HALF)
        return torch.where(self.x < -1, far_left, self.x + self.hazard)

    @cached_property
    def information_over_hazard(self) -> Tensor:
        """``t / r``."""
        tail = self.tail.clamp_min(1e-300)
        ratio = -torch.log1p(-tail) / tail  # tends to one
        on_right = 0.5 * self.x + self.rest * self.mills * ratio
        return torch.where(self.on_left, self.information * self.mills, on_right)

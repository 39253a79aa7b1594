"""Outcomes to zero mean and unit variance, in whatever unit they are."""

from __future__ import annotations

import torch
from botorch.models.transforms.outcome import Standardize
from torch import Tensor

_ROUNDING = 64
"""In units of rounding of the largest outcome: a smaller spread is taken for none."""


class StandardizeAnyScale(Standardize):
    """BoTorch's ``Standardize``, which leaves a spread below 1e-8 as it is, for any unit.

    A model that is told of a length of 0.3 micrometres in metres is to decide as one that is told
    of 0.3. Outcomes that differ by rounding only are shifted to zero, and not scaled.
    """

    @classmethod
    def least_deviation(cls, Y: Tensor) -> float:
        """The standard deviation of outcomes below which they differ by rounding only."""
        limits = torch.finfo(Y.dtype)
        largest = float(Y.abs().nan_to_num().max()) if Y.numel() else 0.0
        return float(max(_ROUNDING * limits.eps * largest, limits.tiny**0.5))

    def forward(
        self, Y: Tensor, Yvar: Tensor | None = None, X: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Outcomes ``... x n x m`` and their noise variances, standardised; see the class."""
        if self.training:
            self._min_stdv = self.least_deviation(Y)
        result: tuple[Tensor, Tensor | None] = super().forward(Y, Yvar, X)
        return result

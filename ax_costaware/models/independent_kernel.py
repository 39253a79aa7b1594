"""The kernel of independent arms: what is learned of one says nothing of another."""

from __future__ import annotations

from typing import Any

from gpytorch.kernels import Kernel
from torch import Tensor


class IndependentKernel(Kernel):  # type: ignore[misc]
    """Covariance one of a point with itself, and zero with every other.

    With it the points of a finite set are the arms of a bandit. It has no parameters.
    """

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any) -> Tensor:
        """Covariances of ``... x n x d`` with ``... x m x d`` points, ``... x n x m``."""
        same = (x1 == x2) if diag else (x1.unsqueeze(-2) == x2.unsqueeze(-3))
        return same.all(dim=-1).to(x1.dtype)

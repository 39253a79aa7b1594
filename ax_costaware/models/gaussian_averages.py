r"""Averages over normal laws of dependent columns, for a squared-exponential kernel.

With means :math:`m, m'`, covariances :math:`\Sigma, \Sigma'` and squared length-scales
:math:`\Lambda = \mathrm{diag}(\ell^2)`,

.. math:: \mathrm{Cov}[g, g'] = s \, |\Lambda|^{1/2} |M|^{-1/2}
   \exp(-\tfrac{1}{2} (m - m')^T M^{-1} (m - m')), \quad M = \Lambda + \Sigma + \Sigma'.

It takes no nodes, and is exact however short the length-scales are.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from gpytorch.kernels import Kernel, ScaleKernel
from torch import Tensor

from ax_costaware.models.averages import Averages, outputscale
from ax_costaware.models.stationary import correlation, squared_exponential

_FAR = 100.0
"""Points that are farther apart than this, in length-scales, are subtracted from each other: their
squared distances from sums and products of their own would lose digits."""


@dataclass(frozen=True, eq=False)
class GaussianAverages(Averages):
    """Averages over normal laws that have one covariance, and points, which have none."""

    means: Tensor
    """Means of the laws, or the points, ``... x n x d``."""

    covariance_matrix: Tensor
    """Of the laws, ``d x d``."""

    is_average: Tensor
    """Which of them are averages and no points, ``... x n``, zero or one."""

    def covariance(self, other: Averages, kernel: Kernel) -> Tensor:
        """One Gaussian for averages with averages, one for each with points, one for points."""
        assert isinstance(other, GaussianAverages)
        counts = {left + right for left in self._kinds() for right in other._kinds()}
        if len(counts) == 1:
            count = counts.pop()
            variances = self.covariance_matrix.diagonal()
            diagonal = bool((self.covariance_matrix == torch.diag(variances)).all())
            lengthscales = self._lengthscales(kernel)
            longer = (lengthscales.square() + count * variances).sqrt()
            if (
                other is self
                and self.means.ndim == 2
                and diagonal
                and not self._differentiable
                and _are_near(self.means / longer)
            ):
                # Independent columns: longer length-scales, and less height.
                height = outputscale(kernel) * (lengthscales / longer).prod()
                return height * correlation(self.means, longer, squared_exponential)
            return self._covariance(other, kernel, count)
        here = self.is_average.unsqueeze(-1) + other.is_average.unsqueeze(-2)
        found = torch.zeros((), dtype=here.dtype, device=here.device)
        for count in sorted(counts):
            found = torch.where(here == count, self._covariance(other, kernel, count), found)
        return found

    def _covariance(self, other: GaussianAverages, kernel: Kernel, count: int) -> Tensor:
        """As if each pair had so many of the laws' covariances in it."""
        factor, height = self._factor(kernel, count)
        left, right = self._whitened(factor), other._whitened(factor)
        middle = left.detach().reshape(-1, left.shape[-1]).mean(dim=0)  # so that less cancels
        left, right = left - middle, right - middle
        if _are_near(left) and _are_near(right):
            norms = left.square().sum(-1).unsqueeze(-1) + right.square().sum(-1).unsqueeze(-2)
            squares = (norms - 2 * left @ right.mT).clamp_min(0.0)
        else:
            squares = (left.unsqueeze(-2) - right.unsqueeze(-3)).square().sum(dim=-1)
        return height * squares.mul(-0.5).exp()

    @property
    def _differentiable(self) -> bool:
        return self.means.requires_grad or self.covariance_matrix.requires_grad

    def _kinds(self) -> set[int]:
        """One for averages, and zero for points, if there are such."""
        kinds = self.is_average.detach()
        return {int(kinds.min()), int(kinds.max())}

    def variance(self, kernel: Kernel) -> Tensor:
        """The same for each with itself."""
        found = torch.zeros_like(self.is_average)
        for is_average in self._kinds():
            _, height = self._factor(kernel, 2 * is_average)
            found = torch.where(self.is_average == is_average, height, found)
        return found

    def features(self, kernel: Kernel, frequencies: Tensor) -> tuple[Tensor, Tensor]:
        """Averages of sines and cosines, ``... x n x m`` each.

        Args:
            kernel: The kernel, whose length-scales are the unit of the angles.
            frequencies: ``m x d``.
        """
        scaled = frequencies / self._lengthscales(kernel)
        angles = self.means @ scaled.mT
        damping = (scaled @ self.covariance_matrix * scaled).sum(dim=-1)
        damped = (-0.5 * damping * self.is_average.unsqueeze(-1)).exp()
        return damped * angles.sin(), damped * angles.cos()

    def _factor(self, kernel: Kernel, count: float) -> tuple[Tensor, Tensor]:
        """The factor of ``M`` with so many covariances in it, and the value at no distance."""
        lengthscales = self._lengthscales(kernel)
        total = torch.diag_embed(lengthscales.square()) + count * self.covariance_matrix
        factor = torch.linalg.cholesky(total)
        height = outputscale(kernel) * (lengthscales / factor.diagonal()).prod()
        return factor, height

    def _whitened(self, factor: Tensor) -> Tensor:
        whitened: Tensor = torch.linalg.solve_triangular(factor, self.means.mT, upper=False).mT
        return whitened

    def _lengthscales(self, kernel: Kernel) -> Tensor:
        base = kernel.base_kernel if isinstance(kernel, ScaleKernel) else kernel
        lengthscale: Tensor = base.lengthscale.reshape(-1).expand(self.means.shape[-1])
        return lengthscale


def _are_near(scaled: Tensor) -> bool:
    """Whether points ``... x n x d``, in length-scales, are not too far from each other."""
    low, high = torch.aminmax(scaled.detach().reshape(-1, scaled.shape[-1]), dim=0)
    return bool((high - low).max() <= _FAR)

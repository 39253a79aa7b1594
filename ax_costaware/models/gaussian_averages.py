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
        counts = self.is_average.unsqueeze(-1) + other.is_average.unsqueeze(-2)
        found = torch.zeros((), dtype=counts.dtype, device=counts.device)
        for count in torch.unique(counts.detach()).tolist():
            factor, height = self._factor(kernel, count)
            left, right = self._whitened(factor), other._whitened(factor)
            squares = (left.unsqueeze(-2) - right.unsqueeze(-3)).square().sum(dim=-1)
            found = torch.where(counts == count, height * squares.mul(-0.5).exp(), found)
        return found

    def variance(self, kernel: Kernel) -> Tensor:
        """The same for each with itself."""
        found = torch.zeros_like(self.is_average)
        for is_average in torch.unique(self.is_average.detach()).tolist():
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

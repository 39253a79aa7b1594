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
from botorch.sampling.pathwise.features import KernelFeatureMap
from gpytorch.kernels import Kernel
from torch import Tensor

from ax_costaware.models.averages import Averages, Points, lengthscales, outputscale
from ax_costaware.models.stationary import correlation, squared_exponential

_FAR = 100.0
"""Means that are farther apart than this, in length-scales, are subtracted from each other: their
squared distances from sums and products of their own would lose digits."""

_BY_DIFFERENCES = "donot_use_mm_for_euclid_dist"


@dataclass(frozen=True, eq=False)
class GaussianAverages(Averages):
    """Averages over normal laws that have one covariance."""

    means: Tensor
    """Means of the laws, ``... x n x d``."""

    covariance_matrix: Tensor
    """Of the laws, ``d x d``."""

    def covariance(self, other: Averages, kernel: Kernel) -> Tensor:
        """One Gaussian, of both laws' covariances; with points, which have none, of one."""
        if isinstance(other, Points):
            return self._covariance(other.nodes, kernel, 1)
        assert isinstance(other, GaussianAverages)
        variances = self.covariance_matrix.diagonal()
        own = self._lengthscales(kernel)
        longer = (own.square() + 2 * variances).sqrt()
        if (
            other is self
            and self.means.ndim == 2
            and bool((self.covariance_matrix == torch.diag(variances)).all())
            and not self.means.requires_grad
            and not self.covariance_matrix.requires_grad
            and _are_near(self.means / longer)
        ):
            # Independent columns: longer length-scales, and less height.
            height = outputscale(kernel) * (own / longer).prod()
            return height * correlation(self.means, longer, squared_exponential)
        return self._covariance(other.means, kernel, 2)

    def _covariance(self, others: Tensor, kernel: Kernel, count: int) -> Tensor:
        """With laws of other means where each pair has so many of the covariances in it."""
        factor, height = self._factor(kernel, count)
        left, right = _whitened(self.means, factor), _whitened(others, factor)
        # Differences, not products: means may be very many length-scales apart.
        squares = torch.cdist(left, right, compute_mode=_BY_DIFFERENCES).square()
        return height * squares.mul(-0.5).exp()

    def variance(self, kernel: Kernel) -> Tensor:
        """The same for each with itself."""
        _, height = self._factor(kernel, 2)
        return height.expand(self.means.shape[:-1])

    def features(self, kernel: Kernel, features: KernelFeatureMap) -> Tensor:
        """Averages of sines and cosines, which a normal law damps."""
        scaled = features.weight / self._lengthscales(kernel)
        angles = self.means @ scaled.mT
        damping = (scaled @ self.covariance_matrix * scaled).sum(dim=-1).mul(-0.5).exp()
        scale = (outputscale(kernel) * (2 / features.num_outputs)).sqrt()
        return scale * torch.cat([damping * angles.sin(), damping * angles.cos()], dim=-1)

    def _factor(self, kernel: Kernel, count: int) -> tuple[Tensor, Tensor]:
        """The factor of ``M`` with so many covariances in it, and the value at no distance."""
        own = self._lengthscales(kernel)
        factor = torch.linalg.cholesky(torch.diag(own.square()) + count * self.covariance_matrix)
        return factor, outputscale(kernel) * (own / factor.diagonal()).prod()

    def _lengthscales(self, kernel: Kernel) -> Tensor:
        return lengthscales(kernel, self.means.shape[-1])


def _whitened(rows: Tensor, factor: Tensor) -> Tensor:
    whitened: Tensor = torch.linalg.solve_triangular(factor, rows.mT, upper=False).mT
    return whitened


def _are_near(scaled: Tensor) -> bool:
    """Whether points ``... x n x d``, in length-scales, are not too far from each other."""
    low, high = torch.aminmax(scaled.detach().reshape(-1, scaled.shape[-1]), dim=0)
    return bool((high - low).max() <= _FAR)

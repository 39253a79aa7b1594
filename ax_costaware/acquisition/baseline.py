"""Posterior of an outcome given samples of its values at baseline points."""

from __future__ import annotations

import torch
from linear_operator.utils.cholesky import psd_safe_cholesky
from torch import Tensor

from ax_costaware.models.factor import least
from ax_costaware.models.posterior import ExactPosterior

JITTER = 1e-8
"""Least jitter of the covariance of the baseline, relative to the prior variance."""


class SampledBaseline:
    r"""Means and deviations of an outcome given samples of its values at baseline points.

    With :math:`C = L L^\top` the posterior covariance of :math:`f(X_b)`, :math:`c(x)` that of
    :math:`f(x)` with them, and standard normal numbers :math:`z`,

    .. math::
        f(X_b) = \mu(X_b) + L z, \quad \mu(x \mid z) = \mu(x) + c(x)^\top L^{-\top} z, \quad
        \sigma^2(x \mid z) = \sigma^2(x) - \| L^{-1} c(x) \|^2 ,

    so that a sample costs one row of a matrix product, without another factorization.

    Args:
        posterior: The posterior.
        X: ``n x d`` baseline points.
        z: ``s x n`` standard normal numbers, one row per sample.
    """

    def __init__(self, posterior: ExactPosterior, X: Tensor, z: Tensor) -> None:
        with torch.no_grad():
            self._known = posterior.joint_with(posterior.functionals(X))
            mean, covariance = posterior.joint(X)
            self.prior_variance = posterior.prior_variance(X).mean()
            jitter = max(JITTER, 100 * torch.finfo(covariance.dtype).eps) * self.prior_variance
            covariance = covariance + jitter * torch.eye(len(X)).to(covariance)
            root = psd_safe_cholesky(covariance, jitter=float(jitter))
            z = z.to(covariance)
            self.values = mean + z @ root.mT
            """Samples of the values at the baseline, ``s x n``."""
            self._root, self._z = root, z

    def __call__(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Return means ``m x s`` of each sample, and deviations ``m x 1``, at points ``m x d``."""
        mean, variance, covariance = self._known(points)
        whitened = torch.linalg.solve_triangular(self._root, covariance.mT, upper=False).mT
        means = mean.unsqueeze(-1) + whitened @ self._z.mT
        left = variance - whitened.square().sum(dim=-1)
        std = left.clamp_min(JITTER**2 * variance.detach() + least(left)).sqrt().unsqueeze(-1)
        return means, std

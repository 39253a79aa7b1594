"""Sample paths of the function behind averages.

Matheron's rule: a path of the prior, a sum of random Fourier features, is corrected by its
residuals at the data (Wilson et al. 2020, "Efficiently Sampling Functions from Gaussian Process
Posteriors", equation 12). The data are averages, so that residuals are those of the path's
averages: products of one-dimensional sums for independent columns, else sums over nodes.
"""

from __future__ import annotations

from typing import cast

import torch
from botorch.sampling.pathwise.features import KernelFeatureMap, gen_kernel_features
from botorch.utils.sampling import manual_seed
from gpytorch.kernels import Kernel
from torch import Tensor

from ax_costaware.exceptions import UnsupportedInputError
from ax_costaware.models.conditional_mean_process import ConditionalMeanProcess
from ax_costaware.models.functionals import SharedAverages
from ax_costaware.models.posterior import ExactPosterior

NUM_FEATURES = 1024
"""Number of random Fourier features of a path."""


class LatentPaths:
    """Sample paths of the function behind averages, in the units of ``posterior``.

    Args:
        posterior: Posterior of a ``ConditionalMeanProcess``.
        num_paths: Number of paths, ``S``.
        seed: Seed of the draw; the global random state does not change.

    Raises:
        UnsupportedInputError: If the model is not a ``ConditionalMeanProcess``, or BoTorch has no
            Fourier features for its kernel.
    """

    def __init__(self, posterior: ExactPosterior, num_paths: int, seed: int = 0) -> None:
        self.posterior = posterior = posterior.latent
        cached, kernel, data = posterior.factor, cast(Kernel, posterior.kernel), posterior.data
        num_columns = cast(
            ConditionalMeanProcess, posterior.model
        ).average_kernel.num_latent_columns
        with torch.no_grad(), manual_seed(seed):
            try:
                self._features: KernelFeatureMap = gen_kernel_features(
                    kernel, num_inputs=num_columns, num_outputs=NUM_FEATURES
                )
            except NotImplementedError as error:
                raise UnsupportedInputError(
                    f"model: its kernel, a {type(kernel).__name__}, has no Fourier features; it"
                    " takes a squared-exponential or Matern kernel, scaled or not."
                ) from error
            like = cached.y
            weights = torch.randn(NUM_FEATURES, num_paths).to(like)
            drawn = data.features(kernel, self._features) @ weights
            noise = torch.randn(len(like), num_paths).to(like) * cached.noise.sqrt().unsqueeze(-1)
            if isinstance(data, SharedAverages) and data.errors is not None:
                errors = data.function_errors
                drawn = drawn + errors @ torch.randn(errors.shape[-1], num_paths).to(like)
            residual = like.unsqueeze(-1) - drawn - noise
            corrections = torch.cholesky_solve(residual, cached.cholesky)
            self._all_weights = torch.cat([weights, corrections])

    def __call__(self, X: Tensor) -> Tensor:
        """Return values of the paths, differentiable.

        Args:
            X: Points in raw units: ``b x d`` for all paths, or ``S x b x d``.

        Returns:
            ``S x b`` values.
        """
        features, weights = self._everything(X.reshape(-1, X.shape[-1])), self._all_weights
        if X.ndim == 2:
            latent = (features @ weights).T
        else:
            features = features.unflatten(0, (X.shape[-3], X.shape[-2]))
            latent = (features @ weights.T.unsqueeze(-1)).squeeze(-1)
        return self.posterior.factor.outcome(latent)

    def each_at(self, X: Tensor, path: Tensor) -> Tensor:
        """Return the value of one path at each point, differentiable.

        Args:
            X: ``n x d`` points in raw units.
            path: Index of the path of each point, ``n``.

        Returns:
            ``n`` values.
        """
        return self.posterior.factor.outcome(
            (self._everything(X) * self._all_weights.T[path]).sum(dim=-1)
        )

    def _everything(self, X: Tensor) -> Tensor:
        """Return features of the prior at ``n`` points, and covariances with the data."""
        points = self.posterior.functionals(X)
        prior = points.features(cast(Kernel, self.posterior.kernel), self._features)
        return torch.cat([prior, self.posterior.cross(points)], dim=-1)

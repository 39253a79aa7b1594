r"""Sample paths of the function behind averages, by Matheron's rule.

A path of the prior, a sum of random Fourier features, is corrected by what the data say against it
(Wilson et al. 2020, "Efficiently Sampling Functions from Gaussian Process Posteriors", equation
12). The data are averages, so the path's averages are what is corrected: with independent columns
they are products of one-dimensional sums, else sums over the nodes.
"""

from __future__ import annotations

import torch
from botorch.sampling.pathwise.features import KernelFeatureMap, gen_kernel_features
from botorch.utils.sampling import manual_seed
from torch import Tensor

from ax_costaware.exceptions import UnsupportedInputError
from ax_costaware.models.indirect_posterior import IndirectPosterior

NUM_FEATURES = 1024
"""Random Fourier features of a path."""


class TargetPaths:
    """Sample paths of the function, in the units of ``posterior``.

    Args:
        posterior: The posterior that they are drawn from.
        num_paths: How many paths, ``S``.
        seed: Seed of the draw; the global random state stays as it was.
        num_features: Random Fourier features of a path, an even number.

    Raises:
        UnsupportedInputError: If BoTorch has no Fourier features for the kernel.
    """

    def __init__(
        self,
        posterior: IndirectPosterior,
        num_paths: int,
        seed: int = 0,
        num_features: int = NUM_FEATURES,
    ) -> None:
        self.posterior = posterior
        kernel, cached = posterior.kernel.base_kernel, posterior.cached
        with torch.no_grad(), manual_seed(seed):
            try:
                self._features: KernelFeatureMap = gen_kernel_features(
                    kernel, num_inputs=posterior.kernel.num_target_columns, num_outputs=num_features
                )
            except NotImplementedError as error:
                raise UnsupportedInputError(
                    f"model: its kernel, a {type(kernel).__name__}, has no Fourier features; it"
                    " takes a squared-exponential or Matern kernel, scaled or not."
                ) from error
            like = cached.y
            self._weights = torch.randn(num_features, num_paths).to(like)
            drawn = posterior.data.features(kernel, self._features) @ self._weights
            noise = torch.randn(len(like), num_paths).to(like) * cached.noise.sqrt().unsqueeze(-1)
            if posterior.errors is not None:
                width = posterior.errors.shape[-1]
                drawn = drawn + posterior.errors @ torch.randn(width, num_paths).to(like)
            residual = like.unsqueeze(-1) - drawn - noise
            corrections = torch.cholesky_solve(residual, cached.cholesky)
            self._all_weights = torch.cat([self._weights, corrections])

    def __call__(self, X: Tensor) -> Tensor:
        """Values of the paths, differentiable.

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
        return self.posterior.cached.outcome(latent)

    def each_at(self, X: Tensor, path: Tensor) -> Tensor:
        """The value of one path at each point, differentiable.

        Args:
            X: ``n x d`` points in raw units.
            path: The number of the path for each, ``n``.

        Returns:
            ``n`` values.
        """
        return self.posterior.cached.outcome(
            (self._everything(X) * self._all_weights.T[path]).sum(dim=-1)
        )

    def _everything(self, X: Tensor) -> Tensor:
        """Features of the prior at ``n`` points, and covariances with the data."""
        posterior = self.posterior
        prior = self._features(posterior.kernel.transform(X))
        rows = posterior.cross(posterior.kernel.averages(posterior.kernel.point_rows(X)))
        return torch.cat([prior, rows], dim=-1)

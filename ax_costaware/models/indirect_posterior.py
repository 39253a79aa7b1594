r"""The posterior of averages and of the function behind them with its factor kept, for inner loops.

An acquisition function of queries needs the mean and variance of :math:`g(a)` and its covariance
with :math:`f` at a few points, thousands of times over. All of it is products with the factor of
the covariance of the data, which is computed once (equations 4 and 5 of Zhang et al. 2024,
"Indirect Query Bayesian Optimization with Integrated Feedback"). Units are those of the outcomes,
with the sign of maximisation after the posterior transform.

Sample paths of the function are by Matheron's rule: a path of the prior, a sum of random Fourier
features, is corrected by what the data say against it (Wilson et al. 2020, "Efficiently Sampling
Functions from Gaussian Process Posteriors", equation 12). The data are averages, so the path's
averages are what is corrected: with independent columns they are products of one-dimensional sums,
else sums over the nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.models.model import Model
from botorch.sampling.pathwise.features import KernelFeatureMap, gen_kernel_features
from botorch.utils.sampling import manual_seed
from torch import Tensor

from ax_costaware.exceptions import UnsupportedInputError
from ax_costaware.models.average_kernel import AverageKernel
from ax_costaware.models.averages import Averages, Points, SharedAverages
from ax_costaware.models.cached_posterior import CachedPosterior, only_model
from ax_costaware.models.conditional_mean_process import ConditionalMeanProcess

NUM_FEATURES = 1024
"""Random Fourier features of a path."""


class IndirectPosterior:
    """The posterior of a ``ConditionalMeanProcess``, as products with a cached factor.

    Args:
        model: The fitted model.
        posterior: Its posterior, with ``model``'s kernel.
    """

    def __init__(self, model: ConditionalMeanProcess, posterior: CachedPosterior) -> None:
        self.model = model
        self.cached = posterior
        self.kernel: AverageKernel = model.average_kernel
        with torch.no_grad():
            self.data: Averages = self.kernel.averages(posterior.X)
            self.errors: Tensor | None = None
            """What averages over pairs do not know, in the unit of the function: ``n x r``."""
            if isinstance(self.data, SharedAverages):
                # What averages over the nodes take of them, once for all queries.
                self._nodes: Tensor = self.kernel.base_kernel(self.data.nodes).to_dense()
                self._node_data: Tensor = self._nodes @ self.data.weights.mT
                if self.data.errors is not None:
                    self.errors = self.data.scaled_errors(self._nodes)

    @classmethod
    def of(
        cls,
        model: Model,
        posterior_transform: PosteriorTransform | None = None,
        A_pending: Tensor | None = None,
    ) -> IndirectPosterior:
        """Read the posterior of a fitted model.

        Args:
            model: A ``ConditionalMeanProcess``, or a ``ModelListGP`` of one.
            posterior_transform: A ``ScalarizedPosteriorTransform``, as for minimisation.
            A_pending: ``k x p`` queries under evaluation, believed at their posterior mean.

        Raises:
            InputError: If the pending queries have another number of columns.
            UnsupportedInputError: If the model is another one, is batched, or has a prior mean
                that is not constant or an outcome transform that is not ``Standardize``.
        """
        model = only_model(model)
        if not isinstance(model, ConditionalMeanProcess):
            raise UnsupportedInputError(
                f"model: got a {type(model).__name__}; it takes a ConditionalMeanProcess."
            )
        pending, noise = None, None
        if A_pending is not None and A_pending.shape[-2]:
            pending = model.average_kernel.query_rows(A_pending)
            noise = model.latent_noise_of(A_pending).squeeze(-1)
        cached = CachedPosterior.from_model(model, posterior_transform, pending, noise)
        if cached is None:
            raise UnsupportedInputError(
                "model: its posterior has no factor to keep; it takes an unbatched"
                " ConditionalMeanProcess with a constant mean and Standardize or no outcome"
                " transform."
            )
        return cls(model, cached)

    def noise_of(self, A: Tensor) -> Tensor:
        """Noise variance that observations are expected to have at queries ``... x p``: ``...``."""
        return self.cached.scale.square() * self.model.latent_noise_of(A).squeeze(-1)

    def moments(self, A: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of the averages at queries ``... x p``, each ``...``."""
        return self._moments(self._queries(A), A.shape[:-1])

    def target_moments(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of the function at points ``... x d`` in raw units, each ``...``."""
        return self._moments(self._points(X), X.shape[:-1])

    def target_mean(self, X: Tensor) -> Tensor:
        """Mean of the function at points ``... x d`` in raw units: ``...``."""
        return self.cached.mean_of(self.cross(self._points(X))).reshape(X.shape[:-1])

    def joint_with(self, X: Tensor) -> Callable[[Tensor], tuple[Tensor, Tensor, Tensor]]:
        """Mean and variance of averages, and their covariances with values of the function.

        Args:
            X: Points in raw units, ``S x d``, whose part of the work is done once.

        Returns:
            A function from queries ``... x p`` to two tensors ``...``, and one ``... x S``.
        """
        points, kernel = self._points(X), self.kernel.base_kernel
        whitened = self.cross(points) @ self.cached.root
        with_nodes: Tensor | None = None
        if isinstance(self.data, SharedAverages):
            with_nodes = points.covariance(Points(self.data.nodes), kernel).mT

        # No closure: an acquisition function that keeps it can be pickled, as BoTorch's can.
        return partial(self._joint, points, whitened, with_nodes)

    def _joint(
        self, points: Averages, whitened: Tensor, with_nodes: Tensor | None, A: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        queries = self._queries(A)
        cross = self.cross(queries)
        mean, variance = self._moments(queries, A.shape[:-1], cross)
        if with_nodes is not None and isinstance(queries, SharedAverages):
            prior = queries.weights @ with_nodes
        else:
            prior = queries.covariance(points, self.kernel.base_kernel)
        covariance = self.cached.covariance_of(cross @ self.cached.root, whitened, prior)
        return mean, variance, covariance.reshape(*A.shape[:-1], len(whitened))

    def target_covariance(self, X: Tensor) -> Tensor:
        """Joint covariance of the function at points ``S x d`` in raw units, ``S x S``."""
        return self._covariance(self._points(X))

    def covariance(self, A: Tensor) -> Tensor:
        """Joint covariance of the averages at queries ``n x p``, ``n x n``."""
        return self._covariance(self._queries(A))

    def cross(self, averages: Averages) -> Tensor:
        """Prior covariances of ``q`` averages with the data on the latent scale, ``q x n``."""
        if not isinstance(averages, SharedAverages):
            return averages.covariance(self.data, self.kernel.base_kernel)
        cross: Tensor = averages.weights @ self._node_data
        if self.errors is None:
            return cross
        return cross + averages.scaled_errors(self._nodes) @ self.errors.mT

    def _covariance(self, averages: Averages) -> Tensor:
        whitened = self.cross(averages) @ self.cached.root
        prior = averages.covariance(averages, self.kernel.base_kernel)
        return self.cached.covariance_of(whitened, whitened, prior)

    def _queries(self, A: Tensor) -> Averages:
        A = A.reshape(-1, A.shape[-1]).to(self.cached.X)
        return self.kernel.averages(self.kernel.query_rows(A))

    def _points(self, X: Tensor) -> Averages:
        X = X.reshape(-1, X.shape[-1]).to(self.cached.X)
        return self.kernel.averages(self.kernel.point_rows(X))

    def _moments(
        self, averages: Averages, shape: torch.Size, cross: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Mean and variance of averages, each ``shape``; ``cross`` if it is at hand."""
        kernel = self.kernel.base_kernel
        if isinstance(averages, SharedAverages):
            prior = averages.variance(kernel, self._nodes)
        else:
            prior = averages.variance(kernel)
        cross = self.cross(averages) if cross is None else cross
        mean, variance = self.cached.moments_of(cross, prior)
        return mean.reshape(shape), variance.reshape(shape)


class TargetPaths:
    """Sample paths of the function, in the units of ``posterior``.

    Args:
        posterior: The posterior that they are drawn from.
        num_paths: How many paths, ``S``.
        seed: Seed of the draw; the global random state stays as it was.

    Raises:
        UnsupportedInputError: If BoTorch has no Fourier features for the kernel.
    """

    def __init__(self, posterior: IndirectPosterior, num_paths: int, seed: int = 0) -> None:
        self.posterior = posterior
        kernel, cached = posterior.kernel.base_kernel, posterior.cached
        with torch.no_grad(), manual_seed(seed):
            try:
                self._features: KernelFeatureMap = gen_kernel_features(
                    kernel, num_inputs=posterior.kernel.num_target_columns, num_outputs=NUM_FEATURES
                )
            except NotImplementedError as error:
                raise UnsupportedInputError(
                    f"model: its kernel, a {type(kernel).__name__}, has no Fourier features; it"
                    " takes a squared-exponential or Matern kernel, scaled or not."
                ) from error
            like = cached.y
            weights = torch.randn(NUM_FEATURES, num_paths).to(like)
            drawn = posterior.data.features(kernel, self._features) @ weights
            noise = torch.randn(len(like), num_paths).to(like) * cached.noise.sqrt().unsqueeze(-1)
            if posterior.errors is not None:
                width = posterior.errors.shape[-1]
                drawn = drawn + posterior.errors @ torch.randn(width, num_paths).to(like)
            residual = like.unsqueeze(-1) - drawn - noise
            corrections = torch.cholesky_solve(residual, cached.cholesky)
            self._all_weights = torch.cat([weights, corrections])

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
        points = posterior._points(X)
        prior = points.features(posterior.kernel.base_kernel, self._features)
        return torch.cat([prior, posterior.cross(points)], dim=-1)

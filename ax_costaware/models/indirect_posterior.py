r"""The posterior of averages and of the function behind them with its factor kept, for inner loops.

An acquisition function of queries needs the mean and variance of :math:`g(a)` and its covariance
with :math:`f` at a few points, thousands of times over. All of it is products with the factor of
the covariance of the data, which is computed once (equations 4 and 5 of Zhang et al. 2024,
"Indirect Query Bayesian Optimization with Integrated Feedback"). Units are those of the outcomes,
with the sign of maximisation after the posterior transform.
"""

from __future__ import annotations

from typing import cast

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.models.model import Model
from botorch.models.model_list_gp_regression import ModelListGP
from gpytorch.kernels import Kernel
from torch import Tensor

from ax_costaware.exceptions import InputError, UnsupportedInputError
from ax_costaware.models.average_kernel import AverageKernel
from ax_costaware.models.averages import Averages, SharedAverages
from ax_costaware.models.cached_posterior import CachedPosterior
from ax_costaware.models.conditional_mean_process import ConditionalMeanProcess

_LEAST_VARIANCE = 1e-12
"""Variances are kept above this part of the prior variance: the root has a gradient there."""


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
        base: Kernel = self.kernel.base_kernel
        with torch.no_grad():
            self.alpha = posterior.alpha
            identity = torch.eye(len(posterior.X)).to(posterior.X)
            self.root = torch.linalg.solve_triangular(
                posterior.cholesky, identity, upper=False
            ).T.contiguous()
            self.data: Averages = self.kernel.averages(posterior.X)
            if isinstance(self.data, SharedAverages):
                # What averages over the nodes take of them, once for all queries.
                self._node_prior: Tensor = base(self.data.nodes).to_dense()
                self._node_data = self.data.at_nodes(base)
                self._errors: Tensor | None = None
                if self.data.errors is not None:
                    self._errors = self.data.scaled_errors(base, self._node_prior)

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
        if isinstance(model, ModelListGP) and len(model.models) == 1:
            model = cast(Model, model.models[0])
        if not isinstance(model, ConditionalMeanProcess):
            raise UnsupportedInputError(
                f"model: got a {type(model).__name__}; it takes a ConditionalMeanProcess."
            )
        pending, noise = None, None
        if A_pending is not None and A_pending.shape[-2]:
            pending = model.average_kernel.query_rows(A_pending)
            if model.noise_of_query is not None:
                noise = model.latent_noise_of(pending).squeeze(-1)
        cached = CachedPosterior.from_model(model, posterior_transform, pending, noise)
        if cached is None:
            raise UnsupportedInputError(
                "model: its posterior has no factor to keep; it takes an unbatched"
                " ConditionalMeanProcess with a constant mean and Standardize or no outcome"
                " transform."
            )
        return cls(model, cached)

    @property
    def noise(self) -> Tensor:
        """Noise variance that a new observation is expected to have: a scalar."""
        return self.cached.scale.square() * self.cached.noise.mean()

    def noise_of(self, A: Tensor) -> Tensor:
        """Noise variance of an observation at queries ``... x p``: ``...``."""
        if self.model.noise_of_query is None:
            return self.noise.expand(A.shape[:-1])
        variances = self.model.latent_noise_of(self.kernel.query_rows(A)).squeeze(-1)
        return self.cached.scale.square() * variances

    def moments(self, A: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of the averages at queries ``... x p``, each ``...``."""
        mean, variance = self._moments(*self._queries(A))
        return mean.reshape(A.shape[:-1]), variance.reshape(A.shape[:-1])

    def target_moments(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of the function at points ``... x d`` in raw units, each ``...``."""
        points = self._point_averages(X)
        mean, variance = self._moments(points, self.cross(points))
        return mean.reshape(X.shape[:-1]), variance.reshape(X.shape[:-1])

    def target_mean(self, X: Tensor) -> Tensor:
        """Mean of the function at points ``... x d`` in raw units: ``...``."""
        cross = self.cross(self._point_averages(X))
        latent = self.cached.prior_mean + cross @ self.alpha
        return (self.cached.offset + self.cached.scale * latent).reshape(X.shape[:-1])

    def cross_covariance(self, A: Tensor, X: Tensor) -> Tensor:
        """Covariances of averages with values of the function: see ``joint_moments``."""
        return self.joint_moments(A, X)[2]

    def joint_moments(self, A: Tensor, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Mean and variance of averages, and their covariances with values of the function.

        Args:
            A: Queries, ``... x p``.
            X: Points in raw units, ``S x d``.

        Returns:
            Two tensors ``...``, and one ``... x S``.
        """
        queries, points = self._queries(A), self._point_averages(X)
        mean, variance = self._moments(*queries)
        covariance = self._covariance(queries, (points, self.cross(points)))
        return (
            mean.reshape(A.shape[:-1]),
            variance.reshape(A.shape[:-1]),
            covariance.reshape(*A.shape[:-1], X.shape[-2]),
        )

    def target_covariance(self, X: Tensor) -> Tensor:
        """Joint covariance of the function at points ``S x d`` in raw units, ``S x S``."""
        points = self._point_averages(X)
        with_data = points, self.cross(points)
        return self._covariance(with_data, with_data)

    def _queries(self, A: Tensor) -> tuple[Averages, Tensor]:
        """The averages at queries, with their covariances with the data."""
        averages = self.kernel.averages(self.kernel.query_rows(A.reshape(-1, A.shape[-1])))
        return averages, self.cross(averages)

    def _point_averages(self, X: Tensor) -> Averages:
        if X.shape[-1] != self.kernel.num_target_columns:
            raise InputError(
                f"X of shape {tuple(X.shape)}: expected points of"
                f" {self.kernel.num_target_columns} columns."
            )
        return self.kernel.averages(self.kernel.point_rows(X.reshape(-1, X.shape[-1])))

    def cross(self, averages: Averages) -> Tensor:
        """Prior covariances of ``q`` averages with the data on the latent scale, ``q x n``."""
        if isinstance(averages, SharedAverages) and averages.is_point is None:
            assert averages.weights is not None
            cross = averages.weights @ self._node_data
            if averages.errors is not None and self._errors is not None:
                errors = averages.scaled_errors(self.kernel.base_kernel, self._node_prior)
                cross = cross + errors @ self._errors.mT
            return cross
        return averages.covariance(self.data, self.kernel.base_kernel)

    def _moments(self, averages: Averages, cross: Tensor) -> tuple[Tensor, Tensor]:
        cached = self.cached
        if isinstance(averages, SharedAverages) and averages.is_point is None:
            prior = averages.average_variance(self.kernel.base_kernel, self._node_prior)
        else:
            prior = averages.variance(self.kernel.base_kernel)
        mean = cached.prior_mean + cross @ self.alpha
        variance = prior - (cross @ self.root).square().sum(dim=-1)
        least = torch.finfo(variance.dtype).tiny
        variance = torch.maximum(variance, (_LEAST_VARIANCE * prior).clamp_min(least))
        return cached.offset + cached.scale * mean, cached.scale.square() * variance

    def _covariance(self, left: tuple[Averages, Tensor], right: tuple[Averages, Tensor]) -> Tensor:
        prior = left[0].covariance(right[0], self.kernel.base_kernel)
        reduction = (left[1] @ self.root) @ (right[1] @ self.root).mT
        covariance: Tensor = self.cached.scale.square() * (prior - reduction)
        return covariance

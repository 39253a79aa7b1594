r"""What a posterior says of queries that are given by their nodes, one set of nodes for each point.

Where the law of the random inputs depends on the controlled ones, the nodes :math:`z_j(x)` or their
weights :math:`w_j(x)` move with the point, nothing of a control set can be prepared, and the parts
of a kernel no longer come apart; nor do they where the kernel is no product. What is left is one
matrix of covariances :math:`k_j` between the nodes of a point and the training inputs. With
:math:`A = (K + \Sigma)^{-1}`, on the latent scale,

* :math:`\mu(z_j) = m + k_j^\top \alpha` and :math:`\sigma^2(z_j) = k(z_j, z_j) - k_j^\top A k_j`;
* :math:`g = \sum_j w_j f(z_j)` is Gaussian with :math:`v = \sum_j w_j k_j`,
  :math:`E\,g = m + v^\top \alpha` and
  :math:`\mathrm{Var}\,g = \sum_{jj'} w_j w_{j'} k(z_j, z_{j'}) - v^\top A v`.

Both hold for every kernel of an exact GP. Other models are asked through ``model.posterior``.
Gradients go through the nodes and through the weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol, cast

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.models.deterministic import GenericDeterministicModel
from botorch.models.model import Model
from botorch.posteriors.fully_bayesian import GaussianMixturePosterior
from botorch.posteriors.gpytorch import GPyTorchPosterior
from botorch.sampling.pathwise import get_matheron_path_model
from botorch.utils.sampling import manual_seed
from torch import Tensor

from ax_costaware.acquisition.criteria import Spread
from ax_costaware.acquisition.fourier_path import FourierPath, has_fourier_features
from ax_costaware.acquisition.rowwise import remaining_variance
from ax_costaware.exceptions import UnsupportedInputError
from ax_costaware.models.cached_posterior import CachedPosterior
from ax_costaware.models.expectation import expectation_posterior
from ax_costaware.models.point_posterior import ModelPosterior, PointPosterior

# Nodes that are enough for screening, where the best of many points are looked for.
COARSE_NODES = 64


class NodePosterior(Protocol):
    """What a criterion asks of a posterior. Units are those of the transformed posterior."""

    most_nodes: ClassVar[tuple[int | None, int]]
    """Nodes that are enough (None for all), and those that are enough for screening."""

    @property
    def width(self) -> int:
        """Numbers that are held for each node."""
        ...

    def moments(self, nodes: Tensor, weights: Tensor, spread: Spread) -> tuple[Tensor, Tensor]:
        """Mean and a standard deviation of queries, each ``p``.

        Args:
            nodes: Nodes of each, ``p x m x d``.
            weights: Weights of the nodes that sum to one, ``p x m``.
            spread: Which standard deviation; zeros if none.
        """
        ...


@dataclass(frozen=True, eq=False)
class FactoredNodes:
    """Nodes on the cached factor of an exact GP, whatever its kernel.

    Attributes:
        posterior: The posterior.
        path: A posterior sample that takes the place of the mean.
    """

    posterior: CachedPosterior
    path: FourierPath | None = None

    most_nodes: ClassVar[tuple[int | None, int]] = (None, COARSE_NODES)

    @property
    def observed(self) -> Tensor:
        """Training inputs and pending points, ``n x d``, not transformed."""
        X, transform = self.posterior.X, self.posterior.input_transform
        return X if transform is None else transform.untransform(X)

    @property
    def width(self) -> int:
        """See ``NodePosterior``."""
        n = len(self.posterior.X)
        return n if self.path is None else max(n, len(self.path.sine))

    @property
    def noise(self) -> Tensor:
        """Variance of the observation noise, the mean of that of all outcomes, in raw units."""
        return self.posterior.noise.mean() * self.posterior.scale.square()

    def joint(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean ``p`` and covariance ``p x p`` of points ``p x d``, in raw units."""
        posterior = self.posterior
        t = posterior.transform(X)
        k = posterior.prior_covariance(t, posterior.X)
        whitened = k @ posterior.root
        covariance = posterior.covariance_of(whitened, whitened, posterior.prior_covariance(t, t))
        return posterior.mean_of(k), covariance

    def moments(self, nodes: Tensor, weights: Tensor, spread: Spread) -> tuple[Tensor, Tensor]:
        """See ``NodePosterior``."""
        posterior = self.posterior
        t = posterior.transform(nodes.flatten(0, 1))
        k = posterior.prior_covariance(t, posterior.X)
        latent = k @ posterior.alpha if self.path is None else self.path(t, k)
        latent = torch.linalg.vecdot(weights, latent.reshape(weights.shape))
        mean = posterior.offset + posterior.scale * (posterior.prior_mean + latent)
        if spread is Spread.NONE:
            return mean, torch.zeros_like(mean)
        if spread is Spread.FUNCTION:
            sigma = remaining_variance(posterior.prior_variance(t), k, posterior.inverse).sqrt()
            std = torch.linalg.vecdot(weights, sigma.reshape(weights.shape))
        else:
            t = t.reshape(nodes.shape)
            among = weighted(weights, posterior.prior_covariance(t, t))
            v = weighted(weights, k.reshape(*weights.shape, -1))
            prior = torch.linalg.vecdot(among, weights)
            std = remaining_variance(prior, v, posterior.inverse).sqrt()
        return mean, posterior.scale.abs() * std


def weighted(weights: Tensor, rows: Tensor) -> Tensor:
    """Sums ``p x n`` of rows ``p x m x n`` with weights ``p x m``."""
    return (weights.unsqueeze(-2) @ rows).squeeze(-2)


@dataclass(frozen=True, eq=False)
class ModelNodes:
    """Nodes through the posterior of any model."""

    posterior: ModelPosterior

    width: ClassVar[int] = 64
    most_nodes: ClassVar[tuple[int | None, int]] = (None, COARSE_NODES)

    @property
    def noise(self) -> Tensor:
        """Variance of the observation noise, in raw units: what it adds to that of a point."""
        X = cast(tuple[Tensor, ...], self.posterior.model.train_inputs)[0]
        X = X.reshape(-1, X.shape[-1])[:1]
        noisy, exact = (self._gaussian(X, observation_noise=noise)[1] for noise in (True, False))
        return (noisy - exact).clamp_min(0.0).squeeze()

    def joint(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean ``p`` and covariance ``p x p`` of points ``p x d``, in raw units."""
        return self._gaussian(X)

    def _gaussian(self, X: Tensor, observation_noise: bool = False) -> tuple[Tensor, Tensor]:
        """Mean and covariance of points; those of a mixture, if the posterior is one."""
        found = self.posterior.model.posterior(
            X,
            observation_noise=observation_noise,
            posterior_transform=self.posterior.posterior_transform,
        )
        if isinstance(found, GaussianMixturePosterior):
            return found.mixture_mean.squeeze(-1), found.mixture_covariance_matrix
        if not isinstance(found, GPyTorchPosterior):
            raise UnsupportedInputError(
                f"model: got {type(self.posterior.model).__name__}; it takes one whose posterior "
                "is jointly Gaussian."
            )
        return found.mean.squeeze(-1), found.distribution.covariance_matrix

    def moments(self, nodes: Tensor, weights: Tensor, spread: Spread) -> tuple[Tensor, Tensor]:
        """See ``NodePosterior``."""
        if spread is Spread.EXPECTATION:
            mean, variance = expectation_posterior(
                self.posterior.model, nodes, weights, self.posterior.posterior_transform
            )
            return mean, variance.clamp_min(1e-18).sqrt()
        means, variances = self.posterior.mixture(nodes)
        mean = torch.linalg.vecdot(weights, means)
        if spread is Spread.NONE:
            return mean, torch.zeros_like(mean)
        return mean, torch.linalg.vecdot(weights, variances.clamp_min(1e-12).sqrt())


def node_posterior(
    model: Model,
    posterior_transform: PosteriorTransform | None = None,
    X_pending: Tensor | None = None,
) -> FactoredNodes | ModelNodes:
    """The posterior of a model, in the quickest form that it allows.

    Arguments and errors as for ``PointPosterior.of``.
    """
    pending = X_pending if X_pending is not None and len(X_pending) else None
    cached = CachedPosterior.from_model(model, posterior_transform, X_pending=pending)
    if cached is not None:
        return FactoredNodes(cached)
    posterior = PointPosterior.of(model, posterior_transform, pending)
    assert isinstance(posterior, ModelPosterior)
    return ModelNodes(posterior)


def sampled(
    posterior: FactoredNodes | ModelNodes,
    model: Model,
    posterior_transform: PosteriorTransform | None,
    seed: int,
) -> FactoredNodes | ModelNodes:
    """One posterior sample, whose mean it is, in place of the posterior of a model."""
    if isinstance(posterior, FactoredNodes):
        cached = posterior.posterior
        if cached.separable is not None and has_fourier_features(cached):
            return FactoredNodes(cached, FourierPath.draw(cached, seed))
    # A sample needs no pending points to differ from the last.
    with manual_seed(seed):
        path = get_matheron_path_model(model)
    if posterior_transform is not None:
        # A sample is no Gaussian posterior, which is what most transforms take.
        transform, drawn = posterior_transform, path
        path = GenericDeterministicModel(lambda X: transform.evaluate(drawn(X)).unsqueeze(-1))
    return ModelNodes(ModelPosterior(path, None))

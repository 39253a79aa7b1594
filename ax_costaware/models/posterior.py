r"""Posterior of linear functionals of one outcome, for inner loops.

A functional is the value of a function at a point, its current value at a point if it drifts, or
its average over a distribution (see ``functionals``). An acquisition function needs its mean, its
variance, and covariances with others thousands of times. ``ExactPosterior`` computes them with the
cached factor of an exact GP. ``ModelPosterior`` calls ``model.posterior`` of any other model. Units
are those of the posterior after the posterior transform.

The posterior decides which functionals the rows of a tensor are: values at points, or averages at
queries of a ``ConditionalMeanProcess``. ``latent`` is the posterior of the function behind
averages, and ``at_time`` that of a drifting function at one time. Both share the factor.

An expectation over uncontrolled inputs is given by nodes :math:`z_j` with weights :math:`w_j`. If
the distribution of the uncontrolled inputs depends on the controlled ones, nodes or weights differ
from point to point, and nothing can be cached per control set. Each point then needs the
covariances :math:`k_j` of its nodes with the training inputs. With
:math:`A = (K + \Sigma)^{-1}`, on the latent scale,

* :math:`\mu(z_j) = m + k_j^\top \alpha` and :math:`\sigma^2(z_j) = k(z_j, z_j) - k_j^\top A k_j`;
* :math:`g = \sum_j w_j f(z_j)` is Gaussian with :math:`v = \sum_j w_j k_j`,
  :math:`E\,g = m + v^\top \alpha` and
  :math:`\mathrm{Var}\,g = \sum_{jj'} w_j w_{j'} k(z_j, z_{j'}) - v^\top A v`.

Both hold for every kernel of an exact GP. Gradients go through the nodes and through the weights.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from enum import Enum
from functools import partial
from typing import Any, ClassVar, NamedTuple, TypeAlias, cast

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.models.model import Model, ModelList
from botorch.posteriors.gpytorch import GPyTorchPosterior
from botorch.utils.transforms import is_ensemble
from torch import Tensor
from torch.nn.functional import pad

from ax_costaware.exceptions import UnsupportedInputError
from ax_costaware.models.average_kernel import AverageKernel
from ax_costaware.models.conditional_mean_process import ConditionalMeanProcess
from ax_costaware.models.expectation import check_one_outcome, expectation_posterior, joint_moments
from ax_costaware.models.factor import GPFactor, least, only_model, untransformed
from ax_costaware.models.fantasies import with_pending
from ax_costaware.models.fourier_path import FourierPath
from ax_costaware.models.functionals import (
    Functionals,
    Points,
    PriorKernel,
    SharedAverages,
    point_covariances,
)
from ax_costaware.models.kernels import FixedKernel
from ax_costaware.models.repeats_likelihood import RepeatsLikelihood, noise_at
from ax_costaware.models.rowwise import remaining_variance
from ax_costaware.models.time_varying_gp import TimeVaryingGP

COARSE_NODES = 64
"""Number of nodes to screen many points for the best ones."""


class Spread(Enum):
    """Standard deviation of an expectation that a criterion uses."""

    NONE = "none"
    FUNCTION = "function"
    r""":math:`E\,\sigma`, that of the function, averaged over the uncontrolled inputs."""
    EXPECTATION = "expectation"
    r""":math:`\mathrm{sd}[E f]`, that of the expectation."""


class Comparison(NamedTuple):
    """Posterior of ``n`` functionals, with their covariances with another one."""

    mean: Tensor
    """Means, ``n``."""

    variance: Tensor
    """Variances, ``n``."""

    covariance: Tensor
    """Posterior covariances with the other functional, ``n``."""

    correlation: Tensor
    """Prior correlations with the other functional, ``n``."""

    prior_variance: Tensor
    """Prior variances, ``n``."""


class FunctionalPosterior(ABC):
    """Posterior of functionals of one outcome, and of expectations over nodes."""

    most_nodes: ClassVar[tuple[int | None, int]] = (None, COARSE_NODES)
    """Largest useful number of nodes (None for all), and that for screening."""

    @property
    @abstractmethod
    def width(self) -> int:
        """Numbers in memory per node of an expectation, by which points are chunked."""

    @staticmethod
    def of(
        model: Model,
        posterior_transform: PosteriorTransform | None = None,
        X_pending: Tensor | None = None,
    ) -> FunctionalPosterior:
        """Read the posterior of a fitted model.

        Args:
            model: A model with one outcome, or with several and a ``posterior_transform``.
            posterior_transform: Applied to the posterior.
            X_pending: ``k x d`` pending points (or queries), fantasized at their posterior mean.
                That is the exact expectation over fantasies of any function that is linear in
                the posterior mean and otherwise depends on the posterior variance only.

        Raises:
            InputError: If pending queries have another number of columns.
            UnsupportedInputError: If there are pending points, and the model can neither be
                conditioned nor fantasized.
        """
        exact = ExactPosterior.try_of(model, posterior_transform, X_pending)
        if exact is not None:
            return exact
        if X_pending is not None and X_pending.shape[-2] > 0:
            model = with_pending(model, X_pending)
        return ModelPosterior(model, posterior_transform)

    @abstractmethod
    def __call__(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Return means and variances.

        Args:
            X: Rows, ``... x d``.

        Returns:
            Two tensors ``...``; ``... x m`` for an ensemble of ``m`` models.
        """

    def mean(self, X: Tensor) -> Tensor:
        """Return the means of rows ``... x d``, ``...``."""
        return self(X)[0]

    def mixture(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and variance of rows, each ``...``; for an ensemble those of the mixture."""
        mean, variance = self(X)
        if mean.ndim == X.ndim - 1:
            return mean, variance
        return mean.mean(dim=-1), variance.mean(dim=-1) + mean.var(dim=-1, correction=0)

    @abstractmethod
    def pairs(self, X: Tensor, Z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return means, variances and covariances of pairs of rows.

        Args:
            X: First rows of the pairs, ``p x d``.
            Z: Second rows, ``p x d``.

        Returns:
            Means and variances, ``2 x p`` each, and covariances, ``p``.
        """

    @property
    @abstractmethod
    def observed(self) -> Tensor:
        """Training inputs, ``n x d``, not transformed, perhaps with pending points."""

    @property
    @abstractmethod
    def noise(self) -> Tensor:
        """Variance of the observation noise."""

    def noise_at(self, X: Tensor) -> Tensor:
        """Return the expected noise variance of observations of rows ``... x d``, ``...``."""
        return self.noise.expand(X.shape[:-1])

    @abstractmethod
    def joint(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean ``p`` and covariance ``p x p`` of rows ``p x d``."""

    @abstractmethod
    def moments(self, nodes: Tensor, weights: Tensor, spread: Spread) -> tuple[Tensor, Tensor]:
        """Return mean and a standard deviation of expectations over nodes, each ``p``.

        Args:
            nodes: Nodes of each expectation, ``p x m x d``.
            weights: Weights of the nodes, which sum to one, ``p x m``.
            spread: The standard deviation; ``Spread.NONE`` for zeros.
        """


Read: TypeAlias = Callable[[Tensor], Functionals]
"""Function from rows ``p x d`` in raw units to functionals."""


class ExactPosterior(FunctionalPosterior):
    """Posterior of an exact GP, by its cached factor.

    Args:
        model: The model.
        factor: Its data, and the factor of their covariance.
        functionals: Function from rows to functionals.
        kernel: Prior covariance of the function.
        data: Observed functionals.
        path: Posterior sample that replaces the mean in expectations; None for the mean.
    """

    def __init__(
        self,
        model: Model,
        factor: GPFactor,
        functionals: Read,
        kernel: PriorKernel,
        data: Functionals,
        path: FourierPath | None = None,
    ) -> None:
        self.model, self.factor, self.path = model, factor, path
        self._read, self.kernel, self.data = functionals, kernel, data

    @staticmethod
    def of(
        model: Model,
        posterior_transform: PosteriorTransform | None = None,
        X_pending: Tensor | None = None,
    ) -> ExactPosterior:
        """Read the posterior of an exact GP; arguments as for ``FunctionalPosterior.of``.

        Raises:
            InputError: If pending queries have another number of columns.
            UnsupportedInputError: If the model has no factor.
        """
        exact = ExactPosterior.try_of(model, posterior_transform, X_pending)
        if exact is None:
            raise UnsupportedInputError(
                f"model: got a {type(only_model(model)).__name__} whose posterior has no factor; it"
                " takes an exact Gaussian process of one outcome with a constant mean, Gaussian"
                " noise, and Standardize or no outcome transform."
            )
        return exact

    @classmethod
    def try_of(
        cls,
        model: Model,
        posterior_transform: PosteriorTransform | None = None,
        X_pending: Tensor | None = None,
    ) -> ExactPosterior | None:
        """Read the posterior of an exact GP, see ``of``; None for another model."""
        model = only_model(model)
        if X_pending is not None and X_pending.shape[-2] == 0:
            X_pending = None
        if isinstance(model, ConditionalMeanProcess):
            noise, kernel = None, model.average_kernel
            if X_pending is not None:
                noise = model.latent_noise_of(X_pending).squeeze(-1)
                X_pending = kernel.query_rows(X_pending)
            factor = GPFactor.from_model(model, posterior_transform, X_pending, noise)
            if factor is None:
                return None
            data = _observed_averages(kernel, factor)
            return cls(
                model, factor, partial(_queries, kernel, factor, data), kernel.base_kernel, data
            )
        factor = GPFactor.from_model(model, posterior_transform, X_pending)
        if factor is None:
            return None
        return cls(model, factor, partial(_points, factor), factor.prior, Points(factor.X))

    def functionals(self, X: Tensor) -> Functionals:
        """Return the functionals of rows ``... x d``, flattened."""
        return self._read(X.reshape(-1, X.shape[-1]))

    def sampled(self, path: FourierPath) -> ExactPosterior:
        """Return the posterior with a sample instead of the mean in expectations."""
        other = copy(self)
        other.path = path
        return other

    @property
    def latent(self) -> ExactPosterior:
        """Posterior of the function behind averages, whose rows are points in raw units.

        Raises:
            UnsupportedInputError: If the model is no ``ConditionalMeanProcess``.
        """
        if not isinstance(self.model, ConditionalMeanProcess):
            raise UnsupportedInputError(
                f"model: got a {type(self.model).__name__}; it takes a ConditionalMeanProcess."
            )
        read = partial(_latent_points, self.model.average_kernel, self.factor)
        return ExactPosterior(self.model, self.factor, read, self.kernel, self.data)

    def at_time(self, now: float) -> ExactPosterior:
        """Return the posterior of a drifting function at one time, whose rows have no time.

        Args:
            now: The time, in the unit of the model's last column.

        Raises:
            UnsupportedInputError: If the model is no ``TimeVaryingGP``.
        """
        if not isinstance(self.model, TimeVaryingGP):
            raise UnsupportedInputError(
                f"model: got a {type(self.model).__name__}; it takes a TimeVaryingGP."
            )
        X = self.factor.X
        with torch.no_grad():
            at_now = pad(X[:1, :-1], (0, 1), value=now)
            # Decay of the covariances of observations with the function at that time.
            shares = self.model.forgetting_kernel(X, at_now).to_dense().squeeze(-1)
        read, data = partial(_points_at_time, self.factor, now), Points(X, shares)
        kernel = FixedKernel(self.model.spatial_kernel, X.shape[-1])
        return ExactPosterior(self.model, self.factor, read, kernel, data)

    def cross(self, functionals: Functionals) -> Tensor:
        """Return prior covariances of ``q`` functionals with the data, latent scale, ``q x n``."""
        return functionals.covariance(self.data, self.kernel)

    def _moments(self, functionals: Functionals, cross: Tensor) -> tuple[Tensor, Tensor]:
        return self.factor.moments_of(cross, functionals.variance(self.kernel), functionals.total)

    def __call__(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and variance, each ``...``, of rows ``... x d``."""
        functionals = self.functionals(X)
        mean, variance = self._moments(functionals, self.cross(functionals))
        return mean.reshape(X.shape[:-1]), variance.reshape(X.shape[:-1])

    def mean(self, X: Tensor) -> Tensor:
        """Return the means of rows ``... x d``, ``...``."""
        functionals = self.functionals(X)
        mean = self.factor.mean_of(self.cross(functionals), functionals.total)
        return mean.reshape(X.shape[:-1])

    def pairs(self, X: Tensor, Z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """See ``FunctionalPosterior``; of points."""
        factor = self.factor
        both = factor.transform(torch.stack([X, Z]))
        k = factor.prior.covariances(both.flatten(0, 1), factor.X)
        whitened = (k @ factor.root).unflatten(0, (2, len(X)))
        variance = factor.variance_of(whitened, factor.prior.variances(both))
        x, z = both.unsqueeze(-2)
        prior = factor.prior.covariances(x, z).flatten()
        covariance = prior - (whitened[0] * whitened[1]).sum(dim=-1)
        mean = factor.mean_of(k).reshape(2, -1)
        return mean, variance, factor.scale.square() * covariance

    def joint_with(self, others: Functionals) -> Callable[[Tensor], tuple[Tensor, Tensor, Tensor]]:
        """Return the joint posterior with ``q`` functionals as a function of rows ``... x d``.

        Args:
            others: The functionals, which are whitened once.

        Returns:
            A function from rows to means and variances, ``...``, and covariances, ``... x q``.
        """
        whitened = self.cross(others) @ self.factor.root
        with_nodes: Tensor | None = None
        if isinstance(self.data, SharedAverages) and isinstance(others, Points):
            with_nodes = point_covariances(self.kernel, others.nodes, self.data.nodes).mT
        # A partial, and no closure, so that acquisition functions can be pickled, as BoTorch's can.
        return partial(self._joint_with, others, whitened, with_nodes)

    def _joint_with(
        self, others: Functionals, whitened: Tensor, with_nodes: Tensor | None, X: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        functionals, shape = self.functionals(X), X.shape[:-1]
        cross = self.cross(functionals)
        mean, variance = self._moments(functionals, cross)
        if with_nodes is not None and isinstance(functionals, SharedAverages):
            prior = functionals.weights @ with_nodes
        else:
            prior = functionals.covariance(others, self.kernel)
        covariance = self.factor.covariance_of(cross @ self.factor.root, whitened, prior)
        return (
            mean.reshape(shape),
            variance.reshape(shape),
            covariance.reshape(*shape, len(whitened)),
        )

    def joint(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean ``p`` and covariance ``p x p`` of rows ``p x d``."""
        functionals = self.functionals(X)
        cross = self.cross(functionals)
        whitened = cross @ self.factor.root
        prior = functionals.covariance(functionals, self.kernel)
        mean = self.factor.mean_of(cross, functionals.total)
        return mean, self.factor.covariance_of(whitened, whitened, prior)

    def compared_with(self, point: Tensor) -> Callable[[Tensor], Comparison]:
        """Return the posterior jointly with a fixed row as a function of rows ``n x d``.

        Args:
            point: The fixed row, ``d``, which is whitened once.
        """
        other = self.functionals(point.unsqueeze(0))
        whitened = self.cross(other) @ self.factor.root
        return partial(self._compared, other, whitened, other.variance(self.kernel))

    def _compared(
        self, other: Functionals, whitened: Tensor, variance: Tensor, X: Tensor
    ) -> Comparison:
        functionals = self.functionals(X)
        cross, own = self.cross(functionals), functionals.variance(self.kernel)
        mean, posterior_variance = self.factor.moments_of(cross, own, functionals.total)
        prior = functionals.covariance(other, self.kernel)
        covariance = self.factor.covariance_of(cross @ self.factor.root, whitened, prior)
        correlation = _correlation(prior, own * variance)
        prior_variance = self.factor.scale.square() * own
        return Comparison(
            mean, posterior_variance, covariance.squeeze(-1), correlation, prior_variance
        )

    def correlation(self, X: Tensor, point: Tensor) -> Tensor:
        """Return prior correlations, ``n``, of rows ``n x d`` with another row, ``d``."""
        functionals, other = self.functionals(X), self.functionals(point.unsqueeze(0))
        prior = functionals.covariance(other, self.kernel)
        variances = functionals.variance(self.kernel) * other.variance(self.kernel)
        return _correlation(prior, variances)

    def prior_variance(self, X: Tensor) -> Tensor:
        """Return prior variances ``p`` of rows ``p x d``."""
        return self.factor.scale.square() * self.functionals(X).variance(self.kernel)

    @property
    def observed(self) -> Tensor:
        """Training inputs and pending points, ``n x d``, not transformed."""
        return untransformed(self.factor.input_transform, self.factor.X)

    @property
    def width(self) -> int:
        """See ``FunctionalPosterior``."""
        n = len(self.factor.X)
        return n if self.path is None else max(n, len(self.path.sine))

    @property
    def noise(self) -> Tensor:
        """Mean variance of the observation noise of all outcomes."""
        return self.factor.noise.mean() * self.factor.scale.square()

    def noise_at(self, X: Tensor) -> Tensor:
        """See ``FunctionalPosterior``."""
        if isinstance(self.model, ConditionalMeanProcess):
            noise = self.model.latent_noise_of(X).squeeze(-1)
        elif isinstance(likelihood := self.model.likelihood, RepeatsLikelihood):
            noise = noise_at(likelihood, self.factor.transform(X))
        else:
            return super().noise_at(X)
        return self.factor.scale.square() * noise

    def moments(self, nodes: Tensor, weights: Tensor, spread: Spread) -> tuple[Tensor, Tensor]:
        """See ``FunctionalPosterior``."""
        factor = self.factor
        t = factor.transform(nodes.flatten(0, 1))
        k = factor.prior.covariances(t, factor.X)
        latent = k @ factor.alpha if self.path is None else self.path(t, k)
        latent = torch.linalg.vecdot(weights, latent.reshape(weights.shape))
        mean = factor.outcome(latent)
        if spread is Spread.NONE:
            return mean, torch.zeros_like(mean)
        if spread is Spread.FUNCTION:
            sigma = remaining_variance(factor.prior.variances(t), k, factor.inverse).sqrt()
            std = torch.linalg.vecdot(weights, sigma.reshape(weights.shape))
        else:
            t = t.unflatten(0, weights.shape)  # an input transform may drop columns
            among = weighted(weights, factor.prior.covariances(t, t))
            v = weighted(weights, k.reshape(*weights.shape, -1))
            prior = torch.linalg.vecdot(among, weights)
            std = remaining_variance(prior, v, factor.inverse).sqrt()
        return mean, factor.scale.abs() * std


def _correlation(covariance: Tensor, variances: Tensor) -> Tensor:
    """Return correlations ``n`` from covariances ``n x 1`` and products of variances ``n``."""
    return covariance.squeeze(-1) / variances.clamp_min(least(variances)).sqrt()


def _points(factor: GPFactor, X: Tensor) -> Functionals:
    return Points(factor.transform(X))


def _points_at_time(factor: GPFactor, now: float, X: Tensor) -> Functionals:
    return Points(factor.transform(pad(X, (0, 1), value=now)))


def _observed_averages(kernel: AverageKernel, factor: GPFactor) -> Functionals:
    """Return the observed averages, with the cached part of their covariances."""
    with torch.no_grad():
        data = kernel.averages(factor.X)
        if isinstance(data, SharedAverages):
            data = replace(data, gram=kernel.base_kernel(data.nodes).to_dense())
            data.prepare()
    return data


def _queries(kernel: AverageKernel, factor: GPFactor, data: Functionals, A: Tensor) -> Functionals:
    found = kernel.averages(kernel.query_rows(A.to(factor.X)))
    if isinstance(found, SharedAverages) and isinstance(data, SharedAverages):
        found = replace(found, gram=data.gram)
    return found


def _latent_points(kernel: AverageKernel, factor: GPFactor, X: Tensor) -> Functionals:
    return kernel.points(X.to(factor.X))


def models_in(model: Model) -> torch.Size:
    """Return the batch shape of a batched model; empty for a single model or an ensemble."""
    if is_ensemble(model):
        return torch.Size()
    try:
        return model.batch_shape or torch.Size()
    except NotImplementedError:
        return torch.Size()


def check_one_model(model: Model) -> None:
    """Refuse a batch of models, since its batch shape would be mistaken for that of points.

    Raises:
        UnsupportedInputError: If the model is a batch of more than one, and not an ensemble.
    """
    if models_in(model).numel() > 1:
        raise UnsupportedInputError(
            f"model: got a {type(model).__name__} of batch shape {tuple(models_in(model))}; it"
            " takes a single model, or an ensemble."
        )


def weighted(weights: Tensor, rows: Tensor) -> Tensor:
    """Return weighted sums ``p x n`` of rows ``p x m x n`` with weights ``p x m``."""
    return (weights.unsqueeze(-2) @ rows).squeeze(-2)


class ModelPosterior(FunctionalPosterior):
    """Posterior of any model, by ``model.posterior``."""

    width = 64

    def __init__(self, model: Model, posterior_transform: PosteriorTransform | None) -> None:
        self.model = model
        self.posterior_transform = posterior_transform

    def _posterior(self, X: Tensor, **options: Any) -> GPyTorchPosterior:
        options["posterior_transform"] = self.posterior_transform
        return cast(GPyTorchPosterior, self.model.posterior(X, **options))

    def __call__(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and variance, ``...`` each (``... x m`` for an ensemble)."""
        posterior = self._posterior(X.unsqueeze(-2))
        mean, variance = posterior.mean, posterior.variance
        check_one_outcome(mean, 1)
        variance = variance.clamp_min(least(variance))
        return mean.squeeze(-1).squeeze(-1), variance.squeeze(-1).squeeze(-1)

    def pairs(self, X: Tensor, Z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """See ``FunctionalPosterior``."""
        mean, covariance = self.joint(torch.stack([X, Z], dim=-2))
        variance = covariance.diagonal(dim1=-2, dim2=-1)
        return mean.mT, variance.mT.clamp_min(least(variance)), covariance[..., 0, 1]

    @property
    def observed(self) -> Tensor:
        """See ``FunctionalPosterior``; for several models those of the first."""
        model = self.model
        while isinstance(model, ModelList):
            model = cast(Model, model.models[0])
        model.eval()  # sets the training inputs to their transformed values
        inputs = cast(Sequence[Tensor] | None, getattr(model, "train_inputs", None))
        if inputs is None:
            raise UnsupportedInputError(
                f"model: got a {type(model).__name__}, which has no training inputs."
            )
        X = untransformed(getattr(model, "input_transform", None), inputs[0])
        return X.reshape(-1, *X.shape[-2:])[0]

    @property
    def noise(self) -> Tensor:
        """Variance of the observation noise, in raw units: what it adds to the posterior's."""
        X = self.observed[:1]
        noisy = self._posterior(X, observation_noise=True).variance
        added = noisy - self._posterior(X).variance
        return added.mean().clamp_min(0.0)

    def joint(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """See ``FunctionalPosterior``; for a mixture its moments."""
        return joint_moments(self._posterior(X), X.shape[-2])

    def moments(self, nodes: Tensor, weights: Tensor, spread: Spread) -> tuple[Tensor, Tensor]:
        """See ``FunctionalPosterior``."""
        check_one_model(self.model)
        if spread is Spread.EXPECTATION:
            mean, variance = expectation_posterior(
                self.model, nodes, weights, self.posterior_transform
            )
            return mean, variance.clamp_min(least(variance)).sqrt()
        means, variances = self.mixture(nodes)
        mean = torch.linalg.vecdot(weights, means)
        if spread is Spread.NONE:
            return mean, torch.zeros_like(mean)
        return mean, torch.linalg.vecdot(weights, variances.sqrt())

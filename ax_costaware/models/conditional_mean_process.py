r"""A Gaussian process that is queried in one space, and speaks about another.

A query :math:`a` of A is answered by the average :math:`g(a) = E[f(X) | a]`, and what is wanted is
:math:`f` on X. With :math:`f` a Gaussian process and :math:`p(x | a)` given as nodes and weights
both are jointly Gaussian: the conditional mean process of Chau, Bouabid and Sejdinovic 2021,
"Deconditional Downscaling with Gaussian Processes" (equations 4 and 5 of Zhang et al. 2024,
"Indirect Query Bayesian Optimization with Integrated Feedback").
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, cast

import numpy as np
import numpy.typing as npt
import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.models import SingleTaskGP
from botorch.models.kernels import CategoricalKernel
from botorch.models.transforms.input import InputTransform
from botorch.models.transforms.outcome import OutcomeTransform
from botorch.models.utils.gpytorch_modules import get_covar_module_with_dim_scaled_prior
from botorch.posteriors.gpytorch import GPyTorchPosterior
from botorch.sampling.base import MCSampler
from botorch.utils.datasets import SupervisedDataset
from botorch.utils.types import DEFAULT, _DefaultType
from gpytorch.constraints import GreaterThan
from gpytorch.kernels import Kernel, ProductKernel, ScaleKernel
from gpytorch.likelihoods import FixedNoiseGaussianLikelihood
from gpytorch.means import Mean
from gpytorch.priors import LogNormalPrior
from torch import Tensor

from ax_costaware.argument_checks import finite_tensor, positive_number
from ax_costaware.exceptions import InputError
from ax_costaware.laws import Conditional
from ax_costaware.models.average_kernel import AverageKernel, latent_columns
from ax_costaware.models.configurable_gp import search_by_logarithms

_LEAST_OUTPUTSCALE = 0.02
"""Lower bound of the output scale, relative to the variance of the averages: the function varies
more than its averages, except for their noise."""

Noise = float | Tensor | npt.NDArray[Any] | Sequence[float] | Callable[[Tensor], Tensor]
"""A noise variance: a number, ``n`` or ``n x 1`` of them, or a function of queries ``n x p``."""

_LEAST_NOISE = 1.001e-3
"""Smallest standard error of averages, relative to their standard deviation."""

_LEAST_SPREAD = 1e-8
"""Standard deviation below which averages count as equal."""


class ConditionalMeanProcess(SingleTaskGP):
    """Joint GP of averages at queries and of the latent function behind them.

    ``posterior(A)`` is the posterior of the averages, ``latent_posterior(X)`` that of the function.
    Hyperparameters are fitted by BoTorch's ``fit_gpytorch_mll``, as for any model; nothing is
    fitted on construction.

    Args:
        train_queries: ``n x p`` queries, in the units of ``conditional``.
        train_z: ``n x 1`` observed averages.
        conditional: Distribution of the inputs given a query, over ``d`` columns.
        covar_module: Kernel of the function over ``d`` columns, after ``latent_transform``. By
            default a squared-exponential kernel with a length-scale per column, BoTorch's
            dimension-scaled prior for inputs in the unit cube, and an output scale, since the
            function varies more than its averages. Fast sums for independent columns need a
            squared-exponential kernel.
        noise: Variance of the observation noise, in the squared unit of ``train_z``: a number, one
            per observation, a function of queries, or None to fit it.
        noise_of_query: Variance of the noise of new observations, as a function of queries, if
            ``noise`` has that of the known ones only.
        latent_transform: Transform of points in raw units to the kernel's inputs, such as
            ``Normalize``.
        categorical: Columns of a point that are codes without an order, for the default kernel.
        mean_module: Constant prior mean of the function, after the outcome transform. That of an
            average is ``W(a)^T m`` (equation 5), which differs if weights do not sum to one.
        outcome_transform: Applied to all observations; ``Standardize`` by default. The weights then
            act on the function minus the mean of the observations.

    Raises:
        InputError: If numbers of rows or columns do not agree, a value is not finite, a query is
            outside the conditional's space, or a noise variance is not > 0.
    """

    reads_rows: ClassVar[bool] = True
    """True: ``posterior`` is BoTorch's own, on rows of queries, and ``GPFactor`` can read it."""

    def __init__(
        self,
        train_queries: Tensor,
        train_z: Tensor,
        conditional: Conditional,
        covar_module: Kernel | None = None,
        noise: Noise | None = None,
        latent_transform: InputTransform | None = None,
        categorical: Sequence[int] = (),
        mean_module: Mean | None = None,
        outcome_transform: OutcomeTransform | _DefaultType | None = DEFAULT,
        noise_of_query: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        if not isinstance(conditional, Conditional):
            raise InputError(
                f"conditional={conditional!r}: expected one such as GaussianConditional or"
                " LearnedConditional."
            )
        A, z = _checked(train_queries, train_z, conditional.num_query_columns)
        conditional.check_queries(A)
        spatial = covar_module
        if spatial is None:
            spatial = _default_kernel(latent_columns(conditional), categorical)
        kernel = AverageKernel(spatial, conditional, latent_transform)
        super().__init__(
            train_X=kernel.query_rows(A),
            train_Y=z,
            train_Yvar=_noise_variances(noise, A, z),
            covar_module=kernel,
            mean_module=mean_module,
            outcome_transform=outcome_transform,
        )
        if not conditional.sums_to_one:
            constant = getattr(self.mean_module, "constant_mean", self.mean_module)
            self.mean_module = AverageMean(constant, kernel)
        if covar_module is None:
            search_by_logarithms(self)
        self.noise_of_query = noise if callable(noise) else noise_of_query

    @property
    def conditional(self) -> Conditional:
        """Distribution of the inputs given a query."""
        return self.average_kernel.conditional

    @property
    def average_kernel(self) -> AverageKernel:
        """Kernel of rows of averages and points."""
        return cast(AverageKernel, self.covar_module)

    def posterior(  # type: ignore[override]  # Standardize keeps it a GPyTorchPosterior
        self,
        X: Tensor,
        output_indices: list[int] | None = None,
        observation_noise: bool | Tensor = False,
        posterior_transform: PosteriorTransform | None = None,
        **kwargs: Any,
    ) -> GPyTorchPosterior:
        """Return the posterior of the averages at queries.

        Args:
            X: Queries, ``batch_shape x q x p``.
            output_indices: Not used: there is one outcome.
            observation_noise: True to add observation noise: that of the query if the noise is a
                function of queries, else the mean of the known or fitted noise.
            posterior_transform: Applied to the posterior.
            **kwargs: As in any BoTorch model.
        """
        rows = self._rows(X)
        if observation_noise is True and self.noise_of_query is not None:
            observation_noise = self.latent_noise_of(rows)
        passed = (output_indices, observation_noise, posterior_transform)
        return cast(GPyTorchPosterior, super().posterior(rows, *passed, **kwargs))

    def latent_posterior(
        self, X: Tensor, posterior_transform: PosteriorTransform | None = None
    ) -> GPyTorchPosterior:
        """Return the posterior of the function at points.

        Args:
            X: Points in raw units, ``batch_shape x q x d``.
            posterior_transform: Applied to the posterior.
        """
        rows = self.average_kernel.point_rows(X)
        return self.posterior(rows, posterior_transform=posterior_transform)

    def condition_on_observations(
        self, X: Tensor, Y: Tensor, noise: Tensor | None = None, **kwargs: Any
    ) -> ConditionalMeanProcess:
        """Return the model after more averages, with the same hyperparameters.

        Args:
            X: Queries, ``batch_shape x q x p``.
            Y: Observed averages, ``batch_shape x q x 1``.
            noise: Noise variances of the shape of ``Y``, after the outcome transform. None for the
                function of queries, or for the mean of the known noise.
            **kwargs: As in any BoTorch model.
        """
        rows = self._rows(X)
        if isinstance(self.likelihood, FixedNoiseGaussianLikelihood) and noise is None:
            noise = self.latent_noise_of(rows).expand_as(Y)
        if self.prediction_strategy is None:
            with torch.no_grad():  # fill the caches, from which conditioning starts
                self.posterior(rows[..., :1, :])
        conditioned = super().condition_on_observations(X=rows, Y=Y, noise=noise, **kwargs)
        return cast(ConditionalMeanProcess, conditioned)

    def fantasize(
        self,
        X: Tensor,
        sampler: MCSampler,
        observation_noise: Tensor | None = None,
        **kwargs: Any,
    ) -> ConditionalMeanProcess:
        """Return the model after sampled observations at queries, as BoTorch's ``fantasize``.

        Args:
            X: Queries, ``batch_shape x q x p``.
            sampler: Sampler of the observations.
            observation_noise: As ``noise`` in ``condition_on_observations``.
            **kwargs: As in any BoTorch model.
        """
        if observation_noise is None and self.noise_of_query is not None:
            observation_noise = self.latent_noise_of(X)
        return super().fantasize(X, sampler, observation_noise, **kwargs)

    def latent_noise_of(self, A: Tensor) -> Tensor:
        """Return noise variances of observations, after the outcome transform.

        Args:
            A: Queries ``... x n x p``, or their rows of the kernel.

        Returns:
            ``... x n x 1`` variances: by the function of queries, else the mean of the known noise.
        """
        queries = A[..., : self.conditional.num_query_columns]
        if self.noise_of_query is None:
            mean: Tensor = self.likelihood.noise.mean().detach().to(queries)
            return mean.expand(*queries.shape[:-1], 1)
        flat = queries.reshape(-1, queries.shape[-1])
        known = torch.as_tensor(self.noise_of_query(flat)).to(flat).reshape(-1, 1)
        known = known.expand(len(flat), 1)
        if hasattr(self, "outcome_transform"):
            self.eval()  # or the outcome transform would learn anew
            _, known = self.outcome_transform(torch.zeros_like(known), known)
        return known.reshape(*queries.shape[:-1], 1)

    def _rows(self, X: Tensor) -> Tensor:
        """Return rows of queries; rows are returned as they are."""
        p, d = self.conditional.num_query_columns, self.average_kernel.num_latent_columns
        return X if X.shape[-1] == p + d + 1 else self.average_kernel.query_rows(X)

    @classmethod
    def construct_inputs(cls, training_data: SupervisedDataset, **options: Any) -> dict[str, Any]:
        """Return constructor arguments from a data set of queries and averages, for Ax."""
        inputs: dict[str, Any] = {
            "train_queries": training_data.X,
            "train_z": training_data.Y,
            **options,
        }
        if training_data.Yvar is not None and not bool(training_data.Yvar.isnan().all()):
            # A standard error of zero is raised to a small part of the averages' spread: GPyTorch
            # would raise it, too, with a warning.
            Y = training_data.Y
            spread = float(Y.std()) if len(Y) > 1 else 0.0
            # BoTorch's Standardize does not scale averages that are equal.
            spread = spread if spread >= _LEAST_SPREAD else 1.0
            given = inputs.get("noise")
            if callable(given):  # what is known of queries that were not asked
                inputs["noise_of_query"] = given
            inputs["noise"] = training_data.Yvar.clamp_min((_LEAST_NOISE * spread) ** 2)
        return inputs


class AverageMean(Mean):  # type: ignore[misc]  # GPyTorch is not typed
    """Prior mean of rows: ``m`` at points, ``W(a)^T m`` for averages.

    Args:
        constant_mean: The prior mean ``m`` of the function, a constant.
        kernel: The kernel of the rows.
    """

    def __init__(self, constant_mean: Mean, kernel: AverageKernel) -> None:
        super().__init__()
        self.constant_mean = constant_mean
        self._kernel = (kernel,)  # in a tuple, so that it is no submodule twice

    def forward(self, rows: Tensor) -> Tensor:
        """Return prior means ``... x n`` of rows ``... x n x (p + d + 1)``."""
        (kernel,) = self._kernel
        means: Tensor = self.constant_mean(rows) * kernel.totals(rows)
        return means


def _default_kernel(d: int, categorical: Sequence[int]) -> Kernel:
    if not set(categorical) <= set(range(d)):
        raise InputError(f"categorical={tuple(categorical)!r}: expected columns from 0 to {d - 1}.")
    prior = LogNormalPrior(0.5, 1.0)
    # As BoTorch does it for length-scales: a bound of the optimiser, and no transform.
    constraint = GreaterThan(_LEAST_OUTPUTSCALE, transform=None, initial_value=math.exp(0.5))
    return ScaleKernel(
        mixed_kernel(d, categorical, get_covar_module_with_dim_scaled_prior),
        outputscale_prior=prior,
        outputscale_constraint=constraint,
    )


def mixed_kernel(d: int, categorical: Sequence[int], numeric: Callable[..., Kernel]) -> Kernel:
    """Return a kernel of numeric columns times a ``CategoricalKernel`` of the others.

    Args:
        d: Number of columns.
        categorical: Columns that are codes without an order.
        numeric: Function from ``ard_num_dims`` and ``active_dims`` to the kernel of the others.
    """
    if not categorical:
        return numeric(ard_num_dims=d, active_dims=None)
    codes = list(categorical)
    others = [column for column in range(d) if column not in codes]
    of_codes = CategoricalKernel(ard_num_dims=len(codes), active_dims=codes)
    if not others:
        return of_codes
    return ProductKernel(numeric(ard_num_dims=len(others), active_dims=others), of_codes)


def _noise_variances(noise: Noise | None, A: Tensor, outcomes: Tensor) -> Tensor | None:
    """Return ``n x 1`` variances of all observations, or None to fit one."""
    if noise is None:
        return None
    if callable(noise):
        noise = noise(A)
    if isinstance(noise, np.ndarray | list | tuple):
        noise = torch.as_tensor(noise)
    if not isinstance(noise, Tensor):
        return torch.full_like(outcomes, positive_number(noise, "noise"))
    if noise.numel() not in (1, len(outcomes)):
        raise InputError(
            f"noise of shape {tuple(noise.shape)}: expected a number, or one for each of the"
            f" {len(outcomes)} observations."
        )
    unknown = int(torch.isnan(noise).sum())  # data sets have NaN for unknown noise
    if unknown == noise.numel():
        return None
    if unknown:
        raise InputError(
            f"the noise of {unknown} of {noise.numel()} observations is not known: expected a"
            " standard error or variance of each of them, or of none."
        )
    if not bool((noise > 0).all()) or not bool(noise.isfinite().all()):
        raise InputError(f"noise with the minimum {float(noise.min())!r}: expected numbers > 0.")
    return noise.to(outcomes).reshape(-1, 1).expand_as(outcomes)


def _checked(queries: Tensor, outcomes: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """Return checked queries ``n x width`` and outcomes ``n x 1``, with ``n`` at least 1."""
    expected = f"n x {width} finite numbers, n > 0"
    n = len(finite_tensor(queries, "train_queries", (None, width), expected))
    outcomes = outcomes.unsqueeze(-1) if outcomes.ndim == 1 else outcomes
    return queries, finite_tensor(outcomes, "train_z", (n, 1), f"{n} x 1 finite numbers")

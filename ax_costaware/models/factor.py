r"""Training data of an exact GP with the Cholesky factor of their covariance.

``Model.posterior`` rebuilds lazy tensors and wrappers on every call. An optimizer that evaluates
the same posterior thousands of times needs only the training inputs, the Cholesky factor of
:math:`K + \Sigma`, and :math:`\alpha = (K + \Sigma)^{-1} (y - m)`. ``GPFactor`` reads them once
from a BoTorch model, in the model's precision, in the space after its input transform.
``ExactPosterior`` uses it.

Means and variances are those of ``model.posterior`` after the posterior transform: the outcome
transform is undone, and minimization is turned into maximization.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar, cast

import torch
from botorch.acquisition.objective import PosteriorTransform, ScalarizedPosteriorTransform
from botorch.models.gp_regression import SingleTaskGP
from botorch.models.model import Model
from botorch.models.model_list_gp_regression import ModelListGP
from botorch.models.transforms.input import (
    AffineInputTransform,
    ChainedInputTransform,
    InputStandardize,
    InputTransform,
    Log10,
    Normalize,
    Round,
    Warp,
)
from botorch.models.transforms.outcome import OutcomeTransform, Standardize
from gpytorch.kernels import Kernel
from gpytorch.likelihoods import FixedNoiseGaussianLikelihood, GaussianLikelihood
from gpytorch.means import ConstantMean, Mean, ZeroMean
from linear_operator.utils.cholesky import psd_safe_cholesky
from torch import Tensor

from ax_costaware.exceptions import UnsupportedInputError
from ax_costaware.models.kernels import FixedKernel, SeparableKernel
from ax_costaware.models.repeats_likelihood import RepeatsLikelihood, noise_at

_LEAST_VARIANCE = 1e-12
"""Lower limit of variances, relative to the prior variance, so that the square root has a finite
gradient."""


def least(like: Tensor) -> float:
    """Return the absolute lower limit of variances, for a linear kernel with prior variance 0."""
    return torch.finfo(like.dtype).tiny * 1e8


def only_model(model: Model) -> Model:
    """Return the model of a ``ModelListGP`` of one; any other model itself."""
    if isinstance(model, ModelListGP) and len(model.models) == 1:
        return cast(Model, model.models[0])
    return model


def _answers_by_itself(model: SingleTaskGP) -> bool:
    """Return True if a class overrides BoTorch's posterior or forward."""
    kind = type(model)
    is_usual = kind.posterior is SingleTaskGP.posterior or getattr(kind, "reads_rows", False)
    return not is_usual or kind.forward is not SingleTaskGP.forward


Kept = TypeVar("Kept")


class _kept(cached_property[Kept]):
    """Cached property that can be part of a graph even if first read in inference mode."""

    def __get__(  # type: ignore[override]
        self, instance: object, owner: type[Any] | None = None
    ) -> Kept:
        with torch.inference_mode(False):
            return super().__get__(instance, owner)


@dataclass(frozen=True, eq=False)
class GPFactor:
    r"""An exact single-output GP, conditioned on its data, as plain tensors.

    The latent GP has prior mean ``prior_mean`` and covariance ``kernel``; the function that is
    modelled is ``offset + scale * latent``.

    Attributes:
        X: ``n x d`` training inputs, transformed, pending points appended.
        y: ``n`` training targets minus their prior means, on the latent scale.
        noise: ``n`` noise variances on the latent scale.
        kernel: The covariance module.
        separable: The kernel's product form, or ``None`` where it has none.
        prior_mean: The constant prior mean at points, a scalar tensor.
        scale: Multiplies the latent function; negative for minimisation.
        offset: Added to the scaled latent function.
        input_transform: The model's input transform.
    """

    X: Tensor
    y: Tensor
    noise: Tensor
    kernel: Kernel
    separable: SeparableKernel | None
    prior_mean: Tensor
    scale: Tensor
    offset: Tensor
    input_transform: InputTransform | None = field(repr=False)

    @classmethod
    def from_model(
        cls,
        model: Model,
        posterior_transform: PosteriorTransform | None = None,
        X_pending: Tensor | None = None,
        noise_pending: Tensor | None = None,
    ) -> GPFactor | None:
        """Read a BoTorch model.

        Args:
            model: A fitted ``SingleTaskGP``, or a ``ModelListGP`` of one.
            posterior_transform: A ``ScalarizedPosteriorTransform``, with which Ax minimizes.
            X_pending: ``m x d`` pending points, fantasized at the posterior mean with the mean
                noise variance (Kriging believer). That is the exact expectation over fantasies of
                any acquisition function that is linear in the posterior mean and otherwise depends
                on the posterior variance only.
            noise_pending: ``m`` noise variances of them on the latent scale; None for the mean, or
                that of their repeats.

        Returns:
            The factor, or None if ``model.posterior`` is needed. The model has to be an exact,
            unbatched, single-output GP with

            - observations, a constant mean, and a Gaussian likelihood;
            - an affine outcome transform or none;
            - an input transform that keeps the number of points, or none;
            - BoTorch's ``posterior`` and ``forward``.
        """
        model = only_model(model)
        affine = _affine_transform(model, posterior_transform)
        if (
            affine is None
            or not isinstance(model, SingleTaskGP)
            or model.num_outputs != 1
            or _answers_by_itself(model)
            or len(model.batch_shape) > 0
            or len(model.train_targets) == 0
            or getattr(getattr(model, "input_transform", None), "is_one_to_many", False)
            or not isinstance(_mean_of_points(model), ConstantMean | ZeroMean)
            or not isinstance(model.likelihood, GaussianLikelihood | FixedNoiseGaussianLikelihood)
        ):
            return None
        model.eval()  # sets the training inputs to their transformed values
        with torch.no_grad():
            X = model.train_inputs[0]
            means, mean = (
                module(X) for module in (cast(Mean, model.mean_module), _mean_of_points(model))
            )
            mean = mean[:1].squeeze(0)
            scale, offset = affine
            kernel = cast(Kernel, model.covar_module)
            input_transform: InputTransform | None = getattr(model, "input_transform", None)
            separable = None
            if is_made_of(input_transform, COLUMNWISE):
                separable = SeparableKernel.from_kernel(kernel, X.shape[-1])
            posterior = cls(
                X=X,
                y=model.train_targets - means,
                noise=noise_at(model.likelihood, X),
                kernel=kernel,
                separable=separable,
                prior_mean=mean,
                scale=scale.to(X),
                offset=offset.to(X),
                input_transform=input_transform,
            )
            if X_pending is None:
                return posterior
            pending, noise = posterior.transform(X_pending.to(X)), posterior.noise
            fantasies = kernel(pending, X).to_dense() @ posterior.alpha
            if noise_pending is None and isinstance(model.likelihood, RepeatsLikelihood):
                noise_pending = noise_at(model.likelihood, pending)
            elif noise_pending is None:
                noise_pending = noise.mean().expand(len(pending))
            return replace(
                posterior,
                X=torch.cat([X, pending]),
                y=torch.cat([posterior.y, fantasies]),
                noise=torch.cat([noise, noise_pending.to(noise)]),
            )

    def transform(self, X: Tensor) -> Tensor:
        """Apply the model's input transform to a ``... x d``-tensor."""
        if self.input_transform is None:
            return X
        if self._affine is None:
            transformed: Tensor = self.input_transform(X)
            return transformed
        offset, coefficient = self._affine
        return (X - offset.to(X)) / coefficient.to(X)

    @_kept
    def _affine(self) -> tuple[Tensor, Tensor] | None:
        """Offset and coefficient of an input transform of all columns that is affine."""
        transform = self.input_transform
        if type(transform) not in AFFINE or hasattr(transform, "indices"):
            return None
        affine = cast(AffineInputTransform, transform)
        is_plain = affine.transform_on_eval and not affine.reverse
        return (affine.offset, affine.coefficient) if is_plain else None

    @_kept
    def prior(self) -> FixedKernel | SeparableKernel:
        """Latent prior covariance of transformed points."""
        return self.separable or FixedKernel(self.kernel, self.num_inputs)

    @_kept
    def covariance(self) -> Tensor:
        """Prior covariance of the noisy training targets, ``n x n``."""
        with torch.no_grad():
            covariance: Tensor = self.kernel(self.X).to_dense() + torch.diag_embed(self.noise)
            return covariance

    @_kept
    def cholesky(self) -> Tensor:
        """Lower Cholesky factor of ``covariance``, ``n x n``."""
        factor: Tensor = psd_safe_cholesky(self.covariance)
        return factor

    @_kept
    def alpha(self) -> Tensor:
        """``(K + noise)^-1 (y - m)``, ``n``."""
        return torch.cholesky_solve(self.y.unsqueeze(-1), self.cholesky).squeeze(-1)

    @_kept
    def inverse(self) -> Tensor:
        """``(K + noise)^-1``, ``n x n``."""
        return torch.cholesky_inverse(self.cholesky)

    @_kept
    def root(self) -> Tensor:
        """Whitening root of ``inverse``, ``n x n``: ``root @ root.T == inverse``."""
        identity = torch.eye(len(self.X)).to(self.X)
        root: Tensor = torch.linalg.solve_triangular(self.cholesky, identity, upper=False)
        return root.T.contiguous()

    def outcome(self, latent: Tensor) -> Tensor:
        """Return values in the posterior's unit from latent values minus the prior mean."""
        return self.offset + self.scale * (self.prior_mean + latent)

    def mean_of(self, covariance: Tensor, total: Tensor | float = 1.0) -> Tensor:
        """Return posterior means, ``...``.

        Args:
            covariance: Latent prior covariances with the data, ``... x n``.
            total: Sums of weights ``...`` of averages, which multiply the prior mean.
        """
        return self.offset + self.scale * (self.prior_mean * total + covariance @ self.alpha)

    def variance_of(self, whitened: Tensor, prior: Tensor) -> Tensor:
        """Return posterior variances, ``...``, clamped at a small part of the prior variances.

        Args:
            whitened: Latent prior covariances with the data times ``root``, ``... x n``.
            prior: Latent prior variances, ``...``.
        """
        variance = prior - whitened.square().sum(dim=-1)
        variance = torch.maximum(variance, (_LEAST_VARIANCE * prior).clamp_min(least(variance)))
        return self.scale.square() * variance

    def moments_of(
        self, covariance: Tensor, prior: Tensor, total: Tensor | float = 1.0
    ) -> tuple[Tensor, Tensor]:
        """Return posterior means and variances; see ``mean_of`` and ``variance_of``."""
        return self.mean_of(covariance, total), self.variance_of(covariance @ self.root, prior)

    def covariance_of(self, left: Tensor, right: Tensor, prior: Tensor) -> Tensor:
        """Return posterior covariances, ``p x q``, from whitened rows ``p x n`` and ``q x n``."""
        return self.scale.square() * (prior - left @ right.mT)

    @property
    def num_inputs(self) -> int:
        """Number of input columns, ``d``."""
        return self.X.shape[-1]


def _mean_of_points(model: SingleTaskGP) -> Mean:
    """Return the prior mean at points, where that of averages is another one."""
    return cast(Mean, getattr(model.mean_module, "constant_mean", model.mean_module))


def _affine_transform(
    model: Model, posterior_transform: PosteriorTransform | None
) -> tuple[Tensor, Tensor] | None:
    """Return ``(scale, offset)`` from the latent GP to the posterior; None if not affine."""
    scale, offset = torch.ones(()), torch.zeros(())
    outcome: OutcomeTransform | None = getattr(model, "outcome_transform", None)
    if outcome is not None:
        if type(outcome) is not Standardize:
            return None
        stds, means = outcome.stdvs, outcome.means
        if means.numel() != 1:
            return None
        scale, offset = stds.detach().reshape(()), means.detach().reshape(())
    if posterior_transform is not None:
        if (
            type(posterior_transform) is not ScalarizedPosteriorTransform
            or cast(Tensor, posterior_transform.weights).numel() != 1
        ):
            return None
        weight = cast(Tensor, posterior_transform.weights).reshape(()).to(scale)
        scale, offset = weight * scale, weight * offset + posterior_transform.offset
    return scale, offset


# Input transforms each of whose output columns depends on its own input column only, and those of
# them that are affine.
AFFINE = (Normalize, InputStandardize)
COLUMNWISE = (*AFFINE, Log10, Round, Warp)


def is_made_of(transform: InputTransform | None, kinds: Sequence[type[InputTransform]]) -> bool:
    """Return True for no input transform, one of these kinds, or a chain of them."""
    if isinstance(transform, ChainedInputTransform):
        return all(is_made_of(cast(InputTransform, part), kinds) for part in transform.values())
    # `type(...) in`: a subclass may mix columns.
    return transform is None or type(transform) in kinds


def untransformed(transform: InputTransform | None, X: Tensor) -> Tensor:
    """Return training inputs in raw units from transformed ones; rounding is not undone."""
    if isinstance(transform, ChainedInputTransform):
        for part in reversed(list(transform.values())):
            X = untransformed(cast(InputTransform, part), X)
        return X
    if transform is None or isinstance(transform, Round) or not transform.transform_on_train:
        return X
    return transform.untransform(X)


def information_gain(model: Model) -> float:
    r"""Return the information of the training data of an exact GP about the function, in nats.

    Args:
        model: An exact GP that ``GPFactor`` can read.

    Returns:
        :math:`\frac{1}{2} \log\det(I + \Sigma^{-1/2} K \Sigma^{-1/2})`, the quantity that the
        theory bounds by the maximum information gain :math:`\gamma_t` (Chowdhury and Gopalan 2017).

    Raises:
        UnsupportedInputError: If the model is not an exact, single-output GP.
    """
    posterior = GPFactor.from_model(model)
    if posterior is None:
        raise UnsupportedInputError(
            f"model: got {type(model).__name__}; the information gain takes an exact,"
            " single-output Gaussian process with a constant mean and Gaussian noise."
        )
    log_det = 2 * posterior.cholesky.diagonal().log().sum() - posterior.noise.log().sum()
    return 0.5 * float(log_det)

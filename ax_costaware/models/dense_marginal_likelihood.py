r"""Marginal likelihood of an exact Gaussian process, for fits with less overhead.

With a few hundred observations, most of the time of a fit goes into GPyTorch's lazily evaluated
matrices, and into the derivatives of a Cholesky factor and of distances. BoTorch's
``fit_gpytorch_mll`` uses the custom loss of a marginal likelihood, if there is one. This one is the
same number from dense matrices, with the derivative by the covariance :math:`K` in closed form
(Rasmussen and Williams 2006, *Gaussian Processes for Machine Learning*, equation 5.9):

.. math:: \frac{\partial}{\partial K} \log N(r; 0, K) = \tfrac12 (\alpha \alpha^T - K^{-1}),
   \quad \alpha = K^{-1} r.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from botorch.optim.closures.model_closures import get_loss_closure
from gpytorch.kernels import AdditiveKernel, Kernel, ProductKernel, RBFKernel, ScaleKernel
from gpytorch.likelihoods import FixedNoiseGaussianLikelihood, GaussianLikelihood
from gpytorch.mlls import ExactMarginalLogLikelihood
from gpytorch.models import ExactGP
from gpytorch.priors import LogNormalPrior
from linear_operator import to_dense
from linear_operator.utils.cholesky import psd_safe_cholesky
from torch import Tensor
from torch.autograd.function import once_differentiable

from ax_costaware.models.kernels import correlation, is_matern, matern, squared_exponential
from ax_costaware.models.repeats_likelihood import RepeatsLikelihood


class DenseMarginalLogLikelihood(ExactMarginalLogLikelihood):  # type: ignore[misc]
    """GPyTorch's exact marginal log-likelihood, with a faster loss for fits.

    Use it instead of ``ExactMarginalLogLikelihood`` with ``fit_gpytorch_mll``, or as the
    ``mll_class`` of an Ax ``ModelConfig``. Called with a distribution it equals that class.

    Args:
        likelihood: The likelihood of ``model``.
        model: The model to fit.
    """

    def __init__(self, likelihood: Any, model: ExactGP) -> None:
        super().__init__(likelihood, model)
        self._loss: Callable[[], Tensor] | None = None
        self._data: tuple[Tensor, ...] = ()

    def compute_custom_loss(self, **kwargs: Any) -> Tensor:
        """Return the negative log-likelihood with the priors, per observation.

        It is BoTorch's own loss if the model is a batch, its likelihood is not Gaussian, or its
        input transform is fitted.

        Args:
            **kwargs: Arguments of the likelihood in BoTorch's loss.
        """
        data = (*self.model.train_inputs, self.model.train_targets)
        # A model may get other data, and be fitted again.
        if self._loss is None or any(a is not b for a, b in zip(data, self._data, strict=True)):
            plain = ExactMarginalLogLikelihood(self.likelihood, self.model)
            self._loss, self._data = self._dense_loss() or get_loss_closure(plain), data
        return self._loss(**kwargs)

    def _dense_loss(self) -> Callable[[], Tensor] | None:
        model, likelihood = self.model, self.likelihood
        transform = getattr(model, "input_transform", None)
        if (
            type(likelihood) not in _LIKELIHOODS
            or model.train_targets.ndim != 1
            or len(model.train_inputs) != 1
            or len(model.covar_module.batch_shape) > 0
            or any(True for _ in model.added_loss_terms())
            or (transform is not None and any(p.requires_grad for p in transform.parameters()))
        ):
            return None
        (X,) = model.train_inputs
        if transform is not None:
            with torch.no_grad():
                X = model.transform_inputs(X)
        targets = model.train_targets
        factor: Tensor | float = 1.0
        if isinstance(likelihood, RepeatsLikelihood):
            with torch.no_grad():
                factor = likelihood.factor(X)
        priors = _Priors(model)

        def loss(**kwargs: Any) -> Tensor:
            covariance = dense_covariance(model.covar_module, X)
            noise = factor * likelihood.noise.expand(targets.shape)
            covariance = covariance + torch.diag_embed(noise)
            residuals = targets - model.mean_module(X)
            total: Tensor = _LogDensity.apply(  # type: ignore[no-untyped-call]
                covariance, residuals
            )
            return -(total + priors.log_density()) / len(targets)

        return loss


_LIKELIHOODS = (GaussianLikelihood, FixedNoiseGaussianLikelihood, RepeatsLikelihood)

_LOG_ROOT_TWO_PI = 0.5 * math.log(2 * math.pi)


class _Priors:
    """Priors of a model's hyperparameters, with the log-normal ones vectorized."""

    def __init__(self, model: ExactGP) -> None:
        found = [(prior, value, module) for _, module, prior, value, _ in model.named_priors()]
        self._log_normal = [each for each in found if type(each[0]) is LogNormalPrior]
        self._others = [each for each in found if type(each[0]) is not LogNormalPrior]
        # Their parameters may be in single precision, as are torch's results then. They may also
        # stay on the CPU when the model is moved.
        numbers = [
            torch.stack([prior.loc, 2 * prior.scale.square(), prior.scale.log()])
            .reshape(3, -1)
            .expand(3, value(module).numel())
            .to(value(module).device)
            for prior, value, module in self._log_normal
        ]
        self._numbers = torch.cat(numbers, dim=-1).detach() if numbers else None

    def log_density(self) -> Tensor | float:
        """Return the sum of the log densities at the current hyperparameters."""
        total: Tensor | float = 0.0
        if self._numbers is not None:
            values = [value(module).reshape(-1) for _, value, module in self._log_normal]
            log = torch.cat(values).log()
            locations, widths, log_scales = self._numbers
            densities = -(log - locations).square() / widths - log_scales - log
            total = (densities - _LOG_ROOT_TWO_PI).sum()
        for prior, value, module in self._others:
            total = total + prior.log_prob(value(module)).sum()
        return total


def dense_covariance(kernel: Kernel, X: Tensor) -> Tensor:
    """Return the covariance ``n x n`` of points ``n x d``, without lazy evaluation.

    Gradients by the length-scales of squared-exponential and Matern-5/2 kernels need products of
    matrices ``n x n`` and ``n x d`` only.

    Args:
        kernel: A kernel without a batch shape.
        X: The points, after the input transform, without gradients.
    """
    if kernel.active_dims is not None:
        X = X.index_select(-1, kernel.active_dims)
    return _forward(kernel, X)


def _forward(kernel: Kernel, X: Tensor) -> Tensor:
    """Return ``kernel.forward(X, X)`` as a dense tensor; active columns are already selected."""
    # `type(...) is`: a subclass may compute something else from the same parts.
    if type(kernel) is ScaleKernel:
        scale: Tensor = kernel.outputscale
        return scale * _forward(kernel.base_kernel, X)
    if type(kernel) is ProductKernel:
        factors = [dense_covariance(part, X) for part in kernel.kernels]
        return math.prod(factors[1:], start=factors[0])
    if type(kernel) is AdditiveKernel:
        return torch.stack([dense_covariance(part, X) for part in kernel.kernels]).sum(dim=0)
    if type(kernel) is RBFKernel:
        return correlation(X, kernel.lengthscale, squared_exponential)
    if is_matern(kernel):
        return correlation(X, kernel.lengthscale, matern)
    covariance: Tensor = to_dense(kernel.forward(X, X))
    return covariance


class _LogDensity(torch.autograd.Function):
    """Log density of ``n`` residuals under a normal distribution with mean zero."""

    @staticmethod
    def forward(ctx: Any, covariance: Tensor, residuals: Tensor) -> Tensor:
        factor = psd_safe_cholesky(covariance)
        alpha = torch.cholesky_solve(residuals.unsqueeze(-1), factor).squeeze(-1)
        ctx.save_for_backward(factor, alpha)
        constant = len(residuals) * _LOG_ROOT_TWO_PI
        log_determinant: Tensor = factor.diagonal().log().sum()
        return -0.5 * residuals @ alpha - log_determinant - constant

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        factor, alpha = ctx.saved_tensors
        by_covariance = 0.5 * (torch.outer(alpha, alpha) - torch.cholesky_inverse(factor))
        return gradient * by_covariance, -gradient * alpha

r"""Log-normal model of the cost of trials, learned from reported costs.

The logarithm of the cost is modelled, so that costs are positive and errors are relative. A trial
at x costs :math:`c \sim \mathrm{LogNormal}(m(x), s^2(x))`, with the mean
:math:`E[c] = \exp(m + s^2 / 2)`, as in the section on unknown costs of Xie et al. 2024,
*Cost-aware Bayesian Optimization via the Pandora's Box Gittins Index*. The linear model has less
variance: Lee et al. 2020, *Cost-aware Bayesian Optimization*, find that a linear model of the
logarithm often predicts costs better than a GP. Costs are in the user's unit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, get_args

import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.transforms.input import Normalize
from botorch.models.utils.gpytorch_modules import (
    get_covar_module_with_dim_scaled_prior,
    get_gaussian_likelihood_with_gamma_prior,
)
from botorch.utils.sampling import manual_seed
from gpytorch.kernels import ConstantKernel, Kernel, LinearKernel
from gpytorch.means import ZeroMean
from gpytorch.priors import LogNormalPrior
from torch import Tensor

from ax_costaware.argument_checks import checked_bounds, first_bad, one_of
from ax_costaware.costs.cost_model import ANY_TRIAL, TrialContext
from ax_costaware.exceptions import InputError
from ax_costaware.models.choice_kernel import ChoiceMaternKernel
from ax_costaware.models.configurable_gp import search_by_logarithms
from ax_costaware.models.dense_marginal_likelihood import DenseMarginalLogLikelihood
from ax_costaware.models.posterior import ExactPosterior

CostKind: TypeAlias = Literal["gp", "linear", "trend"]
"""A Gaussian process of the log cost, a Bayesian linear regression, or their sum."""


_TARGET_DECIMALS = 10
"""Decimals of the standardized log costs."""

_LEAST_LOG = math.log(1e-9)
"""Logarithm of the smallest cost relative to the largest. Rounding errors of a cost of zero would
otherwise dominate the fit."""


class LogNormalCostModel:
    """Log-normal model of the cost of a trial, fitted to observed costs.

    Log costs are standardized with the standard deviation of the data and one more observation, a
    factor of e away from the mean. With one cost the median is that cost everywhere, with a spread
    of about a factor of e. A few equal costs do not make the model certain, and with many costs the
    added observation hardly matters. A cost below a billionth of the largest counts as a billionth.
    Fits are deterministic.

    Args:
        X: ``n x d`` inputs of past trials, at least one; a row may be repeated.
        cost: ``n`` costs of these trials.
        kind: ``"gp"`` for a Matern 5/2 kernel with a length-scale per input; ``"linear"`` for a
            regression on the inputs; ``"trend"`` for the sum of both, which extrapolates the trend
            of the costs instead of returning to their mean. Priors are BoTorch's. Under the prior
            of the slopes, costs vary over the bounds as much as the observed ones.
        bounds: ``2 x d`` lower and upper bounds of the inputs, which scale them; the range of ``X``
            by default. A column of width zero counts as one of width one.
        choices: The columns of each one-hot choice. In a trend they share a length-scale, and have
            no slopes.

    Raises:
        InputError: If a cost is not a finite number > 0, with its row; if an input is not finite;
            or if shapes, bounds or ``kind`` are wrong.
    """

    kind: CostKind
    """The kind of model."""

    # Fitting needs gradients, also if the caller is in inference mode.
    @torch.inference_mode(False)
    def __init__(
        self,
        X: Tensor,
        cost: Tensor,
        kind: CostKind = "gp",
        bounds: Tensor | None = None,
        choices: Sequence[Sequence[int]] = (),
    ) -> None:
        self.kind = one_of(kind, "kind", get_args(CostKind))
        inputs, log_cost = checked_inputs(X), checked_costs(cost, X).log()
        log_cost = log_cost.clamp_min(float(log_cost.max()) + _LEAST_LOG)
        n = len(log_cost)
        self._center = log_cost.mean()
        self._scale = (((log_cost - self._center).square().sum() + 1.0) / n).sqrt()
        scaled = ((log_cost - self._center) / self._scale).unsqueeze(-1)
        # The fit magnifies rounding errors, which depend on the unit of cost: round them off.
        targets = scaled.round(decimals=_TARGET_DECIMALS)
        box = widened(inputs, bounds)
        model = _regression(kind, inputs, targets, box, choices)
        # A failed fit is retried from random hyperparameters, which are seeded here.
        with manual_seed(0):
            fit_gpytorch_mll(DenseMarginalLogLikelihood(model.likelihood, model))
        model.requires_grad_(False)
        # The variance of the logarithm of the cost from trial to trial.
        self._scatter = self._scale.square() * model.likelihood.noise.reshape(())
        self._num_inputs = inputs.shape[-1]
        self._posterior = ExactPosterior.of(model)

    def log_moments(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and variance of the natural logarithm of the next trial's cost.

        The variance is that of the regression plus the scatter from trial to trial.

        Args:
            X: ``batch_shape x d`` inputs.

        Returns:
            Two tensors of shape ``batch_shape``, differentiable in ``X``.

        Raises:
            InputError: If ``X`` has another number of columns than the inputs of the fit.
        """
        mean, variance = self._moments(X)
        return _as_given(X, mean), _as_given(X, variance + self._scatter)

    def _moments(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and variance, in double, of the regression at ``batch_shape x d`` inputs."""
        check_width(X, self._num_inputs)
        mean, variance = self._posterior(X.double())
        return self._center + self._scale * mean, self._scale.square() * variance

    def log_cost(self, X: Tensor, trial: TrialContext = ANY_TRIAL) -> Tensor:
        """Return the natural logarithm of ``expected_cost``, which does not overflow.

        Args:
            X: ``batch_shape x d`` inputs.
            trial: Context of the trial, see ``CostModel``; ignored.

        Returns:
            A tensor of shape ``batch_shape``, differentiable in ``X``.

        Raises:
            InputError: See ``log_moments``.
        """
        mean, variance = self.log_moments(X)
        return mean + 0.5 * variance

    def expected_cost(self, X: Tensor) -> Tensor:
        """Return the expected cost of the next trial, in the unit of the observed costs.

        Args:
            X: ``batch_shape x d`` inputs.

        Returns:
            A tensor of shape ``batch_shape``, differentiable in ``X``.

        Raises:
            InputError: See ``log_moments``.
        """
        return self.log_cost(X).exp()

    def expected_cost_error(self, X: Tensor) -> Tensor:
        r"""Return the standard error of ``expected_cost``, in the unit of the observed costs.

        With the fitted noise :math:`\tau^2`, the expected cost given the regression's value
        :math:`h \sim N(m, v)` at a point is :math:`\exp(h + \tau^2 / 2)`. It is log-normal with a
        standard deviation of its mean times :math:`\sqrt{e^v - 1}`. The scatter of costs from trial
        to trial is not included.

        Args:
            X: ``batch_shape x d`` inputs.

        Returns:
            A tensor of shape ``batch_shape``, differentiable in ``X``.

        Raises:
            InputError: See ``log_moments``.
        """
        mean, variance = self._moments(X)
        expected = (mean + 0.5 * (variance + self._scatter)).exp()
        return _as_given(X, expected * variance.expm1().sqrt())

    def leave_one_out(self) -> tuple[Tensor, Tensor]:
        """Return the leave-one-out moments of the logarithm of each trial's cost.

        Hyperparameters are those of the fit to all trials (Rasmussen and Williams 2006, *Gaussian
        Processes for Machine Learning*, equation 5.12).

        Returns:
            Mean and variance, each ``n``, of the natural logarithm of the costs. The variance
            includes the scatter from trial to trial.
        """
        factor = self._posterior.factor
        precision = factor.inverse.diagonal()
        mean = factor.prior_mean + factor.y - factor.alpha / precision
        return self._center + self._scale * mean, self._scale.square() / precision


def _regression(
    kind: CostKind, X: Tensor, y: Tensor, bounds: Tensor, choices: Sequence[Sequence[int]]
) -> SingleTaskGP:
    d = X.shape[-1]
    choices = choices if kind == "trend" else ()
    numbers = [i for i in range(d) if all(i not in block for block in choices)]
    slopes = _slopes(numbers, d) if numbers else None
    if kind != "linear":
        parameters = len(numbers) + len(choices)
        rough = get_covar_module_with_dim_scaled_prior(parameters, use_rbf_kernel=False)
        if choices:
            rough = ChoiceMaternKernel(
                d,
                choices,
                lengthscale_prior=rough.lengthscale_prior,
                lengthscale_constraint=rough.raw_lengthscale_constraint,
            )
        model = SingleTaskGP(
            X,
            y,
            covar_module=rough if kind == "gp" or slopes is None else slopes + rough,
            outcome_transform=None,
            input_transform=Normalize(d, bounds=bounds, center=0.5 if kind == "gp" else 0.0),
        )
        search_by_logarithms(model)
        return model
    intercept = ConstantKernel()
    intercept.constant = torch.ones(1)
    intercept.requires_grad_(False)
    return SingleTaskGP(
        X,
        y,
        # In this order: GPyTorch would factorize a dense kernel with a low-rank one added to it.
        covar_module=slopes + intercept,
        mean_module=ZeroMean(),
        # A wide prior of the noise, which also covers what a line cannot explain.
        likelihood=get_gaussian_likelihood_with_gamma_prior(),
        outcome_transform=None,
        input_transform=Normalize(d, bounds=bounds, center=0.0),
    )


def _slopes(columns: Sequence[int], d: int) -> Kernel:
    # Inputs scaled to [-1/2, 1/2] have the variance 1/12 each, so slopes of the variance 12/n
    # together make outcomes vary by one.
    prior = LogNormalPrior(loc=math.log(12.0 / len(columns)), scale=1.0)
    read = None if len(columns) == d else columns
    slopes = LinearKernel(active_dims=read)
    slopes.register_prior("variance_prior", prior, _variance, _set_variance)
    slopes.variance = prior.mode
    return slopes


# Module-level functions instead of lambdas, so that the model can be pickled.
def _variance(slopes: LinearKernel) -> Tensor:
    variance: Tensor = slopes.variance
    return variance


def _set_variance(slopes: LinearKernel, value: Tensor) -> None:
    slopes.variance = value


def _as_given(X: Tensor, values: Tensor) -> Tensor:
    """Return values in the dtype of ``X``; in double if that is an integer type."""
    return values.to(X.dtype) if X.is_floating_point() else values


def check_width(X: Any, num_inputs: int) -> None:
    """Refuse with an ``InputError`` what is no tensor ``batch_shape x num_inputs``."""
    if not isinstance(X, Tensor) or X.ndim == 0 or X.shape[-1] != num_inputs:
        shape = tuple(X.shape) if isinstance(X, Tensor) else X
        raise InputError(f"X of shape {shape!r}: expected batch_shape x {num_inputs}.")


def checked_inputs(X: Any) -> Tensor:
    """Finite inputs ``n x d`` with ``n`` and ``d`` at least 1, as double; else ``InputError``."""
    if not isinstance(X, Tensor) or X.ndim != 2 or 0 in X.shape:
        shape = tuple(X.shape) if isinstance(X, Tensor) else X
        raise InputError(f"X of shape {shape!r}: expected n x d with n and d at least 1.")
    if (row := first_bad(X.isfinite().all(dim=-1))) is not None:
        raise InputError(f"X[{row}]={X[row].tolist()}: expected finite inputs.")
    return X.detach().double()


def checked_costs(cost: Any, X: Tensor, above: float = 0.0) -> Tensor:
    """Finite costs larger than ``above``, one for each row of ``X``, as double.

    Raises:
        InputError: For another shape, or naming the first cost that is not.
    """
    if not isinstance(cost, Tensor) or cost.shape != X.shape[:1]:
        shape = tuple(cost.shape) if isinstance(cost, Tensor) else cost
        raise InputError(f"cost of shape {shape!r}: expected {tuple(X.shape[:1])}, one per row.")
    if (row := first_bad(cost.isfinite() & (cost > above))) is not None:
        raise InputError(f"cost[{row}]={cost[row].item()!r}: expected a finite cost > {above:g}.")
    return cost.detach().to(X.device).double()


def widened(X: Tensor, bounds: Any) -> Tensor:
    """Bounds ``2 x d``, or the range of ``X``, where a column of no width has the width one.

    Raises:
        InputError: For bounds of another shape, not finite, or with the lower above the upper.
    """
    if bounds is None:
        lower, upper = X.amin(dim=0), X.amax(dim=0)
    else:
        lower, upper = checked_bounds(bounds, X.shape[-1]).detach().to(X)
    return torch.stack([lower, torch.where(upper > lower, upper, lower + 1.0)])

r"""Noisy expected improvement per cost: improvement over an uncertain incumbent.

With noise, the value :math:`f` of an evaluated point is uncertain. Improvement on its posterior
mean counts this uncertainty as a gain at every point near it, so that trials repeat the best one.
Improvement on the best of the uncertain values :math:`f(X_b)` does not (Letham, Karrer, Ottoni and
Bakshy 2019, "Constrained Bayesian Optimization with Noisy Experiments", section 3.2). It has a
closed form given these values, and is averaged over fixed samples of them.

See ``SampledBaseline`` for the formulas. Without noise it is
:math:`\log EI(x) - p \log c(x)`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.models.model import Model
from botorch.models.utils.gpytorch_modules import get_gaussian_likelihood_with_lognormal_prior
from botorch.utils.sampling import draw_sobol_normal_samples
from torch import Tensor

from ax_costaware.acquisition.baseline import SampledBaseline
from ax_costaware.acquisition.criteria import log_expected_gain
from ax_costaware.acquisition.gittins_index import gittins_index_of_log_cost
from ax_costaware.acquisition.pointwise import PointwiseAcquisition, takes_its_inputs
from ax_costaware.argument_checks import at_least, finite_tensor, nonnegative_number
from ax_costaware.costs import CostFunction, log_cost_function
from ax_costaware.exceptions import InputError, UnsupportedInputError
from ax_costaware.models.factor import only_model
from ax_costaware.models.posterior import ExactPosterior, FunctionalPosterior

NUM_BASELINE = 128
"""Most points of the baseline: those with the best bounds; others are hardly ever the best one."""

_LARGEST_LOG = 500.0
"""Upper bound of the log of a cost in units of the objective, so that it does not overflow."""

_HALVINGS = 60
"""Number of bisections of an interval, enough for double precision."""

HOPELESS = -30.0
"""Log expected improvement, in prior standard deviations, below which it is compressed.

Near the baseline it would be -1e5, which hides the differences between all other points from a
search. The compression is monotone, so the order of points stays.
"""


def compressed(log_values: Tensor, least: Tensor) -> Tensor:
    """Return log values, of which those far below ``least`` are compressed, in their order."""
    below = (least - log_values).clamp_min(0.0)
    return torch.maximum(log_values, least) - below.log1p()


def has_factor(model: Model) -> bool:
    """True if a model is an exact Gaussian process of one outcome, with a cached factor."""
    return ExactPosterior.try_of(model) is not None


def has_found_noise(model: Model, times: float = 1.0) -> bool:
    """True if the noise is above ``times`` the mode of its prior, which is rare without noise.

    Noise that is given, such as a standard error of zero, is compared with the mode of BoTorch's
    default prior times the variance of the outcomes.

    Args:
        model: A model. One whose noise has a prior without a mode counts as noisy; one that is no
            exact Gaussian process, and so has no cached factor, does not.
        times: Factor on the mode.
    """
    if not has_factor(model):
        return False
    single: Any = only_model(model)
    noise = single.likelihood.noise.mean()
    prior = getattr(single.likelihood.noise_covar, "noise_prior", None)
    try:
        if prior is None:
            prior = get_gaussian_likelihood_with_lognormal_prior().noise_covar.noise_prior
            times = times * float(single.train_targets.var(correction=0))
        return bool(noise > times * prior.mode)
    except NotImplementedError:
        return True


@takes_its_inputs
class LogNoisyExpectedImprovementPerCost(PointwiseAcquisition):
    r"""Log noisy expected improvement per power of the expected cost.

    Args:
        model: A fitted exact Gaussian process of one outcome.
        X_baseline: ``n x d`` points that were evaluated; of more than ``NUM_BASELINE`` those with
            the best of mean and two standard deviations.
        cost: A number > 0, a callable from points ``n x d`` to ``n`` costs > 0, a ``CostModel``
            such as ``LogNormalCostModel``, or a cost of BoTorch, see ``costs.CostFunction``; in
            the user's own unit.
        exponent: Power of the cost, at least zero.
        maximize: True if larger values of the objective are better.
        posterior_transform: Applied to the posterior.
        X_pending: ``k x d`` pending points, whose values are uncertain, too.
        is_feasible: ``n`` booleans: which points of ``X_baseline`` may be the best one. None: all.
        num_samples: Samples of the values at the baseline.
        seed: Of the samples.
        log_weight: A function from points ``n x d`` to ``n`` logarithms that are added, such as
            that of the probability that the trial is feasible; None for none.

    Raises:
        InputError: If ``X_baseline``, ``is_feasible``, ``cost``, ``exponent``, ``X_pending`` or
            ``num_samples`` is not of that kind.
        UnsupportedInputError: If the model is another one.
    """

    def __init__(
        self,
        model: Model,
        X_baseline: Tensor,
        cost: CostFunction,
        exponent: float = 1.0,
        maximize: bool = True,
        posterior_transform: PosteriorTransform | None = None,
        X_pending: Tensor | None = None,
        is_feasible: Tensor | None = None,
        num_samples: int = 32,
        seed: int = 0,
        log_weight: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        super().__init__(model=model)
        finite_tensor(X_baseline, "X_baseline", (None, None), "n x d finite numbers, n >= 1")
        if is_feasible is None:
            is_feasible = torch.ones(len(X_baseline), dtype=torch.bool)
        is_mask = isinstance(is_feasible, Tensor) and is_feasible.dtype == torch.bool
        if not is_mask or is_feasible.shape != X_baseline.shape[:1] or not is_feasible.any():
            raise InputError(
                f"is_feasible: got {is_feasible}; expected {len(X_baseline)} booleans, not all "
                "False."
            )
        posterior = FunctionalPosterior.of(model, posterior_transform)
        if not isinstance(posterior, ExactPosterior):
            raise UnsupportedInputError(
                f"model: got a {type(model).__name__} whose posterior has no factor; noisy "
                "expected improvement takes an exact Gaussian process of one outcome. "
                "LogExpectedImprovementPerCost takes any model."
            )
        at_least(1)(num_samples, "num_samples")
        self.cost = cost
        self.exponent = nonnegative_number(exponent, "exponent")
        self._log_cost, self._log_weight = log_cost_function(cost), log_weight
        self._posterior, self._sign = posterior, 1.0 if maximize else -1.0
        self._evaluated, self._is_feasible = X_baseline, is_feasible.to(X_baseline.device)
        self._samples, self._seed = num_samples, seed
        self.set_X_pending(X_pending)

    def set_X_pending(self, X_pending: Tensor | None = None) -> None:
        """Add pending points to the baseline; see the base class."""
        super().set_X_pending(X_pending)
        X, may_be_best = self._evaluated, self._is_feasible
        if X_pending is not None:
            X = torch.cat([X, X_pending.to(X)])
            may_be_best = torch.cat([may_be_best, may_be_best.new_ones(len(X_pending))])
        with torch.no_grad():
            mean, variance = self._posterior(X)
            bound = torch.where(may_be_best, self._sign * mean + 2 * variance.sqrt(), -math.inf)
            rows = bound.topk(min(NUM_BASELINE, len(X))).indices
            z = draw_sobol_normal_samples(
                len(rows), self._samples, device=X.device, dtype=mean.dtype, seed=self._seed
            )
            self._given = SampledBaseline(self._posterior, X[rows], z)
            self._hopeless = HOPELESS + 0.5 * self._given.prior_variance.log()
            values = self._sign * self._given.values
            self._best = values[:, may_be_best[rows]].amax(dim=-1)

    def _values(self, points: Tensor) -> Tensor:
        log_ei = compressed(self._log_improvement(*self._gains(points)), self._hopeless)
        return log_ei - self._log_cost_over_weight(points)

    def _log_cost_over_weight(self, points: Tensor) -> Tensor:
        log_cost = self.exponent * self._log_cost(points)
        return log_cost if self._log_weight is None else log_cost - self._log_weight(points)

    def margin(self, X: Tensor, price: float) -> Tensor:
        r"""Return the margin :math:`m` by which the incumbent could rise for a trial to break even.

        It solves :math:`E[(f(x) - \max f(X_b) - m)^+] = \lambda c(x)`. For a certain incumbent it
        is the Gittins index minus the incumbent. It is positive if and only if the expected
        improvement per cost exceeds the price.

        Args:
            X: ``n x d`` points.
            price: Value :math:`\lambda` of one unit of cost, in units of the objective.

        Returns:
            ``n`` values, in units of the objective.
        """
        gain, std = self._gains(X)
        log_cost = (self._log_cost_over_weight(X) + math.log(price)).clamp_max(_LARGEST_LOG)
        each = gittins_index_of_log_cost(gain, std, log_cost.unsqueeze(-1))
        low, high = each.amin(dim=-1), each.amax(dim=-1)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            is_below = self._log_improvement(gain - middle.unsqueeze(-1), std) > log_cost
            low, high = low.where(~is_below, middle), high.where(is_below, middle)
        return low

    def _gains(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean gains ``n x samples`` at points ``n x d``, and deviations ``n x 1``."""
        means, std = self._given(points)
        return self._sign * means - self._best, std

    def _log_improvement(self, gain: Tensor, std: Tensor) -> Tensor:
        log_ei = torch.logsumexp(log_expected_gain(gain, std), dim=-1)
        return log_ei - math.log(self._samples)

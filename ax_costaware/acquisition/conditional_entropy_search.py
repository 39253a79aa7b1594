r"""Entropy search over queries whose answers are averages of the function that is optimised.

A query :math:`a` is answered by :math:`z = g(a) + e`, an average :math:`g` of :math:`f` and noise.
Both acquisition functions are the mutual information of the answer and the optimum of :math:`f`,
by samples of the optimum:

- ``ConditionalMaxValueEntropySearch``: about :math:`f^* = \max f`, by the condition
  :math:`g(a) \le f^*` (CMES; Zhang et al. 2024, "Indirect Query Bayesian Optimization with
  Integrated Feedback", equation 7 and appendix A).
- ``ConditionalJointEntropySearch``: about the optimal point and value, by the condition
  :math:`f(x^*) = f^*`. This is an observation of :math:`f`, so that :math:`g` stays Gaussian (after
  Hvarfner, Hutter and Nardi 2022, "Joint Entropy Search"; Tu et al. 2022). An average over a wide
  region is informative about the location of the optimum, and hardly about its value. The first
  criterion misses that.

With a bound on another outcome :math:`h`, whose averages are also observed, the second adds the
information about :math:`h(x^*) \le b`, which truncates a Gaussian (after Perrone et al. 2019,
"Constrained Bayesian Optimization with Max-Value Entropy Search"). The first does not apply: an
average over infeasible points may be above :math:`f^*`.

Values are in nats, over the cost of the query where there is one.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.models.model import Model
from torch import Tensor

from ax_costaware.acquisition.feasibility import Feasibility, OutcomeConstraint
from ax_costaware.acquisition.pointwise import PointwiseAcquisition, takes_its_inputs
from ax_costaware.acquisition.standard_normal import (
    noisy_truncated_information,
    truncated_information,
)
from ax_costaware.argument_checks import finite_tensor
from ax_costaware.costs import CostFunction, log_cost_function
from ax_costaware.models.posterior import ExactPosterior

_SAMPLES = "a tensor of S finite numbers, S > 0"

_MOST_EXPLAINED = 1 - 1e-9
"""Largest share of a variance that an answer explains, so that the information stays finite."""

_LEAST_REMAINING = 1e-9
"""Least share of the average's variance that is left given the optimal value."""


class ConditionalEntropySearch(PointwiseAcquisition):
    """Base of the acquisition functions of queries.

    Args:
        model: A fitted ``ConditionalMeanProcess``.
        cost: A number > 0, a callable from queries ``n x p`` to ``n`` costs > 0, a ``CostModel``,
            or a cost of BoTorch, see ``costs.CostFunction``; None for 1.
        posterior_transform: A ``ScalarizedPosteriorTransform``: a weight of -1 for minimisation.

    Raises:
        InputError: If ``cost`` is not of that kind.
    """

    pending_columns = "p"

    def __init__(
        self,
        model: Model,
        cost: CostFunction | None,
        posterior_transform: PosteriorTransform | None,
    ) -> None:
        super().__init__(model=model)
        self.posterior_transform = posterior_transform
        self.cost = cost
        self._log_cost = log_cost_function(1.0 if cost is None else cost)

    def set_X_pending(self, X_pending: Tensor | None = None) -> None:
        """Condition on pending queries, instead of those given before.

        The samples of the optimum stay. Information of the pending queries is not counted again,
        because they reduce the variances.

        Args:
            X_pending: ``k x p`` queries, or None.
        """
        super().set_X_pending(X_pending)
        self.posterior = ExactPosterior.of(self.model, self.posterior_transform, X_pending)
        self.latent = self.posterior.latent

    def _values(self, points: Tensor) -> Tensor:
        noise = self.posterior.noise_at(points).unsqueeze(-1)
        information = self._information(points, noise).mean(dim=-1)
        per_cost = information * (-self._log_cost(points)).exp()
        # Adding zero keeps X in the graph where averages are piecewise constant, as with choices.
        return per_cost + 0.0 * points.sum(dim=-1)

    def _joint_with(self, X: Tensor) -> Callable[[Tensor], tuple[Tensor, Tensor, Tensor]]:
        """Return a function from queries to their moments and covariances with points ``S x d``."""
        return self.posterior.joint_with(self.latent.functionals(X))

    @abstractmethod
    def _information(self, queries: Tensor, noise: Tensor) -> Tensor:
        """Return the information for each sample, ``n x S``, with noise variances ``n x 1``."""


@takes_its_inputs
class ConditionalMaxValueEntropySearch(ConditionalEntropySearch):
    r"""Information of an answer about the maximum of the latent function (CMES).

    Args:
        model: A fitted ``ConditionalMeanProcess``.
        latent_max_samples: ``S`` samples of the maximum of the function (not of its averages), in
            raw units of the outcome with the sign of maximisation; see ``sample_optima``.
        noise_aware: True for the information of the noisy answer (appendix A of the paper); False
            for that of the average itself (its equation 7).
        cost: A number > 0, a callable from queries ``n x p`` to ``n`` costs > 0, a ``CostModel``,
            or a cost of BoTorch, see ``costs.CostFunction``; None where cost does not count.
        posterior_transform: A ``ScalarizedPosteriorTransform``: a weight of -1 for minimisation.
        X_pending: ``k x p`` pending queries, fantasized at the posterior mean.

    Raises:
        InputError: If ``latent_max_samples``, ``cost`` or ``X_pending`` is not of that kind.
        UnsupportedInputError: If the model is another one.
    """

    def __init__(
        self,
        model: Model,
        latent_max_samples: Tensor,
        noise_aware: bool = False,
        cost: CostFunction | None = None,
        posterior_transform: PosteriorTransform | None = None,
        X_pending: Tensor | None = None,
    ) -> None:
        samples = finite_tensor(latent_max_samples, "latent_max_samples", (None,), _SAMPLES)
        super().__init__(model, cost, posterior_transform)
        self.latent_max_samples: Tensor
        self.register_buffer("latent_max_samples", samples.detach().clone())
        self.noise_aware = noise_aware
        self.set_X_pending(X_pending)

    def _information(self, queries: Tensor, noise: Tensor) -> Tensor:
        mean, variance = (moment.unsqueeze(-1) for moment in self.posterior(queries))
        gamma = (self.latent_max_samples - mean) / variance.sqrt()
        if not self.noise_aware:
            return truncated_information(gamma)
        return noisy_truncated_information(gamma, variance / (variance + noise))


@takes_its_inputs
class ConditionalJointEntropySearch(ConditionalEntropySearch):
    r"""Information of an answer about the optimal point and value of the latent function.

    With posterior variances :math:`v` of the average and :math:`v_f` of the function, and a noise
    variance :math:`s^2`, it is the mean over samples of

    .. math:: -\frac{1}{2} \log
        \left(1 - \frac{\mathrm{cov}(g, f(x^*))^2}{v_f(x^*) (v + s^2)}\right),

    the information of the answer about the value at the sampled point. ``truncate`` adds the
    information of :math:`g(a) \le f^*`, which holds for weights that are positive and sum to one.
    With two latent points the sum is the exact information about the optimum.

    Args:
        model: A fitted ``ConditionalMeanProcess``.
        optimal_inputs: ``S x d`` samples of the point where the function is largest; see
            ``sample_optima``.
        optimal_outputs: ``S`` samples of the maximum, one for each of these, in raw units of the
            outcome with the sign of maximisation.
        truncate: True to add the information of the maximum being above the average.
        cost: A number > 0, a callable from queries ``n x p`` to ``n`` costs > 0, a ``CostModel``,
            or a cost of BoTorch, see ``costs.CostFunction``; None where cost does not count.
        posterior_transform: A ``ScalarizedPosteriorTransform``: a weight of -1 for minimisation.
        X_pending: ``k x p`` pending queries, fantasized at the posterior mean.
        constraints: Bounds on further outcomes, within which the samples are, each with a fitted
            ``ConditionalMeanProcess``.

    Raises:
        InputError: If the samples, ``cost`` or ``X_pending`` are not of that kind.
        UnsupportedInputError: If the model is another one.
    """

    def __init__(
        self,
        model: Model,
        optimal_inputs: Tensor,
        optimal_outputs: Tensor,
        truncate: bool = False,
        cost: CostFunction | None = None,
        posterior_transform: PosteriorTransform | None = None,
        X_pending: Tensor | None = None,
        constraints: Sequence[OutcomeConstraint] = (),
    ) -> None:
        outputs = finite_tensor(optimal_outputs, "optimal_outputs", (None,), _SAMPLES)
        expected = f"{len(outputs)} x d finite numbers, a row for each of optimal_outputs"
        inputs = finite_tensor(optimal_inputs, "optimal_inputs", (len(outputs), None), expected)
        super().__init__(model, cost, posterior_transform)
        self.optimal_inputs: Tensor
        self.optimal_outputs: Tensor
        self.register_buffer("optimal_inputs", inputs.detach().clone())
        self.register_buffer("optimal_outputs", outputs.detach().clone())
        self.truncate, self.constraints = truncate, constraints
        self.set_X_pending(X_pending)

    def set_X_pending(self, X_pending: Tensor | None = None) -> None:
        """Condition on pending queries; see the base class."""
        super().set_X_pending(X_pending)
        with torch.no_grad():
            self._optimal_moments = self.latent(self.optimal_inputs)
            self._joint_with_optima = self._joint_with(self.optimal_inputs)
            self._bounds = [
                _BoundInformation(bound, posterior, self.optimal_inputs)
                for bound, posterior in Feasibility.of(
                    self.constraints, lambda model: ExactPosterior.of(model, None, X_pending)
                ).outcomes
            ]

    def _information(self, queries: Tensor, noise: Tensor) -> Tensor:
        optimal_mean, optimal_variance = self._optimal_moments
        mean, variance, covariance = self._joint_with_optima(queries)
        mean, variance = mean.unsqueeze(-1), variance.unsqueeze(-1)
        explained = covariance.square() / optimal_variance
        share = (explained / (variance + noise)).clamp_max(_MOST_EXPLAINED)
        information = -0.5 * torch.log1p(-share)
        for bound in self._bounds:
            information = information + bound(queries)
        if not self.truncate:
            return information
        remaining = torch.maximum(variance - explained, _LEAST_REMAINING * variance)
        shift = covariance / optimal_variance * (self.optimal_outputs - optimal_mean)
        gamma = (self.optimal_outputs - mean - shift) / remaining.sqrt()
        bounded = noisy_truncated_information(gamma, remaining / (remaining + noise))
        return information + bounded


class _BoundInformation:
    """Information on whether points are within the bounds of an outcome.

    Args:
        bound: The bounds.
        posterior: The posterior of the outcome.
        points: ``S x d`` points.
    """

    def __init__(self, bound: OutcomeConstraint, posterior: ExactPosterior, points: Tensor) -> None:
        self._ends, self._posterior = bound.scaled_ends, posterior
        self._moments = posterior.latent(points)
        self._joint_with_points = posterior.joint_with(posterior.latent.functionals(points))

    def __call__(self, queries: Tensor) -> Tensor:
        """Information by the answers of queries ``n x p``, ``n x S``, in nats."""
        (lower, upper), (mean, variance) = self._ends, self._moments
        _, own, covariance = self._joint_with_points(queries)
        noisy = (own + self._posterior.noise_at(queries)).unsqueeze(-1)
        share = (covariance.square() / variance / noisy).clamp_max(1.0)
        sides = [room for room in (upper - mean, mean - lower) if bool(room.isfinite().all())]
        each = [noisy_truncated_information(room / variance.sqrt(), share) for room in sides]
        return torch.stack(each).sum(dim=0)

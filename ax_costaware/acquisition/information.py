r"""What a trial of a control set tells about the best reachable query.

A control set's own value can be low and the trial still worth its cost, for what it teaches about
the function. Let :math:`q^* = (i^*, x^*)` be the query with the best expectation and
:math:`g^* = E f(x^*, X^{-i^*})` its value, both sampled from the posterior. An observation
:math:`y = f(x) + e`, :math:`e \sim N(0, s^2)`, where a trial really lands, tells of the optimum as
a linear observation

.. math:: I(x) = -\frac{1}{2}\, \mathrm{mean}_{q^*} \log\!\left(1 -
   \frac{\mathrm{Cov}[f(x), g^*]^2}{\mathrm{Var}[g^*]\,(\mathrm{Var} f(x) + s^2)}\right)

(Hvarfner, Hutter and Nardi 2022, "Joint Entropy Search for Maximally-Informed Bayesian
Optimization"). Where the best query leaves nothing to chance, :math:`g^*` is :math:`\max f`, and
what is left of :math:`f(x)` is bounded by it: the information of that bound is added, which is that
of max-value entropy search (Wang and Jegelka 2017) in its noise-aware form. Both are averaged over
what the control set leaves to chance, :math:`E\, I(x_C, X_R)`, in nats. That information per unit
cost could replace numbers of plays is named as future work by Tay et al. 2023, "Bayesian
Optimization with Cost-varying Variable Subsets".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ax_costaware.acquisition.criteria import Spread
from ax_costaware.acquisition.rowwise import remaining_variance
from ax_costaware.acquisition.truncated_information import noisy_truncated_information
from ax_costaware.models.cached_posterior import CachedPosterior

# The optimum itself, observed without noise, would tell infinitely much; and what is known of it
# already to this share of its prior variance is rounding.
_LARGEST_SHARE = 1 - 1e-9
_LEAST_VARIANCE = 1e-9


@dataclass(frozen=True, eq=False)
class BestQueries:
    """Samples of the best query, prepared against a posterior, on its latent scale.

    Attributes:
        nodes: ``r x d`` nodes of all samples, transformed.
        membership: ``r x s``: the weight of each node in each sample.
        solved: ``n x s``: the inverse times the covariances of the training inputs and the values.
        means: ``s`` posterior means of the values.
        variances: ``s`` posterior variances of the values.
        bounds: ``s`` sampled values where they bound the whole function, else None: from above, or
            from below where the posterior's scale is negative.
        points: ``s x d`` sampled points, not transformed.
    """

    nodes: Tensor
    membership: Tensor
    solved: Tensor
    means: Tensor
    variances: Tensor
    bounds: Tensor | None
    points: Tensor

    @classmethod
    def prepare(
        cls,
        posterior: CachedPosterior,
        points: Tensor,
        queries: Sequence[tuple[Tensor, Tensor]],
        bounds: Tensor | None = None,
    ) -> BestQueries:
        """Evaluate once what does not depend on where a trial lands.

        Args:
            posterior: The posterior.
            points: ``s x d`` sampled points.
            queries: Per sample, its ``m x d`` nodes and ``m`` weights.
            bounds: ``s`` sampled values, on the latent scale, where they bound the function.
        """
        with torch.no_grad():
            nodes = posterior.transform(torch.cat([nodes for nodes, _ in queries]))
            membership = torch.block_diag(*[w.to(nodes).unsqueeze(-1) for _, w in queries])
            among = posterior.prior_covariance(nodes, nodes) @ membership
            prior = (membership * among).sum(dim=0)
            k = posterior.prior_covariance(posterior.X, nodes) @ membership
            solved = posterior.inverse @ k
            variances = prior - (k * solved).sum(dim=0)
            return cls(
                nodes=nodes,
                membership=membership,
                solved=solved,
                means=posterior.prior_mean + k.mT @ posterior.alpha,
                variances=torch.maximum(variances, _LEAST_VARIANCE * prior),
                bounds=bounds,
                points=points,
            )


@dataclass(frozen=True, eq=False)
class Information:
    """The information of trials in the place of a posterior's mean; see ``NodePosterior``.

    Attributes:
        posterior: The posterior.
        best: Samples of the best query.
    """

    posterior: CachedPosterior
    best: BestQueries

    most_nodes: ClassVar[tuple[int | None, int]] = (16, 8)

    @property
    def width(self) -> int:
        """See ``NodePosterior``."""
        return len(self.posterior.X) + len(self.best.nodes)

    def moments(self, nodes: Tensor, weights: Tensor, spread: Spread) -> tuple[Tensor, Tensor]:
        """See ``NodePosterior``: the expected information, in nats, which has no spread."""
        information = self.information(nodes.flatten(0, 1)).reshape(weights.shape)
        expected = torch.linalg.vecdot(weights, information)
        return expected, torch.zeros_like(expected)

    def information(self, points: Tensor) -> Tensor:
        """The information of an observation at each of ``p x d`` points, in nats: ``p``."""
        posterior, best = self.posterior, self.best
        t = posterior.transform(points)
        k = posterior.prior_covariance(t, posterior.X)
        variance = remaining_variance(posterior.prior_variance(t), k, posterior.inverse)
        variance = variance.unsqueeze(-1)
        noise = posterior.noise.mean()
        cross = posterior.prior_covariance(t, best.nodes) @ best.membership - k @ best.solved
        reduction = torch.minimum(cross.square() / best.variances, _LARGEST_SHARE * variance)
        information = -0.5 * torch.log1p(-reduction / (variance + noise))
        if best.bounds is not None:
            left = variance - reduction
            mean = (posterior.prior_mean + k @ posterior.alpha).unsqueeze(-1)
            mean = mean + cross / best.variances * (best.bounds - best.means)
            # Where the objective is minimised, the latent function is bounded from below.
            gamma = posterior.scale.sign() * (best.bounds - mean) / left.sqrt()
            information = information + noisy_truncated_information(gamma, left / (left + noise))
        return information.mean(dim=-1)

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

Best queries are sampled by maximising posterior samples of the function. The best value over all
control sets is reached on one that is part of no other, so these alone are searched. All samples
are searched in one batch where the kernel is a product over its inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor

from ax_costaware.acquisition.control_set_search import ControlSetSearch
from ax_costaware.acquisition.criteria import MEAN
from ax_costaware.acquisition.objectives import (
    ControlSetObjective,
    NodeObjective,
    ProductObjective,
    near_and_lengths,
    some_nodes,
)
from ax_costaware.acquisition.partial_query import PartialQueries, PartialQuery, QueryNodes
from ax_costaware.acquisition.standard_normal import noisy_truncated_information
from ax_costaware.acquisition.starts import SearchDomain
from ax_costaware.models.cached_posterior import CachedPosterior
from ax_costaware.models.fourier_path import FourierPath
from ax_costaware.models.point_posterior import FactoredPosterior, QueryMoments, Spread
from ax_costaware.models.rowwise import remaining_variance
from ax_costaware.queries.joint.law import NodesGiven

NUM_SAMPLES = 12
"""Samples of the best query."""

# Effort of one search; where a sample's optimum is missed, another good point takes its place.
_NUM_RESTARTS = 4
_RAW_SAMPLES = 256

# Nodes that stand for the law of a best query that leaves inputs to chance.
_NUM_NODES = 64

# The optimum itself, observed without noise, would tell infinitely much: a share of the variance is
# left, which single precision has to tell from none. What is known of the optimum already, to such
# a share of its prior variance, is rounding.
_LEAST_LEFT = 1e-9
_LEAST_VARIANCE = 1e-9


class Information(QueryMoments):
    """The information of trials in the place of a posterior's mean; see ``QueryMoments``.

    What does not depend on where a trial lands is computed once, on the posterior's latent scale.

    Args:
        posterior: The posterior.
        points: ``s x d`` sampled points of the best query.
        queries: Per sample, its ``m x d`` nodes and ``m`` weights.
        bounds: ``s`` sampled values, on the latent scale, where they bound the whole function: from
            above, or from below where the posterior's scale is negative.
    """

    most_nodes: ClassVar[tuple[int | None, int]] = (16, 8)

    def __init__(
        self,
        posterior: CachedPosterior,
        points: Tensor,
        queries: Sequence[tuple[Tensor, Tensor]],
        bounds: Tensor | None = None,
    ) -> None:
        self.posterior, self.points, self.bounds = posterior, points, bounds
        with torch.no_grad():
            nodes = posterior.transform(torch.cat([nodes for nodes, _ in queries]))
            membership = torch.block_diag(*[w.to(nodes).unsqueeze(-1) for _, w in queries])
            among = posterior.prior_covariance(nodes, nodes) @ membership
            prior = (membership * among).sum(dim=0)
            k = posterior.prior_covariance(posterior.X, nodes) @ membership
            solved = posterior.inverse @ k
            variances = prior - (k * solved).sum(dim=0)
            self.means = posterior.prior_mean + k.mT @ posterior.alpha
            self.variances = torch.maximum(variances, _LEAST_VARIANCE * prior)
        # Of all samples: ``r`` nodes, transformed, and the weight of each in each sample.
        self.nodes, self.membership = nodes, membership
        # The inverse times the covariances of the training inputs and the values.
        self.solved = solved

    @property
    def width(self) -> int:
        """See ``QueryMoments``."""
        return len(self.posterior.X) + len(self.nodes)

    def moments(self, nodes: Tensor, weights: Tensor, spread: Spread) -> tuple[Tensor, Tensor]:
        """See ``QueryMoments``: the expected information, in nats, which has no spread."""
        information = self.information(nodes.flatten(0, 1)).reshape(weights.shape)
        expected = torch.linalg.vecdot(weights, information)
        return expected, torch.zeros_like(expected)

    def information(self, points: Tensor) -> Tensor:
        """The information of an observation at each of ``p x d`` points, in nats: ``p``."""
        posterior = self.posterior
        t = posterior.transform(points)
        k = posterior.prior_covariance(t, posterior.X)
        variance = remaining_variance(posterior.prior_variance(t), k, posterior.inverse)
        variance = variance.unsqueeze(-1)
        noise = posterior.noise.mean()
        cross = posterior.prior_covariance(t, self.nodes) @ self.membership - k @ self.solved
        largest = 1 - max(_LEAST_LEFT, torch.finfo(variance.dtype).eps)
        reduction = torch.minimum(cross.square() / self.variances, largest * variance)
        information = -0.5 * torch.log1p(-reduction / (variance + noise))
        if self.bounds is not None:
            left = variance - reduction
            mean = (posterior.prior_mean + k @ posterior.alpha).unsqueeze(-1)
            mean = mean + cross / self.variances * (self.bounds - self.means)
            # Where the objective is minimised, the latent function is bounded from below.
            gamma = posterior.scale.sign() * (self.bounds - mean) / left.sqrt()
            information = information + noisy_truncated_information(gamma, left / (left + noise))
        return information.mean(dim=-1)


def maximal_controls(controls: Sequence[Sequence[int]]) -> list[int]:
    """Indices of the control sets whose columns are part of no other's."""
    sets = [frozenset(columns) for columns in controls]
    return [i for i, columns in enumerate(sets) if not any(columns < other for other in sets)]


def sample_best_queries(
    posterior: CachedPosterior,
    given: Sequence[NodesGiven],
    controls: Sequence[list[int]],
    domain: SearchDomain,
    seed: int,
) -> Information:
    """Draw best queries, for what trials tell of them.

    Args:
        posterior: The posterior, whose kernel has Fourier features.
        given: Per control set, the nodes and weights of a query.
        controls: Per control set, the columns that it controls.
        domain: Where to search.
        seed: Seed of the samples.
    """
    tops = maximal_controls(controls)
    columns = [controls[i] for i in tops]
    laws = [given[i] for i in tops]
    paths = [FourierPath.draw(posterior, seed + i) for i in range(NUM_SAMPLES)]
    objectives = _sampled_objectives(posterior, laws, paths)
    near, lengths = near_and_lengths(FactoredPosterior(posterior), domain.bounds)
    # All samples in one search, or a search for each.
    together = columns * (NUM_SAMPLES // len(objectives))
    optima = [
        ControlSetSearch(objective, domain, together, lengths).run(
            near, _NUM_RESTARTS, _RAW_SAMPLES, seed
        )
        for objective in objectives
    ]
    values = torch.cat([found.values for found in optima]).reshape(NUM_SAMPLES, len(tops))
    chosen = values.argmax(dim=-1)
    rows = torch.arange(NUM_SAMPLES, device=chosen.device) * len(tops) + chosen
    points = torch.cat([found.points for found in optima])[rows]
    queries = []
    for point, index in zip(points, chosen.tolist(), strict=True):
        nodes, weights = laws[index](point.unsqueeze(0))
        nodes, weights = some_nodes(nodes, weights, _NUM_NODES)
        queries.append((nodes[0], weights[0]))
    bounds = None
    if all(len(held) == domain.bounds.shape[-1] for held in columns):
        bounds = (values.max(dim=-1).values - posterior.offset) / posterior.scale
    return Information(posterior, points, queries, bounds)


def _sampled_objectives(
    posterior: CachedPosterior, laws: Sequence[NodesGiven], paths: Sequence[FourierPath]
) -> Sequence[ControlSetObjective]:
    """The values of queries under samples: one objective for all samples, or one for each."""
    fixed = [law for law in laws if isinstance(law, QueryNodes)]
    if posterior.separable is None or len(fixed) < len(laws):
        return [NodeObjective(laws, FactoredPosterior(posterior, path), MEAN) for path in paths]
    queries = [PartialQuery(posterior, law) for law in fixed]
    sampled = [query.sampled(path) for path in paths for query in queries]
    return [ProductObjective(PartialQueries(sampled), MEAN)]

r"""Queries as far as they are likely to keep to bounds on the expectations of further outcomes.

A further outcome has a model of its own, and a query's expectation of it, under the same law of
what is left to chance, is Gaussian. With :math:`P` the probability that all of them are within
their bounds, a query of value :math:`v` counts as

.. math:: v_{low} + \min(P / P_0, 1) \, (v - v_{low}),

so that what is infeasible is worth the least value :math:`v_{low}`, as BoTorch's
``ConstrainedMCObjective`` has it. With :math:`P_0 = 1` that is the expected value; of an
improvement, whose least value is zero, it is constrained expected improvement (Gardner et al. 2014,
"Bayesian Optimization with Inequality Constraints"). With :math:`P_0 = \Phi(-\beta)` queries that
are feasible by optimistic confidence bounds count in full, as in constrained upper confidence
bounds (Xu et al. 2023, "Constrained Efficient Global Optimization of Expensive Black-box
Functions"). Where :math:`P_0` is a limit, the weight is
:math:`\exp(-s \max(\log P_0 / P, 0)^2)` with a large :math:`s`, which a search can climb.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ax_costaware.acquisition.criteria import Criterion
from ax_costaware.acquisition.objectives import ControlSetObjective, build_objectives
from ax_costaware.models.point_posterior import QueryMoments
from ax_costaware.queries.joint.law import NodesGiven
from ax_costaware.queries.nodes import ProductNodes


@dataclass(frozen=True, eq=False)
class FeasibleQueries:
    """The bounds that queries are to keep to, and what those count as that may not."""

    outcomes: Sequence[tuple[QueryMoments, Criterion]]
    """Of each further outcome what its moments are read from, and the log of the probability that
    the expectation is within its bounds."""

    least: float | None = None
    """What an infeasible query is worth; None: nothing, where values are logarithms."""

    log_enough: float = 0.0
    """Logarithm of the probability from which on a query counts in full."""

    steep: float | None = None
    """How steeply less likely ones are left out; None: they count by their probability."""

    def log_probability(
        self, laws: Sequence[NodesGiven], product: ProductNodes | None
    ) -> ControlSetObjective:
        """The log of the probability; arguments as of ``build_objectives``."""
        parts = [
            list(build_objectives(moments, laws, criterion, product))
            for moments, criterion in self.outcomes
        ]

        def total(X: Tensor, sets: Tensor, coarse: bool = False) -> Tensor:
            return torch.stack([_joined(part, X, sets, coarse) for part in parts]).sum(dim=0)

        return total

    def of(
        self,
        objective: ControlSetObjective,
        laws: Sequence[NodesGiven],
        product: ProductNodes | None,
    ) -> ControlSetObjective:
        """What queries count as, by their value and their probability of being feasible."""
        log_probability = self.log_probability(laws, product)

        def counted(X: Tensor, sets: Tensor, coarse: bool = False) -> Tensor:
            value, log_p = objective(X, sets, coarse), log_probability(X, sets, coarse)
            log_weight = (log_p - self.log_enough).clamp_max(0.0)
            if self.steep is not None:
                log_weight = -self.steep * log_weight.square()
            if self.least is None:
                return value + log_weight
            height = value - self.least
            # What is below the least value is no better for being infeasible.
            return self.least + height * torch.where(height > 0, log_weight, 0.0).exp()

        return counted


def _joined(
    parts: Sequence[tuple[list[int], ControlSetObjective]], X: Tensor, sets: Tensor, coarse: bool
) -> Tensor:
    """Values of rows of any control sets, by objectives that together serve all of them."""
    values = torch.zeros_like(X[:, 0])
    for indices, objective in parts:
        is_its = sets.unsqueeze(-1) == sets.new_tensor(indices)
        rows = is_its.any(dim=-1).nonzero().flatten()
        if len(rows):
            places = is_its[rows].int().argmax(dim=-1)
            values = values.index_put((rows,), objective(X[rows], places, coarse))
    return values

"""The inner search of the Gittins method: an acquisition function's best affordable point."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.exceptions.warnings import OptimizationWarning
from torch import Tensor

from ax_costaware.acquisition.affordable import Affordable, Cheapness
from ax_costaware.acquisition.log_cost import CostFunction, log_cost_function
from ax_costaware.methods.problem import Problem, SpaceExhausted, untried

NUM_POINTS = 1024
"""Points that stand for the search space, also where lambda is found from a budget."""


@dataclass(frozen=True)
class Found:
    """The best point of a search."""

    point: Tensor
    """The point, ``d``."""

    value: float
    """Value of the acquisition function there."""

    cost: float
    """Expected cost there."""

    restricted: bool = False
    """Whether a better point was passed over, since what is left does not pay for it."""


@dataclass(frozen=True)
class Search:
    """What the searches of one decision share."""

    problem: Problem
    """What the decision is made from."""

    cost: CostFunction
    """What a point costs."""

    limit: float | None
    """The largest cost that can be paid; None for any."""

    options: Mapping[str, Any]
    """Options of the optimiser."""

    seed: int
    """Seed of the points all over the space."""

    @cached_property
    def points(self) -> Tensor:
        """``n x d`` valid points all over the space; untried ones, if it can be enumerated."""
        problem = self.problem
        points = problem.space.sobol_points(NUM_POINTS, self.seed, problem.held)
        if not problem.space.smooth:
            points = untried(points, problem.tried)
        return points.to(problem.evaluated)

    def best(self, acquisition: AcquisitionFunction) -> Found | None:
        """The best affordable point of an acquisition function; None if nothing is affordable."""
        # That nothing is worth its cost must not be for want of a good start.
        found = self._better(self._run(acquisition), self.points, acquisition)
        limit = self.limit
        if limit is None or found.cost <= limit:
            return found
        costs = self.costs(self.points)
        payable = self.points[costs <= limit]
        if not len(payable):
            if limit <= 0 or (len(costs) and float(costs.min()) == float(costs.max())):
                return None
            cheapest = self._run(Cheapness(acquisition, self.cost))
            if cheapest.cost > limit:
                return None
            payable = cheapest.point.unsqueeze(0)
        with warnings.catch_warnings():
            # A line search may end at the bend of the penalty; there are the points besides.
            warnings.simplefilter("ignore", OptimizationWarning)
            warnings.filterwarnings("ignore", "Optimization failed", RuntimeWarning)
            found = self._run(Affordable(acquisition, self.cost, limit, self.points))
        # The margin of the penalty turns away what costs just what is left; the points do not.
        found = self._better(found if found.cost <= limit else None, payable, acquisition)
        return replace(found, restricted=True)

    def costs(self, X: Tensor) -> Tensor:
        """Expected costs at points ``n x d``: ``n``."""
        with torch.no_grad():
            return log_cost_function(self.cost)(X).exp()

    def _better(
        self, found: Found | None, points: Tensor, acquisition: AcquisitionFunction
    ) -> Found:
        """The best of ``points``, or what was found if that is at least as good."""
        if not len(points):
            if found is None:
                raise SpaceExhausted
            return found
        with torch.no_grad():
            values = acquisition(points.unsqueeze(-2))
        best = int(values.argmax())
        if found is not None and found.value >= float(values[best]):
            return found
        return self._found(points[best], float(values[best]))

    def _run(self, acquisition: AcquisitionFunction) -> Found:
        point, value = self.problem.maximize(acquisition, self.options)
        return self._found(point.to(self.points), value)

    def _found(self, point: Tensor, value: float) -> Found:
        return Found(point, value, float(self.costs(point.unsqueeze(0))[0]))

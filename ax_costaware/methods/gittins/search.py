"""The inner search of the Gittins method: an acquisition function's best affordable point.

Inside, values have the sign of maximisation.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.exceptions.warnings import OptimizationWarning
from torch import Tensor

from ax_costaware.acquisition import LogExpectedImprovementPerCost, PandoraBoxGittinsIndex
from ax_costaware.acquisition.affordable import Affordable, Cheapness
from ax_costaware.acquisition.log_cost import CostFunction, log_cost_function
from ax_costaware.methods.past import Money
from ax_costaware.methods.problem import Problem, untried

if TYPE_CHECKING:
    from ax_costaware.methods.gittins import Gittins

NUM_POINTS = 1024
"""Points that stand for the search space, also where lambda is found from a budget."""


_FEW = 64
"""Points by which the size of an acquisition function's values is told."""

_SMALL = 1e-2
"""A spread of values, beside one and their size, below which they are searched in units of it."""


class _InUnits(AcquisitionFunction):
    """An acquisition function in other units."""

    def __init__(self, acquisition: AcquisitionFunction, origin: float, unit: float) -> None:
        super().__init__(model=acquisition.model)
        self.acquisition, self.origin, self.unit = acquisition, origin, unit

    def forward(self, X: Tensor) -> Tensor:
        """Values of points ``b x 1 x d``: ``b``."""
        value: Tensor = (self.acquisition(X) - self.origin) / self.unit
        return value


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

    method: Gittins
    """The method."""

    problem: Problem
    """What the decision is made from."""

    cost: CostFunction
    """What a point costs."""

    money: Money
    """What was spent, and what is left; not nothing."""

    @cached_property
    def points(self) -> Tensor:
        """``n x d`` valid points all over the space; untried ones, if it can be enumerated."""
        problem = self.problem
        points = problem.space.sobol_points(NUM_POINTS, self.method.seed, problem.held)
        if not problem.space.smooth:
            points = untried(points, problem.tried)
        return points.to(problem.evaluated)

    def index(self, price: float) -> PandoraBoxGittinsIndex:
        """The Gittins index at a price."""
        problem = self.problem
        return PandoraBoxGittinsIndex(problem.model, self.cost, price, **problem.acquisition_inputs)

    def improvement(self, best_f: float, exponent: float = 1.0) -> LogExpectedImprovementPerCost:
        """Log expected improvement per cost."""
        problem = self.problem
        return LogExpectedImprovementPerCost(
            problem.model, best_f, self.cost, exponent, **problem.acquisition_inputs
        )

    def index_at(self, point: Tensor, price: float) -> float:
        """The Gittins index of a point, ``d``, at a price."""
        with torch.no_grad():
            return float(self.index(price)(point.reshape(1, 1, -1)))

    def costs(self, X: Tensor) -> Tensor:
        """Expected costs at points ``n x d``: ``n``."""
        with torch.no_grad():
            return log_cost_function(self.cost)(X).exp()

    def best(self, acquisition: AcquisitionFunction) -> Found | None:
        """The best affordable point of an acquisition function; None if nothing is affordable."""
        # That nothing is worth its cost must not be for want of a good start.
        found = self._better(self._maximum(acquisition), self.points, acquisition)
        limit = self.money.limit
        if limit is None or found.cost <= limit:
            return found
        costs = self.costs(self.points)
        payable = self.points[costs <= limit]
        if not len(payable):
            if len(costs) and float(costs.min()) == float(costs.max()):
                return None
            cheapest = self._maximum(Cheapness(acquisition, self.cost))
            if cheapest.cost > limit:
                return None
            payable = cheapest.point.unsqueeze(0)
        with warnings.catch_warnings():
            # A line search may end at the bend of the penalty; there are the points besides.
            warnings.simplefilter("ignore", OptimizationWarning)
            warnings.filterwarnings("ignore", "Optimization failed", RuntimeWarning)
            found = self._maximum(Affordable(acquisition, self.cost, limit, self.points))
        # The margin of the penalty turns away what costs just what is left; the points do not.
        affordable = found if found.cost <= limit else None
        return replace(self._better(affordable, payable, acquisition), restricted=True)

    def _maximum(self, acquisition: AcquisitionFunction) -> Found:
        unit = self._unit(acquisition)
        scaled = acquisition if unit is None else _InUnits(acquisition, *unit)
        point, value = self.problem.maximize(scaled, self.method.search_options)
        if unit is not None:
            value = unit[0] + unit[1] * value
        return self._found(point.to(self.points), value)

    def _unit(self, acquisition: AcquisitionFunction) -> tuple[float, float] | None:
        """Origin and unit of values that differ so little that the optimiser takes them for equal.

        An index has the unit and the origin of the objective; its tolerances are of numbers of one.
        """
        if not len(self.points):
            return None
        with torch.no_grad():
            values = acquisition(self.points[:_FEW].unsqueeze(-2))
        highest, spread = float(values.max()), float(values.max() - values.min())
        size = max(1.0, float(values.abs().max()))
        return (highest, spread) if 0.0 < spread < _SMALL * size else None

    def _better(
        self, found: Found | None, points: Tensor, acquisition: AcquisitionFunction
    ) -> Found:
        """The best of ``points``, or what was found if that is at least as good."""
        if found is not None and not len(points):
            return found
        with torch.no_grad():
            values = acquisition(points.unsqueeze(-2))
        best = int(values.argmax())
        if found is not None and found.value >= float(values[best]):
            return found
        return self._found(points[best], float(values[best]))

    def _found(self, point: Tensor, value: float) -> Found:
        return Found(point, value, float(self.costs(point.unsqueeze(0))))

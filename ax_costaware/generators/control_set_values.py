"""What a rule asks of the fitted model when it chooses a control set.

One search of the values of the control sets that are asked about, each searched once: expected
acquisition values, lower confidence bounds, the least value of the objective, and costs. Values are
in raw units of the objective with the sign of maximisation, costs in the user's own unit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from botorch.models.model import Model
from torch import Tensor
from torch.quasirandom import SobolEngine

from ax_costaware.acquisition import ControlSetOptima, optimize_control_sets
from ax_costaware.generators.budget import decision_seed
from ax_costaware.generators.control_set_settings import ControlSetSettings
from ax_costaware.generators.cost_aware_generator import direction
from ax_costaware.models.point_posterior import PointPosterior
from ax_costaware.policies.control_set_rules import CostEstimate

if TYPE_CHECKING:
    from ax_costaware.generators.control_set_generator import ControlSetRequest

NUM_POINTS = 1024
"""Points of the model's space among which the least value of the objective is looked for."""


class ControlSetValues:
    """The ``EvaluateBounds`` of one decision.

    Args:
        model: The fitted model.
        evaluated: ``n x d`` points that the model was trained on.
        settings: The settings of the strategy.
        request: What the decision is about.
        beta: Weight of the standard deviation in confidence bounds.
        pending: ``k x d`` points under evaluation.
        fixed: Columns that the caller fixes, with their values.
    """

    def __init__(
        self,
        model: Model,
        evaluated: Tensor,
        settings: ControlSetSettings,
        request: ControlSetRequest,
        beta: float,
        pending: Tensor | None,
        fixed: Mapping[int, float],
    ) -> None:
        self._model = model
        self._evaluated = evaluated
        self._settings = settings
        self._request = request
        self._beta = beta
        self._pending = pending
        self._fixed = fixed
        self._acquisition = getattr(settings.rule, "acquisition", settings.acquisition)
        self._found: dict[int, tuple[Tensor, float]] = {}

    def __call__(self, indices: Sequence[int]) -> list[float]:
        """The largest expected acquisition value of each control set."""
        return [value for _, value in self.found(indices)]

    def found(self, indices: Sequence[int]) -> list[tuple[Tensor, float]]:
        """Of each control set the point ``d`` with the largest value, and the value."""
        missing = [i for i in indices if i not in self._found]
        if missing:
            optima = self._search(missing, self._acquisition, self._pending)
            for i, point, value in zip(missing, optima.points, optima.values, strict=True):
                self._found[i] = point.detach(), float(value)
        return [self._found[i] for i in indices]

    def lower(self, indices: Sequence[int], pointwise: bool = False) -> list[float]:
        """A lower bound of the best expected value of each, from observed outcomes only."""
        acquisition = "lcb" if pointwise else "lower"
        values: list[float] = self._search(indices, acquisition, None).values.tolist()
        return values

    def upper(self, indices: Sequence[int], pointwise: bool = False) -> list[float]:
        """An upper bound of the best expected value of each, from observed outcomes only."""
        if pointwise and self._acquisition == "ucb" and self._pending is None:
            return self(indices)
        acquisition = "ucb" if pointwise else "upper"
        values: list[float] = self._search(indices, acquisition, None).values.tolist()
        return values

    def worst(self) -> float:
        """The least posterior mean at the evaluated points and at quasi-random ones."""
        points = torch.cat([self._evaluated, self._sample().to(self._evaluated)])
        with torch.no_grad():
            mean, _ = PointPosterior.of(self._model).mixture(points)
        return float((-mean if self._request.minimize else mean).min())

    def costs(self, indices: Sequence[int]) -> list[CostEstimate]:
        """The cost of each at its best values; one, with no error, while nothing is known."""
        costs = [self.cost_of(i) for i in indices]
        return [CostEstimate(1.0, None) if cost is None else cost for cost in costs]

    def cost_of(self, index: int) -> CostEstimate | None:
        """The cost of one at its best values; None while nothing is known."""
        costs = self._request.costs
        if index not in costs.models:
            return costs.at(index, self._request.space.default)
        ((point, _),) = self.found([index])
        return costs.at(index, point)

    def is_priced(self, index: int) -> bool:
        """Whether ``cost_of`` needs no search, as for one with a model that was not looked at."""
        return index in self._found or index not in self._request.costs.models

    def _search(
        self, indices: Sequence[int], acquisition: str, pending: Tensor | None
    ) -> ControlSetOptima:
        settings, space = self._settings, self._request.space
        return optimize_control_sets(
            self._model,
            space.bounds,
            [space.control_sets[i] for i in indices],
            space.nodes,
            space.weights,
            self._beta,
            acquisition=acquisition,
            num_restarts=settings.num_restarts,
            raw_samples=settings.raw_samples,
            product=space.product,
            given=[space.given[i] for i in indices],
            posterior_transform=direction(self._request.minimize),
            X_pending=pending,
            discrete=space.discrete_columns(self._fixed),
            inequality_constraints=space.constraints,
            fixed_features=self._fixed,
            default=space.default,
            seed=decision_seed(settings.seed, self._request.where.trial_index),
        )

    def _sample(self) -> Tensor:
        """Quasi-random points of the model's space; discrete columns take their values."""
        space = self._request.space
        lower, upper = space.bounds
        engine = SobolEngine(len(lower), scramble=True, seed=self._settings.seed)
        unit = engine.draw(NUM_POINTS, dtype=torch.double).to(space.bounds)
        points: Tensor = lower + unit * (upper - lower)
        for columns, values in space.discrete_columns({}):
            # One coordinate chooses the value, and with it the other columns of a one-hot one.
            index = (unit[:, columns[0]] * len(values)).long().clamp(max=len(values) - 1)
            points[:, list(columns)] = values[index].to(points)
        return points

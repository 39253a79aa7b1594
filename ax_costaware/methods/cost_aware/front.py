"""Front of several objectives: the evaluated points that no other one dominates.

Points are compared by posterior means. Values are on the scales of the models, where larger ones
are better.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from botorch.models.deterministic import GenericDeterministicModel
from botorch.models.model import Model, ModelList
from torch import Tensor

from ax_costaware.acquisition.hypervolume_improvement import (
    LogExpectedHypervolumeImprovementPerCost,
    hypervolume,
    moments_of,
    non_dominated,
)
from ax_costaware.acquisition.noisy_improvement import has_factor, has_found_noise
from ax_costaware.core.problem import Problem
from ax_costaware.core.switching import next_cost
from ax_costaware.methods.cost_aware.search import Search
from ax_costaware.models.fantasies import fantasized
from ax_costaware.models.outcome_scale import OutcomeScale
from ax_costaware.space.parameters import Row

if TYPE_CHECKING:
    from ax_costaware.methods.cost_aware import CostAware

_NUM_SAMPLES = 16
"""Samples of a noisy front."""

SCALARIZATION = "scalarization"
"""Name of the objective that a random weight makes of several."""

_REFERENCE = 0.1
"""Distance of an inferred reference point to the worst values of the front, relative to its range,
as in BoTorch (Ishibuchi et al. 2011)."""

AUGMENTATION = 0.05
"""Weight of the sum in the augmented Chebyshev scalarization (Knowles 2006)."""


@dataclass(frozen=True)
class Side:
    """An objective of a front: that of the experiment, or the cost."""

    name: str
    """Name of the metric; for a declared cost ``"cost"``."""

    model: Model
    """Its model, maximized."""

    scale: OutcomeScale
    """Scale of the model; of the logarithm for the cost."""

    reference: float | None = None
    """Worst value that counts, on the scale; None: inferred from the front."""

    is_cost: bool = False
    """True for the cost."""

    def described(self, mean: float, variance: float) -> tuple[float, float]:
        """Return a mean and the standard deviation in the user's unit."""
        mean, variance = self.scale.moments(mean, variance)
        if self.is_cost:
            mean = math.exp(mean)
            return mean, mean * variance**0.5
        return mean, variance**0.5


@dataclass(frozen=True)
class Front:
    """Evaluated points and the front among them, by posterior means."""

    method: CostAware
    """The method."""

    problem: Problem
    """Inputs of the decision."""

    @cached_property
    def search(self) -> Search[CostAware]:
        """Search of the next trial."""
        method, problem = self.method, self.problem
        return Search(method, problem, next_cost(method, problem), method.budget_state(problem))

    @cached_property
    def sides(self) -> tuple[Side, ...]:
        """The objectives."""
        problem = self.problem
        found = [
            Side(
                one.metric,
                model,
                one.scale,
                None if one.threshold is None else one.scale.to_model(one.threshold),
            )
            for one, model in zip(problem.objectives, problem.models, strict=True)
        ] or [Side(problem.objective, problem.model, problem.scale)]
        return (*found, self._cost_side) if self.method.front == "cost" else tuple(found)

    @property
    def _cost_side(self) -> Side:
        """The cost of a deployment, without the cost of switching to it."""
        problem, cost = self.problem, self.method.trial_costs.model(self.problem)
        assert cost is not None
        with torch.no_grad():
            scale = OutcomeScale.of(cost.log_cost(problem.evaluated), minimize=True)
            most = cost.log_cost(torch.cat([problem.evaluated, self.search.points])).max()

        def value(X: Tensor) -> Tensor:
            values: Tensor = scale.to_model(cost.log_cost(X))
            return values.unsqueeze(-1)

        model = GenericDeterministicModel(value)
        name = self.method.trial_costs.metric or "cost"
        return Side(name, model, scale, float(scale.to_model(most)), is_cost=True)

    @cached_property
    def deployable(self) -> list[tuple[Row, int]]:
        """Observed trials as they would be deployed, with their indices."""
        method, problem = self.method, self.problem
        found = [(method.deployed(problem, t.inputs), t.index) for t in problem.observed]
        return [(row, index) for row, index in found if row is not None]

    @cached_property
    def X(self) -> Tensor:
        """Points of ``deployable``, ``n x d``."""
        return self.method.model_points(self.problem, [row for row, _ in self.deployable])

    @cached_property
    def moments(self) -> tuple[Tensor, Tensor]:
        """Means and variances, ``n x m``, at ``X``."""
        return self.moments_at(self.X)

    def moments_at(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Return means and variances, ``n x m``, at points ``n x d``."""
        with torch.no_grad():
            found = [moments_of(side.model)(X) for side in self.sides]
        means, variances = zip(*found, strict=True)
        return torch.stack(means, dim=-1), torch.stack(variances, dim=-1)

    @cached_property
    def log_feasibility(self) -> Tensor | None:
        """Log probabilities that the points satisfy all constraints, ``n``; None without any."""
        feasibility = self.problem.feasibility
        if feasibility is None:
            return None
        with torch.no_grad():
            return feasibility.log_probability(self.X)

    @cached_property
    def is_feasible(self) -> list[bool]:
        """True for each point that is feasible."""
        if self.log_feasibility is None:
            return [True] * len(self.deployable)
        least = math.log(self.method.feasibility_threshold)
        found: list[bool] = (self.log_feasibility >= least).tolist()
        return found

    @cached_property
    def rows(self) -> list[int]:
        """Positions of the front's points; without a feasible one that of the likeliest."""
        if self.log_feasibility is not None and self.deployable and not any(self.is_feasible):
            return [int(self.log_feasibility.argmax())]
        found = non_dominated(self.moments[0], self.is_feasible)
        given = [i for i, side in enumerate(self.sides) if side.reference is not None]
        useful = [
            row for row in found if (self.moments[0][row, given] > self.ref_point[given]).all()
        ]
        return useful or found

    @cached_property
    def ref_point(self) -> Tensor:
        """Reference point of the hypervolume, ``m``."""
        Y, may_be = self.moments[0], self.is_feasible
        if not any(may_be):
            Y = self.moments_at(self.problem.evaluated)[0]
            may_be = [True] * len(Y)
        best = Y[non_dominated(Y, may_be)]
        least, width = best.amin(dim=0), best.amax(dim=0) - best.amin(dim=0)
        spread = Y.amax(dim=0) - Y.amin(dim=0)
        width = torch.where(width > 0, width, torch.where(spread > 0, spread, 1.0))
        found = least - _REFERENCE * width
        for i, side in enumerate(self.sides):
            if side.reference is not None:
                found[i] = side.reference
        return found

    @property
    def unit(self) -> float:
        """Hypervolume of one on the scales, in the units of the objectives."""
        return math.prod(side.scale.unit for side in self.sides)

    @property
    def hypervolume(self) -> float:
        """Hypervolume of the front, in the units of the objectives."""
        if not any(self.is_feasible):
            return 0.0
        return self.unit * hypervolume(self.moments[0][self.rows], self.ref_point)

    @cached_property
    def learned(self) -> list[Model]:
        """Models of the objectives other than the cost."""
        return [side.model for side in self.sides if not side.is_cost]

    @cached_property
    def may_be_noisy(self) -> bool:
        """True if the front may be sampled.

        That is if ``acquisition`` is ``"log_nei_per_cost"``, all models are exact Gaussian
        processes, and the caller fixes no parameter, since no trial was evaluated there.
        """
        is_wanted = self.method.acquisition == "log_nei_per_cost" and not self.problem.fixed
        return is_wanted and all(map(has_factor, self.learned))

    @cached_property
    def is_noisy(self) -> bool:
        """True if the front may be sampled, and a fit has found noise."""
        return self.may_be_noisy and any(map(has_found_noise, self.learned))

    def improvement(self, is_noisy: bool) -> LogExpectedHypervolumeImprovementPerCost:
        """Return the expected improvement of the hypervolume per cost.

        Args:
            is_noisy: True for samples of the front; False for that of the posterior means.
        """
        problem, pending, learned = self.problem, self.problem.X_pending, self.learned
        rows = [self.method.deployed(problem, o.parameters) for o in problem.pending]
        coming = self.method.model_points(problem, [row for row in rows if row is not None])
        is_feasible = torch.tensor(self.is_feasible, dtype=torch.bool)
        if len(coming) and problem.feasibility is not None:
            chances = problem.feasibility.probability(coming)
            may_be = chances >= self.method.feasibility_threshold
        else:
            may_be = torch.ones(len(coming), dtype=torch.bool)
        X = torch.cat([self.X, coming])
        may_be_best = torch.cat([is_feasible.to(X.device), may_be.to(X.device)])
        models = [side.model for side in self.sides]
        if pending is not None and not is_noisy:
            models = [m if m not in learned else fantasized(m, pending) for m in models]
        return LogExpectedHypervolumeImprovementPerCost(
            ModelList(*models),
            self.ref_point,
            X if len(X) else problem.evaluated,
            self.search.compared_cost,
            exponent=self.search.cost_exponent,
            is_feasible=may_be_best if len(X) else torch.zeros(len(problem.evaluated)).bool(),
            num_samples=_NUM_SAMPLES if is_noisy else None,
            log_weight=self.search.log_weight,
        )

    def scalarized(self, weights: Sequence[float]) -> Problem:
        """Return the problem with the augmented Chebyshev scalarization as its objective.

        It is ``min_i w_i z_i + 0.05 sum_i w_i z_i``. Values ``z`` are zero at the reference point;
        their unit is the range of the front, with the reference point if that is worse.

        Args:
            weights: One for each objective.
        """
        problem = self.problem
        observed = problem.measured
        Y = self.moments_at(problem.space.encode([t.inputs for t in observed]))[0]
        for i, one in enumerate(problem.objectives):
            values = [t.outcome if i == 0 else t.metrics[one.metric] for t in observed]
            Y[:, i] = one.scale.to_model(Y.new_tensor(values))
        if not problem.objectives:
            Y[:, 0] = problem.scale.to_model(Y.new_tensor([t.outcome for t in observed]))
        ref_point, best = self.ref_point, Y[non_dominated(Y)]
        width = best.amax(dim=0) - torch.minimum(best.amin(dim=0), ref_point)
        width = width.clamp_min(torch.finfo(Y.dtype).eps)
        weighted = (Y - ref_point) / width * Y.new_tensor(list(weights))
        found = weighted.amin(dim=-1) + AUGMENTATION * weighted.sum(dim=-1)
        value_of = dict(zip([t.index for t in observed], found.tolist(), strict=True))
        trials = [replace(t, outcome=None, is_observed=False, curves={}) for t in problem.trials]
        for index, value in value_of.items():
            trials[index] = replace(trials[index], outcome=value, is_observed=True)
        return problem.prepare(
            replace(
                problem,
                trials=tuple(trials),
                objective=SCALARIZATION,
                minimize=False,
                objectives=(),
            )
        )

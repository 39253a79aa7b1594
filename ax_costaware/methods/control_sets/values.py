"""Values and costs of control sets, from which a rule chooses.

Acquisition values, confidence bounds, the least value of the objective, and costs are computed when
a rule asks for them, once per control set. Searches are on the scale of the model. A rule gets
values in the unit of the objective, with the sign of maximization, and costs in the user's own
unit.

- If a declared cost depends on the values that are set, and the rule divides by cost, values
  maximize the acquisition function, relative to the rule's baseline, per unit of cost. If the best
  values are not affordable, the search is repeated with a penalty beyond the limit.
- With switching costs, values are searched again with settings of the previous trial held. The
  query with the largest expected improvement per unit of cost is used. Only switching costs that
  depend on the values are part of the cost by which values are searched.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from scipy.special import log_ndtr
from torch import Tensor

from ax_costaware.acquisition import Optimum
from ax_costaware.acquisition.criteria import LogExpectedImprovement
from ax_costaware.acquisition.feasibility import Feasibility, feasibility_weighted
from ax_costaware.acquisition.objectives import QueryCosts
from ax_costaware.core.account import BudgetState
from ax_costaware.core.problem import Problem, decision_seed
from ax_costaware.core.switching import kept_settings, next_cost, switching_cost
from ax_costaware.methods.control_sets.query_space import QuerySpace
from ax_costaware.methods.control_sets.rules.beta import TheoreticalBeta
from ax_costaware.methods.control_sets.rules.rule import ControlSetRule, CostEstimate
from ax_costaware.methods.control_sets.rules.value_per_cost import LargestValuePerCost
from ax_costaware.methods.stopping import NUM_AHEAD
from ax_costaware.models import FunctionalPosterior, information_gain

if TYPE_CHECKING:
    from ax_costaware.methods.control_sets import ControlSets

NUM_POINTS = 1024
"""Quasi-random points for the least value of the objective."""

_LEAST_DEVIATION = 1e-100
"""Lower bound of standard deviations, so that a known value has an improvement of zero."""

_PENALTY_OF_LOG = 10.0
"""Penalty at the limit of the cost for values that are logarithms."""

Query: TypeAlias = tuple[Tensor, float]
"""A point ``d`` of a control set, and the acquisition value there."""


@dataclass(frozen=True)
class ControlSetValues:
    """The ``EvaluateBounds`` of one decision."""

    problem: Problem
    """Inputs of the decision."""

    method: ControlSets
    """The method."""

    initial: bool = False
    """True if the decision belongs to the initial design."""

    _found: dict[int, Query] = field(default_factory=dict)
    """Best queries so far, by the index of the control set."""

    @cached_property
    def space(self) -> QuerySpace:
        """The control sets in the model's space."""
        return QuerySpace(self.problem, self.method)

    @cached_property
    def budget_state(self) -> BudgetState:
        """Budget spent and left."""
        return self.method.budget_state(self.problem, self.initial)

    @cached_property
    def beta(self) -> float:
        """Weight of the standard deviation in confidence bounds."""
        beta = self.method.beta
        if isinstance(beta, TheoreticalBeta):
            gain = information_gain(self.problem.model)
            return float(beta(gain, len(self.method.control_sets)))
        return beta

    @property
    def rule(self) -> ControlSetRule:
        """The rule; without a feasible query, the largest probability of feasibility per cost."""
        rule = self.method.rule
        assert rule is not None
        return rule if self.is_feasible else LargestValuePerCost()

    @property
    def acquisition(self) -> str:
        """Name of the acquisition function; ``"feasible"`` until there is a feasible query."""
        return self.method.acquisition if self.is_feasible else "feasible"

    @cached_property
    def best_incumbent(self) -> float | None:
        """Best expectation among feasible evaluated queries; None if there are none.

        Parameters that the caller fixes, such as the weather of the day, replace those of trials.
        """
        problem, method = self.problem, self.method
        rows = [
            {**trial.parameters, **problem.fixed}
            for trial in problem.observed
            if method.deployed(problem, trial.parameters) is not None
        ]
        if not rows:
            return None
        log_feasibility = method.expected(problem, rows).log_feasibility
        assert log_feasibility is not None
        is_feasible = (log_feasibility.exp() >= method.feasibility_threshold).tolist()
        good = [row for row, is_good in zip(rows, is_feasible, strict=True) if is_good]
        if not good:
            return None
        return float(problem.scale.to_model(method.expected(problem, good).mean).max())

    @property
    def is_feasible(self) -> bool:
        """True if an evaluated query is feasible, and always without outcome constraints."""
        return not self.problem.constraints or self.best_incumbent is not None

    def best_feasible(self) -> tuple[Tensor, Tensor]:
        """Return the best feasible query of each control set, or its likeliest one.

        Returns:
            Points, ``s x d``, and their log probabilities of being feasible, ``s``.
        """
        space, every = self.space, range(len(self.method.control_sets))
        trial, log_threshold = len(self.problem.trials), math.log(self.method.feasibility_threshold)
        given: dict[str, Any] = {"feasibility": space.feasibility, "held": self.problem.held}
        required = partial(
            feasibility_weighted,
            worst=self._worst(),
            log_threshold=log_threshold,
            is_required=True,
        )
        points = space.best_means(every, trial, weighted=required, **given).point.detach()
        log_feasibility = space.log_feasibility(points, every)
        assert log_feasibility is not None
        rest = (log_feasibility < log_threshold).nonzero().flatten().tolist()
        if rest:
            seed = decision_seed(self.method.seed, trial)
            found = space.search(rest, "feasible", seed, **given)
            points[rest] = found.point.detach()
            log_feasibility = space.log_feasibility(points, every)
            assert log_feasibility is not None
        return points, log_feasibility

    def __call__(self, indices: Sequence[int]) -> list[float]:
        """Return the largest expected acquisition value of each control set."""
        return [self.for_rule(value) for _, value in self.found(indices)]

    def for_rule(self, value: float) -> float:
        """Return an acquisition value in the unit of the objective."""
        if self.acquisition == "feasible":  # the logarithm of a probability
            return value
        scale = self.problem.scale
        return value + math.log(scale.unit) if self.acquisition == "ei" else scale.maximized(value)

    def found(self, indices: Sequence[int]) -> list[Query]:
        """Return the point ``d`` of the largest value of each control set, and the value."""
        missing = [i for i in indices if i not in self._found]
        if missing:
            found = self._best_queries(missing, self.problem.held)
            if self.method.switching_cost is not None:
                found = self._with_settings_kept(missing, found)
            self._found.update(zip(missing, found, strict=True))
        return [self._found[i] for i in indices]

    def _best_queries(self, indices: Sequence[int], held: Mapping[int, float]) -> list[Query]:
        """Return the best affordable query of each control set with some columns held."""
        method, expected = self.method, self.space.costs
        switching = method.switching_cost
        varies = switching is not None and switching.depends_on_values
        log_costs = [
            next_cost(method, self.problem, expected, method.control_sets[i]).log_cost
            if varies or i in expected.declared
            else None
            for i in indices
        ]
        if not any(log_costs):
            return self._best_by(indices, held, None)
        is_log = self.acquisition in ("ei", "feasible")
        zero = self.problem.scale.to_model(0.0)
        from_zero = zero if self.rule.baseline == "zero" else self._worst()
        costs = QueryCosts(log_costs, None if is_log else from_zero, self.rule.baseline is not None)
        found = self._best_by(indices, held, costs)
        limit = self.budget_state.limit
        if not limit:
            return found
        over, penalties = [], []
        for place, (index, (point, value)) in enumerate(zip(indices, found, strict=True)):
            price = self._price(index, point)
            if log_costs[place] is None or price is None or self.budget_state.pays(price.mean):
                continue
            height = (value - from_zero) / (price.mean if costs.per_cost else 1.0)
            over.append(place)
            penalties.append(_PENALTY_OF_LOG if is_log else abs(height) or 1.0)
        if over:
            limited = replace(
                costs,
                log_costs=[log_costs[place] for place in over],
                log_limit=math.log(limit),
                penalties=penalties,
            )
            again = self._best_by([indices[place] for place in over], held, limited)
            for place, query in zip(over, again, strict=True):
                found[place] = query
        return found

    def _best_by(
        self, indices: Sequence[int], held: Mapping[int, float], costs: QueryCosts | None
    ) -> list[Query]:
        """Return the best query of each control set with some columns held, by value per cost."""
        optima = self._search(
            indices,
            self.acquisition,
            X_pending=self.problem.X_pending,
            held=held,
            costs=costs,
            **self._within_bounds,
        )
        return [
            (point.detach(), float(value))
            for point, value in zip(optima.point, optima.value, strict=True)
        ]

    def _with_settings_kept(self, indices: Sequence[int], found: Sequence[Query]) -> list[Query]:
        """Return the best query of each control set: ``found``, or with settings kept.

        Args:
            indices: Indices of the control sets.
            found: The best query of each, without switching costs.
        """
        problem, method, space = self.problem, self.method, self.space
        queries = {i: [query] for i, query in zip(indices, found, strict=True)}
        sharing: dict[frozenset[tuple[int, float]], list[int]] = {}
        for i in indices:
            for kept in kept_settings(problem, method, method.control_sets[i].parameters):
                columns = frozenset(problem.space.columns_of(kept).items())
                sharing.setdefault(columns, []).append(i)
        for columns, sets in sharing.items():
            held = {**problem.held, **dict(columns)}
            for i, query in zip(sets, self._best_queries(sets, held), strict=True):
                queries[i].append(query)
        if not sharing:
            return list(found)
        if problem.constraints:
            best = self.best_incumbent
        else:
            every = range(len(method.control_sets))
            best = float(space.best_means(every, problem.next_index).value.max())
        chosen = []
        for i, ones in queries.items():
            points, sets = torch.stack([point for point, _ in ones]), [i] * len(ones)
            costs = [self._price(i, point) for point in points]
            mean, variance = space.expectations(points, sets)
            score = -mean.new_tensor([1.0 if cost is None else cost.mean for cost in costs]).log()
            if best is not None:
                sd = variance.sqrt().clamp_min(_LEAST_DEVIATION)
                score = LogExpectedImprovement(best)(mean, sd) + score
            log_feasibility = space.log_feasibility(points, sets)
            if log_feasibility is not None:
                score = score + log_feasibility
            limited = [cost is not None and not self.budget_state.pays(cost.mean) for cost in costs]
            if not all(limited):
                score = score.masked_fill(torch.tensor(limited, device=score.device), -torch.inf)
            chosen.append(ones[int(score.argmax())])
        return chosen

    def lower(self, indices: Sequence[int], pointwise: bool = False) -> list[float]:
        """Return a lower bound of the best expected value of each, from observed outcomes only."""
        return self._bounds(indices, "lcb" if pointwise else "lower")

    def upper(self, indices: Sequence[int], pointwise: bool = False) -> list[float]:
        """Return an upper bound of the best expected value of each, from observed outcomes only."""
        is_found = self.acquisition == "ucb" and self.method.switching_cost is None
        if pointwise and is_found and self.problem.X_pending is None:
            return self(indices)
        return self._bounds(indices, "ucb" if pointwise else "upper")

    def _bounds(self, indices: Sequence[int], bound: str) -> list[float]:
        values = self._search(indices, bound).value.tolist()
        return [self.problem.scale.maximized(value) for value in values]

    def gain_per_cost(self, indices: Sequence[int]) -> float | None:
        """Return the largest expected gain of a batch of trials of one control set per cost.

        Batch sizes are those of ``NUM_AHEAD`` that the budget pays for. None while a cost is
        unknown.
        """
        costs = {i: cost.mean for i in indices if (cost := self.cost_of(i)) is not None}
        if len(costs) < len(indices):
            return None
        left, most = self.budget_state.remaining, 0.0
        for count in NUM_AHEAD:
            paid = [i for i in indices if count == 1 or left is None or count * costs[i] <= left]
            gains = self.space.knowledge(paid, count)
            ratios = [gain / (count * costs[i]) for i, gain in zip(paid, gains, strict=True)]
            most = max([most, *ratios])
        return most

    def worst(self) -> float:
        """Return the least of ``means``, in the unit of the objective."""
        return self.problem.scale.maximized(self._worst())

    def _worst(self) -> float:
        return float(self.means().min())

    def means(self) -> Tensor:
        """Return posterior means, on the model's scale, at evaluated and quasi-random points."""
        problem = self.problem
        sample = problem.space.sobol_points(NUM_POINTS, self.method.seed)
        points = torch.cat([problem.evaluated, sample.to(problem.evaluated)])
        with torch.no_grad():
            mean, _ = problem.posterior.mixture(points)
        return mean

    def costs(self, indices: Sequence[int]) -> list[CostEstimate]:
        """Return the cost of each at its best values; 1 without an error if it is unknown."""
        return [self.cost_of(i) or CostEstimate(1.0, None) for i in indices]

    def cost_of(self, index: int) -> CostEstimate | None:
        """Return the cost of one control set at its best values; None if it is unknown."""
        if not self._needs_values(index):
            return self.space.costs.at(index, self.space.default)
        ((point, _),) = self.found([index])
        return self._price(index, point)

    def _price(self, index: int, point: Tensor) -> CostEstimate | None:
        """Return the cost of a trial at a point, with its switching cost; None if unknown."""
        cost, chosen = self.space.costs.at(index, point), self.method.control_sets[index]
        if cost is None or self.method.switching_cost is None:
            return cost
        arm = self.space.arm(chosen, self.space.controlled(point, chosen.parameters))
        change = switching_cost(self.problem, self.method, arm)
        return CostEstimate(cost.mean + change, cost.standard_error)

    def is_priced(self, index: int) -> bool:
        """True if ``cost_of`` needs no search."""
        return not self._needs_values(index) or index in self._found

    def _needs_values(self, index: int) -> bool:
        """True if the cost of a trial of a control set depends on its values."""
        return self.method.switching_cost is not None or self.space.costs.depends_on_values(index)

    @property
    def _within_bounds(self) -> dict[str, Any]:
        """Options of a search that weight queries by their feasibility.

        If a rule compares upper confidence bounds, a query that is feasible by an optimistic bound
        has the weight 1, as in Xu et al. 2023. A value above the worst one is weighted by the
        probability of being feasible, as in constrained expected improvement.
        """
        if not self.problem.constraints:
            return {}
        options = {"feasibility": self._feasibility, "best_f": self.best_incumbent}
        if self.acquisition in ("ei", "feasible"):
            return options
        is_optimistic = self.acquisition == "ucb" and self.rule.baseline is None
        count = len(self.problem.constraints) if is_optimistic else 0
        log_threshold = count * float(log_ndtr(-self.beta))
        worst = self._worst()
        weighted = partial(feasibility_weighted, worst=worst, log_threshold=log_threshold)
        return {**options, "weighted": weighted}

    @cached_property
    def _feasibility(self) -> Feasibility[FunctionalPosterior]:
        """Feasibility of queries; failed and pending ones are infeasible until one is feasible."""
        problem = self.problem
        if self.is_feasible:
            return self.space.feasibility
        violated = [self.method.failed_points(problem)] if problem.failed else []
        violated += [] if problem.X_pending is None else [problem.X_pending]
        points = torch.cat(violated) if violated else None
        return Feasibility.of(problem.constraints, FunctionalPosterior.of, points)

    def _search(self, indices: Sequence[int], acquisition: str, **options: Any) -> Optimum[Tensor]:
        seed = decision_seed(self.method.seed, self.problem.next_index)
        options = {"held": self.problem.held, **options, **self.method.search_options}
        return self.space.search(indices, acquisition, seed, beta=self.beta, **options)

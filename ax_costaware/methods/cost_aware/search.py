"""Search of one decision: the best affordable point of an acquisition function.

Values are on the scale of the model, prices in units of the objective per unit of cost.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Generic, TypeVar

import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.exceptions.warnings import OptimizationWarning
from torch import Tensor

from ax_costaware.acquisition import (
    LogExpectedImprovementPerCost,
    LogNoisyExpectedImprovementPerCost,
    PandoraBoxGittinsIndex,
    incumbent,
)
from ax_costaware.acquisition.cost_limit import CostLimited, NegativeLogCost
from ax_costaware.acquisition.feasibility import Feasibility, OutcomeConstraint
from ax_costaware.acquisition.noisy_improvement import has_factor, has_found_noise
from ax_costaware.acquisition.optimize import Optimum
from ax_costaware.acquisition.pointwise import LogTail
from ax_costaware.acquisition.target_fidelity import at_target
from ax_costaware.core.account import BudgetState
from ax_costaware.core.batches import batch_size, setup_cost
from ax_costaware.core.failures import failures_as_constraint, success_weight
from ax_costaware.core.optimize import possible
from ax_costaware.core.problem import Problem
from ax_costaware.core.switching import keeping_settings, next_cost
from ax_costaware.costs import CostFunction, log_cost_function
from ax_costaware.costs.cost_model import own_cost, whole_cost
from ax_costaware.methods.priced import PricedMethod
from ax_costaware.models.fantasies import fantasized
from ax_costaware.models.posterior import FunctionalPosterior
from ax_costaware.space.parameters import Value

Priced = TypeVar("Priced", bound=PricedMethod)

GITTINS = "gittins"
"""The acquisition function of ``Gittins``: the index."""

PAREGO = "parego_per_cost"
"""Acquisition function of several objectives: EI per cost with a random weight of them."""

EI_PER_COST = ("log_ei_per_cost", "log_nei_per_cost")
"""Acquisition functions that are an improvement per unit of cost."""

NUM_POINTS = 1024
"""Quasi-random points that represent the search space, also when lambda is solved from a budget."""

_NUM_KEEPING = 256
"""Quasi-random points for each combination of settings kept from the previous trial."""

_REPEAT_TOLERANCE = 1e-3
"""Largest distance, per column and relative to its range, at which a trial repeats another one.

Without noise, a smooth function on the unit cube changes by about a millionth of its spread there.
"""

_NOISELESS_SHARE = 0.1
"""Largest noise of a noiseless objective, relative to the mode of the noise prior.

From few outcomes a fit returns the mode itself, and somewhat less if the objective has a cusp.
"""

_LEAST_LOG = -100.0
"""Lower bound of the log probability of feasibility inside a Gittins index."""


@contextmanager
def ignoring_line_search_failures() -> Iterator[None]:
    """Silence warnings of line searches that end early at a kink; the starts count, too."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OptimizationWarning)
        warnings.filterwarnings("ignore", "Optimization failed", RuntimeWarning)
        yield


@dataclass(frozen=True)
class Search(Generic[Priced]):
    """Acquisition functions, incumbent and affordable points of one decision."""

    method: Priced
    """The method."""

    problem: Problem
    """Inputs of the decision."""

    cost: CostFunction
    """Cost of points."""

    budget_state: BudgetState
    """Budget spent and left."""

    extra_rows: tuple[dict[str, Value], ...] = ()
    """Additional candidate parameterizations, such as continuations of earlier trials."""

    target: Mapping[int, float] = field(default_factory=dict)
    """Columns of the fidelities, with their target values."""

    @cached_property
    def compared_cost(self) -> CostFunction:
        """Cost by which trials are compared, see ``next_cost``."""
        shares = setup_cost(self.problem, self.method) and batch_size(self.problem) > 1
        if not shares and not self.method.trial_costs.further:
            return self.cost
        return next_cost(self.method, self.problem, whole_cost(self.cost), is_compared=True)

    @property
    def unaffordable_reason(self) -> str:
        """Reason, as a phrase, why no trial is affordable."""
        if self.budget_state.is_capped:
            return f"no trial is expected to cost at most {self.method.max_trial_cost:g}"
        if further := self.budget_state.further:
            first, unit = self.budget_state.remaining or 0.0, self.method.trial_costs.unit
            left = [f"{first:.3g} {unit or ''}".strip()]
            left += [f"{state.remaining or 0.0:.3g} {name}" for name, state in further.items()]
            return f"what is left of the budgets, {' and '.join(left)} pays for no trial"
        return "what is left of the budget pays for no trial"

    @property
    def cost_exponent(self) -> float:
        """Exponent of the cost: the share of the budget that is left, if it cools."""
        method, left = self.method, self.budget_state.remaining
        if not getattr(method, "cools", False):
            return 1.0
        assert left is not None
        assert method.budget is not None
        return max(left, 0.0) / method.budget

    @cached_property
    def points(self) -> Tensor:
        """``n x d`` valid quasi-random points; untried ones if the space can be enumerated."""
        problem = self.problem
        points = problem.space.sobol_points(NUM_POINTS, self.method.seed, problem.held)
        return possible(problem, points).to(problem.evaluated)

    @property
    def representative_points(self) -> Tensor:
        """Points that represent the space: ``points``, or the evaluated ones if there are none."""
        return self.points if len(self.points) else self.problem.evaluated

    @cached_property
    def keeping_settings(self) -> list[tuple[dict[int, float], Tensor]]:
        """Columns held at settings of the previous trial, each with points that have them.

        A switching cost is a step, which a search by gradients does not find.
        """
        problem = self.problem
        found = [
            (held, possible(problem, points).to(problem.evaluated))
            for held, points in keeping_settings(problem, self.method, _NUM_KEEPING)
        ]
        return [(held, points) for held, points in found if len(points)]

    @cached_property
    def starts(self) -> Tensor:
        """``m x d`` points that every maximum is compared with."""
        return torch.cat(
            [self.points, *(points for _, points in self.keeping_settings), self._extra_points]
        )

    @cached_property
    def _extra_points(self) -> Tensor:
        return self.problem.space.encode(list(self.extra_rows)).to(self.problem.evaluated)

    def row_of(self, point: Tensor) -> dict[str, Value]:
        """Return the parameterization of a point, ``d``, as in ``extra_rows`` if it is there."""
        same = (self._extra_points == point).all(dim=-1).tolist()
        rows = [row for row, is_it in zip(self.extra_rows, same, strict=True) if is_it]
        return [*rows, *self.problem.space.decode(point.unsqueeze(0))][0]

    @cached_property
    def _failures(self) -> tuple[OutcomeConstraint, ...]:
        return failures_as_constraint(self.problem, self.method.learn_failures)

    @cached_property
    def _constraints(self) -> tuple[OutcomeConstraint, ...]:
        """Constraints of a trial: those of the experiment, and not to fail."""
        return (*self.problem.constraints, *self._failures)

    @cached_property
    def _success(self) -> tuple[Feasibility[FunctionalPosterior], Callable[[Tensor], Tensor]]:
        return success_weight(self._failures, self.problem.evaluated)

    @cached_property
    def feasibility(self) -> Feasibility[FunctionalPosterior] | None:
        """Probability that a trial is feasible; None without constraints."""
        if not self._constraints:
            return None
        outcomes = Feasibility.of(self.problem.constraints, FunctionalPosterior.of).outcomes
        return Feasibility([*outcomes, *self._success[0].outcomes])

    @cached_property
    def log_weight(self) -> Callable[..., Tensor] | None:
        """Log weight of a trial's value; None without constraints."""
        if not self._constraints:
            return None
        feasible = Feasibility.of(self.problem.constraints, FunctionalPosterior.of).log_probability
        _, success = self._success

        def weight(X: Tensor, least: float = -math.inf) -> Tensor:
            return (feasible(X) + success(X)).clamp_min(least)

        return weight

    def index(self, price: float) -> PandoraBoxGittinsIndex:
        """Return the Gittins index at a price of a unit of cost."""
        log_weight = self.log_weight
        if log_weight is not None:
            log_weight = partial(log_weight, least=_LEAST_LOG)
        problem = self.problem
        return PandoraBoxGittinsIndex(
            problem.model,
            self.compared_cost,
            price / problem.scale.unit,
            X_pending=problem.X_pending,
            log_weight=log_weight,
        )

    def maximize_improvement_per_cost(
        self, best_f: float
    ) -> tuple[AcquisitionFunction, Optimum[float] | None]:
        """Return expected improvement per cost, and the affordable point that maximizes it.

        Noisy EI (over an uncertain incumbent) is used if

        - the fit has found noise, or
        - the fit has found next to none, and EI would repeat a trial, which would teach nothing.

        EI on the best posterior mean is used in all other cases, and always if

        - the caller fixes parameters, because the incumbent was not evaluated there,
        - ``lmbda`` is given and every point of a finite space was run,
        - no trial can be deployed, or
        - the model is not an exact Gaussian process with a cached factor.

        Args:
            best_f: Value of the incumbent for EI on the posterior mean.
        """
        problem = self.problem
        repeats = self.method.lmbda is not None and problem.is_exhausted
        uses_mean = problem.fixed_columns or repeats or not has_factor(problem.model)
        uses_mean = uses_mean or not any(self._observed_deployable + self._pending_deployable)
        is_noisy = not uses_mean and has_found_noise(problem.model)
        if not is_noisy:
            acquisition: AcquisitionFunction = self.improvement(best_f)
            found = self.maximize_affordable(acquisition)
            uses_mean = uses_mean or has_found_noise(problem.model, _NOISELESS_SHARE)
            if uses_mean or found is None or not self.is_repeat(found.point):
                return acquisition, found
        acquisition = self._noisy_improvement()
        found = self.maximize_affordable(acquisition)
        if not is_noisy and found is not None and self.is_repeat(found.point):
            found = self.best_untried(acquisition) or found  # noisy EI is zero, to rounding
        return acquisition, found

    def best_untried(self, acquisition: AcquisitionFunction) -> Optimum[float] | None:
        """Return the best affordable start that repeats no trial; None if there is none."""
        new = self.starts[~self.is_repeat(self.starts)]
        if (limit := self.budget_state.limit) is not None:
            new = new[self.costs(new) <= limit]
        return self._best_among(None, new, acquisition) if len(new) else None

    def repeats_exactly(self, point: Tensor) -> bool:
        """True if a point, ``d``, nearly repeats a trial, and outcomes have no noise."""
        is_noisy = has_found_noise(self.problem.model, _NOISELESS_SHARE)
        return not is_noisy and bool(self.is_repeat(point))

    def is_repeat(self, points: Tensor) -> Tensor:
        """True for points ``... x d`` that nearly repeat an evaluated or a pending one: ``...``."""
        problem, X = self.problem, self.problem.evaluated
        if problem.X_pending is not None:
            X = torch.cat([X, problem.X_pending])
        ranges = problem.space.bounds.diff(dim=0).to(X)
        near = (points.unsqueeze(-2) - X).abs() <= _REPEAT_TOLERANCE * ranges
        return near.all(dim=-1).any(dim=-1)

    def baseline(self) -> tuple[Tensor, Tensor]:
        """Return evaluated and pending points as they would be deployed, and which may be best."""
        problem = self.problem
        points = [problem.evaluated, *([] if problem.X_pending is None else [problem.X_pending])]
        X, probability = self._deployed(torch.cat(points))
        may_be_best = torch.tensor(
            self._observed_deployable + self._pending_deployable, device=X.device
        )
        is_feasible = (
            None if probability is None else probability >= self.method.feasibility_threshold
        )
        if is_feasible is not None and bool((may_be_best & is_feasible).any()):
            may_be_best &= is_feasible
        return X, may_be_best

    def _noisy_improvement(self) -> LogNoisyExpectedImprovementPerCost:
        X, may_be_best = self.baseline()
        return LogNoisyExpectedImprovementPerCost(
            self.problem.model,
            X,
            self.compared_cost,
            is_feasible=may_be_best,
            log_weight=self.log_weight,
        )

    def improvement(self, best_f: float, exponent: float = 1.0) -> LogExpectedImprovementPerCost:
        """Return log expected improvement on ``best_f`` per ``cost ** exponent``."""
        model, pending = self.problem.model, self.problem.X_pending
        if self.feasibility is not None or not all(self._pending_deployable):
            # Fantasize pending points: ``X_pending`` would treat each as a feasible, deployable
            # incumbent.
            if pending is not None:
                model, best_f = fantasized(model, pending), self.best_f_with_pending(best_f)
            pending = None
        return LogExpectedImprovementPerCost(
            model,
            best_f,
            self.compared_cost,
            exponent,
            X_pending=pending,
            log_weight=self.log_weight,
        )

    def log_feasibility_per_cost(self) -> NegativeLogCost:
        """Return the log probability of feasibility per cost, used until a trial is feasible.

        Failed and pending trials count as infeasible, so that a batch spreads over the space.
        """
        problem = self.problem
        points = self.method.failed_points(problem)
        if problem.X_pending is not None:
            points = torch.cat([points, problem.X_pending])
        violated = points if len(points) else None
        feasibility = Feasibility.of(self._constraints, FunctionalPosterior.of, violated)
        return NegativeLogCost(problem.model, self.compared_cost, feasibility.log_probability)

    @cached_property
    def _observed_deployable(self) -> list[bool]:
        """True for each observed trial that can be deployed, see ``Problem.is_deployable``."""
        method, problem = self.method, self.problem
        return [method.deployed(problem, t.inputs) is not None for t in problem.observed]

    @cached_property
    def _pending_deployable(self) -> list[bool]:
        """True for each pending trial that can be deployed."""
        method, problem = self.method, self.problem
        return [method.deployed(problem, o.parameters) is not None for o in problem.pending]

    def incumbent(self) -> Optimum[float]:
        """Return the evaluated point with the best ``mean - risk_aversion * standard deviation``.

        Only feasible points in the search space count; if there are none, the likeliest one does.
        Parameters that the caller fixes, such as the weather of the day, and fidelities are moved
        to their fixed or target values before points are compared.

        Returns:
            The point as it was evaluated, and its trial. If no trial can be deployed, for example
            because bounds were narrowed, the best point of the space, without a trial.
        """
        (rows,) = torch.tensor(self._observed_deployable).nonzero(as_tuple=True)
        if not len(rows):
            return self._incumbent_among(
                self.starts if len(self.starts) else self.representative_points, None
            )
        return self._incumbent_among(self.problem.evaluated[rows], rows)

    def _incumbent_among(self, X: Tensor, trials: Tensor | None) -> Optimum[float]:
        """Return the incumbent among points ``n x d``; ``trials`` are their trials, by row."""
        problem, risk_aversion, points = self.problem, self.method.traits.risk_aversion, X
        X, probability = self._deployed(X)
        good = None if probability is None else probability >= self.method.feasibility_threshold
        if probability is None or good is None:
            rows = torch.arange(len(X))
        else:
            rows = good.nonzero().flatten() if bool(good.any()) else probability.argmax().reshape(1)
        value, i = incumbent(problem.model, X[rows], risk_aversion=risk_aversion)
        row = int(rows[i])
        trial = None if trials is None else int(trials[row])
        return Optimum(
            points[row], value, None if probability is None else float(probability[row]), trial
        )

    def is_feasible(self, found: Optimum[float]) -> bool:
        """True if an incumbent is feasible with probability ``feasibility_threshold`` or more."""
        return found.feasibility is None or found.feasibility >= self.method.feasibility_threshold

    def _deployed(self, X: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return points as they would be deployed, and their probability of being feasible."""
        problem = self.problem
        X = at_target(X, {**problem.fixed_columns, **self.target})
        if problem.fixed_columns:
            X = problem.space.complete(X)
        return X, None if problem.feasibility is None else problem.feasibility.probability(X)

    def best_f_with_pending(self, best: float) -> float:
        """Return the value of the incumbent, or of the best pending trial if its mean is better."""
        pending, is_deployable = self.problem.X_pending, torch.tensor(self._pending_deployable)
        if pending is None or not bool(is_deployable.any()):
            return best
        found = self._incumbent_among(pending[is_deployable], None)
        return max(best, found.value) if self.is_feasible(found) else best

    def costs(self, X: Tensor) -> Tensor:
        """Return the expected costs of points ``n x d``: ``n``."""
        with torch.no_grad():
            return log_cost_function(self.cost)(X).exp()

    def cost_at(self, point: Tensor) -> float:
        """Return the expected cost of a point, ``d``."""
        return float(self.costs(point.unsqueeze(0)))

    def charge_at(self, point: Tensor) -> float:
        """Return the expected charge of a point, ``d``, in the unit of the first budget."""
        with torch.no_grad():
            return float(log_cost_function(own_cost(self.cost))(point.unsqueeze(0)).exp())

    def maximize_affordable(self, acquisition: AcquisitionFunction) -> Optimum[float] | None:
        """Return the best affordable point of an acquisition function; None if there is none."""
        log_weight = self.log_weight
        if log_weight is not None and isinstance(acquisition, PandoraBoxGittinsIndex):
            # Where feasibility is unlikely the index is flat; its log tail has a gradient.
            with torch.no_grad():
                largest = float(acquisition(self.representative_points.unsqueeze(-2)).max())
            at = self.maximize_affordable(LogTail(acquisition, largest, log_weight, _LEAST_LOG))
            if at is None:
                return None
            with torch.no_grad():
                return replace(at, value=float(acquisition(at.point.reshape(1, 1, -1))))
        # Compare with all starts: a poor local optimum must not end the run.
        found = self._best_among(self._maximize(acquisition), self.starts, acquisition)
        limit = self.budget_state.limit
        if limit is None or self.cost_at(found.point) <= limit:
            return found
        costs = self.costs(self.starts)
        within = self.starts[costs <= limit]
        if not len(within):
            if len(costs) and float(costs.min()) == float(costs.max()):
                return None
            cheapest = self._maximize(NegativeLogCost(self.problem.model, self.cost))
            if self.cost_at(cheapest.point) > limit:
                return None
            within = cheapest.point.unsqueeze(0)
        with ignoring_line_search_failures():  # at the kink of the penalty
            found = self._maximize(CostLimited(acquisition, self.cost, limit, self.starts))
        # The penalty has a margin, which excludes points that cost exactly what is left.
        affordable = found if self.cost_at(found.point) <= limit else None
        return replace(self._best_among(affordable, within, acquisition), is_limited_by_budget=True)

    def _maximize(self, acquisition: AcquisitionFunction) -> Optimum[float]:
        """Return the best point of an acquisition function, whatever it costs."""
        options, immovable = self.method.search_options, self.problem.immovable
        found = self.problem.maximize(acquisition, options)
        # With equality constraints columns cannot be held; the starts keep settings then.
        for held, _ in self.keeping_settings if self.problem.space.elimination is None else ():
            if len({*held, *immovable}) < len(found.point):
                other = self.problem.maximize(acquisition, options, held)
                found = other if other.value > found.value else found
        return Optimum(found.point.to(self.points), found.value)

    def _best_among(
        self, found: Optimum[float] | None, points: Tensor, acquisition: AcquisitionFunction
    ) -> Optimum[float]:
        """Return the best of ``points``, or ``found`` if it is at least as good."""
        if found is not None and not len(points):
            return found
        with torch.no_grad():
            values = acquisition(points.unsqueeze(-2))
        best = int(values.argmax())
        if found is not None and found.value >= float(values[best]):
            return found
        return Optimum(points[best], float(values[best]))

"""The inner search of the Gittins method: an acquisition function's best affordable point.

Values are on the scale of the model, prices in units of the objective per unit of cost.
"""

from __future__ import annotations

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
from ax_costaware.core.failures import failures_as_constraint
from ax_costaware.core.optimize import possible
from ax_costaware.core.problem import Problem
from ax_costaware.core.switching import kept_settings
from ax_costaware.costs import CostFunction, log_cost_function
from ax_costaware.exceptions import InputError
from ax_costaware.methods.priced import PricedMethod
from ax_costaware.models.fantasies import fantasized
from ax_costaware.models.posterior import FunctionalPosterior
from ax_costaware.space.parameters import Value

Priced = TypeVar("Priced", bound=PricedMethod)

GITTINS = "gittins"
"""The acquisition function of ``Gittins``: the index."""

PER_COST = ("log_ei_per_cost", "log_nei_per_cost")
"""Acquisition functions that are an improvement per unit of cost."""

NUM_POINTS = 1024
"""Points that stand for the search space, also where lambda is found from a budget."""

_NUM_KEPT = 256
"""Points that keep some settings of the trial before."""

_NEARLY = 1e-3
"""Part of the range of each column within which a trial is one that was made, if there is no noise:
of a function that is smooth on the unit cube it shows a millionth of the spread."""

_HARDLY = 0.1
"""Part of the mode of the prior of noise that a fit may find, for it to have seen that there is
none: of few outcomes it finds the mode itself, and less of it where the objective has a cusp."""

_LEAST_LOG = -100.0
"""Logarithm of a probability of being feasible that a Gittins index takes for the least."""


@contextmanager
def ignoring_line_search_failures() -> Iterator[None]:
    """Silence line searches that end early where a function bends: the starts count, too."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OptimizationWarning)
        warnings.filterwarnings("ignore", "Optimization failed", RuntimeWarning)
        yield


@dataclass(frozen=True)
class Search(Generic[Priced]):
    """What the searches of one decision share."""

    method: Priced
    """The method."""

    problem: Problem
    """What the decision is made from."""

    cost: CostFunction
    """What a point costs."""

    budget_state: BudgetState
    """What was spent, and what is left; not nothing."""

    beside: tuple[dict[str, Value], ...] = ()
    """Parameterizations that are looked at besides, such as what goes on from earlier trials."""

    target: Mapping[int, float] = field(default_factory=dict)
    """Columns that are at these values where something is deployed, wherever it was tried."""

    @property
    def pays_for_none(self) -> str:
        """That no trial can be paid, as a phrase."""
        if self.budget_state.is_capped:
            return f"no trial is expected to cost at most {self.method.max_trial_cost:g}"
        return "what is left of the budget pays for no trial"

    @cached_property
    def points(self) -> Tensor:
        """``n x d`` valid points all over the space; untried ones, if it can be enumerated."""
        problem = self.problem
        points = problem.space.sobol_points(NUM_POINTS, self.method.seed, problem.held)
        return possible(problem, points).to(problem.evaluated)

    @property
    def boxes(self) -> Tensor:
        """Points that stand for the space: ``points``, or those evaluated where there are none."""
        return self.points if len(self.points) else self.problem.evaluated

    @cached_property
    def kept(self) -> list[tuple[dict[int, float], Tensor]]:
        """Columns that a trial could keep of the one before, each time with points that do."""
        problem, found = self.problem, []
        for row in kept_settings(problem, self.method):
            held = problem.space.columns_of(row)
            try:
                space = problem.space.held_at(row)
            except InputError:  # equality constraints determine something else
                continue
            fixed = {**problem.held, **held}
            points = space.sobol_points(_NUM_KEPT, self.method.seed, fixed)
            points[:, list(held)] = points.new_tensor([*held.values()])
            points = possible(problem, points)
            if len(points):
                found.append((held, points.to(problem.evaluated)))
        return found

    @cached_property
    def starts(self) -> Tensor:
        """All points to choose from where nothing better is found: ``m x d``."""
        return torch.cat([self.points, *(points for _, points in self.kept), self._joint_with])

    @cached_property
    def _joint_with(self) -> Tensor:
        return self.problem.space.encode(list(self.beside)).to(self.problem.evaluated)

    def row_of(self, point: Tensor) -> dict[str, Value]:
        """The parameterization of a point, ``d``; just what it is, if it was looked at besides."""
        same = (self._joint_with == point).all(dim=-1).tolist()
        rows = [row for row, is_it in zip(self.beside, same, strict=True) if is_it]
        return [*rows, *self.problem.space.decode(point.unsqueeze(0))][0]

    @cached_property
    def _constraints(self) -> tuple[OutcomeConstraint, ...]:
        """What a trial has to keep to: the experiment's, and that it does not fail."""
        return (
            *self.problem.constraints,
            *failures_as_constraint(self.problem, self.method.learn_failures),
        )

    @cached_property
    def feasibility(self) -> Feasibility[FunctionalPosterior] | None:
        """The probability that a trial is feasible; None where it certainly is."""
        if not self._constraints:
            return None
        return Feasibility.of(self._constraints, FunctionalPosterior.of)

    @property
    def _log_weight(self) -> Callable[..., Tensor] | None:
        return None if self.feasibility is None else self.feasibility.log_probability

    def index(self, price: float) -> PandoraBoxGittinsIndex:
        """The Gittins index at a price."""
        log_weight = self._log_weight
        if log_weight is not None:
            log_weight = partial(log_weight, least=_LEAST_LOG)
        problem = self.problem
        return PandoraBoxGittinsIndex(
            problem.model,
            self.cost,
            price / problem.scale.unit,
            X_pending=problem.X_pending,
            log_weight=log_weight,
        )

    def best_improvement(self, best_f: float) -> tuple[AcquisitionFunction, Optimum[float] | None]:
        """Improvement per cost, and the affordable trial that has most of it.

        It is noisy expected improvement where the model has found noise. So it is where that has
        seen that there is none, and improvement on the best mean is largest at a trial that was
        made, where nothing is left to gain. Not where the caller fixes parameters, since the
        incumbent was not evaluated there; nor at a price where only repeats are left, as they
        improve on no incumbent.
        """
        problem = self.problem
        repeats = self.method.lmbda is not None and problem.is_exhausted
        takes_mean = problem.held or repeats or not has_factor(problem.model)
        takes_mean = takes_mean or not any(self._can_be_set + self._pending_can_be_set)
        is_noisy = not takes_mean and has_found_noise(problem.model)
        if not is_noisy:
            acquisition: AcquisitionFunction = self.improvement(best_f)
            found = self.best(acquisition)
            takes_mean = takes_mean or has_found_noise(problem.model, _HARDLY)
            if takes_mean or found is None or not self._were_made(found.point):
                return acquisition, found
        acquisition = self._noisy_improvement()
        found = self.best(acquisition)
        if not is_noisy and found is not None and self._were_made(found.point):
            # Nothing is expected anywhere, to rounding: what is new may at least be unexpected.
            new = self.starts[~self._were_made(self.starts)]
            if (limit := self.budget_state.limit) is not None:
                new = new[self.costs(new) <= limit]
            found = self._better(None, new, acquisition) if len(new) else found
        return acquisition, found

    def _were_made(self, points: Tensor) -> Tensor:
        """Whether trials at points ``... x d`` were made or are under way, nearly: ``...``."""
        problem, X = self.problem, self.problem.evaluated
        if problem.X_pending is not None:
            X = torch.cat([X, problem.X_pending])
        ranges = problem.space.bounds.diff(dim=0).to(X)
        near = (points.unsqueeze(-2) - X).abs() <= _NEARLY * ranges
        return near.all(dim=-1).any(dim=-1)

    def _noisy_improvement(self) -> LogNoisyExpectedImprovementPerCost:
        problem = self.problem
        points = [problem.evaluated, *([] if problem.X_pending is None else [problem.X_pending])]
        X, chance = self._deployed(torch.cat(points))
        may_be_best = torch.tensor(self._can_be_set + self._pending_can_be_set, device=X.device)
        is_feasible = None if chance is None else chance >= self.method.feasibility_threshold
        if is_feasible is not None and bool((may_be_best & is_feasible).any()):
            may_be_best &= is_feasible
        return LogNoisyExpectedImprovementPerCost(
            problem.model,
            X,
            self.cost,
            is_feasible=may_be_best,
            log_weight=self._log_weight,
        )

    def improvement(self, best_f: float, exponent: float = 1.0) -> LogExpectedImprovementPerCost:
        """Log expected improvement per cost."""
        model, pending = self.problem.model, self.problem.X_pending
        if self.feasibility is not None or not all(self._pending_can_be_set):
            # The function would take all that is pending for feasible, and for deployable.
            if pending is not None:
                model, best_f = fantasized(model, pending), self.reach(best_f)
            pending = None
        return LogExpectedImprovementPerCost(
            model,
            best_f,
            self.cost,
            exponent,
            X_pending=pending,
            log_weight=self._log_weight,
        )

    def likeliest(self) -> NegativeLogCost:
        """Log probability of being feasible per cost, if what failed or is under way is not."""
        problem = self.problem
        points = self.method.failed_points(problem)
        if problem.X_pending is not None:
            points = torch.cat([points, problem.X_pending])
        violated = points if len(points) else None
        feasibility = Feasibility.of(self._constraints, FunctionalPosterior.of, violated)
        return NegativeLogCost(problem.model, self.cost, feasibility.log_probability)

    @cached_property
    def _can_be_set(self) -> list[bool]:
        """Of each observed trial whether it can be deployed, see ``Problem.is_deployable``."""
        method, problem = self.method, self.problem
        return [method.is_deployable(problem, trial.inputs) for trial in problem.observed]

    @cached_property
    def _pending_can_be_set(self) -> list[bool]:
        """The same of each pending trial."""
        method, problem = self.method, self.problem
        return [method.is_deployable(problem, other.parameters) for other in problem.pending]

    def incumbent(self) -> Optimum[float]:
        """Return the best posterior mean among what was evaluated, less the method's risk aversion.

        Only points in the search space that are feasible count, or the one likeliest to be.
        Where the caller fixes parameters, such as the weather of the day, what counts is what
        the other parameters of these points would do there; and so it is at the target.

        Returns:
            The point as it was evaluated, and the trial that evaluated it. None of the trials where
            none of them can be deployed, as they are out of bounds that were narrowed: then it is
            the best point of the space.
        """
        (rows,) = torch.tensor(self._can_be_set).nonzero(as_tuple=True)
        if not len(rows):
            return self._best_of(self.starts if len(self.starts) else self.boxes, None)
        return self._best_of(self.problem.evaluated[rows], rows)

    def _best_of(self, X: Tensor, trials: Tensor | None) -> Optimum[float]:
        """Return the incumbent of points ``n x d``; ``trials`` are the trials that they are of."""
        problem, risk_aversion, points = self.problem, self.method.risk_aversion, X
        X, chance = self._deployed(X)
        good = None if chance is None else chance >= self.method.feasibility_threshold
        if chance is None or good is None:
            rows = torch.arange(len(X))
        else:
            rows = good.nonzero().flatten() if bool(good.any()) else chance.argmax().reshape(1)
        value, i = incumbent(problem.model, X[rows], risk_aversion=risk_aversion)
        row = int(rows[i])
        trial = None if trials is None else int(trials[row])
        return Optimum(points[row], value, None if chance is None else float(chance[row]), trial)

    def is_feasible(self, found: Optimum[float]) -> bool:
        """Return whether an incumbent is as likely to be feasible as it has to be."""
        return found.feasibility is None or found.feasibility >= self.method.feasibility_threshold

    def _deployed(self, X: Tensor) -> tuple[Tensor, Tensor | None]:
        """Points as they would be deployed, and how likely they are feasible there, if asked."""
        problem = self.problem
        X = at_target(X, {**problem.held, **self.target})
        if problem.held:
            X = problem.space.complete(X)
        return X, None if problem.feasibility is None else problem.feasibility.probability(X)

    def reach(self, best: float) -> float:
        """Return the value of the incumbent, or of the best pending trial if its mean is better."""
        pending, can_be_set = self.problem.X_pending, torch.tensor(self._pending_can_be_set)
        if pending is None or not bool(can_be_set.any()):
            return best
        found = self._best_of(pending[can_be_set], None)
        return max(best, found.value) if self.is_feasible(found) else best

    def costs(self, X: Tensor) -> Tensor:
        """Expected costs at points ``n x d``: ``n``."""
        with torch.no_grad():
            return log_cost_function(self.cost)(X).exp()

    def cost_at(self, point: Tensor) -> float:
        """Expected cost at a point, ``d``."""
        return float(self.costs(point.unsqueeze(0)))

    def best(self, acquisition: AcquisitionFunction) -> Optimum[float] | None:
        """The best affordable point of an acquisition function; None if nothing is affordable."""
        feasibility = self.feasibility
        if feasibility is not None and isinstance(acquisition, PandoraBoxGittinsIndex):
            with torch.no_grad():
                largest = float(acquisition(self.boxes.unsqueeze(-2)).max())
            at = self.best(LogTail(acquisition, largest, feasibility.log_probability, _LEAST_LOG))
            if at is None:
                return None
            with torch.no_grad():
                return replace(at, value=float(acquisition(at.point.reshape(1, 1, -1))))
        # That nothing is worth its cost must not be for want of a good start.
        found = self._better(self._maximum(acquisition), self.starts, acquisition)
        limit = self.budget_state.limit
        if limit is None or self.cost_at(found.point) <= limit:
            return found
        costs = self.costs(self.starts)
        payable = self.starts[costs <= limit]
        if not len(payable):
            if len(costs) and float(costs.min()) == float(costs.max()):
                return None
            cheapest = self._maximum(NegativeLogCost(self.problem.model, self.cost))
            if self.cost_at(cheapest.point) > limit:
                return None
            payable = cheapest.point.unsqueeze(0)
        with ignoring_line_search_failures():  # at the bend of the penalty
            found = self._maximum(CostLimited(acquisition, self.cost, limit, self.starts))
        # The margin of the penalty turns away what costs just what is left; the points do not.
        affordable = found if self.cost_at(found.point) <= limit else None
        return replace(self._better(affordable, payable, acquisition), is_restricted=True)

    def _maximum(self, acquisition: AcquisitionFunction) -> Optimum[float]:
        options, immovable = self.method.search_options, self.problem.immovable
        found = self.problem.maximize(acquisition, options)
        # Where equality constraints determine columns, there are the points that keep them besides.
        for held, _ in self.kept if self.problem.space.elimination is None else ():
            if len({*held, *immovable}) < len(found.point):
                other = self.problem.maximize(acquisition, options, held)
                found = other if other.value > found.value else found
        return Optimum(found.point.to(self.points), found.value)

    def _better(
        self, found: Optimum[float] | None, points: Tensor, acquisition: AcquisitionFunction
    ) -> Optimum[float]:
        """The best of ``points``, or what was found if that is at least as good."""
        if found is not None and not len(points):
            return found
        with torch.no_grad():
            values = acquisition(points.unsqueeze(-2))
        best = int(values.argmax())
        if found is not None and found.value >= float(values[best]):
            return found
        return Optimum(points[best], float(values[best]))

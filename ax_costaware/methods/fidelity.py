"""Short runs that speak for long ones: inputs and fidelity of a trial, by what it tells per cost.

Some parameters are fidelities: the epochs of a training, the part of the data, the mesh of a
simulation. What is wanted are the inputs whose outcome is best at the fidelities' target, and a
trial elsewhere is worth what it tells of that, over its cost; see
``acquisition/target_fidelity.py``. The model learns how far other fidelities can be trusted, see
``models/fidelity_gp.py``. Costs and the budget are in the user's own unit of cost; ``lmbda`` is in
raw units of the objective per unit of cost.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, TypeGuard

import torch
from torch import Tensor

from ax_costaware.acquisition import LogTargetImprovementPerCost, Optimum
from ax_costaware.acquisition.feasibility import Feasibility
from ax_costaware.acquisition.target_fidelity import at_target, told_of_target
from ax_costaware.argument_checks import boolean, check_fields, plain_value
from ax_costaware.core.account import expected_costs
from ax_costaware.core.failures import failures_as_constraint
from ax_costaware.core.history import PastTrial
from ax_costaware.core.model import ARGUMENT, FixedHyperparameters, ModelOptions
from ax_costaware.core.problem import Decision, Problem, SpaceExhausted, Stop, feasibility_text
from ax_costaware.core.switching import next_cost
from ax_costaware.costs.cost_model import CostFunction, ResumedCost
from ax_costaware.costs.switching_cost import is_same
from ax_costaware.exceptions import InputError
from ax_costaware.methods.continuations import (
    LEAST,
    SEARCHED,
    continuations,
    continued_trial,
    resumable,
)
from ax_costaware.methods.gittins.rules import ImprovementPerCostStop
from ax_costaware.methods.gittins.search import Search, ignoring_line_search_failures
from ax_costaware.methods.priced import PricedMethod
from ax_costaware.models import FidelityGP, FunctionalPosterior
from ax_costaware.space.parameters import Fixed, Row, Value, takes
from ax_costaware.space.space import Space

AT_TARGET, ELSEWHERE = "at the target", "at other fidelities"
"""What spending is grouped by."""


@dataclass(frozen=True)
class MultiFidelity(PricedMethod):
    """What the fidelity strategy was asked to do.

    Raises:
        InputError: On construction, when a field has a value that the method cannot use.
    """

    factory: ClassVar[str] = "fidelity_strategy"

    label: ClassVar[str] = "MultiFidelity"

    risk_aversion: ClassVar[float] = 0.5

    should_stop_unsupported: ClassVar[str | None] = "of several fidelities"

    target: Mapping[str, Value] = field(kw_only=True)
    """Parameters that are fidelities, with their values at the target."""

    resumes: bool = field(default=False, kw_only=True)
    """Whether a trial goes on from an earlier one of its inputs, and costs what is new."""

    def __post_init__(self) -> None:
        expected = "a mapping from the names of the fidelities to their values at the target"
        if not isinstance(self.target, Mapping) or not self.target:
            raise InputError(f"target={self.target!r}: expected {expected}.")
        target = {name: plain_value(value) for name, value in self.target.items()}
        for name, value in target.items():
            is_one = isinstance(value, str | bool) or (_is_number(value) and math.isfinite(value))
            if not isinstance(name, str) or not is_one:
                raise InputError(
                    f"target={dict(self.target)!r}: expected {expected}, as {{'epochs': 100}}."
                )
        object.__setattr__(self, "target", target)
        check_fields(self, resumes=boolean)
        super().__post_init__()

    def progress_parameter(self, ranges: Collection[str]) -> str | None:
        """The fidelity that is a range of numbers; None where there are several."""
        found = [name for name in self.target if name in ranges]
        return found[0] if len(found) == 1 else None

    def check(self, problem: Problem) -> None:
        """Refuse an experiment without these fidelities, or in which they are no free choice."""
        self._check_target(problem.space)
        super().check(problem)

    def check_outcomes(self, problem: Problem) -> None:
        """Refuse a fidelity that is fixed elsewhere, since the target is what is deployed."""
        names = self.target.keys() & (problem.fixed.keys() - {*problem.disabled})
        given = {name: problem.fixed[name] for name in sorted(names)}
        if any(not is_same(value, self.target[name]) for name, value in given.items()):
            raise InputError(
                f"fixed_parameters has {given}: expected other parameters, or the target "
                f"{dict(self.target)}, which is what is deployed."
            )

    def _check_target(self, space: Space) -> None:
        for name, value in self.target.items():
            shown = f"target={dict(self.target)!r}: {name!r}"
            parameter = space.parameters.get(name)
            if parameter is None:
                raise InputError(f"{shown} is no parameter: expected some of {space.names}.")
            if isinstance(parameter, Fixed):
                raise InputError(f"{shown} has one value only: expected a range or a choice.")
            if not takes(parameter, value):
                raise InputError(f"{shown} is {value!r}: expected a value of {parameter}.")
            if any(name in weights for weights, _ in (*space.sums, *space.equalities)):
                raise InputError(
                    f"{shown} is in a parameter constraint, which inputs that are tried elsewhere "
                    "need not meet at the target: expected constraints on other parameters."
                )
        if not space.columns.keys() - self.target.keys():
            raise InputError(
                f"target={dict(self.target)!r} has all parameters of the experiment: expected "
                "others to choose, too."
            )
        if self.resumes and self.progress_parameter(space.ranges) is None:
            raise InputError(
                f"resumes=True with target={dict(self.target)!r}: expected one fidelity that is a "
                "number, with a range, to go on in."
            )

    def reserved(self, problem: Problem, initial: bool) -> list[float]:
        """What undelivered decisions are expected to cost, which may go on from earlier trials."""
        costs = super().reserved(problem, initial)
        first = len(problem.pending) - len(costs)
        for i, row in enumerate(problem.earlier_in_batch if self.resumes and not initial else ()):
            before = replace(problem, pending=problem.pending[: first + i])
            if earlier := continued_trial(self, before, row):
                # Where costs are learned more of the fidelity may be taken to cost less.
                (paid,) = expected_costs(self, problem, [earlier.inputs])
                costs[i] = max(costs[i] - (paid or 0.0), 0.0)
        return costs

    def cost_as_run(self, trial: PastTrial, trials: Sequence[PastTrial]) -> float | None:
        """What a trial costs by the fidelity that it has come to, where it reported its progress.

        Less what the trial had come to that it goes on from, unless it has come no farther itself,
        and so began anew; None where costs are learned.
        """
        names = [n for n, v in self.target.items() if n in trial.realized and _is_number(v)]
        if not names or (whole := self.cost_at(trial.inputs)) is None:
            return None

        def is_less(row: Row) -> bool:
            return any(float(str(row[n])) < float(str(trial.inputs[n])) for n in names)

        earlier = [other.inputs for other in trials if other.index == trial.resumes_trial]
        before = [self.cost_at(row) or 0.0 for row in earlier]
        saved = (c for c, row in zip(before, earlier, strict=True) if is_less(row))
        spared = math.fsum(saved)
        came_to = max(whole - spared, LEAST * spared)  # a cost may fall with the fidelity
        # An earlier strategy may have had other costs: then it is that part of what was expected.
        asked = trial.record.get("expected_cost") if trial.decided_at(self.cost_metric) else None
        due = (self.cost_at(trial.parameters) or 0.0) - math.fsum(before)
        if asked is None or not due > 0:
            return came_to
        asked -= trial.record.get("switching_cost", 0.0)
        return came_to if math.isclose(asked, due) else came_to * asked / due

    def columns(self, problem: Problem) -> dict[int, float]:
        """The columns of the fidelities, with their values at the target."""
        return problem.space.columns_of(self.target)

    def group_of(self, parameters: Row) -> str:
        """A trial is spent at the target or elsewhere."""
        return AT_TARGET if self.is_target(parameters) else ELSEWHERE

    def groups(self) -> Sequence[str]:
        """At the target, and elsewhere."""
        return AT_TARGET, ELSEWHERE

    def is_target(self, parameters: Row) -> bool:
        """Whether a trial is at the target."""
        return self.target.keys() <= parameters.keys() and all(
            math.isclose(float(str(parameters[name])), value, rel_tol=1e-9)
            if _is_number(value)
            else parameters[name] == value
            for name, value in self.target.items()
        )

    def model(self, given: FixedHyperparameters | ModelOptions | None = None) -> ModelOptions:
        """Nothing that is given: the model follows from the fidelities, see ``current_model``."""
        if given is not None:
            raise InputError(
                f"{ARGUMENT}={given!r}: the model of trials at several fidelities is the "
                "method's own; expected None."
            )
        return ModelOptions()

    def current_model(self, problem: Problem) -> ModelOptions:
        """A Gaussian process whose bias vanishes at the target."""
        self._check_target(problem.space)
        fidelities = [problem.space.columns_of({name: self.target[name]}) for name in self.target]
        # What a run has of its own would have it that going on tells less than beginning anew.
        own = {"own": not self.resumes}
        options = {"fidelities": fidelities, "bounds": problem.space.bounds, **own}
        return ModelOptions("FidelityGP", FidelityGP, options, normalizes=False)

    def decide(self, problem: Problem) -> Decision | Stop:
        """The trial that tells most of the best at the target per cost; or that none is worth it.

        With outcome constraints a trial counts as far as it is likely to show that its inputs keep
        to them at the target: a fidelity that says nothing of them is worth nothing, as the inputs
        could not be deployed after it either.
        """
        cost: CostFunction = self.trial_costs(problem)
        weighed, earlier = cost, None
        if self.resumes:
            name = str(self.progress_parameter(problem.space.ranges))
            earlier = resumable(problem, name)
            weighed = ResumedCost(cost, problem.space, name, SEARCHED)
            cost = ResumedCost(cost, problem.space, name, LEAST)
        cost, weighed = (
            next_cost(self, problem, each, resumable=earlier) for each in (cost, weighed)
        )
        beside = continuations(self, problem) if self.resumes else ()
        target = self.columns(problem)
        search = Search(self, problem, cost, self.budget_state(problem), tuple(beside), target)
        incumbent = search.incumbent()
        if not search.budget_state.pays(None):
            return self._stop(search, "the budget is used up")
        best = search.reach(incumbent.value) if search.is_feasible(incumbent) else None
        worth = LogTargetImprovementPerCost(
            problem.model,
            target,
            best,
            weighed,
            self._log_weight(problem),
            X_pending=problem.X_pending,
            risk_aversion=self.risk_aversion,
        )
        try:
            with ignoring_line_search_failures():  # next to what was tried the logarithm falls
                found = search.best(worth)
        except SpaceExhausted:
            return self._stop(search, SpaceExhausted.REASON)
        if found is None:
            return self._stop(search, search.pays_for_none)
        # That a trial is worth its cost was said before it came back to one that runs.
        is_asked = bool(problem.earlier_in_batch) or not problem.known
        if self.lmbda is not None and best is not None and is_asked:
            log_gain = found.value + math.log(problem.scale.unit)
            stops, reason = ImprovementPerCostStop().decide(log_gain, self.lmbda)
            if stops:
                return replace(self._stop(search, reason), is_final=False)
        return self._decision(search, worth, found, incumbent)

    def deployed(self, parameters: Row) -> Row:
        """Its inputs at the target, whether or not a trial there was run.

        They are compared by their posterior mean there, less ``risk_aversion`` standard deviations.
        """
        # A whole number is one as the trial has it: 100 for a target of 100.0.
        kinds: dict[str, Any] = {name: type(value) for name, value in parameters.items()}
        return {**parameters, **{name: kinds[name](v) for name, v in self.target.items()}}

    def _log_weight(self, problem: Problem) -> Callable[[Tensor], Tensor] | None:
        """Log chance that the trial shows its inputs to be feasible at the target, and succeeds."""
        constraints, target = problem.constraints, self.columns(problem)
        failures = failures_as_constraint(problem, self.learn_failures)
        if not (constraints or failures):
            return None
        succeeds = Feasibility.of(failures, FunctionalPosterior.of).log_probability
        shows = Feasibility.of(
            constraints, partial(FunctionalPosterior.of, X_pending=problem.X_pending)
        ).over(lambda posterior: partial(told_of_target, posterior, target=target))

        def log_weight(X: Tensor) -> Tensor:
            # It may fail on the way to the target, or there.
            log_success = succeeds(X) + succeeds(at_target(X, target))
            return log_success + shows.log_probability_shown(X, self.feasibility_threshold)

        return log_weight

    def _decision(
        self,
        search: Search[Any],
        worth: LogTargetImprovementPerCost,
        found: Optimum[float],
        incumbent: Optimum[float],
    ) -> Decision:
        """The next trial, with what is stored of it."""
        problem, X = search.problem, found.point.unsqueeze(0)
        row = search.row_of(found.point)
        if self.is_target(row):
            row |= {n: v for n, v in self.target.items() if n in problem.space.ranges}
        earlier = continued_trial(self, problem, row) if self.resumes else None
        with torch.no_grad():
            mean, variance, share = (float(moment[0]) for moment in worth.moments(X))
        mean, variance = problem.scale.moments(mean, variance)
        trial = None if incumbent.trial is None else problem.observed[incumbent.trial].index
        declared = self.cost_at(row)
        if earlier is not None and declared is not None:
            declared -= self.cost_at(earlier.inputs) or 0.0
        declared = self.with_switching_cost(problem, row, declared)
        if declared is None or declared <= 0:
            declared = search.cost_at(found.point)
        gain = None if worth.best_f is None else problem.scale.unit * math.exp(found.value)
        why = self._why(problem, row, gain, share**0.5, incumbent)
        if earlier is not None:
            why += f" It goes on from trial {earlier.index}."
        probabilities: dict[str, float | None] = {}
        if problem.feasibility is not None:
            chance = problem.feasibility.probability(at_target(X, worth.target))
            probabilities = {
                "feasibility": float(chance),
                "incumbent_feasibility": incumbent.feasibility,
            }
        return Decision(
            parameters=row,
            why=why,
            expected_cost=declared,
            details={
                "improvement_per_cost": gain,
                "correlation": share**0.5,
                "mean": mean,
                "standard_deviation": variance**0.5,
                "incumbent": problem.scale.from_model(incumbent.value),
                "incumbent_trial": trial,
                "lambda": self.lmbda,
                **probabilities,
                **search.budget_state.record(),
            },
            extra={} if earlier is None else {"resumes_trial": earlier.index},
            value=found.value,
        )

    def _why(
        self,
        problem: Problem,
        row: Row,
        gain: float | None,
        correlation: float,
        incumbent: Optimum[float],
    ) -> str:
        """The reason of a decision, in sentences; arguments as of ``_decision``."""
        target = _shown(self.target)
        told = f"Its outcome has a correlation of {correlation:.3g} with that at {target}."
        if self.is_target(row):
            told = f"It is at the target, {target}."
        named = "a point that was not tried"
        if incumbent.trial is not None:
            named = f"the inputs of trial {problem.observed[incumbent.trial].index}"
        if gain is None:
            chance = f"{incumbent.feasibility:.3g}"
            return (
                f"No inputs are feasible at {target} with a probability of "
                f"{self.feasibility_threshold:g} yet; this trial tells most of such as it is "
                f"likely to show to be, per cost. The likeliest so far, {named}, have a "
                f"probability of {chance}. {told}"
            )
        best = f"{problem.scale.from_model(incumbent.value):.6g}"
        return (
            f"It is expected to improve what can be counted on at {target} by {gain:.3g} per unit "
            f"of cost, more than any other. {told} That is {best} so far, "
            f"{self.risk_aversion:g} standard deviations from the mean of {named}."
        )

    def _stop(self, search: Search[Any], reason: str) -> Stop:
        """That there is no further trial, what was saved, and what to deploy."""
        best = self.recommend(search.problem)[0]
        was_run = f"trial {best.trial_index}" if best.trial_index is not None else "not tried there"
        return Stop(
            f"Stopped: {reason}. {search.budget_state.summary}. Deploy {_shown(best.parameters)} "
            f"({was_run}): expected value {best.mean:.6g}, standard deviation "
            f"{best.standard_deviation:.3g}{feasibility_text(best.feasibility)}."
        )


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _shown(row: Row) -> str:
    """Values as words."""
    return ", ".join(f"{name}={value!r}" for name, value in row.items())

"""Multi-fidelity optimization: inputs and fidelity of a trial by the knowledge gradient per cost.

Some parameters are fidelities: the epochs of a training, the part of the data, the mesh of a
simulation. The goal is the best outcome at the fidelities' target values. A trial at other
fidelities has the value of what it reveals about the target, see
``acquisition/target_fidelity.py``. The model learns how strongly other fidelities are correlated
with the target, see ``models/fidelity_gp.py``. Costs and the budget are in the user's own unit of
cost; ``lmbda`` is in raw units of the objective per unit of cost, or a ``StandardizedPrice``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, TypeGuard

import torch
from torch import Tensor

from ax_costaware.acquisition import LogTargetImprovementPerCost, Optimum
from ax_costaware.acquisition.feasibility import Feasibility
from ax_costaware.acquisition.target_fidelity import at_target, target_moments
from ax_costaware.argument_checks import (
    boolean,
    check_fields,
    nonempty_string,
    optional,
    plain_value,
)
from ax_costaware.core.failures import failures_as_constraint, success_weight
from ax_costaware.core.history import PastTrial
from ax_costaware.core.model import ARGUMENT, GivenModel, ModelOptions
from ax_costaware.core.problem import (
    Best,
    Decision,
    Problem,
    SpaceExhausted,
    Stop,
    feasibility_text,
)
from ax_costaware.core.switching import next_cost
from ax_costaware.core.traits import Groups, Traits
from ax_costaware.costs.cost_model import CostFunction, ResumedCost
from ax_costaware.costs.switching_cost import is_same
from ax_costaware.exceptions import InputError
from ax_costaware.methods.continuations import (
    MIN_COST_SHARE,
    SEARCH_COST_SHARE,
    continuations,
    continued_trial,
    resumable,
)
from ax_costaware.methods.cost_aware.repeats import (
    check_candidates,
    check_repeats,
    distinct_inputs,
    evaluated_again,
    few_repeats,
    pooled_text,
    repeats_key,
    repeats_options,
)
from ax_costaware.methods.cost_aware.rules import ImprovementPerCostStop
from ax_costaware.methods.cost_aware.search import Search, ignoring_line_search_failures
from ax_costaware.methods.priced import PricedCosts, PricedMethod, StandardizedPrice
from ax_costaware.models import FidelityGP, FunctionalPosterior
from ax_costaware.space.parameters import Fixed, Row, Value, takes
from ax_costaware.space.space import Space

AT_TARGET, ELSEWHERE = "at the target", "at other fidelities"
"""Groups of spending."""


@dataclass(frozen=True, kw_only=True)
class MultiFidelity(PricedMethod):
    """Knowledge gradient per cost at the target fidelity.

    Raises:
        InputError: On construction, when a field has a value that the method cannot use.
    """

    factory: ClassVar[str] = "fidelity_strategy"

    target: Mapping[str, Value] = field(kw_only=False)
    """The parameters that are fidelities, with their values in the deployed point:
    ``{"epochs": 100}``. They are ranges, on any scale, or choices, ordered or not. A trial at the
    target may cost more than ``max_trial_cost``."""

    lmbda: float | StandardizedPrice | None = None
    """Value of one unit of cost, in units of the objective. If no trial has an expected gain at the
    target above the price of its cost, the run ends. None: only the budget ends a run."""

    resumes: bool = False
    """A trial with the inputs of a completed one and a higher fidelity resumes it, as a training
    does from its checkpoint, and costs only what is new. The resumed trial is
    ``query(client, i).resumes_trial``; a reported ``cost`` is also that of the new part. This needs
    one fidelity that is a number, with a range."""

    repeats: str | None = None
    """Integer parameter that counts the repeats of a trial, such as ``"folds"``. A trial reports
    the mean of its repeats: the objective does not depend on their number ``n``, the noise variance
    is ``sigma^2 / n``, and the cost may depend on it. Inputs, fidelities and repeats are chosen
    together. A trial may be at inputs that were tried; results are pooled. None: trials are
    measured once. Not together with ``resumes``."""

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
        check_fields(self, resumes=boolean, repeats=optional(nonempty_string))
        if self.repeats is not None and self.resumes:
            raise InputError(
                f"repeats={self.repeats!r} with resumes=True: trials with other numbers of repeats "
                "have other checkpoints. Expected one of both."
            )
        if self.repeats in target:
            raise InputError(
                f"repeats={self.repeats!r} is in target={target!r}: repeats have no target, since "
                "what is deployed does not depend on them."
            )
        super().__post_init__()
        check_candidates(self.repeats, self.candidates)

    @property
    def traits(self) -> Traits:
        """A fidelity may be the step of learning curves; deployment avoids risk."""
        return replace(
            super().traits,
            label="MultiFidelity",
            risk_aversion=0.5,
            should_stop_unsupported="of several fidelities",
            progress=tuple(self.target),
            repeats=self.repeats,
            may_repeat=self.repeats is not None,
            groups=Groups((AT_TARGET, ELSEWHERE), self._group_of),
        )

    def check(self, problem: Problem) -> None:
        """Refuse an experiment in which a fidelity is missing, fixed or constrained.

        Also refuse a table in which some inputs have no row at the target.
        """
        self._check_target(problem.space)
        if self.repeats is not None:
            check_repeats(self.repeats, problem, self.target)
        self._check_candidates()
        super().check(problem)

    def check_outcomes(self, problem: Problem) -> None:
        """Refuse a fidelity that is fixed at another value than the target."""
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
            if name in space.constrained:
                raise InputError(
                    f"{shown} is in a parameter constraint, which inputs that are tried elsewhere "
                    "need not meet at the target: expected constraints on other parameters."
                )
        if not space.columns.keys() - self.target.keys():
            raise InputError(
                f"target={dict(self.target)!r} has all parameters of the experiment: expected "
                "others to choose, too."
            )
        if self.resumes and self.traits.progress_parameter(space.ranges) is None:
            raise InputError(
                f"resumes=True with target={dict(self.target)!r}: expected one fidelity that is a "
                "number, with a range, to go on in."
            )

    def _check_candidates(self) -> None:
        candidates = self.candidates
        if candidates is None or self.target.keys().isdisjoint(candidates.names):
            return
        target = {name: value for name, value in self.target.items() if name in candidates.names}
        for i in range(len(candidates)):
            if candidates.find({**candidates.row(i), **target}) is None:
                raise InputError(
                    f"candidates has {candidates.row(i)} in row {i}, and no row at the target "
                    f"{target} with these inputs: expected one, so that they can be deployed."
                )

    @property
    def trial_costs(self) -> FidelityCosts:
        """Costs of trials by ``cost``, of which a resumed trial pays only what is new."""
        return FidelityCosts.of(self)

    def columns(self, problem: Problem) -> dict[int, float]:
        """Return the columns of the fidelities, with their values at the target."""
        return problem.space.columns_of(self.target)

    def _group_of(self, parameters: Row) -> str:
        """Return the group of a trial: at the target, or at other fidelities."""
        return AT_TARGET if self.is_target(parameters) else ELSEWHERE

    def is_target(self, parameters: Row) -> bool:
        """True if a trial is at the target."""
        return self.target.keys() <= parameters.keys() and all(
            math.isclose(float(str(parameters[name])), value, rel_tol=1e-9)
            if _is_number(value)
            else parameters[name] == value
            for name, value in self.target.items()
        )

    def model(
        self, given: GivenModel = None, problem: Problem | None = None, metric: str | None = None
    ) -> ModelOptions:
        """Return a ``FidelityGP``, a Gaussian process whose bias vanishes at the target."""
        if given is not None:
            raise InputError(
                f"{ARGUMENT}={given!r}: the model of trials at several fidelities is the "
                "method's own; expected None."
            )
        if problem is None:
            return ModelOptions()
        self._check_target(problem.space)
        fidelities = [problem.space.columns_of({name: self.target[name]}) for name in self.target]
        # A per-configuration effect would make resuming a run less informative than a new one.
        options = repeats_options(self.repeats, problem, metric)
        key = repeats_key(options)
        options |= {"fidelities": fidelities, "bounds": problem.space.bounds}
        options |= {"own": not self.resumes}
        return ModelOptions("FidelityGP", FidelityGP, options, normalizes=False, key=key)

    def initial(self, problem: Problem) -> Decision | Stop | None:
        """Return the next trial of the initial design, with one or two repeats."""
        if (name := self.repeats) is not None:
            drawn = iter(problem.draw, None)
            few = (one for row in drawn for one in few_repeats(name, problem, row))
            problem = replace(problem, draw=partial(next, few))
        return super().initial(problem)

    def recommend(self, problem: Problem) -> list[Best]:
        """Return distinct inputs at the target, best first, whatever their repeats."""
        return distinct_inputs(self.repeats, super().recommend(problem))

    def decide(self, problem: Problem) -> Decision | Stop:
        """Return the trial of the largest knowledge gradient per cost, or the reason to stop.

        With outcome constraints, the gain is weighted by the probability that the trial shows its
        inputs to be feasible at the target. A fidelity that is uncorrelated with a constraint
        therefore has no value: the inputs could not be deployed after it.
        """
        cost: CostFunction | None = self.trial_costs.model(problem)
        assert cost is not None
        search_cost, earlier = cost, None
        if self.resumes:
            name = str(self.traits.progress_parameter(problem.space.ranges))
            earlier = resumable(problem, name)
            search_cost = ResumedCost(cost, problem.space, name, SEARCH_COST_SHARE)
            cost = ResumedCost(cost, problem.space, name, MIN_COST_SHARE)
        cost = next_cost(self, problem, cost, resumable=earlier)
        search_cost = next_cost(self, problem, search_cost, resumable=earlier, is_compared=True)
        extra = evaluated_again(self.repeats, problem, self.target)
        if self.resumes:
            extra = tuple(continuations(self, problem))
        target = self.columns(problem)
        search = Search(self, problem, cost, self.budget_state(problem), extra, target)
        incumbent = search.incumbent()
        if not search.budget_state.pays(None):
            return self._stop(search, "the budget is used up")
        best = (
            search.best_f_with_pending(incumbent.value) if search.is_feasible(incumbent) else None
        )
        acquisition = LogTargetImprovementPerCost(
            problem.model,
            target,
            best,
            search_cost,
            self._log_weight(problem),
            X_pending=problem.X_pending,
            risk_aversion=self.traits.risk_aversion,
        )
        try:
            with ignoring_line_search_failures():  # the logarithm falls steeply near trials
                found = search.maximize_affordable(acquisition)
        except SpaceExhausted:
            return self._stop(search, SpaceExhausted.REASON)
        if found is None:
            return self._stop(search, search.unaffordable_reason)
        # With ``known`` points the decision is made again because the first one would have
        # repeated a pending trial; the rule was applied then.
        is_asked = bool(problem.earlier_in_batch) or not problem.known
        price = self.given_lambda(problem)
        if price is not None and best is not None and is_asked:
            log_gain = found.value + math.log(problem.scale.unit)
            stops, reason = ImprovementPerCostStop().decide(log_gain, price)
            if stops:
                return replace(self._stop(search, reason), is_final=False)
        return self._decision(search, acquisition, found, incumbent)

    def deployed(self, problem: Problem, inputs: Row) -> Row | None:
        """Return the trial's inputs at the target, where no trial need have been run.

        Inputs are compared by their posterior mean at the target, less ``risk_aversion`` standard
        deviations.
        """
        # Keep the parameter's type: the integer 100 for a target of 100.0.
        kinds: dict[str, Any] = {name: type(value) for name, value in inputs.items()}
        target = {name: kinds[name](value) for name, value in self.target.items()}
        row = super().deployed(problem, {**inputs, **target})
        return None if row is None else {**row, **target}

    def _log_weight(self, problem: Problem) -> Callable[[Tensor], Tensor] | None:
        """Return the log probability that a trial succeeds and shows its inputs to be feasible."""
        constraints, target = problem.constraints, self.columns(problem)
        failures = failures_as_constraint(problem, self.learn_failures)
        if not (constraints or failures):
            return None
        _, succeeds = success_weight(failures, problem.evaluated)
        shows = Feasibility.of(
            constraints, partial(FunctionalPosterior.of, X_pending=problem.X_pending)
        ).over(lambda posterior: partial(target_moments, posterior, target=target))

        def log_weight(X: Tensor) -> Tensor:
            # A run may fail at the fidelity of the trial, or later at the target.
            log_success = succeeds(X) + succeeds(at_target(X, target))
            return log_success + shows.log_probability_shown(X, self.feasibility_threshold)

        return log_weight

    def _decision(
        self,
        search: Search[Any],
        acquisition: LogTargetImprovementPerCost,
        found: Optimum[float],
        incumbent: Optimum[float],
    ) -> Decision:
        """Return the next trial with its record."""
        problem, X = search.problem, found.point.unsqueeze(0)
        row = search.row_of(found.point)
        if self.is_target(row):
            row |= {n: v for n, v in self.target.items() if n in problem.space.ranges}
        earlier = continued_trial(self, problem, row) if self.resumes else None
        with torch.no_grad():
            mean, variance, share = (float(moment[0]) for moment in acquisition.moments(X))
        mean, variance = problem.scale.moments(mean, variance)
        trial = None if incumbent.trial is None else problem.observed[incumbent.trial].index
        declared = self.cost_at(row)
        if earlier is not None and declared is not None:
            declared -= self.cost_at(earlier.inputs) or 0.0
        declared = self.with_switching_cost(problem, row, declared)
        if declared is None or declared <= 0:
            declared = search.cost_at(found.point)
        gain = None if acquisition.best_f is None else problem.scale.unit * math.exp(found.value)
        why = self._why(problem, row, gain, share**0.5, incumbent)
        if earlier is not None:
            why += f" It goes on from trial {earlier.index}."
        why += pooled_text(self.repeats, problem, row)
        probabilities: dict[str, float | None] = {}
        if problem.feasibility is not None:
            at = at_target(X, acquisition.target)
            probabilities = {
                "feasibility": float(problem.feasibility.probability(at)),
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
                "lambda": self.given_lambda(problem),
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
        """Return the reason of a decision, in sentences; see ``_decision`` for the arguments."""
        target = _shown(self.target)
        fidelity = f"Its outcome has a correlation of {correlation:.3g} with that at {target}."
        if self.is_target(row):
            fidelity = f"It is at the target, {target}."
        named = "a point that was not tried"
        if incumbent.trial is not None:
            named = f"the inputs of trial {problem.observed[incumbent.trial].index}"
        if gain is None:
            return (
                f"No inputs are feasible at {target} with a probability of "
                f"{self.feasibility_threshold:g} yet; this trial is the most informative one per "
                f"cost, weighted by the probability that it shows its inputs to be feasible. The "
                f"likeliest inputs so far, {named}, have a probability of "
                f"{incumbent.feasibility:.3g}. {fidelity}"
            )
        best = f"{problem.scale.from_model(incumbent.value):.6g}"
        return (
            f"Its expected improvement of the best bound at {target} is {gain:.3g} per unit of "
            f"cost, more than that of any other trial. {fidelity} The best bound so far is {best}, "
            f"{self.traits.risk_aversion:g} standard deviations from the mean of {named}."
        )

    def _stop(self, search: Search[Any], reason: str) -> Stop:
        """Return the reason to stop, the budget that is left, and what to deploy."""
        best = self.recommend(search.problem)[0]
        was_run = f"trial {best.trial_index}" if best.trial_index is not None else "not tried there"
        return Stop(
            f"Stopped: {reason}. {search.budget_state.summary}. Deploy {_shown(best.parameters)} "
            f"({was_run}): expected value {best.mean:.6g}, standard deviation "
            f"{best.standard_deviation:.3g}{feasibility_text(best.feasibility)}."
        )


@dataclass(frozen=True)
class FidelityCosts(PricedCosts):
    """Costs of trials that may resume others, and may end at a lower fidelity than planned."""

    method: MultiFidelity
    """The method."""

    def reserved(self, problem: Problem, initial: bool) -> list[float]:
        """Return the expected costs of undelivered decisions, less those of resumed trials."""
        costs = super().reserved(problem, initial)
        first = len(problem.pending) - len(costs)
        for i, row in enumerate(
            problem.earlier_in_batch if self.method.resumes and not initial else ()
        ):
            before = replace(problem, pending=problem.pending[: first + i])
            if earlier := continued_trial(self.method, before, row):
                # A learned cost may fall with the fidelity.
                (paid,) = self.expected(problem, [earlier.inputs])
                costs[i] = max(costs[i] - (paid or 0.0), 0.0)
        return costs

    def as_run(self, trial: PastTrial, trials: Sequence[PastTrial]) -> float | None:
        """Return the declared cost of a trial at the fidelity that it has reached.

        The cost of the trial that it resumes is subtracted, unless the trial has come no farther
        than that one, and so began anew. None if costs are learned, or if no progress was reported.
        """
        method = self.method
        names = [n for n, v in method.target.items() if n in trial.realized and _is_number(v)]
        if not names or (whole := method.cost_at(trial.inputs)) is None:
            return None

        def is_less(row: Row) -> bool:
            return any(float(str(row[n])) < float(str(trial.inputs[n])) for n in names)

        earlier = [other.inputs for other in trials if other.index == trial.resumes_trial]
        before = [method.cost_at(row) or 0.0 for row in earlier]
        saved = (c for c, row in zip(before, earlier, strict=True) if is_less(row))
        spared = math.fsum(saved)
        came_to = max(whole - spared, MIN_COST_SHARE * spared)  # a cost may fall with the fidelity
        # If the cost has changed since the decision, scale the cost that was expected then.
        then = trial.record.get("expected_cost") if trial.decided_at(self.metric) else None
        due = (method.cost_at(trial.parameters) or 0.0) - math.fsum(before)
        if then is None or not due > 0:
            return came_to
        then -= trial.record.get("switching_cost", 0.0)
        return came_to if math.isclose(then, due) else came_to * then / due


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _shown(row: Row) -> str:
    """Return values as text."""
    return ", ".join(f"{name}={value!r}" for name, value in row.items())

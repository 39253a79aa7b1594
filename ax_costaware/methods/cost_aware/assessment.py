"""Decision of the cost-aware methods: the next trial, and whether it is worth its cost.

``assess`` works in four steps: find the incumbent, find the price of a unit of cost (lambda),
maximize the acquisition function over affordable points, ask the stopping rule. It is called by the
loop, by ``should_stop``, and by the stopping rule for other strategies. Inside, values are on the
scale of the model; an ``Assessment`` is in the objective's own unit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from torch import Tensor

from ax_costaware.acquisition import LogNoisyExpectedImprovementPerCost, Optimum
from ax_costaware.acquisition.knowledge_gradient import LogKnowledgeGradientPerCost
from ax_costaware.core.account import BudgetState
from ax_costaware.core.problem import Decision, Problem, SpaceExhausted, Stop, feasibility_text
from ax_costaware.core.switching import next_cost
from ax_costaware.costs.cost_model import SAME_VALUE, whole_cost
from ax_costaware.methods.cost_aware.prices import (
    LAMBDA_HELD,
    PER_MEAN_COST,
    is_provisional,
    lambda_in_force,
    relative_lambda,
)
from ax_costaware.methods.cost_aware.repeats import (
    evaluated_again,
    maximize_knowledge_per_cost,
    pooled_text,
)
from ax_costaware.methods.cost_aware.rules import ImprovementPerCostStop
from ax_costaware.methods.cost_aware.search import EI_PER_COST, GITTINS, Search
from ax_costaware.models import FunctionalPosterior, LogNormalCostModel
from ax_costaware.space.parameters import Value

if TYPE_CHECKING:
    from ax_costaware.methods.cost_aware import CostAware, StopRule


_PRICE_UNKNOWN = (
    "fewer than two different outcomes are known, which is too little to find a price from a budget"
)


_NONE_FEASIBLE = "No trial is as likely to be feasible as it has to be; the likeliest is"


@dataclass(frozen=True)
class Assessment:
    """The next trial, the incumbent that it is compared with, and whether to stop."""

    budget_state: BudgetState
    """Budget spent and left."""

    incumbent: float
    """Value of the incumbent: posterior mean less ``risk_aversion`` standard deviations."""

    incumbent_trial: int | None
    """The trial that evaluated it. None if the caller fixes other values of parameters, or if no
    trial with an outcome is in the search space."""

    incumbent_parameters: dict[str, Value]
    """Realized parameterization of the incumbent."""

    reason: str = ""
    """Reason to stop or to go on, as a phrase; empty if no rule was applied."""

    stop: bool = True
    """True if the rule, or the budget, says to stop."""

    decision: Decision | None = None
    """The next trial; None if nothing is affordable."""

    index_and_price: tuple[float, float] | None = None
    """Gittins index of the next trial and lambda of the rule; None if no rule was applied."""

    feasibility: float | None = None
    """Probability that the incumbent is feasible; None without outcome constraints."""

    is_feasible: bool = True
    """False if no evaluated point is feasible: the incumbent is the likeliest one then."""

    @property
    def decision_or_stop(self) -> Decision | Stop:
        """The next trial, or the reason to stop."""
        if self.stop or self.decision is None:
            return Stop(self.stop_message(), is_final=self.decision is None)
        return self.decision

    def stop_message(self) -> str:
        """Return the reason to stop, the budget that is left, and what to deploy."""
        compared = ""
        if self.index_and_price is not None:
            index, price = self.index_and_price
            compared = (
                f" Largest Gittins index {index:.6g}, best posterior mean "
                f"{self.incumbent:.6g}, lambda {price:.6g}."
            )
        values = ", ".join(f"{n}={v!r}" for n, v in self.incumbent_parameters.items())
        deploy = "Deploy" if self.is_feasible else _NONE_FEASIBLE
        what = f"{values} (not tried there)"
        if self.incumbent_trial is not None:
            what = f"{self.incumbent_name} with {values}"
        return (
            f"Stopped: {self.reason}.{compared} {self.budget_state.summary}. {deploy} {what}: "
            f"expected value {self.incumbent:.6g}{feasibility_text(self.feasibility)}."
        )

    @property
    def incumbent_name(self) -> str:
        """The incumbent as a phrase."""
        trial = self.incumbent_trial
        return "a point that was not tried" if trial is None else f"trial {trial}"


def assess(method: CostAware, problem: Problem, rule: StopRule | None) -> Assessment:
    """Return the next trial, and whether a stopping rule would run it.

    Args:
        method: The method.
        problem: Inputs of the decision.
        rule: The stopping rule; None: only the budget ends the run.

    Raises:
        InputError: If a cost is missing, or is no finite number > 0.
    """
    cost, state = next_cost(method, problem), method.budget_state(problem)
    search = Search(method, problem, cost, state, evaluated_again(method.repeats, problem))
    scale, X_pending = problem.scale, problem.X_pending
    incumbent = search.incumbent()
    best, row = incumbent.value, incumbent.trial
    count = len(problem.earlier_in_batch)
    trial = None if row is None else problem.observed[row]
    inputs = problem.as_fixed(search.row_of(incumbent.point) if trial is None else trial.inputs)
    was_run = trial is not None and problem.space.are_near(inputs, [trial.inputs], SAME_VALUE)[0]
    assessment = Assessment(
        state,
        scale.from_model(best),
        trial.index if trial is not None and was_run else None,
        problem.space.hierarchy.active(inputs),
        feasibility=incumbent.feasibility,
        is_feasible=search.is_feasible(incumbent),
    )
    if not state.pays(None):
        return replace(assessment, reason="the budget is used up")
    stops, reason = False, ""
    try:
        if not assessment.is_feasible:
            return _towards_feasible(search, assessment)
        relative = after = relative_lambda(method, problem)
        price = lambda_in_force(search, relative, best)
        best_f = search.best_f_with_pending(best)
        criterion: AcquisitionFunction
        if method.weighs_noise:
            criterion, found = maximize_knowledge_per_cost(search)
        elif method.acquisition == "log_nei_per_cost":
            criterion, found = search.maximize_improvement_per_cost(best_f)
        else:
            if method.acquisition == GITTINS:
                criterion = search.index(price)
            else:
                criterion = search.improvement(best_f, search.cost_exponent)
            found = search.maximize_affordable(criterion)
        by_improvement = isinstance(rule, ImprovementPerCostStop)
        index_at = partial(
            _index_at, search, best, criterion if by_improvement or method.weighs_noise else None
        )
        if found is None:
            return replace(assessment, reason=search.unaffordable_reason)
        index = largest = index_at(found.point, price)
        index_and_price = None
        # Skip the rule on a retry (``known`` is not empty): the first choice repeated a pending
        # trial, and the rule was applied to that choice. Within a batch, compare with ``best_f``,
        # which counts pending trials as possible incumbents.
        if rule is not None and (count or not problem.known):
            value = best_f if count else best
            (stops, reason), rule_index = _apply_rule(search, rule, found, index_at, price, value)
            index_and_price = scale.from_model(rule_index), rule.price(price)
            if stops and rule.lmbda is None and is_provisional(method, problem):
                stops, reason = False, _PRICE_UNKNOWN
        if method.acquisition == GITTINS and (
            (X_pending is not None and index <= best_f) or search.repeats_exactly(found.point)
        ):
            # The index would select a point again: a pending one, since no index exceeds the
            # incumbent, or one whose value is known without noise. Fall back to EI per cost, which
            # selects the point that is worth its cost up to the highest lambda.
            found = search.maximize_improvement_per_cost(best_f)[1] or found
            index = index_at(found.point, price)
    except SpaceExhausted:
        return replace(assessment, reason=SpaceExhausted.REASON)
    if stops and found.is_limited_by_budget:
        payer = "max_trial_cost" if state.is_capped else "what is left of the budget"
        reason += f", of those that {payer} pays for"
    # Lambda decays once per batch: within one there are no new outcomes.
    if relative is not None and method.decay is not None and not count:
        after = method.decay.after(relative, largest, best)
    return replace(
        assessment,
        reason=reason,
        stop=stops,
        decision=_decision(search, assessment, found, index, price, (relative, after)),
        index_and_price=index_and_price,
    )


def _towards_feasible(search: Search[CostAware], assessment: Assessment) -> Assessment:
    """Assess a problem without a feasible trial: the likeliest one per cost comes next."""
    found = search.maximize_affordable(search.log_feasibility_per_cost())
    if found is None:
        return replace(assessment, reason=search.unaffordable_reason)
    return replace(
        assessment,
        reason="no trial is feasible yet, and this one is the likeliest to be, per cost",
        stop=False,
        decision=_decision(search, assessment, found),
    )


def _index_at(
    search: Search[CostAware],
    best: float,
    criterion: AcquisitionFunction | None,
    point: Tensor,
    price: float,
) -> float:
    """Return the Gittins index of a point, ``d``, at a price.

    For noisy EI it is the index over the uncertain incumbent, ``best + criterion.margin(x)``. It
    exceeds the best posterior mean if and only if improvement per cost exceeds the price.
    """
    with torch.no_grad():
        if isinstance(criterion, LogNoisyExpectedImprovementPerCost):
            unit = search.problem.scale.unit
            return best + float(criterion.margin(point.unsqueeze(0), price / unit))
        if isinstance(criterion, LogKnowledgeGradientPerCost):
            # The value after the trial less its price exceeds the incumbent by the net gain.
            gain = float(criterion.log_gain(point.unsqueeze(0)).exp())
            return best + gain - price / search.problem.scale.unit * search.cost_at(point)
        return float(search.index(price)(point.reshape(1, 1, -1)))


def _apply_rule(
    search: Search[CostAware],
    rule: StopRule,
    found: Optimum[float],
    index_at: Callable[[Tensor, float], float],
    price: float,
    best: float,
) -> tuple[tuple[bool, str], float]:
    """Apply a stopping rule at the maximum of its own criterion.

    Returns:
        True to stop and the reason, and the index that was compared.
    """
    own, acquisition = rule.price(price), search.method.acquisition
    scale = search.problem.scale
    if isinstance(rule, ImprovementPerCostStop):
        if acquisition not in EI_PER_COST:
            found = search.maximize_affordable(search.improvement(best)) or found
        # EI(x) <= lambda * c(x) if and only if the index of x at lambda is at most the incumbent.
        log_improvement = found.value + math.log(scale.unit)
        return rule.decide(log_improvement, price), index_at(found.point, own)
    index = index_at(found.point, price)
    if acquisition != GITTINS or own != price:
        other = search.maximize_affordable(search.index(own))
        index = index if other is None else other.value
    return rule.decide(scale.maximized(index), scale.maximized(best), price), index


def _decision(
    search: Search[CostAware],
    assessment: Assessment,
    found: Optimum[float],
    index: float | None = None,
    price: float | None = None,
    relative: tuple[float | None, float | None] = (None, None),
) -> Decision:
    """Return the next trial with its record.

    Args:
        search: The search that found it.
        assessment: The incumbent, and the reason to go on.
        found: The trial.
        index: Its Gittins index; None before anything is feasible.
        price: The lambda in force; None before anything is feasible.
        relative: The relative lambda of this and of the next decision; None without a decay.
    """
    method, problem, X = search.method, search.problem, found.point.unsqueeze(0)
    scale = problem.scale
    index = None if index is None else scale.from_model(index)
    (row,) = problem.space.decode(X)
    pooled = pooled_text(method.repeats, problem, row)
    with torch.no_grad():
        posterior = FunctionalPosterior.of(problem.model, X_pending=problem.X_pending)
        mean, variance = scale.moments(*posterior.mixture(X))
        log_mean = log_variance = None
        if isinstance(learned := whole_cost(search.cost), LogNormalCostModel):
            log_mean, log_variance = map(float, learned.log_moments(X))
    # Take a declared cost at the parameterization, not at its encoded point, as the ledger does.
    declared = method.with_switching_cost(problem, row, method.cost_at(row))
    is_priced = price is not None
    not_held = method.stop_rule is not None and is_priced and is_provisional(method, problem)
    probabilities: dict[str, float | None] = {}
    if search.feasibility is not None:
        probabilities = {
            "feasibility": float(search.feasibility.probability(X)),
            "incumbent_feasibility": assessment.feasibility,
        }
    return Decision(
        parameters=row,
        why=_why(method, assessment, index, price, probabilities.get("feasibility"), pooled),
        expected_cost=search.charge_at(found.point) if declared is None else declared,
        details={
            "index": index,
            "incumbent": assessment.incumbent if is_priced else None,
            "incumbent_trial": assessment.incumbent_trial if is_priced else None,
            "mean": float(mean),
            "standard_deviation": float(variance) ** 0.5,
            "lambda": price,
            "lambda_source": method.lambda_source if is_priced else None,
            "objective": problem.goal,
            "relative_lambda": relative[0],
            "next_relative_lambda": relative[1],
            "cost_log_mean": log_mean,
            "cost_log_sd": None if log_variance is None else log_variance**0.5,
            "acquisition": method.acquisition,
            "stop_rule": None if method.stop_rule is None else repr(method.stop_rule),
            **({LAMBDA_HELD: False} if not_held else {}),
            **({PER_MEAN_COST: method.decay.per_mean_cost} if method.decay else {}),
            **probabilities,
            **search.budget_state.record(),
        },
        value=found.value,
    )


def _why(
    method: CostAware,
    assessment: Assessment,
    index: float | None,
    price: float | None,
    feasibility: float | None,
    pooled: str,
) -> str:
    """Return the reason of a decision, in sentences; see ``_decision`` for the arguments."""
    if index is None or price is None:
        return (
            f"No trial is feasible with a probability of {method.feasibility_threshold:g} yet, and "
            f"this one is the likeliest to be, per cost: with a probability of {feasibility:.3g}, "
            f"where {assessment.incumbent_name} has {assessment.feasibility:.3g}."
        )
    first = f"Its Gittins index, {index:.6g}, is the best"
    if method.acquisition != GITTINS:
        per = "per unit of cost" if method.acquisition in EI_PER_COST else _COOLED
        first = f"It has the largest expected improvement {per}; its Gittins index is {index:.6g}"
    if method.weighs_noise:
        per = _COOLED if method.cools else "per unit of cost"
        first = (
            f"It has the largest expected gain in the value of the final recommendation {per}; "
            f"less its cost, this value is {index:.6g}"
        )
    last = ""
    if feasibility is not None:
        last = f" It is feasible with a probability of {feasibility:.3g}."
    return (
        f"{first} at a price of {price:.6g} for a unit of cost "
        f"({_SOURCES[method.lambda_source]}); the best posterior mean so far is "
        f"{assessment.incumbent:.6g}, of {assessment.incumbent_name}.{last}{pooled}"
    )


_COOLED = "by its cost, which counts less the less is left of the budget"

_SOURCES: Mapping[str, str] = {
    "given": "as given",
    "budget": "from the budget",
    "decay": "as it has decayed",
}

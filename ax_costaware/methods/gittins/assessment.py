"""Assessment of whether another trial is worth its cost: the decision of the Gittins method.

``assess`` is called by the loop, by ``should_stop``, and by the stopping rule for other strategies.
Inside, values are on the scale of the model; what it returns is in the objective's own unit.
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
from ax_costaware.core.account import BudgetState
from ax_costaware.core.problem import Decision, Problem, SpaceExhausted, Stop, feasibility_text
from ax_costaware.core.switching import next_cost
from ax_costaware.costs.cost_model import SAME_VALUE, whole_cost
from ax_costaware.methods.gittins.prices import (
    HELD,
    is_provisional,
    price_of_cost,
    relative_lambda,
)
from ax_costaware.methods.gittins.rules import ImprovementPerCostStop
from ax_costaware.methods.gittins.search import GITTINS, PER_COST, Search
from ax_costaware.models import FunctionalPosterior, LogNormalCostModel
from ax_costaware.space.parameters import Value

if TYPE_CHECKING:
    from ax_costaware.methods.gittins import CostAware, StopRule


_PROVISIONAL = (
    "fewer than two different outcomes are known, which is too little to find a price from a budget"
)


_NONE_FEASIBLE = "No trial is as likely to be feasible as it has to be; the likeliest is"


@dataclass(frozen=True)
class Assessment:
    """The next trial, the incumbent that it is compared with, and whether to stop."""

    budget_state: BudgetState
    """Budget spent and left."""

    incumbent: float
    """The best posterior mean at an evaluated point."""

    incumbent_trial: int | None
    """The trial that evaluated it; None if none did, as with parameters that the caller fixes, or
    where no trial with an outcome is in the search space."""

    incumbent_parameters: dict[str, Value]
    """Its parameterization, as it was realized."""

    reason: str = ""
    """Why to stop or to go on, as a phrase; empty where no rule was asked."""

    stop: bool = True
    """True if the rule, or the budget, says to stop."""

    decision: Decision | None = None
    """The trial that is most worth its cost; None if nothing is affordable."""

    compared: tuple[float, float] | None = None
    """The index that the stopping rule looked at, and its lambda; None where none was asked."""

    feasibility: float | None = None
    """Probability that the incumbent is feasible; None without outcome constraints."""

    is_feasible: bool = True
    """True if that is large enough; if not, the incumbent is the likeliest to be feasible."""

    @property
    def answer(self) -> Decision | Stop:
        """The next trial, or that there is none."""
        if self.stop or self.decision is None:
            return Stop(self.stop_message(), is_final=self.decision is None)
        return self.decision

    def stop_message(self) -> str:
        """Return why there is no further trial, what was saved, and what to deploy."""
        compared = ""
        if self.compared is not None:
            index, price = self.compared
            compared = (
                f" Largest Gittins index {index:.6g}, best posterior mean "
                f"{self.incumbent:.6g}, lambda {price:.6g}."
            )
        values = ", ".join(f"{n}={v!r}" for n, v in self.incumbent_parameters.items())
        deploy = "Deploy" if self.is_feasible else _NONE_FEASIBLE
        what = f"{values} (not tried there)"
        if self.incumbent_trial is not None:
            what = f"{self.named} with {values}"
        return (
            f"Stopped: {self.reason}.{compared} {self.budget_state.summary}. {deploy} {what}: "
            f"expected value {self.incumbent:.6g}{feasibility_text(self.feasibility)}."
        )

    @property
    def named(self) -> str:
        """The incumbent as a phrase."""
        trial = self.incumbent_trial
        return "a point that was not tried" if trial is None else f"trial {trial}"


def assess(method: CostAware, problem: Problem, rule: StopRule | None) -> Assessment:
    """The trial that is most worth its cost, and whether a rule would run it.

    Args:
        method: The method.
        problem: What the decision is made from.
        rule: The stopping rule; None: only the budget ends the run.

    Raises:
        InputError: If a cost is missing, or is no finite number > 0.
    """
    search = Search(method, problem, next_cost(method, problem), method.budget_state(problem))
    state, scale, under_way = search.budget_state, problem.scale, problem.X_pending
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
        inputs,
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
        price = price_of_cost(search, relative, best)
        reach = search.reach(best)
        criterion: AcquisitionFunction
        if method.acquisition == "log_nei_per_cost":
            criterion, found = search.best_improvement(reach)
        else:
            if method.acquisition == GITTINS:
                criterion = search.index(price)
            else:
                criterion = search.improvement(reach, _cost_exponent(method, state))
            found = search.best(criterion)
        by_improvement = isinstance(rule, ImprovementPerCostStop)
        index_at = partial(_index_at, search, best, criterion if by_improvement else None)
        if found is None:
            return replace(assessment, reason=search.pays_for_none)
        index = largest = index_at(found.point, price)
        compared = None
        # That a trial is worth its cost was said before it came back to one that runs.
        if rule is not None and (count or not problem.known):
            hand = reach if count else best
            (stops, reason), looked_at = _asked(search, rule, found, index_at, price, hand)
            compared = scale.from_model(looked_at), rule.price(price)
            if stops and rule.lmbda is None and is_provisional(method, problem):
                stops, reason = False, _PROVISIONAL
        if method.acquisition == GITTINS and under_way is not None and index <= reach:
            # Beside what is under evaluation nothing is worth the price: the trial that would
            # be at the highest price below it, and not once more one that is pending.
            found = search.best(search.improvement(reach)) or found
            index = index_at(found.point, price)
    except SpaceExhausted:
        return replace(assessment, reason=SpaceExhausted.REASON)
    if stops and found.is_restricted:
        payer = "max_trial_cost" if state.is_capped else "what is left of the budget"
        reason += f", of those that {payer} pays for"
    # In the middle of a batch nothing is known that was not known at its start.
    if relative is not None and method.decay is not None and not count:
        after = method.decay.after(relative, largest, best)
    return replace(
        assessment,
        reason=reason,
        stop=stops,
        decision=_decision(search, assessment, found, index, price, (relative, after)),
        compared=compared,
    )


def _towards_feasible(search: Search[CostAware], assessment: Assessment) -> Assessment:
    """The trial that is likeliest to be feasible per cost; what it is worth is asked later."""
    found = search.best(search.likeliest())
    if found is None:
        return replace(assessment, reason=search.pays_for_none)
    return replace(
        assessment,
        reason="no trial is feasible yet, and this one is the likeliest to be, per cost",
        stop=False,
        decision=_decision(search, assessment, found),
    )


def _cost_exponent(method: CostAware, state: BudgetState) -> float:
    """Power of the cost that an improvement is divided by."""
    if method.acquisition != "log_ei_cost_cooling":
        return 1.0
    assert state.remaining is not None
    assert method.budget is not None
    return max(state.remaining, 0.0) / method.budget


def _index_at(
    search: Search[CostAware],
    best: float,
    criterion: AcquisitionFunction | None,
    point: Tensor,
    price: float,
) -> float:
    """The Gittins index of a point, ``d``, at a price.

    Where improvement on the incumbent, which is uncertain, is what a rule goes by, so does the
    index: it is above the best posterior mean just where improvement is above the price of cost.
    """
    with torch.no_grad():
        if isinstance(criterion, LogNoisyExpectedImprovementPerCost):
            unit = search.problem.scale.unit
            return best + float(criterion.margin(point.unsqueeze(0), price / unit))
        return float(search.index(price)(point.reshape(1, 1, -1)))


def _asked(
    search: Search[CostAware],
    rule: StopRule,
    found: Optimum[float],
    index_at: Callable[[Tensor, float], float],
    price: float,
    best: float,
) -> tuple[tuple[bool, str], float]:
    """What a stopping rule says, of its own maximum where the search was for another criterion.

    Returns:
        Whether to stop and why, and the index that was looked at.
    """
    own, acquisition = rule.price(price), search.method.acquisition
    scale = search.problem.scale
    if isinstance(rule, ImprovementPerCostStop):
        if acquisition not in PER_COST:
            found = search.best(search.improvement(best)) or found
        # Its index at that price is on the same side of the incumbent.
        log_improvement = found.value + math.log(scale.unit)
        return rule.decide(log_improvement, price), index_at(found.point, own)
    index = index_at(found.point, price)
    if acquisition != GITTINS or own != price:
        other = search.best(search.index(own))
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
    """The next trial, with what is stored of it.

    Args:
        search: What it was found by.
        assessment: What it is compared with.
        found: The trial.
        index: Its Gittins index; None before anything is feasible.
        price: The lambda in force; None before anything is feasible.
        relative: The relative lambda of this and of the next decision; None without a decay.
    """
    method, problem, X = search.method, search.problem, found.point.unsqueeze(0)
    scale = problem.scale
    index = None if index is None else scale.from_model(index)
    (row,) = problem.space.decode(X)
    with torch.no_grad():
        posterior = FunctionalPosterior.of(problem.model, X_pending=problem.X_pending)
        mean, variance = scale.moments(*posterior.mixture(X))
        log_mean = log_variance = None
        if isinstance(learned := whole_cost(search.cost), LogNormalCostModel):
            log_mean, log_variance = map(float, learned.log_moments(X))
    # A declared cost is that of the parameterization itself, which the ledger asks for.
    declared = method.with_switching_cost(problem, row, method.cost_at(row))
    is_priced = price is not None
    not_held = method.rule is not None and is_priced and is_provisional(method, problem)
    probabilities: dict[str, float | None] = {}
    if search.feasibility is not None:
        probabilities = {
            "feasibility": float(search.feasibility.probability(X)),
            "incumbent_feasibility": assessment.feasibility,
        }
    return Decision(
        parameters=row,
        why=_why(method, assessment, index, price, probabilities.get("feasibility")),
        expected_cost=search.cost_at(found.point) if declared is None else declared,
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
            "stop_rule": None if method.rule is None else repr(method.rule),
            **({HELD: False} if not_held else {}),
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
) -> str:
    """The reason of a decision, in sentences; arguments as of ``_decision``."""
    if index is None or price is None:
        return (
            f"No trial is feasible with a probability of {method.feasibility_threshold:g} yet, and "
            f"this one is the likeliest to be, per cost: with a probability of {feasibility:.3g}, "
            f"where {assessment.named} has {assessment.feasibility:.3g}."
        )
    first = f"Its Gittins index, {index:.6g}, is the best"
    if method.acquisition != GITTINS:
        per = "per unit of cost" if method.acquisition in PER_COST else _BY_COST
        first = f"It has the largest expected improvement {per}; its Gittins index is {index:.6g}"
    last = ""
    if feasibility is not None:
        last = f" It is feasible with a probability of {feasibility:.3g}."
    return (
        f"{first} at a price of {price:.6g} for a unit of cost "
        f"({_SOURCES[method.lambda_source]}); the best posterior mean so far is "
        f"{assessment.incumbent:.6g}, of {assessment.named}.{last}"
    )


_BY_COST = "by its cost, which counts less the less is left of the budget"

_SOURCES: Mapping[str, str] = {
    "given": "as given",
    "budget": "from the budget",
    "decay": "as it has decayed",
}

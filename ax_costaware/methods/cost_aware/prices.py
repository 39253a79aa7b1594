"""Lambda of the cost-aware methods: the price of a unit of cost, in units of the objective.

It has one of three sources:

- ``"given"``: the argument ``lmbda``.
- ``"decay"``: PBGI-D. A relative lambda, in standardized units per mean cost of a trial, so that it
  does not depend on units; or per unit of cost, as in the paper.
- ``"budget"``: the price at which the Gittins policy is expected to spend the rest of the budget
  (the dual of theorem 2 in Xie et al. 2024), on a finite set of points that are taken as
  independent boxes.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ax_costaware.acquisition.gittins_index import lambda_for_budget
from ax_costaware.core.problem import Problem
from ax_costaware.core.switching import switching_costs
from ax_costaware.methods.cost_aware.search import Search

if TYPE_CHECKING:
    from ax_costaware.methods.cost_aware import CostAware


PER_MEAN_COST = "relative_per_mean_cost"
"""Key in the record of a decision: unit of its relative lambda."""

LAMBDA_HELD = "lambda_held"
"""Key in the record of a decision; False if lambda is provisional, and solved anew later."""

_LEAST = 1e-9
"""Lower bound of lambda, in standard deviations per mean cost. It is needed when the budget pays
for all boxes: any small enough lambda is a solution then."""


def lambda_in_force(search: Search[CostAware], relative: float | None, incumbent: float) -> float:
    """Return lambda for the next decision, in units of the objective per unit of cost.

    Args:
        search: The search of the decision.
        relative: The relative lambda of a decay; None without one.
        incumbent: Value of the incumbent, on the scale of the model.
    """
    method, state = search.method, search.budget_state
    given = method.given_lambda(search.problem)
    if given is not None:
        return given
    if relative is not None and method.decay is not None:
        mean_cost = _mean_cost(search) if method.decay.per_mean_cost else 1.0
        return relative * search.problem.scale.unit / mean_cost
    held = _held_lambda(search)
    if held is not None:
        return held
    # With a rule, lambda is held for the run: solve it from the budget before this batch.
    left = state.remaining if method.stop_rule is None else state.remaining_before_batch
    assert left is not None
    means, sigmas, costs = _representative_points(search)
    # Keep affordable points as boxes, and always the cheapest, so that a solution exists.
    budget = max(left, float(costs.min()))
    is_affordable = costs <= budget
    boxes = means[is_affordable], sigmas[is_affordable], costs[is_affordable]
    log_probability = None
    if search.feasibility is not None:
        points = search.representative_points[is_affordable]
        with torch.no_grad():
            log_probability = search.feasibility.log_probability(points)
    solved = lambda_for_budget(*boxes, budget, incumbent, log_probability)
    least = _LEAST * float(sigmas.max()) / float(costs[is_affordable].mean())
    return search.problem.scale.unit * max(solved, least)


def is_provisional(method: CostAware, problem: Problem) -> bool:
    """True if lambda is solved from a budget with fewer than two different outcomes.

    The scale of the objective is unknown then, and so is the price.
    """
    return method.lambda_source == "budget" and len({t.outcome for t in problem.observed}) < 2


def relative_lambda(method: CostAware, problem: Problem) -> float | None:
    """Return the lambda in force of a decay, in its relative unit; None without a decay."""
    if method.decay is None:
        return None
    initial, unit = method.decay.initial, method.decay.per_mean_cost
    past = [d for d in _decisions(method, problem, "decay") if d.get(PER_MEAN_COST, True) == unit]
    # Decisions before the decay's first price are those of an earlier strategy.
    begun = next((i for i, d in enumerate(past) if d["relative_lambda"] == initial), len(past))
    # Lambda only falls, so the smallest is the latest, in whatever order trials were generated.
    return min([initial, *(float(d["next_relative_lambda"]) for d in past[begun:])])


def _mean_cost(search: Search[CostAware]) -> float:
    """Return the mean cost of the trials so far."""
    method, problem = search.method, search.problem
    if method.trial_costs.metric is not None:
        costs = [t.reported_cost for t in problem.trials if t.reported_cost is not None]
    else:
        # A reported cost of zero says nothing about the scale of costs: use the declared one.
        changes = switching_costs(problem.trials, method)
        costs = [
            t.reported_cost or (method.cost_at(t.inputs) or 0.0) + change
            for t, change in zip(problem.trials, changes, strict=True)
            if t.is_observed
        ]
    return statistics.fmean(costs)


def _representative_points(search: Search[CostAware]) -> tuple[Tensor, Tensor, Tensor]:
    """Return means and standard deviations, on the model's scale, and costs of the points."""
    points = search.representative_points
    with torch.no_grad():
        mean, variance = search.problem.posterior.mixture(points)
    return mean, variance.sqrt(), search.costs(points)


def _held_lambda(search: Search[CostAware]) -> float | None:
    """Return lambda of the first decision with this budget and objective, if a rule holds it."""
    method, goal = search.method, search.problem.goal
    if method.stop_rule is None or method.budget is None:
        return None
    held: float | None = None
    for decision in _decisions(method, search.problem, "budget"):
        budget = decision["spent"] + decision["remaining"]
        is_other = decision.get("objective", goal) != goal
        if is_other or not math.isclose(budget, method.budget, rel_tol=1e-9):
            # After a change of the budget or the objective the price is solved anew.
            held = None
        elif held is None and decision.get(LAMBDA_HELD, True):
            held = float(decision["lambda"])
    return held


def _decisions(method: CostAware, problem: Problem, source: str) -> Iterator[Mapping[str, Any]]:
    """Yield the records of decisions whose lambda came from ``source``, by trial index.

    Decisions with costs in another metric are left out, since their lambda has another unit.
    """
    for trial in problem.trials:
        is_same = trial.decided_at(method.trial_costs.metric)
        if is_same and trial.decision.get("lambda_source") == source:
            yield trial.decision

"""What trials cost under the Gittins method, and what one unit of cost is worth.

A cost is declared, or learned from reported ones. Lambda, in units of the objective per unit of
cost, is given, or it decays (relative to the spread of the outcomes and the mean cost of a trial,
so that no unit matters), or it is the one at which the Gittins policy is expected to spend what is
left of the budget (the dual of theorem 2 in Xie et al. 2024) on a finite set of points of the
model's space, taken as independent boxes.
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
from ax_costaware.methods.gittins.search import Search

if TYPE_CHECKING:
    from ax_costaware.methods.gittins import CostAware


HELD = "lambda_held"
"""Name in the record of a decision, where its lambda is none to hold."""

_LEAST = 1e-9
"""Lambda, in standard deviations per mean cost, where the budget pays for every point that it pays
for at all together: any price is right that turns none away."""


def price_of_cost(search: Search[CostAware], relative: float | None, best_f: float) -> float:
    """Lambda for the next decision.

    Args:
        search: What the decision is made from, with points that stand for the search space.
        relative: The lambda of a decay that is in force; None without one.
        best_f: The best posterior mean at an evaluated point, on the scale of the model.

    Returns:
        Units of the objective per unit of cost.
    """
    method, state = search.method, search.budget_state
    if method.lmbda is not None:
        return method.lmbda
    if relative is not None:
        return relative * _scale(search)
    held = _held_lambda(search)
    if held is not None:
        return held
    # A price that is held is that of the batch's first decision, whichever of them comes first.
    left = state.remaining if method.rule is None else state.remaining_before_batch
    assert left is not None
    means, sigmas, costs = _boxes(search)
    # What cannot be paid cannot be opened; and one box can, whatever the price.
    budget = max(left, float(costs.min()))
    payable = costs <= budget
    boxes = means[payable], sigmas[payable], costs[payable]
    log_probability = None
    if search.feasibility is not None:
        with torch.no_grad():
            log_probability = search.feasibility.log_probability(search.boxes[payable])
    solved = lambda_for_budget(*boxes, budget, best_f, log_probability)
    least = _LEAST * float(sigmas.max()) / float(costs[payable].mean())
    return search.problem.scale.unit * max(solved, least)


def is_provisional(method: CostAware, problem: Problem) -> bool:
    """Whether lambda is found from a budget, and fewer than two different outcomes are known.

    They say nothing of the unit of the objective, so that such a price is any.
    """
    return method.lambda_source == "budget" and len({t.outcome for t in problem.observed}) < 2


def relative_lambda(method: CostAware, problem: Problem) -> float | None:
    """The lambda of a decay that is in force, in its own unit; None without a decay."""
    if method.decay is None:
        return None
    initial, past = method.decay.initial, list(_decisions(method, problem, "decay"))
    # What came before its first price was another strategy's.
    begun = next((i for i, d in enumerate(past) if d["relative_lambda"] == initial), len(past))
    # Lambda only falls; the least is the last, in whatever order trials were generated.
    return min([initial, *(float(d["next_relative_lambda"]) for d in past[begun:])])


def _scale(search: Search[CostAware]) -> float:
    """Standard deviation of the outcomes so far per mean cost of the trials so far."""
    method, problem = search.method, search.problem
    outcomes = [t.outcome for t in problem.observed if t.outcome is not None]
    spread = statistics.stdev(outcomes) if len(outcomes) > 1 else 0.0
    if not spread > 0:
        spread = problem.scale.unit * float(_boxes(search)[1].max())
    if method.cost_metric is not None:
        costs = [t.reported_cost for t in problem.trials if t.reported_cost is not None]
    else:
        # A trial that was free says nothing about the scale of the costs.
        changes = switching_costs(problem.trials, method)
        costs = [
            t.reported_cost or (method.cost_at(t.inputs) or 0.0) + change
            for t, change in zip(problem.trials, changes, strict=True)
            if t.is_observed
        ]
    return spread / statistics.fmean(costs)


def _boxes(search: Search[CostAware]) -> tuple[Tensor, Tensor, Tensor]:
    """Means and standard deviations on the model's scale, and costs, of points of the space."""
    points = search.boxes
    with torch.no_grad():
        mean, variance = search.problem.posterior.mixture(points)
    return mean, variance.sqrt(), search.costs(points)


def _held_lambda(search: Search[CostAware]) -> float | None:
    """Lambda of the first decision since the budget and the objective are these, if it is held."""
    method, goal = search.method, search.problem.goal
    if method.rule is None or method.budget is None:
        return None
    held: float | None = None
    for decision in _decisions(method, search.problem, "budget"):
        budget = decision["spent"] + decision["remaining"]
        is_other = decision.get("objective", goal) != goal
        if is_other or not math.isclose(budget, method.budget, rel_tol=1e-9):
            # By another price more or less was spent than this one had counted on.
            held = None
        elif held is None and decision.get(HELD, True):
            held = float(decision["lambda"])
    return held


def _decisions(method: CostAware, problem: Problem, source: str) -> Iterator[Mapping[str, Any]]:
    """What was recorded of decisions whose lambda came from ``source``, by trial index.

    Those at costs in another metric are left out: their lambda is in another unit.
    """
    for trial in problem.trials:
        is_same = trial.decided_at(method.cost_metric)
        if is_same and trial.decision.get("lambda_source") == source:
            yield trial.decision

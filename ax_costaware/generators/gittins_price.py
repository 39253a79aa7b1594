"""What one unit of cost is worth in a decision: lambda, in units of the objective per unit of cost.

It is given, or it decays (relative to the spread of the outcomes and the mean cost of a trial, so
that no unit matters), or it is the one at which the Gittins policy is expected to spend what is
left of the budget (the dual of theorem 2 in Xie et al. 2024) on a finite set of points of the
model's space, taken as independent boxes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from ax_costaware.acquisition.lambda_for_budget import lambda_for_budget
from ax_costaware.generators.gittins_settings import GittinsSettings
from ax_costaware.generators.gittins_standing import GittinsStanding

_LEAST = 1e-9
"""Lambda, in standard deviations per mean cost, where the budget pays for every point: any price is
right that turns none away."""


@dataclass(frozen=True)
class Boxes:
    """Points of the model's space as boxes with Gaussian values, for maximisation."""

    mean: Tensor
    """Posterior means, ``n``; larger is better."""

    sigma: Tensor
    """Posterior standard deviations, ``n``."""

    cost: Tensor
    """Expected costs, ``n``."""


def price_of_cost(
    settings: GittinsSettings,
    where: GittinsStanding,
    boxes: Callable[[], Boxes],
    incumbent: float,
    outcome_spread: float,
    mean_cost: float,
) -> float:
    """Lambda for the next decision.

    Args:
        settings: The settings of the strategy.
        where: Where the experiment stands.
        boxes: Gives points that stand for the search space, if they are needed.
        incumbent: The best posterior mean at an evaluated point, for maximisation.
        outcome_spread: Standard deviation of the outcomes; where it is zero the model's largest
            posterior standard deviation takes its place.
        mean_cost: Mean cost of the trials so far.
    """
    if settings.lmbda is not None:
        return settings.lmbda
    if where.relative_lambda is not None:
        spread = outcome_spread if outcome_spread > 0 else float(boxes().sigma.max())
        return where.relative_lambda * spread / mean_cost
    if where.held_lambda is not None:
        return where.held_lambda
    # A price that is held is that of the batch's first decision, whichever of them comes first.
    left = where.remaining if settings.rule is None else where.remaining_before
    assert left is not None
    every = boxes()
    # What cannot be paid cannot be opened; and one box can, whatever the price.
    payable = every.cost <= max(left, float(every.cost.min()))
    mean, sigma, cost = every.mean[payable], every.sigma[payable], every.cost[payable]
    solved = lambda_for_budget(mean, sigma, cost, max(left, float(cost.min())), best_f=incumbent)
    return max(solved, _LEAST * float(every.sigma.max()) / float(every.cost.mean()))

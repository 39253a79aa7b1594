"""Which settings of the trial before a control set keeps, where it costs to change them.

The values of a control set are searched whatever they cost, and once more with what it could keep
held. Of what is found, that is taken which is expected to improve most, per unit of cost, on the
best expectation that could be deployed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ax_costaware.acquisition.criteria import LogExpectedImprovement
from ax_costaware.methods.change_overs import change_over, kept_settings
from ax_costaware.policies.control_set_rules.rule import CostEstimate

if TYPE_CHECKING:
    from ax_costaware.methods.control_sets.values import ControlSetValues

Query = tuple[Tensor, float]
"""A point ``d`` of a control set, and the acquisition value there."""


def worth_changing_for(
    values: ControlSetValues, indices: Sequence[int], found: Sequence[Query]
) -> list[Query]:
    """The best query of some control sets: as found, or with settings of the trial before.

    Args:
        values: What is decided from.
        indices: Of the control sets.
        found: The query of each that is best whatever it costs.
    """
    queries = {i: [query] for i, query in zip(indices, found, strict=True)}
    sharing: dict[frozenset[tuple[int, float]], list[int]] = {}
    for i in indices:
        among = values.method.control_sets[i].parameters
        for kept in kept_settings(values.problem, values.method, among):
            held = frozenset(values.problem.space.columns_of(kept).items())
            sharing.setdefault(held, []).append(i)
    for columns, control_sets in sharing.items():
        for i, query in zip(control_sets, values.search(control_sets, dict(columns)), strict=True):
            queries[i].append(query)
    if not sharing:
        return list(found)
    space, sign = values.space, values.problem.sign
    best = values.best_in_hand if values.problem.constraints else _best_mean(values)
    chosen = []
    for i, ones in queries.items():
        costs = [price(values, i, point) for point, _ in ones]
        mean, variance = space.expectations([(point, i) for point, _ in ones])
        worth = -mean.new_tensor([1.0 if cost is None else cost.mean for cost in costs]).log()
        if best is not None:
            sd = variance.sqrt().clamp_min(_LEAST)
            worth = LogExpectedImprovement(best)(sign * mean, sd) + worth
        chances = space.chances(torch.stack([point for point, _ in ones]), [i] * len(ones))
        if chances is not None:
            worth = worth + chances.log()
        limited = [cost is not None and not values.money.pays(cost.mean) for cost in costs]
        if not all(limited):
            worth = worth.masked_fill(torch.tensor(limited, device=worth.device), -torch.inf)
        chosen.append(ones[int(worth.argmax())])
    return chosen


def _best_mean(values: ControlSetValues) -> float:
    """The best expectation that could be deployed."""
    every = range(len(values.method.control_sets))
    return float(values.space.best_means(every, values.problem.next_index).values.max())


_LEAST = 1e-100
"""Standard deviations are above this, so that a value that is known has an improvement of zero."""


def price(values: ControlSetValues, index: int, point: Tensor) -> CostEstimate | None:
    """What a trial of a control set at a point costs, its change-over included; None: unknown."""
    cost, method = values.space.costs.at(index, point), values.method
    if cost is None or method.change_cost is None:
        return cost
    chosen = method.control_sets[index]
    arm = values.space.arm(chosen, values.space.controlled(point, chosen.parameters))
    mean = cost.mean + change_over(values.problem, method, arm)
    return CostEstimate(mean, cost.standard_error)

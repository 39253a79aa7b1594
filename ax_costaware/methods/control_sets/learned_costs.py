"""What trials with control sets are expected to cost, learned from what trials have cost.

Averages need the trials only; where the reported costs of a control set show that they depend on
the values that it sets, a model of them does better (``ControlSetCostModel``), which takes the
model's input space. Costs are in the user's own unit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ax_costaware.exceptions import InputError
from ax_costaware.methods.past import PastTrial
from ax_costaware.models.control_set_cost import ControlSetCostModel
from ax_costaware.policies.control_set_rules import CostEstimate

if TYPE_CHECKING:
    from ax_costaware.methods.control_sets import ControlSets


def costs_to_learn_from(
    trials: Sequence[PastTrial], method: ControlSets
) -> dict[str, dict[int, float]]:
    """Reported costs of trials whose control set has an unknown cost.

    Costs that no trial of its control set can have are left out; see ``check_reported_costs``.

    Returns:
        By the name of each such control set, costs by trial index, in the order of the indices.
    """
    found: dict[str, dict[int, float]] = {
        str(control_set.name): {} for control_set in method.control_sets if control_set.cost is None
    }
    for trial in trials if found else ():
        cost = trial.reported_cost
        if cost is not None:
            control_set = method.control_set_of(trial)
            if control_set.cost is None and cost > control_set.fixed_cost:
                found[str(control_set.name)][trial.index] = cost
    return found


def check_reported_costs(trials: Sequence[PastTrial], method: ControlSets) -> None:
    """Check that every completed trial of an unknown cost has reported one that it can have.

    Raises:
        InputError: If a completed trial has no cost, or one that is not larger than the known part
            of its control set's.
    """
    missing: list[int] = []
    for trial in trials if method.learns_costs else ():
        control_set = method.control_set_of(trial)
        if control_set.cost is not None:
            continue
        if trial.reported_cost is None:
            missing += [trial.index] if trial.is_completed else []
        elif not trial.reported_cost > control_set.fixed_cost:
            raise InputError(
                f"trial {trial.index} has the reported cost {trial.reported_cost:g}: expected more "
                f"than fixed_cost={control_set.fixed_cost:g} of its control set "
                f"{control_set.name!r}."
            )
    if missing:
        raise InputError(
            f"trials {missing} were completed without a cost, and the costs of their control sets "
            "are learned from what trials cost. Report it, for example with "
            f"ax_costaware.report_cost(client, {missing[0]}, cost=...), and for others with "
            "ax_costaware.complete_trial(..., cost=...)."
        )


@dataclass(frozen=True)
class ExpectedCosts:
    """What control sets are expected to cost at points of the model's space."""

    method: ControlSets
    """The method."""

    averages: tuple[float | None, ...]
    """Expected cost of each control set on average, in declared order; None if nothing is known."""

    models: Mapping[int, ControlSetCostModel]
    """Of those whose costs depend on their values, the model, by index."""

    columns: tuple[tuple[int, ...], ...]
    """Columns of the model's space that each control set controls."""

    least: tuple[float | None, ...]
    """The least that each is expected to cost at the values that were tried."""

    @staticmethod
    def learned(
        method: ControlSets,
        costs: Mapping[str, Mapping[int, float]],
        points: Mapping[int, Tensor],
        columns: Sequence[tuple[int, ...]],
        bounds: Tensor,
    ) -> ExpectedCosts:
        """Learn from reported costs.

        Args:
            method: The method.
            costs: Reported costs, as ``costs_to_learn_from`` gives them.
            points: For the trials among them, the inputs as they were realised, ``d``.
            columns: Columns of the model's space that each control set controls.
            bounds: ``2 x d`` bounds of the columns.
        """
        averages = average_costs(method, costs)
        least = list(averages)
        models: dict[int, ControlSetCostModel] = {}
        for i, (control_set, held) in enumerate(zip(method.control_sets, columns, strict=True)):
            reported = costs.get(str(control_set.name))
            if not reported or not held:
                continue
            X = torch.stack([points[index][list(held)] for index in reported]).double()
            model = _fitted(
                tuple(map(tuple, X.tolist())),
                tuple(reported.values()),
                control_set.fixed_cost,
                tuple(map(tuple, bounds[:, list(held)].tolist())),
            )
            if model.kind != "constant":
                models[i] = model
                least[i] = float(model.estimate(X)[0].min())
        return ExpectedCosts(method, averages, models, tuple(columns), tuple(least))

    def at(self, index: int, point: Tensor) -> CostEstimate | None:
        """What a trial of one control set costs at a point, ``d``; None if nothing is known."""
        average, cost = self.averages[index], self.method.control_sets[index].cost
        if cost is not None:
            return CostEstimate(cost, 0.0)
        if index in self.models:
            x = point.detach()[list(self.columns[index])].unsqueeze(0).double()
            mean, error = self.models[index].estimate(x)
            return CostEstimate(float(mean), None if error is None else float(error))
        return None if average is None else CostEstimate(average, None)


@lru_cache(maxsize=64)
def _fitted(
    X: tuple[tuple[float, ...], ...],
    costs: tuple[float, ...],
    fixed: float,
    bounds: tuple[tuple[float, ...], ...],
) -> ControlSetCostModel:
    """The model of one control set; of those that have no new cost it need not be fitted again."""
    points, limits = (torch.tensor(rows, dtype=torch.double) for rows in (X, bounds))
    return ControlSetCostModel(points, points.new_tensor(costs), fixed=fixed, bounds=limits)


def average_costs(
    method: ControlSets, costs: Mapping[str, Mapping[int, float]]
) -> tuple[float | None, ...]:
    """What a trial of each control set is expected to cost on average; see ``expected_costs``.

    Args:
        method: The method.
        costs: Reported costs, as ``costs_to_learn_from`` gives them.
    """
    return method.expected_costs(
        {name: list(by_trial.values()) for name, by_trial in costs.items()}
    )

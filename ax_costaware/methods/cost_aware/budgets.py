"""Budgets in several units: how they are given, and what goes with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ax_costaware.argument_checks import distinct, instance_of, sequence_of
from ax_costaware.costs import BatchCost, Budget, SwitchingCost
from ax_costaware.exceptions import InputError
from ax_costaware.methods.cost_aware.search import GITTINS

if TYPE_CHECKING:
    from ax_costaware.methods.cost_aware import CostAware

_EXPECTED = (
    "a cost and a budget for each of two or more units, by the same names, as in "
    "cost={'dollars': AffineCost(...), 'hours': 'hours'} and budget={'dollars': 500, 'hours': 40}"
)


def budgets_by_name(method: CostAware) -> dict[str, Any]:
    """Return the fields of a method whose costs and budgets are given by the names of their units.

    Raises:
        InputError: If they do not have the same names, there are fewer than two, or the method is
            of the Gittins index.
    """
    cost, budget = vars(method)["cost"], vars(method)["budget"]
    further = method.further_budgets
    if method.acquisition == GITTINS:
        raise InputError(
            f"budget={budget!r} with cost={cost!r}: the Gittins index has a price of one unit of "
            "cost. Expected one cost and one budget; cost_aware_strategy takes several."
        )
    alike = isinstance(cost, Mapping) and isinstance(budget, Mapping)
    if not alike or cost.keys() != budget.keys() or len(cost) < 2 or further:
        also = f" and further_budgets={further!r}" if further else ""
        raise InputError(f"cost={cost!r} with budget={budget!r}{also}: expected {_EXPECTED}.")
    unit, *others = budget
    return {
        "cost": cost[unit],
        "budget": budget[unit],
        "unit": unit,
        "further_budgets": tuple(Budget(other, budget[other], cost[other]) for other in others),
    }


def checked_budgets(budgets: Any, name: str) -> tuple[Budget, ...]:
    """Return further budgets, of distinct units, as a tuple."""
    expected = "a sequence of Budget, each in another unit"
    found = sequence_of(budgets, name, expected)
    for each in found:
        instance_of(each, name, Budget, expected)
        if isinstance(each.cost, SwitchingCost | BatchCost):
            raise InputError(
                f"{name} has {each!r}: expected the cost of a trial, since switching costs and "
                "set-ups are in the unit of the first budget."
            )
    distinct([each.unit for each in found], name, expected)
    return found


def check_budgets(method: CostAware) -> None:
    """Refuse settings that do not go with several budgets.

    Raises:
        InputError: Without a first budget, with a price of one unit of cost, or if two costs are
            learned from the same metric.
    """
    if not method.further_budgets:
        return
    shown = f"further_budgets={tuple(method.further_budgets)!r}"
    if method.budget is None:
        raise InputError(f"{shown} with budget=None: a first budget is needed.")
    if method.unit in {each.unit for each in method.further_budgets}:
        raise InputError(f"{shown}: expected other units than unit={method.unit!r}.")
    for name in ("lmbda", "stop"):
        if getattr(method, name) not in (None, False):
            raise InputError(
                f"{name}={getattr(method, name)!r} with several budgets: a price is of one unit of "
                "cost. Expected None: the run ends with a budget."
            )
    metrics = [method.cost, *(each.cost for each in method.further_budgets)]
    learned = [metric for metric in metrics if isinstance(metric, str)]
    distinct(learned, "the costs of several budgets", "another metric for each")

"""Costs of trials: value objects, the interface of declared and learned costs, and its wrappers."""

from ax_costaware.costs.batch_cost import BatchCost
from ax_costaware.costs.budget import Budget
from ax_costaware.costs.control_set import ControlSet, check_control_sets
from ax_costaware.costs.cost import (
    AffineCost,
    ConstantCost,
    Cost,
    ProductCost,
    SumCost,
    TableCost,
)
from ax_costaware.costs.cost_model import (
    ANY_TRIAL,
    CostFunction,
    CostModel,
    CostOfTrial,
    ResumedCost,
    TrialContext,
    WithSetupCost,
    WithSwitchingCost,
    log_cost_function,
)
from ax_costaware.costs.declared_cost import DeclaredCost
from ax_costaware.costs.switching_cost import LinearSwitch, SwitchingCost, TableSwitch

__all__ = [
    "ANY_TRIAL",
    "AffineCost",
    "BatchCost",
    "Budget",
    "ConstantCost",
    "ControlSet",
    "Cost",
    "CostFunction",
    "CostModel",
    "CostOfTrial",
    "DeclaredCost",
    "LinearSwitch",
    "ProductCost",
    "ResumedCost",
    "SumCost",
    "SwitchingCost",
    "TableCost",
    "TableSwitch",
    "TrialContext",
    "WithSetupCost",
    "WithSwitchingCost",
    "check_control_sets",
    "log_cost_function",
]

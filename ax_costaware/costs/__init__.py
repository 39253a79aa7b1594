"""What trials cost: one interface for declared and learned costs, and wrappers of it."""

from ax_costaware.costs.cost_model import (
    CostFunction,
    CostModel,
    CostOfTrial,
    ResumedCost,
    TrialContext,
    WithSwitchingCost,
    log_cost_function,
)
from ax_costaware.costs.declared import DeclaredCost

__all__ = [
    "CostFunction",
    "CostModel",
    "CostOfTrial",
    "DeclaredCost",
    "ResumedCost",
    "TrialContext",
    "WithSwitchingCost",
    "log_cost_function",
]

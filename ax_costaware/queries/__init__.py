"""What a trial controls and costs, and the laws of what it leaves: value objects without Ax."""

from ax_costaware.queries.control_sets import ControlSet, check_control_sets
from ax_costaware.queries.costs import AffineCost, ConstantCost, Cost, TableCost
from ax_costaware.queries.marginals import (
    Discrete,
    Empirical,
    Marginal,
    RawValue,
    TruncatedNormal,
    Uniform,
)
from ax_costaware.queries.nodes import ProductNodes, sobol_nodes

__all__ = [
    "AffineCost",
    "ConstantCost",
    "ControlSet",
    "Cost",
    "Discrete",
    "Empirical",
    "Marginal",
    "ProductNodes",
    "RawValue",
    "TableCost",
    "TruncatedNormal",
    "Uniform",
    "check_control_sets",
    "sobol_nodes",
]

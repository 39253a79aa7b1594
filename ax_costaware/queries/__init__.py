"""What a trial controls, and the laws of what it does not: value objects without Ax."""

from ax_costaware.queries.control_sets import ControlSet, check_control_sets
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
    "ControlSet",
    "Discrete",
    "Empirical",
    "Marginal",
    "ProductNodes",
    "RawValue",
    "TruncatedNormal",
    "Uniform",
    "check_control_sets",
    "sobol_nodes",
]

"""What a trial controls and costs, and the laws of what it leaves: value objects without Ax."""

from ax_costaware.queries.conditionals.boxes import CellConditional, UniformBoxConditional
from ax_costaware.queries.conditionals.conditional import (
    ColumnNodes,
    Conditional,
    JointNodes,
    NormalLaw,
    PairNodes,
    SharedNodes,
)
from ax_costaware.queries.conditionals.finite import FiniteConditional
from ax_costaware.queries.conditionals.gaussian import (
    GaussianConditional,
    register_conditional_mean,
)
from ax_costaware.queries.conditionals.learned import LearnedConditional
from ax_costaware.queries.conditionals.pairs import PairsConditional
from ax_costaware.queries.conditionals.regressed import RegressedConditional
from ax_costaware.queries.control_sets import ControlSet, check_control_sets
from ax_costaware.queries.costs import (
    AffineCost,
    ConstantCost,
    Cost,
    ProductCost,
    SumCost,
    TableCost,
)
from ax_costaware.queries.joint import (
    GaussianCopula,
    JointEmpirical,
    JointLaw,
    NodesGiven,
    Placement,
)
from ax_costaware.queries.marginals import (
    Discrete,
    Empirical,
    Learned,
    Marginal,
    RawValue,
    TruncatedNormal,
    Uniform,
)
from ax_costaware.queries.nodes import ProductNodes, sobol_nodes
from ax_costaware.queries.switching_cost import SwitchingCost

__all__ = [
    "AffineCost",
    "CellConditional",
    "ColumnNodes",
    "Conditional",
    "ConstantCost",
    "ControlSet",
    "Cost",
    "Discrete",
    "Empirical",
    "FiniteConditional",
    "GaussianConditional",
    "GaussianCopula",
    "JointEmpirical",
    "JointLaw",
    "JointNodes",
    "Learned",
    "LearnedConditional",
    "Marginal",
    "NodesGiven",
    "NormalLaw",
    "PairNodes",
    "PairsConditional",
    "Placement",
    "ProductCost",
    "ProductNodes",
    "RawValue",
    "RegressedConditional",
    "SharedNodes",
    "SumCost",
    "SwitchingCost",
    "TableCost",
    "TruncatedNormal",
    "Uniform",
    "UniformBoxConditional",
    "check_control_sets",
    "register_conditional_mean",
    "sobol_nodes",
]

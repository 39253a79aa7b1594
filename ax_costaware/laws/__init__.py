"""Distributions of uncontrolled inputs, and of points given a query, as value objects."""

from ax_costaware.laws.conditionals.boxes import CellConditional, UniformBoxConditional
from ax_costaware.laws.conditionals.conditional import (
    ColumnNodes,
    Conditional,
    JointNodes,
    NormalLaw,
    PairNodes,
    SharedNodes,
)
from ax_costaware.laws.conditionals.finite import FiniteConditional
from ax_costaware.laws.conditionals.gaussian import (
    GaussianConditional,
    register_conditional_mean,
)
from ax_costaware.laws.conditionals.learned import LearnedConditional
from ax_costaware.laws.conditionals.pairs import PairsConditional
from ax_costaware.laws.conditionals.regressed import RegressedConditional
from ax_costaware.laws.joint import (
    GaussianCopula,
    JointEmpirical,
    JointLaw,
    NodesGiven,
    Placement,
)
from ax_costaware.laws.marginals import (
    Discrete,
    Empirical,
    Learned,
    Marginal,
    RawValue,
    TruncatedNormal,
    Uniform,
)
from ax_costaware.laws.nodes import ProductNodes, sobol_nodes

__all__ = [
    "CellConditional",
    "ColumnNodes",
    "Conditional",
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
    "ProductNodes",
    "RawValue",
    "RegressedConditional",
    "SharedNodes",
    "TruncatedNormal",
    "Uniform",
    "UniformBoxConditional",
    "register_conditional_mean",
    "sobol_nodes",
]

"""Laws of points given queries: what averages are averages over."""

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

__all__ = [
    "CellConditional",
    "ColumnNodes",
    "Conditional",
    "FiniteConditional",
    "GaussianConditional",
    "JointNodes",
    "LearnedConditional",
    "NormalLaw",
    "PairNodes",
    "SharedNodes",
    "UniformBoxConditional",
    "register_conditional_mean",
]

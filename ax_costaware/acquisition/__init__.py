"""BoTorch acquisition functions that know what a trial costs and what it controls."""

from ax_costaware.acquisition.conditional_entropy_search import (
    ConditionalJointEntropySearch,
    ConditionalMaxValueEntropySearch,
)
from ax_costaware.acquisition.confidence_search import ConfidenceSearch
from ax_costaware.acquisition.control_sets import (
    ExpectedUpperConfidenceBound,
    PartialQueryLogExpectedImprovement,
    optimize_control_sets,
)
from ax_costaware.acquisition.cost_aware_analytic import (
    LogExpectedImprovementPerCost,
    PandoraBoxGittinsIndex,
    incumbent,
)
from ax_costaware.acquisition.feasibility import Feasibility, OutcomeConstraint
from ax_costaware.acquisition.gittins_index import expected_spend, gittins_index, lambda_for_budget
from ax_costaware.acquisition.noisy_improvement import LogNoisyExpectedImprovementPerCost
from ax_costaware.acquisition.optimize import Optimum
from ax_costaware.acquisition.standard_normal import (
    noisy_truncated_information,
    truncated_information,
)
from ax_costaware.acquisition.target_fidelity import LogTargetImprovementPerCost
from ax_costaware.acquisition.target_optima import (
    TargetSpace,
    best_target,
    sample_optima,
)

__all__ = [
    "ConditionalJointEntropySearch",
    "ConditionalMaxValueEntropySearch",
    "ConfidenceSearch",
    "ExpectedUpperConfidenceBound",
    "Feasibility",
    "LogExpectedImprovementPerCost",
    "LogNoisyExpectedImprovementPerCost",
    "LogTargetImprovementPerCost",
    "Optimum",
    "OutcomeConstraint",
    "PandoraBoxGittinsIndex",
    "PartialQueryLogExpectedImprovement",
    "TargetSpace",
    "best_target",
    "expected_spend",
    "gittins_index",
    "incumbent",
    "lambda_for_budget",
    "noisy_truncated_information",
    "optimize_control_sets",
    "sample_optima",
    "truncated_information",
]

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
from ax_costaware.acquisition.hypervolume_improvement import (
    LogExpectedHypervolumeImprovementPerCost,
)
from ax_costaware.acquisition.knowledge_gradient import LogKnowledgeGradientPerCost
from ax_costaware.acquisition.latent_confidence import LatentUpperConfidenceBound
from ax_costaware.acquisition.latent_optima import (
    LatentSpace,
    best_latent_points,
    sample_optima,
)
from ax_costaware.acquisition.noisy_improvement import LogNoisyExpectedImprovementPerCost
from ax_costaware.acquisition.optimize import Optimum
from ax_costaware.acquisition.standard_normal import (
    noisy_truncated_information,
    truncated_information,
)
from ax_costaware.acquisition.target_fidelity import LogTargetImprovementPerCost

__all__ = [
    "ConditionalJointEntropySearch",
    "ConditionalMaxValueEntropySearch",
    "ConfidenceSearch",
    "ExpectedUpperConfidenceBound",
    "Feasibility",
    "LatentSpace",
    "LatentUpperConfidenceBound",
    "LogExpectedHypervolumeImprovementPerCost",
    "LogExpectedImprovementPerCost",
    "LogKnowledgeGradientPerCost",
    "LogNoisyExpectedImprovementPerCost",
    "LogTargetImprovementPerCost",
    "Optimum",
    "OutcomeConstraint",
    "PandoraBoxGittinsIndex",
    "PartialQueryLogExpectedImprovement",
    "best_latent_points",
    "expected_spend",
    "gittins_index",
    "incumbent",
    "lambda_for_budget",
    "noisy_truncated_information",
    "optimize_control_sets",
    "sample_optima",
    "truncated_information",
]

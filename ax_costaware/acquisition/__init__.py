"""BoTorch acquisition functions that know what a trial costs and what it controls."""

from ax_costaware.acquisition.confidence_search import ConfidenceOptima, ConfidenceSearch
from ax_costaware.acquisition.expected_ucb import ExpectedUpperConfidenceBound
from ax_costaware.acquisition.gittins_index import gittins_index
from ax_costaware.acquisition.incumbent import incumbent
from ax_costaware.acquisition.lambda_for_budget import expected_spend, lambda_for_budget
from ax_costaware.acquisition.log_ei_per_cost import LogExpectedImprovementPerCost
from ax_costaware.acquisition.optimize_control_sets import ControlSetOptima, optimize_control_sets
from ax_costaware.acquisition.pandora_box import PandoraBoxGittinsIndex
from ax_costaware.acquisition.partial_query_ei import PartialQueryLogExpectedImprovement

__all__ = [
    "ConfidenceOptima",
    "ConfidenceSearch",
    "ControlSetOptima",
    "ExpectedUpperConfidenceBound",
    "LogExpectedImprovementPerCost",
    "PandoraBoxGittinsIndex",
    "PartialQueryLogExpectedImprovement",
    "expected_spend",
    "gittins_index",
    "incumbent",
    "lambda_for_budget",
    "optimize_control_sets",
]

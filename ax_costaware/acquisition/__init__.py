"""BoTorch acquisition functions that know what a trial costs and what it controls."""

from ax_costaware.acquisition.expected_ucb import ExpectedUpperConfidenceBound
from ax_costaware.acquisition.optimize_control_sets import ControlSetOptima, optimize_control_sets
from ax_costaware.acquisition.partial_query_ei import PartialQueryLogExpectedImprovement

__all__ = [
    "ControlSetOptima",
    "ExpectedUpperConfidenceBound",
    "PartialQueryLogExpectedImprovement",
    "optimize_control_sets",
]

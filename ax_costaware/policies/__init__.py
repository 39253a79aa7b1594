"""Pure decision rules: numbers in, a decision and a reason out. No model, no inputs, no Ax."""

from ax_costaware.policies.beta import LogarithmicBeta, TheoreticalBeta
from ax_costaware.policies.control_set_rules.epsilon_schedule import EpsilonSchedule
from ax_costaware.policies.control_set_rules.explore_then_commit import ExploreThenCommit
from ax_costaware.policies.control_set_rules.per_cost import LargestValuePerCost
from ax_costaware.policies.control_set_rules.rule import (
    ControlSetChoice,
    ControlSetHistory,
    ControlSetRule,
    CostEstimate,
    Evaluate,
    EvaluateBounds,
    PastDecision,
)
from ax_costaware.policies.control_set_rules.unknown_costs import UnknownCosts
from ax_costaware.policies.costly_feedback.domain import ResetEvery
from ax_costaware.policies.costly_feedback.loop import Ask, CostlyFeedbackLoop
from ax_costaware.policies.gittins import (
    GittinsDecay,
    GittinsStop,
    ImprovementPerCostStop,
)
from ax_costaware.policies.query_rules import (
    BernoulliRule,
    FeedbackRule,
    FullFeedback,
    LCBUCBRule,
    MeasurementChoice,
    MixedRule,
    Prospect,
    QueryRule,
    Rivals,
)
from ax_costaware.policies.resolution_tree import Cell, ResolutionTree

__all__ = [
    "Ask",
    "BernoulliRule",
    "Cell",
    "ControlSetChoice",
    "ControlSetHistory",
    "ControlSetRule",
    "CostEstimate",
    "CostlyFeedbackLoop",
    "EpsilonSchedule",
    "Evaluate",
    "EvaluateBounds",
    "ExploreThenCommit",
    "FeedbackRule",
    "FullFeedback",
    "GittinsDecay",
    "GittinsStop",
    "ImprovementPerCostStop",
    "LCBUCBRule",
    "LargestValuePerCost",
    "LogarithmicBeta",
    "MeasurementChoice",
    "MixedRule",
    "PastDecision",
    "Prospect",
    "QueryRule",
    "ResetEvery",
    "ResolutionTree",
    "Rivals",
    "TheoreticalBeta",
    "UnknownCosts",
]

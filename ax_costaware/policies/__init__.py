"""Pure decision rules: numbers in, a decision and a reason out. No model, no inputs, no Ax."""

from ax_costaware.policies.beta import LogarithmicBeta, TheoreticalBeta
from ax_costaware.policies.control_set_rules import (
    ControlSetDecision,
    ControlSetHistory,
    ControlSetRule,
    CostEstimate,
    EpsilonSchedule,
    Evaluate,
    EvaluateBounds,
    ExploreThenCommit,
    InformationPerCost,
    LargestValuePerCost,
    PastDecision,
    UnknownCosts,
)
from ax_costaware.policies.costly_feedback import Ask, CostlyFeedbackLoop, ResetEvery
from ax_costaware.policies.gittins import (
    GittinsDecay,
    GittinsStop,
    ImprovementPerCostStop,
    StopDecision,
)
from ax_costaware.policies.query_rules import (
    BernoulliRule,
    FeedbackRule,
    FullFeedback,
    LCBUCBRule,
    MixedRule,
    Prospect,
    QueryDecision,
    QueryRule,
    Rivals,
)
from ax_costaware.policies.resolution_tree import Cell, ResolutionTree, TreeDecision

__all__ = [
    "Ask",
    "BernoulliRule",
    "Cell",
    "ControlSetDecision",
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
    "InformationPerCost",
    "LCBUCBRule",
    "LargestValuePerCost",
    "LogarithmicBeta",
    "MixedRule",
    "PastDecision",
    "Prospect",
    "QueryDecision",
    "QueryRule",
    "ResetEvery",
    "ResolutionTree",
    "Rivals",
    "StopDecision",
    "TheoreticalBeta",
    "TreeDecision",
    "UnknownCosts",
]

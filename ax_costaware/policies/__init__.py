"""Pure decision rules: numbers in, a decision and a reason out. No model, no inputs, no Ax."""

from ax_costaware.policies.beta import LogarithmicBeta, TheoreticalBeta
from ax_costaware.policies.control_set_rules import (
    ControlSetDecision,
    ControlSetHistory,
    ControlSetRule,
    EpsilonSchedule,
    Evaluate,
    ExploreThenCommit,
    LargestValuePerCost,
)
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
    QueryDecision,
    QueryRule,
    Rivals,
)

__all__ = [
    "BernoulliRule",
    "ControlSetDecision",
    "ControlSetHistory",
    "ControlSetRule",
    "EpsilonSchedule",
    "Evaluate",
    "ExploreThenCommit",
    "FeedbackRule",
    "FullFeedback",
    "GittinsDecay",
    "GittinsStop",
    "ImprovementPerCostStop",
    "LCBUCBRule",
    "LargestValuePerCost",
    "LogarithmicBeta",
    "MixedRule",
    "QueryDecision",
    "QueryRule",
    "Rivals",
    "StopDecision",
    "TheoreticalBeta",
]

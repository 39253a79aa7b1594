"""Pure decision rules: numbers in, a decision and a reason out. No model, no inputs, no Ax."""

from ax_costaware.policies.beta import TheoreticalBeta
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

__all__ = [
    "ControlSetDecision",
    "ControlSetHistory",
    "ControlSetRule",
    "EpsilonSchedule",
    "Evaluate",
    "ExploreThenCommit",
    "GittinsDecay",
    "GittinsStop",
    "ImprovementPerCostStop",
    "LargestValuePerCost",
    "StopDecision",
    "TheoreticalBeta",
]

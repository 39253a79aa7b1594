"""Rules that choose a control set: numbers in, a decision with its reason out."""

from ax_costaware.policies.control_set_rules.epsilon_schedule import EpsilonSchedule
from ax_costaware.policies.control_set_rules.explore_then_commit import ExploreThenCommit
from ax_costaware.policies.control_set_rules.per_cost import (
    InformationPerCost,
    KnowledgePerBudget,
    LargestValuePerCost,
)
from ax_costaware.policies.control_set_rules.rule import (
    ControlSetDecision,
    ControlSetHistory,
    ControlSetRule,
    CostEstimate,
    Evaluate,
    EvaluateBounds,
    EvaluateKnowledge,
    PastDecision,
)
from ax_costaware.policies.control_set_rules.unknown_costs import UnknownCosts

__all__ = [
    "ControlSetDecision",
    "ControlSetHistory",
    "ControlSetRule",
    "CostEstimate",
    "EpsilonSchedule",
    "Evaluate",
    "EvaluateBounds",
    "EvaluateKnowledge",
    "ExploreThenCommit",
    "InformationPerCost",
    "KnowledgePerBudget",
    "LargestValuePerCost",
    "PastDecision",
    "UnknownCosts",
]

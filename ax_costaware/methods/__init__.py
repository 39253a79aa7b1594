"""The methods and their decision rules, without Ax.

``Method`` says what a method answers; each of the seven is one frozen value object, the same that a
strategy stores. A rule chooses from plain numbers and says why; it stands beside its method.
``CostlyFeedbackLoop`` runs the rules of costly feedback in a program of one's own.
"""

from ax_costaware.core.method import Method
from ax_costaware.methods.averages.indirect_queries import IndirectQueries
from ax_costaware.methods.averages.information import LatentUCB
from ax_costaware.methods.beta import (
    BetaSchedule,
    CompactDomainBeta,
    FiniteDomainBeta,
    LogarithmicBeta,
)
from ax_costaware.methods.control_sets import ControlSets
from ax_costaware.methods.control_sets.rules.beta import TheoreticalBeta
from ax_costaware.methods.control_sets.rules.epsilon_schedule import EpsilonSchedule
from ax_costaware.methods.control_sets.rules.explore_then_commit import ExploreThenCommit
from ax_costaware.methods.control_sets.rules.rule import (
    ControlSetChoice,
    ControlSetHistory,
    ControlSetRule,
    CostEstimate,
    Evaluate,
    EvaluateBounds,
    PastChoice,
)
from ax_costaware.methods.control_sets.rules.unknown_costs import UnknownCosts
from ax_costaware.methods.control_sets.rules.value_per_cost import LargestValuePerCost
from ax_costaware.methods.cost_aware import CostAware, Gittins
from ax_costaware.methods.cost_aware.rules import GittinsDecay, GittinsStop, ImprovementPerCostStop
from ax_costaware.methods.costly_feedback import CostlyFeedback
from ax_costaware.methods.costly_feedback.domain import ResetEvery
from ax_costaware.methods.costly_feedback.loop import Ask, CostlyFeedbackLoop
from ax_costaware.methods.costly_feedback.rules import (
    BernoulliRule,
    FeedbackRule,
    FullFeedback,
    LCBUCBRule,
    MeasurementChoice,
    MeasurementRule,
    MixedRule,
    Prospect,
    Rivals,
)
from ax_costaware.methods.fidelity import MultiFidelity
from ax_costaware.methods.priced import StandardizedPrice
from ax_costaware.methods.resolution_tree import TreeSearch
from ax_costaware.methods.resolution_tree.tree import Cell, ResolutionTree

__all__ = [
    "Ask",
    "BernoulliRule",
    "BetaSchedule",
    "Cell",
    "CompactDomainBeta",
    "ControlSetChoice",
    "ControlSetHistory",
    "ControlSetRule",
    "ControlSets",
    "CostAware",
    "CostEstimate",
    "CostlyFeedback",
    "CostlyFeedbackLoop",
    "EpsilonSchedule",
    "Evaluate",
    "EvaluateBounds",
    "ExploreThenCommit",
    "FeedbackRule",
    "FiniteDomainBeta",
    "FullFeedback",
    "Gittins",
    "GittinsDecay",
    "GittinsStop",
    "ImprovementPerCostStop",
    "IndirectQueries",
    "LCBUCBRule",
    "LargestValuePerCost",
    "LatentUCB",
    "LogarithmicBeta",
    "MeasurementChoice",
    "MeasurementRule",
    "Method",
    "MixedRule",
    "MultiFidelity",
    "PastChoice",
    "Prospect",
    "ResetEvery",
    "ResolutionTree",
    "Rivals",
    "StandardizedPrice",
    "TheoreticalBeta",
    "TreeSearch",
    "UnknownCosts",
]

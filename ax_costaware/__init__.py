"""Cost-aware Bayesian optimisation for Ax and BoTorch.

State what each kind of trial costs and which inputs it controls. The package then spends the budget
well and stops when no trial is worth its cost. Importing it registers its classes with Ax's JSON
and SQL stores.
"""

from ax_costaware.ax_bridge.client import create_tables, locked, read_experiment, take_over
from ax_costaware.ax_bridge.node import BudgetExhausted, CostAwareNode
from ax_costaware.ax_bridge.search_space import parameters_of
from ax_costaware.ax_bridge.stopping import GittinsStoppingStrategy
from ax_costaware.ax_bridge.storage import register_all
from ax_costaware.ax_bridge.stored_expressions import check_json_file
from ax_costaware.ax_bridge.strategy import strategy_of
from ax_costaware.core import FixedHyperparameters
from ax_costaware.costs.batch_cost import BatchCost
from ax_costaware.costs.budget import Budget
from ax_costaware.costs.control_set import ControlSet
from ax_costaware.costs.cost import AffineCost, ConstantCost, ProductCost, TableCost
from ax_costaware.costs.switching_cost import LinearSwitch, SwitchingCost, TableSwitch
from ax_costaware.laws import (
    FiniteConditional,
    GaussianConditional,
    LearnedConditional,
    RegressedConditional,
    UniformBoxConditional,
    register_conditional_mean,
)
from ax_costaware.laws.joint import GaussianCopula, JointEmpirical
from ax_costaware.laws.marginals import (
    Discrete,
    Empirical,
    Learned,
    TruncatedNormal,
    Uniform,
)
from ax_costaware.methods import (
    CompactDomainBeta,
    EpsilonSchedule,
    ExploreThenCommit,
    FiniteDomainBeta,
    LargestValuePerCost,
    LatentUCB,
    LogarithmicBeta,
    Method,
    StandardizedPrice,
    TheoreticalBeta,
    UnknownCosts,
)
from ax_costaware.methods.cost_aware.rules import GittinsDecay, GittinsStop, ImprovementPerCostStop
from ax_costaware.methods.costly_feedback.rules import (
    BernoulliRule,
    FullFeedback,
    LCBUCBRule,
    MeasurementRule,
    MixedRule,
)
from ax_costaware.metrics import CostMetric, ReportedMetric, SkippingMetric
from ax_costaware.runners import (
    FunctionRunner,
    PolledRunner,
    RayRunner,
    SimulationRunner,
    SubmititRunner,
    TrialFailedError,
    TrialResult,
    register_trial_function,
)
from ax_costaware.session import (
    add_pairs,
    attach_table,
    complete_trial,
    exclude_trial,
    input_fit,
    query,
    recommend,
    report_cost,
    save,
    set_budget,
    should_stop,
    spending,
)
from ax_costaware.space import AtMost, Candidates, Descriptors, NonlinearConstraint
from ax_costaware.strategies import (
    control_set_parameter,
    control_set_strategy,
    cost_aware_strategy,
    costly_feedback_strategy,
    fidelity_strategy,
    gittins_strategy,
    indirect_query_strategy,
    level_parameter,
    resolution_tree_strategy,
)

register_all()

__all__ = [
    "AffineCost",
    "AtMost",
    "BatchCost",
    "BernoulliRule",
    "Budget",
    "BudgetExhausted",
    "Candidates",
    "CompactDomainBeta",
    "ConstantCost",
    "ControlSet",
    "CostAwareNode",
    "CostMetric",
    "Descriptors",
    "Discrete",
    "Empirical",
    "EpsilonSchedule",
    "ExploreThenCommit",
    "FiniteConditional",
    "FiniteDomainBeta",
    "FixedHyperparameters",
    "FullFeedback",
    "FunctionRunner",
    "GaussianConditional",
    "GaussianCopula",
    "GittinsDecay",
    "GittinsStop",
    "GittinsStoppingStrategy",
    "ImprovementPerCostStop",
    "JointEmpirical",
    "LCBUCBRule",
    "LargestValuePerCost",
    "LatentUCB",
    "Learned",
    "LearnedConditional",
    "LinearSwitch",
    "LogarithmicBeta",
    "MeasurementRule",
    "Method",
    "MixedRule",
    "NonlinearConstraint",
    "PolledRunner",
    "ProductCost",
    "RayRunner",
    "RegressedConditional",
    "ReportedMetric",
    "SimulationRunner",
    "SkippingMetric",
    "StandardizedPrice",
    "SubmititRunner",
    "SwitchingCost",
    "TableCost",
    "TableSwitch",
    "TheoreticalBeta",
    "TrialFailedError",
    "TrialResult",
    "TruncatedNormal",
    "Uniform",
    "UniformBoxConditional",
    "UnknownCosts",
    "add_pairs",
    "attach_table",
    "check_json_file",
    "complete_trial",
    "control_set_parameter",
    "control_set_strategy",
    "cost_aware_strategy",
    "costly_feedback_strategy",
    "create_tables",
    "exclude_trial",
    "fidelity_strategy",
    "gittins_strategy",
    "indirect_query_strategy",
    "input_fit",
    "level_parameter",
    "locked",
    "parameters_of",
    "query",
    "read_experiment",
    "recommend",
    "register_conditional_mean",
    "register_trial_function",
    "report_cost",
    "resolution_tree_strategy",
    "save",
    "set_budget",
    "should_stop",
    "spending",
    "strategy_of",
    "take_over",
]

"""Factories of Ax generation strategies, one for each method.

A factory takes the fields of its method as arguments, with their texts, and those of
``StrategyOptions``. The classes below are its signature: they are never constructed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from ax.generators.torch.botorch_modular.surrogate import SurrogateSpec

from ax_costaware.argument_checks import integer_at_least
from ax_costaware.ax_bridge.checks import ax_errors
from ax_costaware.ax_bridge.search_space import parameters_of_configs
from ax_costaware.ax_bridge.strategy import StrategyOptions, SurrogateOptions, strategy_factory
from ax_costaware.core import FixedHyperparameters
from ax_costaware.core.traits import CONTROL_SET
from ax_costaware.costs import ControlSet, check_control_sets
from ax_costaware.methods import (
    ControlSets,
    CostAware,
    CostlyFeedback,
    Gittins,
    IndirectQueries,
    MultiFidelity,
    TreeSearch,
)
from ax_costaware.methods.cost_aware.search import GITTINS
from ax_costaware.methods.costed import CostArgument
from ax_costaware.methods.resolution_tree import LEVEL


@dataclass(frozen=True, kw_only=True)
class _CostAwareArguments(SurrogateOptions, CostAware):
    """Return a strategy that maximizes the expected improvement per unit of cost.

    Improvement is over a noisy incumbent (noisy EI) if the model has found noise. A run ends

    - when the budget pays for no trial, or
    - with ``lmbda``, the price of a unit of cost, when no trial is worth its cost. With a stopping
      rule and no ``lmbda``, it is solved from the budget at the first decision of the model, and
      held.

    Outcome constraints with a number as their bound are read from the experiment's optimization
    configuration. Each of their metrics has a model of its own, and improvement is weighted by the
    probability of being feasible. Until a trial is feasible, the one with the largest probability
    of feasibility per cost is next.
    """

    cost: CostArgument | Mapping[str, CostArgument] = field(kw_only=False)  # type: ignore[assignment]

    budget: float | Mapping[str, float] | None = None  # type: ignore[assignment]


cost_aware_strategy = strategy_factory(_CostAwareArguments)


@dataclass(frozen=True, kw_only=True)
class _GittinsArguments(SurrogateOptions, Gittins):
    """Return a strategy that maximizes the Pandora's Box Gittins index.

    The method of Xie, Astudillo, Frazier, Scully and Terenin 2024, "Cost-aware Bayesian
    Optimization via the Pandora's Box Gittins Index" (NeurIPS): the index (PBGI), a Matern 5/2
    kernel, and quasi-random initial trials that ignore costs. The price lambda of a unit of cost is

    - ``lmbda``, if it is given;
    - with a budget, the price at which the policy is expected to spend the rest of it, solved
      before every decision; with a stopping rule, solved at the first decision of the model, and
      held;
    - otherwise a price that decays (PBGI-D).

    Outcome constraints apply as in ``cost_aware_strategy``.
    """

    acquisition: str = field(default=GITTINS, init=False)  # type: ignore[misc]


gittins_strategy = strategy_factory(_GittinsArguments)


@dataclass(frozen=True, kw_only=True)
class _FidelityArguments(StrategyOptions, MultiFidelity):
    """Return a multi-fidelity strategy: the best long run is found from short runs.

    The knowledge gradient per cost of Poloczek, Wang and Frazier 2017, "Multi-Information Source
    Optimization", and Wu et al. 2019, "Practical Multi-fidelity Bayesian Optimization for
    Hyperparameter Tuning".

    Some parameters are fidelities, such as the epochs of a training, the size of the data or the
    mesh of a simulation. The deployed point has them at their target values. Each trial has the
    inputs and fidelities of the largest knowledge gradient about the target per unit of cost. The
    correlation of other fidelities with the target is learned, so that misleading ones are
    abandoned. ``recommend(client)`` is at the target, where no trial need have been run. With a
    constant cost low fidelities save nothing.

    The objective of a trial is that at its own fidelity. Outcome constraints are read from the
    experiment's optimization configuration, and apply at the target.
    """


fidelity_strategy = strategy_factory(_FidelityArguments)


@dataclass(frozen=True, kw_only=True)
class _ControlSetArguments(SurrogateOptions, ControlSets):
    """Return a strategy that chooses the inputs that each trial controls, and their values.

    UCB-CVS of Tay et al. 2023, "Bayesian Optimization with Cost-varying Variable Subsets"
    (NeurIPS). A rule chooses the inputs that each trial controls; their values maximise an
    acquisition function in expectation over the uncontrolled inputs.

    Outcome constraints with a number as their bound are read from the experiment's optimization
    configuration. They apply to the expectation of an outcome over the uncontrolled inputs, and
    each outcome has a model of its own.

    - A value above the worst one, or an improvement, is weighted by the probability that the query
      is feasible.
    - Rules that compare upper confidence bounds, ``ExploreThenCommit`` and ``EpsilonSchedule``, do
      not weight queries that are feasible by an optimistic bound (Xu et al. 2023).
    - Until a query is feasible, the one with the largest probability of feasibility per cost is
      next.
    """

    initial_control_sets: Sequence[str] | None = None  # type: ignore[assignment]


control_set_strategy = strategy_factory(_ControlSetArguments)


@ax_errors()
def control_set_parameter(control_sets: Sequence[ControlSet]) -> ChoiceParameterConfig:
    """Return the ``control_set`` parameter that an experiment with control sets needs.

    Args:
        control_sets: The control sets, as given to ``control_set_strategy``.

    Returns:
        The configuration to put among the ``parameters`` of ``Client.configure_experiment``.

    Raises:
        UserInputError: If there are no control sets, or two of them are alike.
    """
    names = [str(control_set.name) for control_set in check_control_sets(control_sets)]
    return ChoiceParameterConfig(
        name=CONTROL_SET, values=names, parameter_type="str", is_ordered=False
    )


@dataclass(frozen=True, kw_only=True)
class _CostlyFeedbackArguments(SurrogateOptions, CostlyFeedback):
    """Return a strategy that chooses the values of every trial, and whether to measure it.

    CE-GP-UCB of Wang, Ren, Bogunovic, Xiong and Urtasun 2020, "Cost-Efficient Online Hyperparameter
    Optimization". A system is tuned while it runs, its response drifts, and measuring the response
    is expensive. Every trial uses the point with the largest upper confidence bound at its time,
    and is measured if that point may be confused with a better one. Initial trials are measured.

    If ``query(client, trial_index).measure`` is True, the outcome is reported as usual. Otherwise
    ``complete_trial(client, trial_index)`` completes the trial without an outcome, at no cost. An
    outcome that is reported all the same is used.

    Pending measurements are fantasized at the posterior mean, so that the trials of a batch differ.
    The strategy never stops.

    Outcome constraints with a number as their bound are read from the experiment's optimization
    configuration. Each of their metrics is measured with the objective, drifts as it does, and has
    a model of its own. The value of a point above the worst one is weighted by its probability of
    being feasible at the time. A rule that compares points also measures if feasibility is
    uncertain. Until a point is feasible, the likeliest one is next.
    """

    surrogate_spec: SurrogateSpec | FixedHyperparameters | None = None
    """The model: an Ax ``SurrogateSpec`` of ``TimeVaryingGP`` or classes derived from it,
    ``FixedHyperparameters`` (with ``forgetting``), or None for a ``TimeVaryingGP`` with fitted
    hyperparameters."""


costly_feedback_strategy = strategy_factory(_CostlyFeedbackArguments)


@dataclass(frozen=True, kw_only=True)
class _IndirectQueryArguments(StrategyOptions, IndirectQueries):
    """Return a strategy that asks the most informative query about the best latent point.

    Zhang et al. 2024, "Indirect Query Bayesian Optimization with Integrated Feedback". Clinics
    report averages, satellites report coarse pixels, and the goal is the best point behind them.
    Each trial asks the most informative query about it, by the joint entropy of the point and its
    value or as published (CMES).

    The parameters of the Ax experiment are those of the queries. Its metric is the answer: the
    average of the objective over latent points. ``recommend(client)`` returns the best latent
    point, in terms of ``target_parameters``, and its expected value.

    Outcome constraints with a number as their bound are read from the experiment's optimization
    configuration. They apply to latent points; answers are averages of the constrained outcomes,
    too, and each outcome has a model of its own. The criterion is then the joint entropy for any
    ``acquisition``, because an average over infeasible points may be above the best feasible value.
    """

    target_parameters: Sequence[RangeParameterConfig | ChoiceParameterConfig] = field(  # type: ignore[assignment]
        kw_only=False
    )
    """Ax configurations of the parameters of latent points, in the order of the conditional's
    columns of X. They are not parameters of the experiment, but may have the same names."""


indirect_query_strategy = strategy_factory(
    _IndirectQueryArguments, target_parameters=parameters_of_configs
)


@dataclass(frozen=True, kw_only=True)
class _ResolutionTreeArguments(StrategyOptions, TreeSearch):
    """Return a strategy that chooses the cell to measure, and its resolution.

    CMETS of Zhang et al. 2024, "Indirect Query Bayesian Optimization with Integrated Feedback",
    section 5.2. A trial measures the mean over a cell of a tree, which is coarse and cheap or fine
    and expensive. Each trial measures the cell of most information per unit of cost.

    The experiment has the parameter ``level_parameter(max_level)`` and the target parameters. A
    trial is a cell, given by its level and its centre, and its metric is the mean of the objective
    over the cell. Candidates are the leaves of a tree, in which measured cells are split, and their
    children. ``recommend(client)`` returns the best point. Outcome constraints apply as in
    ``indirect_query_strategy``.
    """

    target_parameters: Sequence[RangeParameterConfig] = field(kw_only=False)  # type: ignore[assignment]
    """The parameters of the points: ranges of real numbers without a log scale."""

    # Cells are compared one by one, without a search.
    num_restarts: int | None = field(default=None, init=False)
    raw_samples: int | None = field(default=None, init=False)


resolution_tree_strategy = strategy_factory(
    _ResolutionTreeArguments, target_parameters=parameters_of_configs
)


@ax_errors()
def level_parameter(max_level: int) -> RangeParameterConfig:
    """Return the parameter for the level of a cell, to be added to those of the experiment.

    Args:
        max_level: The finest level, at least 1; the whole space is level 0.

    Raises:
        UserInputError: For any other ``max_level``.
    """
    integer_at_least(max_level, 1, "max_level")
    return RangeParameterConfig(LEVEL, bounds=(0, max_level), parameter_type="int")

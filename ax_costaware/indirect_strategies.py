"""Factories of Ax generation strategies for trials that tell of something else than themselves.

- ``indirect_query_strategy``: Zhang et al. 2024, "Indirect Query Bayesian Optimization with
  Integrated Feedback": clinics report averages, satellites coarse pixels, and what is wanted is the
  best point. Each trial asks the query whose answer is expected to tell most about it, by the joint
  entropy of the point and its value or as published (CMES).
- ``resolution_tree_strategy``: CMETS of the same, section 5.2. A cell of a tree over the space is
  measured as a whole: coarse and cheap, or fine and dear? Each trial measures the cell whose mean
  is expected to tell most, per unit of cost.
- ``fidelity_strategy``: the knowledge gradient per cost of Poloczek, Wang and Frazier 2017,
  "Multi-Information Source Optimization", and Wu et al. 2019, "Practical Multi-fidelity Bayesian
  Optimization for Hyperparameter Tuning", of the inputs of a trial: short runs say which long one
  to deploy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from ax.generation_strategy.generation_strategy import GenerationStrategy

from ax_costaware.argument_checks import integer_at_least
from ax_costaware.ax_bridge.checks import ax_errors
from ax_costaware.ax_bridge.search_space import parameters_of_configs
from ax_costaware.ax_bridge.strategy import strategy_with
from ax_costaware.core import FixedHyperparameters
from ax_costaware.costs import Cost
from ax_costaware.laws import Conditional
from ax_costaware.methods import IndirectQueries, MultiFidelity, TreeSearch
from ax_costaware.methods.averages.information import Information
from ax_costaware.methods.costed import CostArgument
from ax_costaware.methods.resolution_tree import LEVEL
from ax_costaware.models.log_normal_cost import CostKind
from ax_costaware.space.parameters import Value


def indirect_query_strategy(
    target_parameters: Sequence[RangeParameterConfig | ChoiceParameterConfig],
    conditional: Conditional,
    cost: float | Cost = 1.0,
    budget: float | None = None,
    query_parameters: Sequence[str] | None = None,
    acquisition: Information = "joint_entropy",
    initial_trials: int = 5,
    max_trial_cost: float | None = None,
    charge_initial: bool = True,
    hyperparameters: FixedHyperparameters | None = None,
    seed: int = 0,
    num_samples: int = 32,
    num_restarts: int | None = None,
    raw_samples: int | None = None,
    lmbda: float | None = None,
    count_attached: bool = True,
    feasibility_threshold: float = 0.9,
    torch_device: str | None = None,
    winsorize: bool = True,
) -> GenerationStrategy:
    """A strategy that asks what tells most about the best point, and is answered by averages.

    The parameters of the Ax experiment are those of the queries, and its metric is the answer: the
    average of the objective over the points that a query reaches. ``recommend(client)`` says which
    point is best, in terms of ``target_parameters``, and what to expect there.

    Outcome constraints with a number as their bound are taken from the experiment's optimization
    configuration. They are on the point: each outcome, of which the answers are averages, too, has
    a model of its own, and a query is to tell of the best feasible point. That is by the joint
    entropy, whatever ``acquisition`` says: an average over infeasible points may be above the value
    of the best feasible one.

    Args:
        target_parameters: The parameters of the points, as Ax's configurations, in the order of the
            conditional's columns of X. They are no parameters of the experiment, and may have the
            names of such.
        conditional: The law of a point given a query: ``GaussianConditional``,
            ``UniformBoxConditional``, ``FiniteConditional`` for policies over arms, or, from pairs
            of points and queries, to which ``add_pairs`` adds while the experiment runs,
            ``RegressedConditional`` or ``LearnedConditional``. Bounds that it lacks are those of
            ``target_parameters``. A column of X for a choice without an order has the position of
            the value in it. The points of a ``FiniteConditional`` are all that can be recommended.
        cost: What a query costs, in a unit of your own: a number, or a value object such as
            ``AffineCost({"patients": 2.5})`` by the names of the experiment's parameters. Queries
            are then compared by information per unit of cost.
        budget: What all trials may cost together. When what is left pays for no query, asking for
            one raises ``OptimizationShouldStop``, which says what to deploy. None: no limit.
        query_parameters: Names of the experiment's parameters in the order of the conditional's
            query columns; None: in the experiment's own order.
        acquisition: What a query is to tell of: ``"joint_entropy"``, the best point together with
            its value; ``"max_value_entropy"``, the value only (CMES, as published), which may ask
            one query again and again where answers are noisy or the law is learned; or
            ``"max_value_entropy_noise_aware"``, the same with an account of the answer's noise.
            Where no query tells of the value (less than 1e-6 nats) the first decides.
        initial_trials: Quasi-random queries before the model decides. With 0 the first
            outcome ends them, be it of an attached trial.
        max_trial_cost: What any one trial may cost; None for no limit.
        charge_initial: Whether the initial trials are paid from the budget.
        hyperparameters: ``FixedHyperparameters`` of the model of the objective over the points, on
            the unit cube of the target parameters; None: fitted to the answers.
        seed: Seed of everything random. Two runs with one seed and the same outcomes agree.
        num_samples: Sampled optima over which the information is averaged.
        num_restarts: Local searches for the query; None for the method's default.
        raw_samples: Queries from the best of which these start; None for the method's default.
        lmbda: What one unit of cost is worth, in units of the objective. When further queries are
            not expected to add the price of their cost to the expectation of the best point, in
            several decisions in a row, asking for one raises ``OptimizationShouldStop``. None: only
            the budget ends a run.
        count_attached: Whether trials that were attached with their data, such as past ones, count
            towards ``initial_trials``.
        feasibility_threshold: Least probability of satisfying all outcome constraints with which a
            point may be deployed.
        torch_device: Where models and searches compute, by torch's name, such as ``"cuda"`` or
            ``"cuda:1"``; None for the CPU. It is stored. A store that is loaded where there is no
            such device goes on with the CPU, and says so in the log.
        winsorize: Whether an outcome counts as no worse than ten distances between the quartiles
            beyond the worse one, where hyperparameters are fitted: a trial that went wrong, and
            says so by a million, is not to hide how the others differ.

    Returns:
        A generation strategy for ``Client.set_generation_strategy``, ``AxClient`` or an
        ``Orchestrator``.

    Raises:
        UserInputError: If an argument has a value that the method cannot use. Whether the
            arguments fit the experiment is checked when the first trial is asked for.
    """
    settings = locals()
    settings["target_parameters"] = parameters_of_configs(target_parameters)
    return strategy_with(IndirectQueries, settings)


@ax_errors()
def level_parameter(max_level: int) -> RangeParameterConfig:
    """The parameter that says how fine a cell is, to be added to those of the experiment.

    Args:
        max_level: The finest level, at least 1; the whole space is level 0.

    Raises:
        UserInputError: For any other ``max_level``.
    """
    integer_at_least(max_level, 1, "max_level")
    return RangeParameterConfig(LEVEL, bounds=(0, max_level), parameter_type="int")


def resolution_tree_strategy(
    target_parameters: Sequence[RangeParameterConfig],
    max_level: int,
    splits: int | Sequence[int] = 2,
    costs: Sequence[float] | None = None,
    noise: Sequence[float] | float | None = None,
    budget: float | None = None,
    acquisition: Information = "max_value_entropy",
    initial_trials: int | None = None,
    max_trial_cost: float | None = None,
    charge_initial: bool = True,
    hyperparameters: FixedHyperparameters | None = None,
    seed: int = 0,
    num_samples: int = 32,
    lmbda: float | None = None,
    count_attached: bool = True,
    feasibility_threshold: float = 0.9,
    torch_device: str | None = None,
    winsorize: bool = True,
) -> GenerationStrategy:
    """A strategy that chooses where to measure, and how finely.

    The experiment has the parameters of ``level_parameter(max_level)`` and the target parameters
    themselves: a trial is a cell, given by its level and its centre, and its metric is the mean of
    the objective over the cell. Candidates are the leaves of a tree, which the cells that were
    measured have grown, and their children. ``recommend(client)`` says which point is best. Outcome
    constraints are taken as by ``indirect_query_strategy``.

    Args:
        target_parameters: The parameters of the points: ranges of real numbers without a log scale.
        max_level: The finest level, at least 1.
        splits: Into how many parts a cell is split along every parameter, or along each of them.
        costs: What a cell of each level costs, from level 0 to ``max_level``; None:
            ``0.5 (level + 1)``.
        noise: Standard deviation of the noise of a measurement, one for each level or one for all;
            None: fitted, or that of ``hyperparameters``. Standard errors that are reported with the
            outcomes replace it for these outcomes.
        budget: What all trials may cost together. When what is left pays for no cell, asking for
            one raises ``OptimizationShouldStop``, which says what to deploy. None: no limit.
        acquisition: What a cell is to tell of, by default the best value (CMETS, as published); see
            ``indirect_query_strategy``.
        initial_trials: Cells that are measured before the model decides, the coarsest first. None:
            the whole space and the cells of level 1. With 0 the first outcome ends them,
            be it of an attached trial.
        max_trial_cost: What any one trial may cost; None for no limit.
        charge_initial: Whether the initial trials are paid from the budget.
        hyperparameters: ``FixedHyperparameters`` of the model of the objective, on the unit cube of
            the target parameters; None: fitted.
        seed: Seed of everything random. Two runs with one seed and the same outcomes agree.
        num_samples: Sampled optima over which the information is averaged.
        lmbda: What one unit of cost is worth, in units of the objective. When further cells are
            not expected to add the price of their cost to the expectation of the best point, in
            several decisions in a row, asking for one raises ``OptimizationShouldStop``. None: only
            the budget ends a run.
        count_attached: Whether trials that were attached with their data, such as past ones, count
            towards ``initial_trials``.
        feasibility_threshold: Least probability of satisfying all outcome constraints with which a
            point may be deployed.
        torch_device: Where models and searches compute, by torch's name, such as ``"cuda"`` or
            ``"cuda:1"``; None for the CPU. It is stored. A store that is loaded where there is no
            such device goes on with the CPU, and says so in the log.
        winsorize: Whether an outcome counts as no worse than ten distances between the quartiles
            beyond the worse one, where hyperparameters are fitted: a trial that went wrong, and
            says so by a million, is not to hide how the others differ.

    Returns:
        A generation strategy for ``Client.set_generation_strategy``, ``AxClient`` or an
        ``Orchestrator``.

    Raises:
        UserInputError: If an argument has a value that the method cannot use. Whether the
            arguments fit the experiment is checked when the first trial is asked for.
    """
    settings = locals()
    settings["target_parameters"] = parameters_of_configs(target_parameters)
    settings["noise_sd"] = settings.pop("noise")
    return strategy_with(TreeSearch, settings)


def fidelity_strategy(
    cost: CostArgument,
    target: Mapping[str, Value],
    budget: float | None = None,
    lmbda: float | None = None,
    cost_model: CostKind = "trend",
    initial_trials: int = 5,
    initial_share: float | None = 0.2,
    max_trial_cost: float | None = None,
    charge_initial: bool = True,
    seed: int = 0,
    num_restarts: int | None = None,
    raw_samples: int | None = None,
    count_attached: bool = True,
    feasibility_threshold: float = 0.9,
    learn_failures: bool | Literal["abandoned"] = False,
    resumes: bool = False,
    torch_device: str | None = None,
    winsorize: bool = True,
) -> GenerationStrategy:
    """A strategy that finds the best long run from short ones, or the best fine one from coarse.

    Some parameters are fidelities, such as the epochs of a training, the size of the data or the
    mesh of a simulation, and what is to be deployed has them at their target. Each trial has the
    inputs and the fidelities from which the best value at the target is expected to gain most per
    unit of cost. How well other fidelities speak for the target is learned with the objective, so
    that one that misleads is left. ``recommend(client)`` answers for the target only, whether or
    not a trial there was run.

    The objective of the trials is that of one at their own fidelity. Outcome constraints are taken
    from the experiment's optimization configuration, and are to hold at the target.

    Args:
        cost: What a trial costs, in a unit of your own, as in ``cost_aware_strategy``: a value
            object such as ``AffineCost({"epochs": 2.5}, fixed=10)``, the name of the metric in
            which the cost of each trial is reported, from which it is learned, or a function. A
            number, where all cost the same, leaves nothing to save.
        target: The parameters that are fidelities, with their values in what is to be deployed:
            ``{"epochs": 100}``. They are ranges, on whatever scale, or choices, ordered or not.
        budget: What all trials may cost together. No trial is chosen that is expected to cost more
            than what is left; when that pays for no trial, asking for one raises
            ``OptimizationShouldStop``, which says what to deploy. None: no limit.
        lmbda: What one unit of cost is worth, in units of the objective. When no trial is expected
            to improve the best value at the target by more than the price of its cost, asking for
            one raises ``OptimizationShouldStop``. None: only the budget ends the run.
        cost_model: How the log of a cost is learned: ``"gp"``, ``"linear"``, or ``"trend"``, their
            sum, by which costs go on rising where nothing was tried.
        initial_trials: Quasi-random trials, in their fidelities, too, before the model decides.
            With 0 the first outcome ends them, be it of an attached trial.
        initial_share: Share of the budget that the initial trials keep to: quasi-random points are
            left out that would leave too little of it to the others, so that most of them are at
            cheap fidelities; it ends when it has cost its share, with three outcomes at least.
            None: the design does not look at costs.
        max_trial_cost: What any one trial may be expected to cost; None for no limit. The target
            itself may cost more.
        charge_initial: Whether the initial trials are paid from the budget.
        seed: Seed of everything random. Two runs with one seed and the same outcomes agree.
        num_restarts: Restarts of the inner optimisation; None for Ax's default.
        raw_samples: Raw starting points of the inner optimisation; None for Ax's default.
        count_attached: Whether trials that were attached with their data, such as past ones, count
            towards ``initial_trials``.
        feasibility_threshold: Least probability of satisfying all outcome constraints at the target
            with which inputs may be deployed.
        learn_failures: Whether failing is learned, as one more constraint: from trials that failed,
            or with ``"abandoned"`` also from such as were abandoned.
        resumes: Whether a trial with the inputs of a completed one and a higher fidelity goes on
            from it, as a training does from its checkpoint, and costs only what is new. It is named
            in ``query(client, i).resumes_trial``; a ``cost`` that is reported is what was new, too.
            One fidelity is a number, with a range.
        torch_device: Where models and searches compute, by torch's name, such as ``"cuda"`` or
            ``"cuda:1"``; None for the CPU. It is stored. A store that is loaded where there is no
            such device goes on with the CPU, and says so in the log.
        winsorize: Whether outcomes that are far worse than most count as less bad, as Ax has it, so
            that they do not set the scale of the model.

    Returns:
        A generation strategy for ``Client.set_generation_strategy``, ``AxClient`` or an
        ``Orchestrator``.

    Raises:
        UserInputError: If an argument has a value that the method cannot use. Whether the
            arguments fit the experiment is checked when the first trial is asked for.
    """
    return strategy_with(MultiFidelity, locals())

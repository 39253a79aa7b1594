"""Factories of Ax generation strategies whose trials are not what is deployed.

- ``indirect_query_strategy``: Zhang et al. 2024, "Indirect Query Bayesian Optimization with
  Integrated Feedback". Clinics report averages, satellites report coarse pixels, and the goal is
  the best point behind them. Each trial asks the most informative query about it, by the joint
  entropy of the point and its value or as published (CMES).
- ``resolution_tree_strategy``: CMETS of the same, section 5.2. A trial measures the mean over a
  cell of a tree, which is coarse and cheap or fine and expensive. Each trial measures the cell of
  most information per unit of cost.
- ``fidelity_strategy``: the knowledge gradient per cost of Poloczek, Wang and Frazier 2017,
  "Multi-Information Source Optimization", and Wu et al. 2019, "Practical Multi-fidelity Bayesian
  Optimization for Hyperparameter Tuning". Short runs decide which long run to deploy.
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
    """Return a strategy that asks the most informative query about the best latent point.

    The parameters of the Ax experiment are those of the queries. Its metric is the answer: the
    average of the objective over latent points. ``recommend(client)`` returns the best latent
    point, in terms of ``target_parameters``, and its expected value.

    Outcome constraints with a number as their bound are read from the experiment's optimization
    configuration. They apply to latent points; answers are averages of the constrained outcomes,
    too, and each outcome has a model of its own. The criterion is then the joint entropy for any
    ``acquisition``, because an average over infeasible points may be above the best feasible value.

    Args:
        target_parameters: Ax configurations of the parameters of latent points, in the order of the
            conditional's columns of X. They are not parameters of the experiment, but may have the
            same names.
        conditional: Distribution of a latent point given a query: ``GaussianConditional``,
            ``UniformBoxConditional``, ``FiniteConditional`` for policies over arms, or, learned
            from pairs of points and queries, ``RegressedConditional`` or ``LearnedConditional``;
            ``add_pairs`` adds pairs while the experiment runs. Missing bounds are those of
            ``target_parameters``. For a choice without an order, a column of X has the position of
            the value. Only points of a ``FiniteConditional`` are recommended.
        cost: Cost of a query, in a unit of your own: a number, or a value object such as
            ``AffineCost({"patients": 2.5})`` by the names of the experiment's parameters. Queries
            are compared by information per unit of cost.
        budget: Largest total cost of all trials; None for no limit. If no query is affordable, the
            next request raises ``OptimizationShouldStop`` with the recommendation.
        query_parameters: Names of the experiment's parameters in the order of the conditional's
            query columns; None: in the experiment's own order.
        acquisition: Information criterion of a query.

            - ``"joint_entropy"``: about the best point and its value.
            - ``"max_value_entropy"``: about the value only (CMES, as published). It may repeat one
              query if answers are noisy or the conditional is learned.
            - ``"max_value_entropy_noise_aware"``: the same, with the noise of the answer.

            If no query is informative about the value (1e-6 nats), joint entropy is used.
        initial_trials: Quasi-random queries before the model decides. With 0 the model
            decides from the first outcome on, also that of an attached trial.
        max_trial_cost: Largest cost of a trial; None for no limit.
        charge_initial: Charge the initial trials to the budget.
        hyperparameters: ``FixedHyperparameters`` of the model of the objective over the points, on
            the unit cube of the target parameters; None: fitted to the answers.
        seed: Seed of all random numbers. Runs with the same seed and outcomes agree.
        num_samples: Sampled optima over which the information is averaged.
        num_restarts: Local searches for the query; None for the method's default.
        raw_samples: Raw starting queries of the searches; None for the method's default.
        lmbda: Value of one unit of cost, in units of the objective. If the expected gain of further
            queries in the best expectation is below the price of their cost, in several decisions
            in a row, the next request raises ``OptimizationShouldStop``. None: only the budget ends
            a run.
        count_attached: Count trials that were attached with their data, such as past ones, towards
            ``initial_trials``.
        feasibility_threshold: Least probability of satisfying all outcome constraints with which a
            point may be deployed.
        torch_device: Torch device of models and searches, such as ``"cuda"`` or ``"cuda:1"``; None
            for the CPU. It is stored. On a machine without this device the CPU is used, with a
            warning in the log.
        winsorize: Clip outcomes worse than ``Q1 - 10 * IQR`` (for maximization) if hyperparameters
            are fitted, so that one diverged trial does not set the scale of the model.

    Returns:
        A generation strategy for ``Client.set_generation_strategy``, ``AxClient`` or an
        ``Orchestrator``.

    Raises:
        UserInputError: If an argument has an invalid value. Arguments are checked against the
            experiment when the first trial is requested.
    """
    settings = locals()
    settings["target_parameters"] = parameters_of_configs(target_parameters)
    return strategy_with(IndirectQueries, settings)


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
    """Return a strategy that chooses the cell to measure, and its resolution.

    The experiment has the parameter ``level_parameter(max_level)`` and the target parameters. A
    trial is a cell, given by its level and its centre, and its metric is the mean of the objective
    over the cell. Candidates are the leaves of a tree, in which measured cells are split, and their
    children. ``recommend(client)`` returns the best point. Outcome constraints apply as in
    ``indirect_query_strategy``.

    Args:
        target_parameters: The parameters of the points: ranges of real numbers without a log scale.
        max_level: The finest level, at least 1.
        splits: Number of parts of a cell along every parameter, or along each one.
        costs: Cost of a cell of each level, from level 0 to ``max_level``; None:
            ``0.5 (level + 1)``.
        noise: Standard deviation of the noise of a measurement, one for each level or one for all;
            None: fitted, or that of ``hyperparameters``. Reported standard errors of outcomes
            replace it.
        budget: Largest total cost of all trials; None for no limit. If no cell is affordable, the
            next request raises ``OptimizationShouldStop`` with the recommendation.
        acquisition: Information criterion of a cell, by default about the best value (CMETS, as
            published); see ``indirect_query_strategy``.
        initial_trials: Cells that are measured before the model decides, the coarsest first. None:
            the whole space and the cells of level 1. With 0 the model decides from the first
            outcome on, also that of an attached trial.
        max_trial_cost: Largest cost of a trial; None for no limit.
        charge_initial: Charge the initial trials to the budget.
        hyperparameters: ``FixedHyperparameters`` of the model of the objective, on the unit cube of
            the target parameters; None: fitted.
        seed: Seed of all random numbers. Runs with the same seed and outcomes agree.
        num_samples: Sampled optima over which the information is averaged.
        lmbda: Value of one unit of cost, in units of the objective. If the expected gain of further
            cells in the best expectation is below the price of their cost, in several decisions in
            a row, the next request raises ``OptimizationShouldStop``. None: only the budget ends a
            run.
        count_attached: Count trials that were attached with their data, such as past ones, towards
            ``initial_trials``.
        feasibility_threshold: Least probability of satisfying all outcome constraints with which a
            point may be deployed.
        torch_device: Torch device of models and searches, such as ``"cuda"`` or ``"cuda:1"``; None
            for the CPU. It is stored. On a machine without this device the CPU is used, with a
            warning in the log.
        winsorize: Clip outcomes worse than ``Q1 - 10 * IQR`` (for maximization) if hyperparameters
            are fitted, so that one diverged trial does not set the scale of the model.

    Returns:
        A generation strategy for ``Client.set_generation_strategy``, ``AxClient`` or an
        ``Orchestrator``.

    Raises:
        UserInputError: If an argument has an invalid value. Arguments are checked against the
            experiment when the first trial is requested.
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
    """Return a multi-fidelity strategy: the best long run is found from short runs.

    Some parameters are fidelities, such as the epochs of a training, the size of the data or the
    mesh of a simulation. The deployed point has them at their target values. Each trial has the
    inputs and fidelities of the largest knowledge gradient about the target per unit of cost. The
    correlation of other fidelities with the target is learned, so that misleading ones are
    abandoned. ``recommend(client)`` is at the target, where no trial need have been run.

    The objective of a trial is that at its own fidelity. Outcome constraints are read from the
    experiment's optimization configuration, and apply at the target.

    Args:
        cost: Cost of a trial, in a unit of your own, as in ``cost_aware_strategy``: a value object
            such as ``AffineCost({"epochs": 2.5}, fixed=10)``, the name of a metric in which the
            cost of each trial is reported, from which it is learned, or a function. With a constant
            cost low fidelities save nothing.
        target: The parameters that are fidelities, with their values in the deployed point:
            ``{"epochs": 100}``. They are ranges, on any scale, or choices, ordered or not.
        budget: Largest total cost of all trials; None for no limit. A trial is only chosen if its
            expected cost is affordable. If none is, the next request raises
            ``OptimizationShouldStop`` with the recommendation.
        lmbda: Value of one unit of cost, in units of the objective. If no trial has an expected
            gain at the target above the price of its cost, the next request raises
            ``OptimizationShouldStop``. None: only the budget ends the run.
        cost_model: Model of the log of a learned cost: ``"gp"``, ``"linear"``, or ``"trend"``,
            their sum, which extrapolates rising costs.
        initial_trials: Trials with quasi-random inputs and fidelities before the model decides.
            With 0 the model decides from the first outcome on, also that of an attached trial.
        initial_share: Largest share of the budget for the initial trials; None: the design ignores
            costs. Quasi-random points that would leave too little for the other initial trials are
            skipped, so that most are at cheap fidelities. The design ends once it has spent its
            share, and has three outcomes.
        max_trial_cost: Largest expected cost of a trial; None for no limit. The target itself may
            cost more.
        charge_initial: Charge the initial trials to the budget.
        seed: Seed of all random numbers. Runs with the same seed and outcomes agree.
        num_restarts: Restarts of the inner optimisation; None for Ax's default.
        raw_samples: Raw starting points of the inner optimisation; None for Ax's default.
        count_attached: Count trials that were attached with their data, such as past ones, towards
            ``initial_trials``.
        feasibility_threshold: Least probability of satisfying all outcome constraints at the target
            with which inputs may be deployed.
        learn_failures: Learn the probability of failure as an additional constraint, from failed
            trials, or with ``"abandoned"`` also from abandoned ones.
        resumes: A trial with the inputs of a completed one and a higher fidelity resumes it, as a
            training does from its checkpoint, and costs only what is new. The resumed trial is
            ``query(client, i).resumes_trial``; a reported ``cost`` is also that of the new part.
            This needs one fidelity that is a number, with a range.
        torch_device: Torch device of models and searches, such as ``"cuda"`` or ``"cuda:1"``; None
            for the CPU. It is stored. On a machine without this device the CPU is used, with a
            warning in the log.
        winsorize: Clip outcomes that are far worse than most, as Ax does, so that they do not set
            the scale of the model.

    Returns:
        A generation strategy for ``Client.set_generation_strategy``, ``AxClient`` or an
        ``Orchestrator``.

    Raises:
        UserInputError: If an argument has an invalid value. Arguments are checked against the
            experiment when the first trial is requested.
    """
    return strategy_with(MultiFidelity, locals())

"""Factories of Ax generation strategies whose trials are the points that are deployed.

- ``control_set_strategy``: UCB-CVS of Tay et al. 2023, "Bayesian Optimization with Cost-varying
  Variable Subsets" (NeurIPS). A rule chooses the inputs that each trial controls; their values
  maximise an acquisition function in expectation over the uncontrolled inputs.
- ``cost_aware_strategy``: the trial with the largest expected improvement per unit of cost.
- ``gittins_strategy``: the Pandora's Box Gittins index of Xie, Astudillo, Frazier, Scully and
  Terenin 2024, "Cost-aware Bayesian Optimization via the Pandora's Box Gittins Index" (NeurIPS).
- ``costly_feedback_strategy``: CE-GP-UCB of Wang, Ren, Bogunovic, Xiong and Urtasun 2020,
  "Cost-Efficient Online Hyperparameter Optimization". A system is tuned while it runs, its response
  drifts, and measuring the response is expensive. Every trial uses the point with the largest upper
  confidence bound at its time, and is measured if that point may be confused with a better one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from ax.api.configs import ChoiceParameterConfig
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.generators.torch.botorch_modular.surrogate import SurrogateSpec

from ax_costaware.ax_bridge.checks import ax_errors
from ax_costaware.ax_bridge.strategy import strategy_with
from ax_costaware.core import FixedHyperparameters
from ax_costaware.costs import ControlSet, SwitchingCost, check_control_sets
from ax_costaware.laws import JointLaw, Marginal
from ax_costaware.methods import (
    ControlSetRule,
    ControlSets,
    CostAware,
    CostlyFeedback,
    FeedbackRule,
    Gittins,
    GittinsDecay,
    LogarithmicBeta,
    TheoreticalBeta,
)
from ax_costaware.methods.control_sets.checks import CONTROL_SET
from ax_costaware.methods.cost_aware import StopRule
from ax_costaware.methods.costed import CostArgument
from ax_costaware.models.log_normal_cost import CostKind


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


def control_set_strategy(
    control_sets: Sequence[ControlSet],
    marginals: Mapping[str, Marginal],
    budget: float | None = None,
    rule: ControlSetRule | None = None,
    beta: float | TheoreticalBeta = 2.0,
    acquisition: str = "ucb",
    initial_trials: int = 5,
    initial_control_sets: Sequence[str] | None = None,
    max_trial_cost: float | None = None,
    charge_initial: bool = True,
    surrogate_spec: SurrogateSpec | FixedHyperparameters | None = None,
    seed: int = 0,
    num_nodes: int = 128,
    num_restarts: int | None = None,
    raw_samples: int | None = None,
    joint: JointLaw | None = None,
    switching_cost: SwitchingCost | None = None,
    lmbda: float | None = None,
    count_attached: bool = True,
    feasibility_threshold: float = 0.9,
    torch_device: str | None = None,
    winsorize: bool = True,
) -> GenerationStrategy:
    """Return a strategy that chooses the inputs that each trial controls, and their values.

    Outcome constraints with a number as their bound are read from the experiment's optimization
    configuration. They apply to the expectation of an outcome over the uncontrolled inputs, and
    each outcome has a model of its own.

    - A value above the worst one, or an improvement, is weighted by the probability that the query
      is feasible.
    - Rules that compare upper confidence bounds, ``ExploreThenCommit`` and ``EpsilonSchedule``, do
      not weight queries that are feasible by an optimistic bound (Xu et al. 2023).
    - Until a query is feasible, the one with the largest probability of feasibility per cost is
      next.

    Args:
        control_sets: The subsets of the inputs that a trial can control, each with its cost: a
            number; a value object over the values that are set, such as ``AffineCost({"time":
            2.0}, fixed=1.0)``; or None for a cost that is learned. ``complete_trial`` then needs
            the cost of each trial, which may depend on the values that it sets.
        marginals: Distribution of each input where a trial does not control it, by name, in the
            parameter's raw units. Inputs that every control set controls need none. A ``Learned``
            one is updated with the values that the input takes in trials that do not control it.
        budget: Largest total cost of all trials, in the unit of the costs; None for no limit. A
            trial is only chosen if its expected cost is affordable. If no control set is, the next
            request raises ``OptimizationShouldStop`` with the recommendation. With learned costs,
            the last trial or batch may exceed the budget by the error of its expected cost.
        rule: Rule that chooses a control set. The default, ``LargestValuePerCost(above="worst")``,
            takes the largest upper confidence bound above the worst value per unit of expected
            cost (with ``acquisition="ei"`` the improvement per cost). If uncontrolled inputs hardly
            ever take the best values, use ``ExploreThenCommit.adaptive()``, which needs numbers as
            costs. If the rule divides by cost, a declared cost that depends on the values also
            enters their choice.
        beta: Weight of the standard deviation in the upper confidence bound ``mu + beta * sigma``:
            a number, or ``TheoreticalBeta``.
        acquisition: Acquisition function, in expectation: ``"ucb"``, ``"ei"`` or ``"ts"``.
        initial_trials: Quasi-random trials before the model decides. With 0 the model
            decides from the first outcome on, also that of an attached trial.
        initial_control_sets: Names of the control sets that the initial trials cycle through; by
            default those of least cost, or all of them if a cost is unknown or depends on the
            values that are set.
        max_trial_cost: Largest expected cost of a trial; None for no limit. Learned costs are
            limited once one was reported.
        charge_initial: Charge the initial trials to the budget.
        surrogate_spec: The model: an Ax ``SurrogateSpec``, ``FixedHyperparameters``, or None for
            Ax's default GP with fitted hyperparameters.
        seed: Seed of all random numbers. Runs with the same seed and outcomes agree.
        num_nodes: Quasi-random nodes of the joint distribution of the uncontrolled inputs.
        num_restarts: Restarts of the inner optimisation per control set.
        raw_samples: Raw starting points of the inner optimisation per control set.
        joint: Joint distribution of dependent inputs, ``JointEmpirical`` or ``GaussianCopula``;
            these are not among ``marginals``. If a trial controls some of them, the others have
            their conditional distribution given the controlled values.
        switching_cost: Additional cost of settings that differ from the previous trial:
            ``SwitchingCost({"oven_temperature": 5.0})``. An uncontrolled input costs nothing, and
            the next trial that sets it pays for the change.
        lmbda: Value of one unit of cost, in units of the objective. If the expected gain of further
            trials in the best expectation is below the price of their cost, in several decisions in
            a row, the next request raises ``OptimizationShouldStop`` with the recommendation. None:
            only the budget ends a run.
        count_attached: Count trials that were attached with their data, such as past ones, towards
            ``initial_trials``.
        feasibility_threshold: Least probability of satisfying all outcome constraints with which a
            query is feasible, and may be deployed.
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
    return strategy_with(ControlSets, locals())


def cost_aware_strategy(
    cost: CostArgument,
    budget: float | None = None,
    lmbda: float | None = None,
    stop: bool | StopRule | None = None,
    acquisition: str = "log_nei_per_cost",
    cost_model: CostKind = "trend",
    initial_trials: int = 5,
    initial_share: float | None = 0.2,
    initialize_with_center: bool = True,
    winsorize: bool = True,
    kernel: str = "matern",
    max_trial_cost: float | None = None,
    charge_initial: bool = True,
    surrogate_spec: SurrogateSpec | FixedHyperparameters | None = None,
    seed: int = 0,
    num_restarts: int | None = None,
    raw_samples: int | None = None,
    count_attached: bool = True,
    feasibility_threshold: float = 0.9,
    learn_failures: bool | Literal["abandoned"] = False,
    torch_device: str | None = None,
) -> GenerationStrategy:
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

    Args:
        cost: Cost of a trial, in a unit of your own:

            - a number;
            - a value object such as ``AffineCost({"epochs": 2.5})``,
              ``ProductCost({"epochs": 1, "width": 2}, scale=0.1)`` or
              ``TableCost("machine", {...})``, or a sum of these;
            - the name of a metric in which the cost of each trial is reported, from which it is
              learned (``complete_trial(..., cost=...)`` reports it);
            - a function from a parameterization to a number, with which the experiment cannot be
              stored.
        budget: Largest total cost of all trials; None for no limit. A trial is only chosen if its
            expected cost is affordable. If none is, the next request raises
            ``OptimizationShouldStop`` with the recommendation.
        lmbda: Value of one unit of cost, in units of the objective: the improvement that is worth
            one unit.
        stop: Stopping rule before the budget is used up.

            - None: stop when no trial is worth its cost at ``lmbda``; without ``lmbda``, never.
            - True: ``GittinsStop``, also at a lambda that is solved from the budget: stop when the
              best posterior mean at an evaluated point is at least the largest index. Never if
              lambda decays.
            - False: never.
            - A rule, ``GittinsStop`` or ``ImprovementPerCostStop``, with a ``lmbda`` of its own or
              the one in force.
        acquisition: Acquisition function.

            - ``"log_nei_per_cost"``: expected improvement per unit of cost, over a noisy incumbent
              (noisy EI) if an exact Gaussian process has found noise, or has found hardly any and
              EI would repeat a trial, and no parameter is fixed; else over the best posterior mean.
            - ``"log_ei_per_cost"``: the same, always over the best posterior mean.
            - ``"log_ei_cost_cooling"``: the same, with an exponent of the cost that is the share of
              the budget that is left.
        cost_model: Model of the log of a learned cost: ``"gp"``, ``"linear"``, or ``"trend"``,
            their sum, which extrapolates rising costs.
        initial_trials: Quasi-random trials before the model decides. With 0 the model
            decides from the first outcome on, also that of an attached trial.
        initial_share: Largest share of the budget for the initial trials; None: the design ignores
            costs. Quasi-random points that would leave too little for the other initial trials are
            skipped; learned costs are considered from the first report on. Once the design has
            spent its share, and has three outcomes, the model decides.
        initialize_with_center: The first trial is the center of the search space, as in Ax, if that
            fits the share of the budget.
        winsorize: Clip outcomes that are far worse than most, as Ax does, so that they do not set
            the scale of a model that is fitted.
        kernel: Kernel of the objective's model, if that is fitted: ``"matern"`` (``MaternGP``), or
            ``"squared_exponential"``, which is Ax's default.
        max_trial_cost: Largest expected cost of a trial; None for no limit. With learned costs,
            initial trials may cost more if no affordable one is known.
        charge_initial: Charge the initial trials to the budget.
        surrogate_spec: The model: an Ax ``SurrogateSpec``, ``FixedHyperparameters``, or None for
            Ax's default GP with fitted hyperparameters and the kernel ``kernel``.
        seed: Seed of all random numbers. Runs with the same seed and outcomes agree.
        num_restarts: Restarts of the inner optimisation; None for Ax's default.
        raw_samples: Raw starting points of the inner optimisation; None for Ax's default.
        count_attached: Count trials that were attached with their data, such as past ones, towards
            ``initial_trials``.
        feasibility_threshold: Least probability of satisfying all outcome constraints with which an
            evaluated point may be the incumbent, and may be deployed.
        learn_failures: Learn the probability of failure as an additional constraint, from failed
            trials, or with ``"abandoned"`` also from abandoned ones. False: a decision near a
            failed trial is made again with a model that assigns that point at most the median
            outcome.
        torch_device: Torch device of models and searches, such as ``"cuda"`` or ``"cuda:1"``; None
            for the CPU. It is stored. On a machine without this device the CPU is used, with a
            warning in the log.

    Returns:
        A generation strategy for ``Client.set_generation_strategy``, ``AxClient`` or an
        ``Orchestrator``.

    Raises:
        UserInputError: If an argument has an invalid value. Arguments are checked against the
            experiment when the first trial is requested.
    """
    return strategy_with(CostAware, locals())


def gittins_strategy(
    cost: CostArgument,
    budget: float | None = None,
    lmbda: float | None = None,
    decay: GittinsDecay | None = None,
    stop: bool | StopRule | None = None,
    cost_model: CostKind = "gp",
    initial_trials: int = 5,
    initial_share: float | None = None,
    initialize_with_center: bool = False,
    winsorize: bool = False,
    kernel: str = "matern",
    max_trial_cost: float | None = None,
    charge_initial: bool = True,
    surrogate_spec: SurrogateSpec | FixedHyperparameters | None = None,
    seed: int = 0,
    num_restarts: int | None = None,
    raw_samples: int | None = None,
    count_attached: bool = True,
    feasibility_threshold: float = 0.9,
    learn_failures: bool | Literal["abandoned"] = False,
    torch_device: str | None = None,
) -> GenerationStrategy:
    """Return a strategy that maximizes the Pandora's Box Gittins index.

    The method of Xie, Astudillo, Frazier, Scully and Terenin 2024: the index (PBGI), a Matern 5/2
    kernel, and quasi-random initial trials that ignore costs. The price lambda of a unit of cost is

    - ``lmbda``, if it is given;
    - with a budget, the price at which the policy is expected to spend the rest of it, solved
      before every decision; with a stopping rule, solved at the first decision of the model, and
      held;
    - otherwise a price that decays (PBGI-D).

    Args:
        cost: See ``cost_aware_strategy``.
        budget: See ``cost_aware_strategy``.
        lmbda: Value of one unit of cost, in units of the objective. Not together with ``decay``.
        decay: Decay of lambda when no trial is worth its cost: ``GittinsDecay``, whose numbers are
            in standard deviations of the outcomes so far per mean cost of the trials so far, so
            that they do not depend on units.
        stop: Stopping rule before the budget is used up. None: ``GittinsStop`` at ``lmbda``, and
            never without it. True: ``GittinsStop``, unless lambda decays: stop when the best
            posterior mean at an evaluated point is at least the largest index. False: never. Or a
            rule, ``GittinsStop`` or ``ImprovementPerCostStop``.
        cost_model: See ``cost_aware_strategy``.
        initial_trials: Quasi-random trials before the model decides.
        initial_share: See ``cost_aware_strategy``; None, as in the paper: the design ignores costs.
        initialize_with_center: The first trial is the center of the search space.
        winsorize: See ``cost_aware_strategy``; the paper does not winsorize.
        kernel: See ``cost_aware_strategy``.
        max_trial_cost: See ``cost_aware_strategy``.
        charge_initial: See ``cost_aware_strategy``.
        surrogate_spec: See ``cost_aware_strategy``.
        seed: See ``cost_aware_strategy``.
        num_restarts: See ``cost_aware_strategy``.
        raw_samples: See ``cost_aware_strategy``.
        count_attached: See ``cost_aware_strategy``.
        feasibility_threshold: See ``cost_aware_strategy``.
        learn_failures: See ``cost_aware_strategy``.
        torch_device: See ``cost_aware_strategy``.

    Returns:
        A generation strategy for ``Client.set_generation_strategy``, ``AxClient`` or an
        ``Orchestrator``.

    Raises:
        UserInputError: If an argument has an invalid value. Arguments are checked against the
            experiment when the first trial is requested.
    """
    return strategy_with(Gittins, locals())


def costly_feedback_strategy(
    rule: FeedbackRule | None = None,
    forgetting: float | None = None,
    beta: float | LogarithmicBeta | None = None,
    cost: CostArgument = 1.0,
    budget: float | None = None,
    time: str | None = None,
    initial_trials: int = 5,
    max_trial_cost: float | None = None,
    charge_initial: bool = True,
    surrogate_spec: SurrogateSpec | FixedHyperparameters | None = None,
    seed: int = 0,
    num_restarts: int | None = None,
    raw_samples: int | None = None,
    count_attached: bool = True,
    feasibility_threshold: float = 0.9,
    torch_device: str | None = None,
    winsorize: bool = True,
    cost_model: CostKind = "trend",
) -> GenerationStrategy:
    """Return a strategy that chooses the values of every trial, and whether to measure it.

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

    Args:
        rule: Rule that decides on a measurement: ``MeasurementRule``, ``LCBUCBRule``,
            ``BernoulliRule``, ``MixedRule`` or ``FullFeedback``. A larger ``kappa`` of a
            ``MeasurementRule`` measures more. None: ``MeasurementRule()`` if the forgetting rate is
            given, else ``MixedRule(MeasurementRule(), lower=0.1, upper=1.0)``. The latter measures
            at least a tenth of the trials, without which a drift could not be learned.
        forgetting: Forgetting rate per unit of time, strictly between 0 and 1: values of the
            objective at a time difference ``D`` have the correlation
            ``(1 - forgetting) ** (D / 2)``. None: learned with the other hyperparameters.
        beta: Weight of the upper confidence bound ``mean + sqrt(beta) * sd``: a number >= 0,
            or ``LogarithmicBeta``, which grows with the trials (None).
        cost: Cost of a measurement, as in ``cost_aware_strategy``, without a switching cost: a
            number, a value object, a function, or the name of the metric in which the cost of each
            measured trial is reported, from which it is learned. The cost at the settings of a
            trial decides whether a measurement can be paid. If it cannot be paid at the largest
            upper confidence bound, the trial is at the best posterior mean. A learned cost is
            unknown until the first report: then anything that is left of the budget pays for it.
        budget: Largest total cost of all measurements; None for no limit. If no measurement is
            affordable, trials go on without one, at the best posterior mean.
        time: Time of a trial. None: its index. Otherwise the name of a tracking metric under which
            the time of each trial is reported, in a unit of your own, also for trials that were not
            measured: ``complete_trial(client, i, {"hours": 3.5})``. It has to increase: hours since
            the start, not hours left. The time of the next trial is predicted as that of the last
            report plus the median step between reports.
        initial_trials: Quasi-random trials, all measured, before the model decides. With 0 the
            model decides from the first outcome on, also that of an attached trial.
        max_trial_cost: Largest cost of a measurement, at least that of the cheapest one; None for
            no limit.
        charge_initial: Charge the initial trials to the budget.
        surrogate_spec: The model: an Ax ``SurrogateSpec`` of ``TimeVaryingGP`` or classes derived
            from it, ``FixedHyperparameters`` (with ``forgetting``), or None for a ``TimeVaryingGP``
            with fitted hyperparameters.
        seed: Seed of all random numbers. Runs with the same seed and outcomes agree.
        num_restarts: Restarts of the inner optimisation; None for the method's default.
        raw_samples: Raw starting points of the inner optimisation; None for the method's default.
        count_attached: Count trials that were attached with their data, such as past ones, towards
            ``initial_trials``.
        feasibility_threshold: Least probability of satisfying all outcome constraints, at the time,
            with which a point is feasible, and may be deployed.
        torch_device: Torch device of models and searches, such as ``"cuda"`` or ``"cuda:1"``; None
            for the CPU. It is stored. On a machine without this device the CPU is used, with a
            warning in the log.
        winsorize: Clip outcomes worse than ``Q1 - 10 * IQR`` (for maximization) if hyperparameters
            are fitted, so that one diverged trial does not set the scale of the model.
        cost_model: See ``cost_aware_strategy``.

    Returns:
        A generation strategy for ``Client.set_generation_strategy``, ``AxClient`` or an
        ``Orchestrator``.

    Raises:
        UserInputError: If an argument has an invalid value. Arguments are checked against the
            experiment when a trial is requested.
    """
    return strategy_with(CostlyFeedback, locals())

"""Factories of Ax generation strategies for trials whose own values are searched, by method.

- ``control_set_strategy``: UCB-CVS of Tay et al. 2023, "Bayesian Optimization with Cost-varying
  Variable Subsets" (NeurIPS): an initial design, then a rule that chooses for every trial which
  inputs to control, with the values that maximise an acquisition function in expectation over the
  rest.
- ``cost_aware_strategy``: trials with the largest expected improvement per unit of cost.
- ``gittins_strategy``: the Pandora's Box Gittins index of Xie, Astudillo, Frazier, Scully and
  Terenin 2024, "Cost-aware Bayesian Optimization via the Pandora's Box Gittins Index" (NeurIPS).
- ``costly_feedback_strategy``: CE-GP-UCB of Wang, Ren, Bogunovic, Xiong and Urtasun 2020,
  "Cost-Efficient Online Hyperparameter Optimization": something is tuned while it runs, its
  response to the parameters drifts, and to look at the response costs. Every trial uses the point
  with the largest upper confidence bound at its time, and is measured where that point could be
  mistaken for a better one.
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
from ax_costaware.methods.costed import CostArgument
from ax_costaware.methods.gittins import StopRule
from ax_costaware.models.log_normal_cost import CostKind


@ax_errors()
def control_set_parameter(control_sets: Sequence[ControlSet]) -> ChoiceParameterConfig:
    """The ``control_set`` parameter that an experiment with control sets needs.

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
    """A strategy that chooses for every trial which inputs to control, and their values.

    Outcome constraints with a number as their bound are taken from the experiment's optimization
    configuration. They are on the expectation of an outcome over what a trial leaves to chance, and
    each outcome has a model of its own. A value above the worst, or an improvement, counts as far
    as the query is likely to be feasible; where upper confidence bounds are compared, as by
    ``ExploreThenCommit`` and ``EpsilonSchedule``, queries that are feasible by an optimistic bound
    count in full (Xu et al. 2023). Until a query is feasible, the likeliest per cost comes next.

    Args:
        control_sets: The subsets of the inputs that a trial can control, each with its cost: a
            number; a value object over the values that are set, such as ``AffineCost({"time":
            2.0}, fixed=1.0)``; or None for a cost that is learned. ``complete_trial`` then needs
            what each trial cost, which may depend on the values that it sets.
        marginals: Distribution of each input where a trial does not control it, by name, in the
            parameter's raw units. Inputs that every control set controls need none. A ``Learned``
            one is updated with the values that the input takes in trials that do not control it.
        budget: What all trials may cost together, in the unit of the costs. A trial is never chosen
            beyond it; when it pays for no control set any more, asking for a trial raises
            ``OptimizationShouldStop``, which says what to deploy. None: no limit. Where costs are
            learned, what is expected is held against the budget, so that it is passed by no more
            than the last trial's surprise, or the last batch's.
        rule: How a control set is chosen. By default ``LargestValuePerCost(above="worst")``: the
            one with the largest upper confidence bound, counted from the worst value that there
            is, per unit of expected cost (with ``acquisition="ei"`` the improvement per cost).
            Where chance does not reach the best values, ``ExploreThenCommit.adaptive()``, which
            takes numbers as costs alone. A declared cost that depends on the values that are set
            counts in their choice, too, where the rule divides by cost.
        beta: Weight of the standard deviation in the upper confidence bound ``mu + beta * sigma``:
            a number, or ``TheoreticalBeta``.
        acquisition: What is maximised in expectation: ``"ucb"``, ``"ei"`` or ``"ts"``.
        initial_trials: Quasi-random trials before the model decides. With 0 the first
            outcome ends them, be it of an attached trial.
        initial_control_sets: Names of the control sets that the initial trials cycle through; by
            default those of the cheapest cost, or all of them where a cost is unknown or depends on
            the values that are set.
        max_trial_cost: What any one trial may be expected to cost; None for no limit. Costs that
            are learned are held against it once one was reported.
        charge_initial: Whether the initial trials are paid from the budget.
        surrogate_spec: The model: an Ax ``SurrogateSpec``, ``FixedHyperparameters``, or None for
            Ax's default GP with fitted hyperparameters.
        seed: Seed of everything random. Two runs with one seed and the same outcomes agree.
        num_nodes: Quasi-random nodes that stand for the joint law of the uncontrolled inputs.
        num_restarts: Restarts of the inner optimisation per control set.
        raw_samples: Raw starting points of the inner optimisation per control set.
        joint: Joint law of inputs that depend on each other, ``JointEmpirical`` or
            ``GaussianCopula``; these are not among ``marginals``. A trial that controls some of
            them leaves the others to their law given the controlled values.
        switching_cost: What it costs, on top, to set parameters to other values than in the trial
            before: ``SwitchingCost({"oven_temperature": 5.0})``. What a trial leaves to chance
            costs nothing, and the next one that sets it pays for the change.
        lmbda: What one unit of cost is worth, in units of the objective. When further trials are
            not expected to add the price of their cost to the best expectation, in several
            decisions in a row, asking for one raises ``OptimizationShouldStop``, which says what to
            deploy. None: only the budget ends a run.
        count_attached: Whether trials that were attached with their data, such as past ones, count
            towards ``initial_trials``.
        feasibility_threshold: Least probability of satisfying all outcome constraints with which a
            query counts as feasible, and may be deployed.
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
    """A strategy that chooses the trial with the largest expected improvement per unit of cost.

    Improvement is over a noisy incumbent where noise is found. A budget is used up. ``lmbda`` says
    what a unit of cost is worth, and ends a run when no trial is worth its cost; with a stopping
    rule and no ``lmbda`` it is found from the budget at the first decision of the model, and held.

    Outcome constraints with a number as their bound are taken from the experiment's optimization
    configuration. Each of their metrics has a model of its own, and a trial is worth its cost as
    far as it is likely to be feasible; until one is, the likeliest per cost comes next.

    Args:
        cost: What a trial costs, in a unit of your own: a number; a value object such as
            ``AffineCost({"epochs": 2.5})``, ``ProductCost({"epochs": 1, "width": 2}, scale=0.1)``
            or ``TableCost("machine", {...})``, or a sum of these; the name of the metric in which
            the cost of each trial is reported, from which it is learned
            (``complete_trial(..., cost=...)`` reports it); or a function from a parameterization to
            a number, with which the experiment cannot be stored.
        budget: What all trials may cost together. No trial is chosen that is expected to cost more
            than what is left; when that pays for no trial, asking for one raises
            ``OptimizationShouldStop``, which says what to deploy. None: no limit.
        lmbda: What one unit of cost is worth, in units of the objective: the improvement for which
            one would just pay one unit.
        stop: When to stop before the budget is used up. None: when no trial is worth its cost at
            ``lmbda``, and without one never. True: by ``GittinsStop``, when the best posterior mean
            at an evaluated point is at least the largest index, unless lambda decays; also at a
            lambda that is found from the budget. False: never. Or a rule, ``GittinsStop`` or
            ``ImprovementPerCostStop``, with a ``lmbda`` of its own or the one in force.
        acquisition: What is maximised.

            - ``"log_nei_per_cost"``: expected improvement per unit of cost, over a noisy incumbent
              (noisy EI) if an exact Gaussian process has found noise, or has found hardly any and
              EI would repeat a trial, and no parameter is fixed; else over the best posterior mean.
            - ``"log_ei_per_cost"``: the same, always over the best posterior mean.
            - ``"log_ei_cost_cooling"``: the same, with an exponent of the cost that is the share of
              the budget that is left.
        cost_model: How the log of a cost is learned: ``"gp"``, ``"linear"``, or ``"trend"``, their
            sum, by which costs go on rising where nothing was tried.
        initial_trials: Quasi-random trials before the model decides. With 0 the first
            outcome ends them, be it of an attached trial.
        initial_share: Share of the budget that the initial trials keep to: quasi-random points are
            left out that would leave too little of it to the others; learned costs are expected
            from the first report on. Once it has cost its share, and has three outcomes, the model
            takes over. None: the design does not look at costs.
        initialize_with_center: Whether the first trial is the center of the search space, as Ax's
            is, where that keeps to its share.
        winsorize: Whether outcomes that are far worse than most count as less bad, as Ax has it, so
            that they do not set the scale of a model that is fitted.
        kernel: Of the objective's model, if that is fitted: ``"matern"`` (``MaternGP``), or
            ``"squared_exponential"``, which is Ax's default.
        max_trial_cost: What any one trial may be expected to cost; None for no limit. Where costs
            are learned initial trials may cost more, as long as none is expected to cost less.
        charge_initial: Whether the initial trials are paid from the budget.
        surrogate_spec: The model: an Ax ``SurrogateSpec``, ``FixedHyperparameters``, or None for
            Ax's default GP with fitted hyperparameters, but for its ``kernel``.
        seed: Seed of everything random. Two runs with one seed and the same outcomes agree.
        num_restarts: Restarts of the inner optimisation; None for Ax's default.
        raw_samples: Raw starting points of the inner optimisation; None for Ax's default.
        count_attached: Whether trials that were attached with their data, such as past ones, count
            towards ``initial_trials``.
        feasibility_threshold: Least probability of satisfying all outcome constraints with which an
            evaluated point may be the incumbent, and may be deployed.
        learn_failures: Whether failing is learned, as one more constraint: from trials that failed,
            or with ``"abandoned"`` also from such as were abandoned. False: a trial that comes near
            to one that failed is chosen again by a model that thinks less of that point.
        torch_device: Where models and searches compute, by torch's name, such as ``"cuda"`` or
            ``"cuda:1"``; None for the CPU. It is stored. A store that is loaded where there is no
            such device goes on with the CPU, and says so in the log.

    Returns:
        A generation strategy for ``Client.set_generation_strategy``, ``AxClient`` or an
        ``Orchestrator``.

    Raises:
        UserInputError: If an argument has a value that the method cannot use. Whether the
            arguments fit the experiment is checked when the first trial is asked for.
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
    """A strategy that chooses the trial with the largest Pandora's Box Gittins index.

    The method of Xie, Astudillo, Frazier, Scully and Terenin 2024: the index (PBGI), a Matern 5/2
    kernel, and quasi-random initial trials that are blind to costs. ``lmbda`` says what a unit of
    cost is worth. Where it is not given it is found from the budget, as the price at which the
    policy is expected to spend just that, before every decision; or, with a stopping rule, at the
    first decision of the model, and held. Where there is neither ``lmbda`` nor a budget it decays
    (PBGI-D).

    Args:
        cost: See ``cost_aware_strategy``.
        budget: See ``cost_aware_strategy``.
        lmbda: What one unit of cost is worth, in units of the objective. Not together with
            ``decay``.
        decay: How lambda falls when no trial is worth it: ``GittinsDecay``, whose numbers are in
            standard deviations of the outcomes so far per mean cost of the trials so far, so that
            they do not depend on units.
        stop: When to stop before the budget is used up. None: by ``GittinsStop`` at ``lmbda``, and
            without one never. True: by ``GittinsStop``, when the best posterior mean at an
            evaluated point is at least the largest index, unless lambda decays. False: never. Or a
            rule, ``GittinsStop`` or ``ImprovementPerCostStop``.
        cost_model: See ``cost_aware_strategy``.
        initial_trials: Quasi-random trials before the model decides.
        initial_share: See ``cost_aware_strategy``; None, as in the paper: the design does not look
            at costs.
        initialize_with_center: Whether the first trial is the center of the search space.
        winsorize: See ``cost_aware_strategy``; the paper takes outcomes as they are.
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
        UserInputError: If an argument has a value that the method cannot use. Whether the
            arguments fit the experiment is checked when the first trial is asked for.
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
    """A strategy that chooses the values of every trial, and says whether to measure its outcome.

    ``query(client, trial_index).measure`` says whether to measure. If so, the outcome is reported
    as ever; if not, ``complete_trial(client, trial_index)`` completes the trial without one, which
    costs nothing. What is reported against the advice is used all the same.

    Trials under way that are to be measured count at their posterior mean, so that trials asked for
    together differ where they should. The strategy itself never stops.

    Outcome constraints with a number as their bound are taken from the experiment's optimization
    configuration. Each of their metrics drifts and is forgotten as the objective is, with a model
    of its own, and is reported with it. What a point promises above the worst counts as far as it
    is likely to be feasible at the time; a rule that compares points measures, too, where that is
    open. Until a point is likely enough to be feasible, the likeliest comes next.

    Args:
        rule: Says whether a trial is measured: ``MeasurementRule``, ``LCBUCBRule``,
            ``BernoulliRule``, ``MixedRule`` or ``FullFeedback``. A larger ``kappa`` of a
            ``MeasurementRule`` measures more. None: ``MeasurementRule()`` where the forgetting rate
            is given. Where it is learned, ``MixedRule(MeasurementRule(), lower=0.1, upper=1.0)``:
            who looks at nothing does not learn that things have changed, so a tenth of the trials
            is measured in any case.
        forgetting: How much of the objective is forgotten per unit of time, strictly between 0 and
            1: its values a time ``D`` apart have the correlation ``(1 - forgetting) ** (D / 2)``.
            None: learned with the other hyperparameters.
        beta: Weight of the upper confidence bound ``mean + sqrt(beta) * sd``: a number >= 0,
            or ``LogarithmicBeta``, which grows with the trials (None).
        cost: Cost of a measurement, as in ``cost_aware_strategy``, without a switching cost: a
            number, a value object, a function, or the name of the metric in which the cost of each
            measured trial is reported, from which it is learned. The cost at the settings of a
            trial decides whether a measurement can be paid. If it cannot be paid at the largest
            upper confidence bound, the trial is at the best posterior mean. A learned cost is
            unknown until the first report: then anything that is left of the budget pays for it.
        budget: What all measurements may cost together. Where what is left does not pay for one,
            trials go on without, at the point of the best posterior mean. None: no limit.
        time: What counts as time. None: the index of the trial. Else the name of a tracking metric
            under which you report when each trial was, in a unit of your own, also of trials that
            were not measured: ``complete_trial(client, i, {"hours": 3.5})``. It has to grow: hours
            since the start, not hours left. The next trial is taken to be later than the last
            report by the median step between reports.
        initial_trials: Quasi-random trials, all measured, before the model decides. With 0 the
            first outcome ends them, be it of an attached trial.
        max_trial_cost: What a measurement may cost, as for the other strategies; no less than the
            cheapest one costs.
        charge_initial: Whether the initial trials are paid from the budget.
        surrogate_spec: The model: an Ax ``SurrogateSpec`` of ``TimeVaryingGP`` or classes derived
            from it, ``FixedHyperparameters`` (with ``forgetting``), or None for a ``TimeVaryingGP``
            with fitted hyperparameters.
        seed: Seed of everything random. Two runs with one seed and the same outcomes agree.
        num_restarts: Restarts of the inner optimisation; None for the method's default.
        raw_samples: Raw starting points of the inner optimisation; None for the method's default.
        count_attached: Whether trials that were attached with their data, such as past ones, count
            towards ``initial_trials``.
        feasibility_threshold: Least probability of satisfying all outcome constraints, at the time,
            with which a point counts as feasible, and may be deployed.
        torch_device: Where models and searches compute, by torch's name, such as ``"cuda"`` or
            ``"cuda:1"``; None for the CPU. It is stored. A store that is loaded where there is no
            such device goes on with the CPU, and says so in the log.
        winsorize: Whether an outcome counts as no worse than ten distances between the quartiles
            beyond the worse one, where hyperparameters are fitted: a trial that went wrong, and
            says so by a million, is not to hide how the others differ.
        cost_model: See ``cost_aware_strategy``.

    Returns:
        A generation strategy for ``Client.set_generation_strategy``, ``AxClient`` or an
        ``Orchestrator``.

    Raises:
        UserInputError: If an argument has a value that the method cannot use. Whether the
            arguments fit the experiment is checked when a trial is asked for.
    """
    return strategy_with(CostlyFeedback, locals())

"""Factories of Ax generation strategies, one for each method, and the parameters that two need.

- ``control_set_strategy``: UCB-CVS of Tay et al. 2023, "Bayesian Optimization with Cost-varying
  Variable Subsets" (NeurIPS): an initial design, then a rule that chooses for every trial which
  inputs to control, with the values that maximise an acquisition function in expectation over the
  rest.
- ``gittins_strategy``: the Pandora's Box Gittins index of Xie, Astudillo, Frazier, Scully and
  Terenin 2024, "Cost-aware Bayesian Optimization via the Pandora's Box Gittins Index" (NeurIPS):
  trials with the largest index, until the best value in hand is at least the largest index.
- ``costly_feedback_strategy``: CE-GP-UCB of Wang, Ren, Bogunovic, Xiong and Urtasun 2020,
  "Cost-Efficient Online Hyperparameter Optimization": something is tuned while it runs, its
  response to the parameters drifts, and to look at the response costs. Every trial uses the point
  with the largest upper confidence bound at its time, and is measured where that point could be
  mistaken for a better one.
- ``indirect_query_strategy``: CMES of Zhang et al. 2024, "Indirect Query Bayesian Optimization with
  Integrated Feedback": clinics report averages, satellites coarse pixels, and what is wanted is the
  best point. Each trial asks the query whose answer is expected to tell most about it.
- ``resolution_tree_strategy``: CMETS of the same, section 5.2. A cell of a tree over the space is
  measured as a whole: coarse and cheap, or fine and dear? Each trial measures the cell whose mean
  is expected to tell most, per unit of cost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.generators.torch.botorch_modular.surrogate import SurrogateSpec

from ax_costaware.ax_bridge.checks import ax_errors
from ax_costaware.ax_bridge.records import parameters_of_configs
from ax_costaware.ax_bridge.strategy import strategy_of
from ax_costaware.methods.averages import Information
from ax_costaware.methods.averages.indirect_queries import IndirectQueries
from ax_costaware.methods.control_sets import ControlSets
from ax_costaware.methods.control_sets.checks import CONTROL_SET
from ax_costaware.methods.costly_feedback import CostlyFeedback
from ax_costaware.methods.gittins import CostArgument, Gittins, StopRule
from ax_costaware.methods.method import Method, check_integer
from ax_costaware.methods.model import FixedHyperparameters
from ax_costaware.methods.resolution_tree import LEVEL, TreeSearch
from ax_costaware.models.log_normal_cost import CostKind
from ax_costaware.policies.beta import LogarithmicBeta, TheoreticalBeta
from ax_costaware.policies.control_set_rules import ControlSetRule
from ax_costaware.policies.gittins import GittinsDecay
from ax_costaware.policies.query_rules import FeedbackRule
from ax_costaware.queries.change_cost import ChangeCost
from ax_costaware.queries.conditionals import Conditional
from ax_costaware.queries.control_sets import ControlSet, check_control_sets
from ax_costaware.queries.costs import Cost
from ax_costaware.queries.joint import JointLaw
from ax_costaware.queries.marginals import Marginal


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


@ax_errors()
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
    change_cost: ChangeCost | None = None,
    count_attached: bool = True,
) -> GenerationStrategy:
    """A strategy that chooses for every trial which inputs to control, and their values.

    Args:
        control_sets: The subsets of the inputs that a trial can control, each with its cost, or
            with None for a cost that is learned: ``complete_trial`` then needs what each trial
            cost, which may depend on the values that it sets.
        marginals: Distribution of each input where a trial does not control it, by name, in the
            parameter's raw units. Inputs that every control set controls need none. A ``Learned``
            one is updated with the values that the input takes in trials that do not control it.
        budget: What all trials may cost together, in the unit of the costs. A trial is never chosen
            beyond it; when it pays for no control set any more, asking for a trial raises
            ``OptimizationShouldStop``, which says what to deploy. None: no limit. Where costs are
            learned, what is expected is held against the budget, so that it is passed by no more
            than the last trial's surprise, or the last batch's.
        rule: How a control set is chosen. By default ``LargestValuePerCost("worst", commit=0.3)``
            takes the one with the largest upper confidence bound, counted from the worst value that
            there is, per unit of expected cost (with ``acquisition="ei"`` the improvement per
            cost), and with the last 30 % of a budget the largest bound at any cost.
        beta: Weight of the standard deviation in the upper confidence bound ``mu + beta * sigma``:
            a number, or ``TheoreticalBeta``.
        acquisition: What is maximised in expectation: ``"ucb"``, ``"ei"`` or ``"ts"``.
        initial_trials: Quasi-random trials before the model decides. With 0 the experiment needs a
            trial with data, attached, before the first is asked for.
        initial_control_sets: Names of the control sets that the initial trials cycle through; by
            default those of the cheapest cost, or all of them where a cost is unknown.
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
        change_cost: What it costs, on top, to set parameters to other values than in the trial
            before: ``ChangeCost({"oven_temperature": 5.0})``. What a trial leaves to chance costs
            nothing, and the next one that sets it pays for the change.
        count_attached: Whether trials that were attached with their data, such as past ones, count
            towards ``initial_trials``.

    Returns:
        A generation strategy for ``Client.set_generation_strategy``, ``AxClient`` or an
        ``Orchestrator``.

    Raises:
        UserInputError: If an argument has a value that the method cannot use. Whether the
            arguments fit the experiment is checked when the first trial is asked for.
    """
    return _strategy(ControlSets, locals())


@ax_errors()
def gittins_strategy(
    cost: CostArgument,
    budget: float | None = None,
    lmbda: float | None = None,
    decay: GittinsDecay | None = None,
    stop: bool | StopRule | None = None,
    acquisition: str = "log_ei_per_cost",
    cost_model: CostKind = "gp",
    initial_trials: int = 5,
    initial_share: float | None = 0.2,
    max_trial_cost: float | None = None,
    charge_initial: bool = True,
    surrogate_spec: SurrogateSpec | FixedHyperparameters | None = None,
    seed: int = 0,
    num_restarts: int | None = None,
    raw_samples: int | None = None,
    count_attached: bool = True,
    feasible: float = 0.9,
    learn_failures: bool | Literal["abandoned"] = False,
) -> GenerationStrategy:
    """A strategy that chooses the trial that is most worth its cost.

    By default that is the one with the largest expected improvement per unit of cost; the Gittins
    index of the paper is ``acquisition="gittins"``. A budget is used up. What a unit of cost is
    worth, ``lmbda``, ends a run when no trial is worth its cost. Where it is not given it is found
    from the budget, as the one at which the method is expected to spend just that, before every
    decision; or, with a stopping rule, at the first decision of the model, and held. Where there is
    neither ``lmbda`` nor a budget it decays.

    Outcome constraints with a number as their bound are taken from the experiment's optimization
    configuration. Each of their metrics has a model of its own, and a trial is worth its cost as
    far as it is likely to be feasible; until one is, the likeliest per cost comes next.

    Args:
        cost: What a trial costs, in a unit of your own: a number; a value object such as
            ``AffineCost({"epochs": 2.5})``, ``ProductCost({"epochs": 1, "width": 2}, scale=0.1)``
            or ``TableCost("machine", {...})``; the name of the metric in which the cost of each
            trial is reported, from which it is learned (``complete_trial(..., cost=...)`` reports
            it); or a function from a parameterization to a number, with which the experiment
            cannot be stored.
        budget: What all trials may cost together. No trial is chosen that is expected to cost more
            than what is left; when that pays for no trial, asking for one raises
            ``OptimizationShouldStop``, which says what to deploy. None: no limit.
        lmbda: What one unit of cost is worth, in units of the objective: the improvement for which
            one would just pay one unit. Not together with ``decay``.
        decay: How lambda falls when no trial is worth it: ``GittinsDecay``, whose numbers are in
            standard deviations of the outcomes so far per mean cost of the trials so far, so that
            they do not depend on units.
        stop: When to stop before the budget is used up. None: when no trial is worth its cost at
            ``lmbda``, and without one never. True: by ``GittinsStop``, when the best posterior mean
            at an evaluated point is at least the largest index, unless lambda decays; also at a
            lambda that is found from the budget. False: never. Or a rule, ``GittinsStop`` or
            ``ImprovementPerCostStop``, with a ``lmbda`` of its own or the one in force.
        acquisition: ``"log_ei_per_cost"``; ``"gittins"``, the index; or ``"log_ei_cost_cooling"``,
            whose exponent of the cost is the share of the budget that is left.
        cost_model: How a cost is learned: ``"gp"`` or ``"linear"``, both on the log of the cost.
        initial_trials: Quasi-random trials before the model decides. With 0 the experiment needs a
            trial with data, attached, before the first is asked for.
        initial_share: Share of the budget that the initial trials keep to: quasi-random points are
            left out that would leave too little of it to the others; learned costs are expected
            from the first report on. None: the design does not look at costs.
        max_trial_cost: What any one trial may be expected to cost; None for no limit. Costs that
            are learned are held against it once one was reported.
        charge_initial: Whether the initial trials are paid from the budget.
        surrogate_spec: The model: an Ax ``SurrogateSpec``, ``FixedHyperparameters``, or None for
            Ax's default GP with fitted hyperparameters.
        seed: Seed of everything random. Two runs with one seed and the same outcomes agree.
        num_restarts: Restarts of the inner optimisation; None for Ax's default.
        raw_samples: Raw starting points of the inner optimisation; None for Ax's default.
        count_attached: Whether trials that were attached with their data, such as past ones, count
            towards ``initial_trials``.
        feasible: Where the experiment has outcome constraints: the probability of keeping to all of
            them from which on an evaluated point counts as one in hand, which others are compared
            with, and which may be deployed.
        learn_failures: Whether failing is learned, as one more constraint: from trials that failed,
            or with ``"abandoned"`` also from such as were abandoned. False: a trial that comes near
            to one that failed is chosen again by a model that thinks less of that point.

    Returns:
        A generation strategy for ``Client.set_generation_strategy``, ``AxClient`` or an
        ``Orchestrator``.

    Raises:
        UserInputError: If an argument has a value that the method cannot use. Whether the
            arguments fit the experiment is checked when the first trial is asked for.
    """
    return _strategy(Gittins, locals())


@ax_errors()
def costly_feedback_strategy(
    rule: FeedbackRule | None = None,
    forgetting: float | None = None,
    beta: float | LogarithmicBeta | None = None,
    cost: float = 1.0,
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
) -> GenerationStrategy:
    """A strategy that chooses the values of every trial, and says whether to measure its outcome.

    ``query(client, trial_index).measure`` says whether to measure. If so, the outcome is reported
    as ever; if not, ``complete_trial(client, trial_index)`` completes the trial without one, which
    costs nothing. What is reported against the advice is used all the same.

    Trials under way that are to be measured count at their posterior mean, so that trials asked for
    together differ where they should. The strategy itself never stops.

    Args:
        rule: Says whether a trial is measured: ``QueryRule``, ``LCBUCBRule``, ``BernoulliRule``,
            ``MixedRule`` or ``FullFeedback``. A larger ``kappa`` of a ``QueryRule`` measures more.
            None: ``QueryRule()`` where the forgetting rate is given. Where it is learned,
            ``MixedRule(QueryRule(), lower=0.1, upper=1.0)``: who looks at nothing does not learn
            that things have changed, so a tenth of the trials is measured in any case.
        forgetting: How much of the objective is forgotten per unit of time, strictly between 0 and
            1: its values a time ``D`` apart have the correlation ``(1 - forgetting) ** (D / 2)``.
            None: learned with the other hyperparameters.
        beta: Weight of the upper confidence bound ``mean + sqrt(beta) * sd``: a number >= 0,
            or ``LogarithmicBeta``, which grows with the trials (None).
        cost: What a measurement costs, in a unit of your own.
        budget: What all measurements may cost together. Where what is left does not pay for one,
            trials go on without, at the point of the best posterior mean. None: no limit.
        time: What counts as time. None: the index of the trial. Else the name of a tracking metric
            under which you report when each trial was, in a unit of your own, also of trials that
            were not measured: ``complete_trial(client, i, {"hours": 3.5})``. It has to grow: hours
            since the start, not hours left. The next trial is taken to be later than the last
            report by the median step between reports.
        initial_trials: Quasi-random trials, all measured, before the model decides. With 0 the
            experiment needs a trial with data, attached, before the first is asked for.
        max_trial_cost: What a measurement may cost, as for the other strategies; no less than
            ``cost``, for all cost the same.
        charge_initial: Whether the initial trials are paid from the budget.
        surrogate_spec: The model: an Ax ``SurrogateSpec`` of ``TimeVaryingGP`` or classes derived
            from it, ``FixedHyperparameters`` (with ``forgetting``), or None for a ``TimeVaryingGP``
            with fitted hyperparameters.
        seed: Seed of everything random. Two runs with one seed and the same outcomes agree.
        num_restarts: Restarts of the inner optimisation; None for the method's default.
        raw_samples: Raw starting points of the inner optimisation; None for the method's default.
        count_attached: Whether trials that were attached with their data, such as past ones, count
            towards ``initial_trials``.

    Returns:
        A generation strategy for ``Client.set_generation_strategy``, ``AxClient`` or an
        ``Orchestrator``.

    Raises:
        UserInputError: If an argument has a value that the method cannot use. Whether the
            arguments fit the experiment is checked when a trial is asked for.
    """
    return _strategy(CostlyFeedback, locals())


@ax_errors()
def indirect_query_strategy(
    target_parameters: Sequence[RangeParameterConfig | ChoiceParameterConfig],
    conditional: Conditional,
    cost: float | Cost = 1.0,
    budget: float | None = None,
    query_parameters: Sequence[str] | None = None,
    acquisition: Information = "max_value_entropy",
    initial_trials: int = 5,
    max_trial_cost: float | None = None,
    charge_initial: bool = True,
    hyperparameters: FixedHyperparameters | None = None,
    seed: int = 0,
    num_samples: int = 32,
    num_restarts: int | None = None,
    raw_samples: int | None = None,
    count_attached: bool = True,
) -> GenerationStrategy:
    """A strategy that asks what tells most about the best point, and is answered by averages.

    The parameters of the Ax experiment are those of the queries, and its metric is the answer: the
    average of the objective over the points that a query reaches. ``recommend(client)`` says which
    point is best, in terms of ``target_parameters``, and what to expect there.

    Args:
        target_parameters: The parameters of the points, as Ax's configurations, in the order of the
            conditional's columns of X. They are no parameters of the experiment, and may have the
            names of such.
        conditional: The law of a point given a query: ``GaussianConditional``,
            ``UniformBoxConditional``, ``FiniteConditional`` for policies over arms, or
            ``LearnedConditional`` from pairs of points and queries, to which ``add_pairs`` adds
            while the experiment runs. Bounds that it lacks are those of ``target_parameters``. A
            column of X for a choice without an order has the position of the value in it. The
            points of a ``FiniteConditional`` are all that can be recommended.
        cost: What a query costs, in a unit of your own: a number, or a value object such as
            ``AffineCost({"patients": 2.5})`` by the names of the experiment's parameters. Queries
            are then compared by information per unit of cost.
        budget: What all trials may cost together. When what is left pays for no query, asking for
            one raises ``OptimizationShouldStop``, which says what to deploy. None: no limit.
        query_parameters: Names of the experiment's parameters in the order of the conditional's
            query columns; None: in the experiment's own order.
        acquisition: What a query is to tell of: ``"max_value_entropy"``, the best point's value
            (CMES, as published); ``"max_value_entropy_noise_aware"``, the same with an account of
            the answer's noise; or ``"joint_entropy"``, the best point together with its value,
            which also decides where no query tells of the value (less than 1e-6 nats).
        initial_trials: Quasi-random queries before the model decides. With 0 the experiment needs a
            trial with data, attached, before the first is asked for.
        max_trial_cost: What any one trial may be expected to cost; None for no limit. Costs that
            are learned are held against it once one was reported.
        charge_initial: Whether the initial trials are paid from the budget.
        hyperparameters: ``FixedHyperparameters`` of the model of the objective over the points, on
            the unit cube of the target parameters; None: fitted to the answers.
        seed: Seed of everything random. Two runs with one seed and the same outcomes agree.
        num_samples: Sampled optima over which the information is averaged.
        num_restarts: Local searches for the query; None for the method's default.
        raw_samples: Queries from the best of which these start; None for the method's default.
        count_attached: Whether trials that were attached with their data, such as past ones, count
            towards ``initial_trials``.

    Returns:
        A generation strategy for ``Client.set_generation_strategy``, ``AxClient`` or an
        ``Orchestrator``.

    Raises:
        UserInputError: If an argument has a value that the method cannot use. Whether the
            arguments fit the experiment is checked when the first trial is asked for.
    """
    settings = locals()
    settings["target_parameters"] = parameters_of_configs(target_parameters)
    return _strategy(IndirectQueries, settings)


@ax_errors()
def level_parameter(max_level: int) -> RangeParameterConfig:
    """The parameter that says how fine a cell is, to be added to those of the experiment.

    Args:
        max_level: The finest level, at least 1; the whole space is level 0.

    Raises:
        UserInputError: For any other ``max_level``.
    """
    check_integer("max_level", max_level, 1)
    return RangeParameterConfig(LEVEL, bounds=(0, max_level), parameter_type="int")


@ax_errors()
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
    count_attached: bool = True,
) -> GenerationStrategy:
    """A strategy that chooses where to measure, and how finely.

    The experiment has the parameters of ``level_parameter(max_level)`` and the target parameters
    themselves: a trial is a cell, given by its level and its centre, and its metric is the mean of
    the objective over the cell. Candidates are the leaves of a tree, which the cells that were
    measured have grown, and their children. ``recommend(client)`` says which point is best.

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
        acquisition: What a cell is to tell of; see ``indirect_query_strategy``.
        initial_trials: Cells that are measured before the model decides, the coarsest first. None:
            the whole space and the cells of level 1. With 0 the experiment needs a trial with data,
            attached, before the first is asked for.
        max_trial_cost: What any one trial may be expected to cost; None for no limit. Costs that
            are learned are held against it once one was reported.
        charge_initial: Whether the initial trials are paid from the budget.
        hyperparameters: ``FixedHyperparameters`` of the model of the objective, on the unit cube of
            the target parameters; None: fitted.
        seed: Seed of everything random. Two runs with one seed and the same outcomes agree.
        num_samples: Sampled optima over which the information is averaged.
        count_attached: Whether trials that were attached with their data, such as past ones, count
            towards ``initial_trials``.

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
    return _strategy(TreeSearch, settings)


def _strategy(method_class: type[Method], settings: dict[str, Any]) -> GenerationStrategy:
    """The strategy of a method with these fields, and with what else ``strategy_of`` takes."""
    names = ("surrogate_spec", "count_attached")
    options = {name: settings.pop(name) for name in names if name in settings}
    return strategy_of(method_class(**settings), **options)

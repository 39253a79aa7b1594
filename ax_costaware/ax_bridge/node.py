"""Generation node of every strategy: it asks the loop and records its decision.

The loop decides, as it does without Ax. The node converts the experiment for the loop, converts the
decision to a ``GeneratorRun``, and attaches the record. The initial design is a phase of the loop,
not a node of its own.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

import torch
from ax.adapter.base import gen_arms
from ax.adapter.torch import TorchAdapter
from ax.core.arm import Arm
from ax.core.data import Data
from ax.core.experiment import Experiment
from ax.core.generator_run import GeneratorRun
from ax.core.observation import ObservationFeatures
from ax.exceptions.core import DataRequiredError, UserInputError
from ax.generation_strategy.generation_node import GenerationNode
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.generation_strategy.transition_criterion import TransitionCriterion
from ax.generators.torch.botorch_modular.surrogate import SurrogateSpec
from ax.utils.common.constants import Keys
from ax.utils.common.logger import get_logger

from ax_costaware.ax_bridge.attached import trials_outside_designs
from ax_costaware.ax_bridge.checks import (
    ax_errors,
    check_one_arm,
    check_optimization_config,
    no_trial_error,
    usable_device,
)
from ax_costaware.ax_bridge.log import recorded
from ax_costaware.ax_bridge.records import (
    GENERATOR_KEY,
    RECORD,
    PendingObservations,
    past_trials,
    pending_points,
    problem_of,
)
from ax_costaware.ax_bridge.search_space import active_parameters
from ax_costaware.ax_bridge.surrogates import given_model
from ax_costaware.ax_bridge.training_data import restore_data
from ax_costaware.ax_bridge.turns import CostAwareStrategy, LimitedNode
from ax_costaware.ax_bridge.views import adapter_of
from ax_costaware.core import Decision, FixedHyperparameters, Problem, Stop
from ax_costaware.core.account import ROUNDING, ledger_of, remaining
from ax_costaware.core.decision import check_objectives
from ax_costaware.core.loop import Loop
from ax_costaware.core.method import Method
from ax_costaware.core.tours import in_cheapest_order
from ax_costaware.core.trial_costs import NO_LIMIT
from ax_costaware.display import display_number
from ax_costaware.exceptions import InputError

logger = get_logger(__name__)

AnyMethod = TypeVar("AnyMethod", bound=Method)


class CostAwareNode(LimitedNode):
    """Node with a method: its initial design, then its decisions.

    A strategy with such a node becomes a ``CostAwareStrategy``, also if it was loaded: Ax's stores
    always make Ax's own class.

    Args:
        method: The method.
        name: Name of the node.
        surrogate_spec: The model: an Ax ``SurrogateSpec``, ``FixedHyperparameters``, or None for
            the method's own.
        torch_device: Device of models and searches, by torch's name; None for the CPU, which also
            replaces a device that does not exist here.
        count_attached: True to count attached trials with data towards the initial design.
        transition_criteria: Criteria for the transition to another node, such as
            ``BudgetExhausted``; None: never.
    """

    def __init__(
        self,
        method: Method,
        name: str | None = None,
        surrogate_spec: SurrogateSpec | FixedHyperparameters | None = None,
        torch_device: str | None = None,
        count_attached: bool = True,
        transition_criteria: Sequence[TransitionCriterion] | None = None,
    ) -> None:
        super().__init__(
            name=name or method.traits.label,
            generator_specs=[],
            # With noise a trial may be worth a repetition; the method decides.
            should_deduplicate=False,
            transition_criteria=transition_criteria,
            fallback_specs={},
        )
        self.method = method
        self.surrogate_spec = surrogate_spec
        self.torch_device = torch_device
        self.count_attached = count_attached
        self._device: torch.device | None = None
        if torch_device is not None:
            try:
                self._device = usable_device(torch_device)
            except InputError as error:
                logger.warning(f"{error} The CPU is used instead.")
        # Number of trials and remaining budget when it paid for no further trial.
        self.used_up: tuple[int, float | None] | None = None
        self._asked: Loop | None = None
        # True for decisions of a batch, not yet trials, that are to be measured, by arm.
        self._decided: dict[str, bool] = {}

    @property
    def _generation_strategy(self) -> GenerationStrategy | None:
        return self.__dict__.get("_generation_strategy")

    @_generation_strategy.setter
    def _generation_strategy(self, strategy: GenerationStrategy | None) -> None:
        if type(strategy) is GenerationStrategy:
            _check_one_method(strategy)
            strategy.__class__ = CostAwareStrategy
        self.__dict__["_generation_strategy"] = strategy

    @property
    def loop(self) -> Loop:
        """Loop of the method, which keeps the fitted models."""
        if self._asked is None or self._asked.method is not self.method:
            self._asked = Loop(self.method, given_model(self.surrogate_spec))
        return self._asked

    def problem(
        self,
        experiment: Experiment,
        pending: PendingObservations | None = None,
        fixed: ObservationFeatures | None = None,
    ) -> Problem:
        """Return the problem of the next decision on an experiment.

        Args:
            experiment: The experiment.
            pending: Points under evaluation, by metric, as of Ax; None if pending trials do not
                matter.
            fixed: Parameters that the caller fixes.
        """
        restore_data(experiment)
        attached = len(trials_outside_designs(experiment)) if self.count_attached else 0
        problem = problem_of(
            experiment,
            self.method,
            pending_points(experiment, pending),
            fixed,
            measures=lambda row: self._decided.get(Arm.md5hash(row), True),
            device=self._device,
            num_attached=attached,
            batch_size=self.batch_size,
        )
        return self.loop.prepared(problem)

    def remaining(self, experiment: Experiment) -> float | None:
        """Return the remaining budget, less reservations; None without a budget."""
        with ax_errors():
            ledger = ledger_of(past_trials(experiment, self.method), self.method)
        return remaining(ledger, self.method.budget)

    def _fit(self, experiment: Experiment, data: Data | None = None, **kwargs: Any) -> None:
        """Fit nothing: a model is fitted when a decision asks for it."""

    def _gen(
        self,
        experiment: Experiment,
        pending_observations: dict[str, list[ObservationFeatures]] | None,
        data: Data | None = None,
        n: int | None = None,
        fixed_features: ObservationFeatures | None = None,
        **kwargs: Any,
    ) -> GeneratorRun:
        """Decide on the next trial.

        Raises:
            OptimizationShouldStop: If no trial is worth its cost, or none can be paid.
            DataRequiredError: If pending trials may change that.
            UserInputError: If the experiment does not fit the method, or data to learn from are
                missing.
            UnsupportedError: If ``n`` is not one, or the method does not support the experiment.
        """
        started = time.monotonic()
        check_one_arm(n)
        check_optimization_config(experiment.optimization_config)
        with ax_errors():
            problem = self.problem(experiment, pending_observations or {}, fixed_features)
            decision = self.loop.ask(problem)
        fixed = {n: value for n, value in problem.fixed.items() if n not in problem.disabled}
        note = f" The caller had fixed {fixed}." if fixed else ""
        if isinstance(decision, Stop):
            if decision.is_final:
                self.used_up = len(experiment.trials), self.remaining(experiment)
            raise no_trial_error(self.method, problem, decision, note)
        run = self._run_of(experiment, decision, time.monotonic() - started)
        decision = replace(decision, why=decision.why + note)
        return recorded(run, decision, problem, self.method, experiment)

    def _run_of(self, experiment: Experiment, decision: Decision, seconds: float) -> GeneratorRun:
        """Return a decision as Ax stores it."""
        known = experiment.search_space.parameters
        row = active_parameters(experiment.search_space, decision.parameters)
        row = {name: known[name].cast(value) for name, value in row.items()}
        arms, _ = gen_arms([ObservationFeatures(parameters=row)], experiment.arms_by_signature)
        self._decided[arms[0].signature] = bool(decision.extra.get("measure", True))
        return GeneratorRun(
            arms=arms,
            generator_key=GENERATOR_KEY,
            gen_time=seconds,
            gen_metadata={Keys.EXPECTED_ACQF_VAL: [decision.value]},
        )

    @property
    def _fitted_adapter(self) -> TorchAdapter | None:
        """Adapter for Ax's own views, made on demand, see ``adapter_of``."""
        if self._generation_strategy is None or self._generation_strategy._experiment is None:
            return None
        experiment = self.experiment
        with ax_errors():
            problem = self.problem(experiment)
            return adapter_of(experiment, self.loop, problem) if problem.observed else None

    def new_trial_limit(self, raise_generation_errors: bool = False) -> int:
        """Return the number of trials that can be generated now; -1 for any number."""
        limit: int = super().new_trial_limit(raise_generation_errors=raise_generation_errors)
        with ax_errors():
            payable = self.loop.num_payable(self.problem(self.experiment))
        if payable == NO_LIMIT:
            return limit
        return payable if limit < 0 else min(limit, payable)

    def in_order(self, runs: Sequence[GeneratorRun]) -> list[GeneratorRun]:
        """Return the trials of a batch in the order of the least switching costs, and log it."""
        records = [(run.gen_metadata or {}).get(RECORD) or {} for run in runs]
        if len(runs) < 2 or self.method.trial_costs.switching is None or not all(records):
            return list(runs)
        arms = [ObservationFeatures.from_arm(arm) for run in runs for arm in run.arms]
        with ax_errors():
            problem = self.problem(self.experiment, {"": arms})
            found = in_cheapest_order(problem, self.method, records)
        order, first = [i for i, _ in found], len(problem.trials)
        if order == sorted(order):
            return list(runs)
        for i, record in found:
            runs[i]._gen_metadata = {**(runs[i].gen_metadata or {}), RECORD: record}
        before, now = (
            display_number(math.fsum(record["switching_cost"] for record in each))
            for each in (records, [record for _, record in found])
        )
        logger.info(
            f"Trials {first} to {first + len(order) - 1} are those decided as "
            f"{[first + i for i in order]}: their switching costs are {now} in this order, and "
            f"were {before}."
        )
        return [runs[i] for i in order]

    def limit_reason(self) -> str:
        """Return the reason why the node makes fewer trials at once than requested."""
        if self.method.budget is None:
            return f"The node {self.name!r} makes no more trials at once."
        if self.method.trial_costs.further:
            return "What remains of the budgets certainly pays for no more."
        return f"What remains of budget={self.method.budget:g} certainly pays for no more."


class BudgetExhausted(TransitionCriterion):
    """Transition to another node when the budget of a node of this package is used up.

    That is the case if nothing remains of the budget, or the rest pays for no further trial. With
    this criterion a run that stops because no trial is worth its price ends with it, too.

    Args:
        transition_to: Name of the next node.
    """

    def __init__(self, transition_to: str) -> None:
        super().__init__(transition_to=transition_to)

    def is_met(self, experiment: Experiment, curr_node: GenerationNode) -> bool:
        """Return True if nothing remains of the budget, reservations included."""
        if not isinstance(curr_node, CostAwareNode):
            raise UserInputError(
                f"BudgetExhausted is a criterion of the node {curr_node.name!r}: expected one of "
                "this package, which has a budget."
            )
        left, budget = curr_node.remaining(experiment), curr_node.method.budget
        if left is None or budget is None:
            return False
        return left <= ROUNDING * budget or curr_node.used_up == (len(experiment.trials), left)


def node_of(strategy: GenerationStrategy) -> CostAwareNode:
    """Return the node of a generation strategy that has a method.

    Raises:
        UserInputError: If ``strategy`` comes from elsewhere.
    """
    nodes = strategy.nodes_by_name.values() if isinstance(strategy, GenerationStrategy) else ()
    for node in nodes:
        if isinstance(node, CostAwareNode):
            return node
    raise UserInputError(
        f"the generation strategy {getattr(strategy, 'name', strategy)!r} does not know what a "
        "trial costs: expected one made by ax_costaware.control_set_strategy, "
        "ax_costaware.cost_aware_strategy or any other strategy of the package."
    )


def fitted_problem(
    experiment: Experiment,
    strategy: GenerationStrategy,
    fixed: ObservationFeatures | None = None,
) -> Problem:
    """Return the problem of a strategy's next decision, with its fitted model.

    Args:
        experiment: The experiment.
        strategy: A strategy of this package.
        fixed: Known values of parameters.

    Raises:
        UserInputError: If the strategy comes from elsewhere.
        DataRequiredError: If no trial has a value of the objective, or of a metric with bounds.
    """
    check_optimization_config(experiment.optimization_config)
    node = node_of(strategy)
    problem = node.problem(experiment, fixed=fixed)
    with ax_errors():
        check_objectives(node.method, problem)
    lacking = sorted(problem.learned - {name for trial in problem.trials for name in trial.metrics})
    if not problem.observed or lacking:
        names = lacking if problem.observed else [problem.objective]
        raise DataRequiredError(f"no trial has a value of {names} yet.")
    return problem


def method_of(strategy: GenerationStrategy) -> Method:
    """Return the method of a generation strategy of this package.

    Raises:
        UserInputError: If ``strategy`` comes from elsewhere.
    """
    return node_of(strategy).method


def method_of_class(strategy: GenerationStrategy, method_class: type[AnyMethod]) -> AnyMethod:
    """Return the method of a generation strategy, which must be of a class.

    Raises:
        UserInputError: If ``strategy`` comes from elsewhere, or has a method of another class.
    """
    method = method_of(strategy)
    if isinstance(method, method_class):
        return method
    raise UserInputError(
        f"the generation strategy {strategy.name!r} comes from {method.display_name}: expected one "
        f"made by ax_costaware.{method_class.factory}."
    )


def _check_one_method(strategy: GenerationStrategy) -> None:
    """Refuse a strategy of several methods: budget and account would be the first one's.

    Raises:
        UserInputError: If there are several; the error names the nodes.
    """
    nodes = strategy.nodes_by_name.values()
    several = [node.name for node in nodes if isinstance(node, CostAwareNode)]
    if len(several) > 1:
        raise UserInputError(
            f"the generation strategy has the nodes {several} of this package: expected one, since "
            "the budget and the charges of an experiment are those of one method. To change "
            "the method, set another strategy."
        )

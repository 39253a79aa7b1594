"""The node of every strategy: it asks the loop, and writes down what that decides.

A decision is the loop's, the same as without Ax. The node reads the experiment as the loop sees it,
turns a decision into a ``GeneratorRun``, and attaches the record of it. The initial design is a
phase of the loop, not a node of its own.
"""

from __future__ import annotations

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

from ax_costaware.ax_bridge.attached import beside_designs
from ax_costaware.ax_bridge.checks import (
    ax_errors,
    check_one_arm,
    check_optimization_config,
    no_trial,
    usable_device,
)
from ax_costaware.ax_bridge.log import recorded
from ax_costaware.ax_bridge.records import (
    GENERATOR_KEY,
    PendingObservations,
    live_observations,
    past_trials,
    problem_of,
)
from ax_costaware.ax_bridge.surrogates import model_of
from ax_costaware.ax_bridge.training_data import restore_data
from ax_costaware.ax_bridge.turns import CostAwareStrategy, LimitedNode
from ax_costaware.ax_bridge.views import adapter_of
from ax_costaware.core import Decision, FixedHyperparameters, Problem, Stop
from ax_costaware.core.account import ROUNDING, ledger_of, remaining
from ax_costaware.core.loop import Loop
from ax_costaware.core.method import NO_LIMIT, Method
from ax_costaware.exceptions import InputError

logger = get_logger(__name__)

AnyMethod = TypeVar("AnyMethod", bound=Method)


class CostAwareNode(LimitedNode):
    """A node that has a method: its initial design, and then what it decides.

    A strategy that has such a node is a ``CostAwareStrategy``, also where one of Ax's stores has
    made it, which make Ax's own class whatever they read.

    Args:
        method: The method.
        name: Name of the node.
        surrogate_spec: The model: an Ax ``SurrogateSpec``, ``FixedHyperparameters``, or None for
            the method's own.
        torch_device: Where models and searches compute, by torch's name; None for the CPU, which
            also takes the place of a device that is not here.
        count_attached: Whether trials that were attached with data count towards the initial
            design.
        transition_criteria: When another node goes on, such as ``BudgetExhausted``; None: never.
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
            name=name or method.label,
            generator_specs=[],
            # With noise a trial may be worth running twice; the method knows when.
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
                logger.warning(f"{error} The CPU computes instead.")
        # Number of trials and what was left of the budget when that paid for no further trial.
        self.used_up: tuple[int, float | None] | None = None
        self._asked: Loop | None = None
        # Whether decisions of a batch, which are no trials yet, are to be measured, by arm.
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
        """The loop of the method, which keeps the fitted models."""
        if self._asked is None or self._asked.method is not self.method:
            self._asked = Loop(self.method, model_of(self.method, self.surrogate_spec))
        return self._asked

    def problem(
        self,
        experiment: Experiment,
        pending: PendingObservations | None = None,
        fixed: ObservationFeatures | None = None,
    ) -> Problem:
        """Return what the next decision on an experiment is made from.

        Args:
            experiment: The experiment.
            pending: Points under evaluation, by metric, as Ax has them; None: nothing is asked
                about what is pending.
            fixed: Parameters that the caller fixes.
        """
        restore_data(experiment)
        attached = len(beside_designs(experiment)) if self.count_attached else 0
        problem = problem_of(
            experiment,
            self.method,
            live_observations(experiment, pending),
            fixed,
            measures=lambda row: self._decided.get(Arm.md5hash(row), True),
            device=self._device,
            num_attached=attached,
        )
        return self.loop.prepared(problem)

    def left(self, experiment: Experiment) -> float | None:
        """Return what is left of the budget, less what is reserved; None without a budget."""
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
            DataRequiredError: If that may change when those that run have reported.
            UserInputError: If the experiment does not fit the method, or what it learns from is
                missing.
            UnsupportedError: If ``n`` is not one, or the experiment asks for what the method does
                not do.
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
                self.used_up = len(experiment.trials), self.left(experiment)
            raise no_trial(self.method, problem, decision, note)
        run = self._run_of(experiment, decision, time.monotonic() - started)
        decision = replace(decision, why=decision.why + note)
        return recorded(run, decision, problem, self.method, experiment)

    def _run_of(self, experiment: Experiment, decision: Decision, seconds: float) -> GeneratorRun:
        """Return a decision as Ax stores it."""
        known = experiment.search_space.parameters
        row = {name: known[name].cast(value) for name, value in decision.parameters.items()}
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
        """An adapter for Ax's own views, made when it is asked for, see ``adapter_of``."""
        if self._generation_strategy is None or self._generation_strategy._experiment is None:
            return None
        experiment = self.experiment
        with ax_errors():
            problem = self.problem(experiment)
            return adapter_of(experiment, self.loop, problem) if problem.observed else None

    def new_trial_limit(self, raise_generation_errors: bool = False) -> int:
        """Return how many trials can be generated now; -1 for any number."""
        limit: int = super().new_trial_limit(raise_generation_errors=raise_generation_errors)
        with ax_errors():
            payable = self.loop.num_payable(self.problem(self.experiment))
        if payable == NO_LIMIT:
            return limit
        return payable if limit < 0 else min(limit, payable)

    def limit_reason(self) -> str:
        """Return why the node makes fewer trials at once than were asked for."""
        if self.method.budget is None:
            return f"The node {self.name!r} makes no more of them at once."
        return f"What is left of budget={self.method.budget:g} is certain to pay for no more."


class BudgetExhausted(TransitionCriterion):
    """Lets another node go on when the budget of a node of this package is used up.

    That is where nothing is left of it, or what is left pays for no further trial. A run that ends
    since no trial is worth its price ends with this criterion, too.

    Args:
        transition_to: Name of the node that goes on.
    """

    def __init__(self, transition_to: str) -> None:
        super().__init__(transition_to=transition_to)

    def is_met(self, experiment: Experiment, curr_node: GenerationNode) -> bool:
        """Return whether nothing is left of the budget, what is reserved included."""
        if not isinstance(curr_node, CostAwareNode):
            raise UserInputError(
                f"BudgetExhausted is a criterion of the node {curr_node.name!r}: expected one of "
                "this package, which has a budget."
            )
        left, budget = curr_node.left(experiment), curr_node.method.budget
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
    """Return what the next decision of a strategy is made from, with its model.

    Args:
        experiment: The experiment.
        strategy: A strategy of this package.
        fixed: Known values of parameters.

    Raises:
        UserInputError: If the strategy comes from elsewhere.
        DataRequiredError: If no trial has a value of the objective, or of a metric with bounds.
    """
    check_optimization_config(experiment.optimization_config)
    problem = node_of(strategy).problem(experiment, fixed=fixed)
    bounded = {bound.metric for bound in problem.constraints}
    lacking = sorted(bounded - {name for trial in problem.trials for name in trial.metrics})
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
    """Return the method of a generation strategy, which has to be of a class.

    Raises:
        UserInputError: If ``strategy`` comes from elsewhere, or has another method.
    """
    method = method_of(strategy)
    if isinstance(method, method_class):
        return method
    raise UserInputError(
        f"the generation strategy {strategy.name!r} comes from {method.known_as}: expected one "
        f"made by ax_costaware.{method_class.factory}."
    )


def _check_one_method(strategy: GenerationStrategy) -> None:
    """Refuse a strategy of several methods: budget and charges would be those of the first.

    Raises:
        UserInputError: By the names of the nodes.
    """
    nodes = strategy.nodes_by_name.values()
    several = [node.name for node in nodes if isinstance(node, CostAwareNode)]
    if len(several) > 1:
        raise UserInputError(
            f"the generation strategy has the nodes {several} of this package: expected one, since "
            "the budget and the charges of an experiment are those of one method. To go on with "
            "another method, set another strategy."
        )

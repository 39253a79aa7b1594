"""Stopping rule of the Gittins method for experiments that any strategy runs.

The rule is the decision of the Gittins strategy: a model is fitted to the data of the experiment,
and the run stops if no trial is worth its cost.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ax.core.experiment import Experiment
from ax.core.utils import extract_pending_observations
from ax.exceptions.core import DataRequiredError
from ax.generators.torch.botorch_modular.surrogate import SurrogateSpec
from ax.global_stopping.strategies.base import BaseGlobalStoppingStrategy

from ax_costaware.argument_checks import boolean, integer_at_least
from ax_costaware.ax_bridge.checks import ax_errors, check_optimization_config
from ax_costaware.ax_bridge.records import pending_points, problem_of
from ax_costaware.ax_bridge.surrogates import given_model, model_of
from ax_costaware.ax_bridge.training_data import restore_data
from ax_costaware.core.decision import avoiding_failures
from ax_costaware.core.failures import BY_FAILURES
from ax_costaware.core.loop import Loop
from ax_costaware.core.model import FixedHyperparameters, GivenModel
from ax_costaware.core.problem import Decision, Problem, Stop, decision_seed, reproducible
from ax_costaware.exceptions import InputError, UnsupportedInputError
from ax_costaware.methods.cost_aware import CostAware, Gittins, StopRule
from ax_costaware.methods.cost_aware.assessment import Assessment, assess
from ax_costaware.methods.cost_aware.rules import GittinsStop, ImprovementPerCostStop
from ax_costaware.methods.costed import CostArgument, NothingToLearnFrom
from ax_costaware.methods.priced import StandardizedPrice


@ax_errors()
def assess_experiment(experiment: Experiment, method: CostAware, given: GivenModel) -> Assessment:
    """Return the present decision of the Gittins method.

    A method without a stopping rule is assessed by ``GittinsStop``; one that weighs noise by
    ``ImprovementPerCostStop``.

    Raises:
        DataRequiredError: If no trial has an observation, or none a cost where costs are learned.
        UserInputError: If the experiment does not fit the method.
        UnsupportedError: If the method does not support the experiment.
    """
    config = check_optimization_config(experiment.optimization_config)
    if config.is_moo_problem or method.front is not None:
        raise UnsupportedInputError(
            "the experiment has several objectives: the stopping rule compares one value. With "
            "lmbda in hypervolume per cost, a cost_aware_strategy ends its run itself."
        )
    restore_data(experiment)
    pending = pending_points(experiment, extract_pending_observations(experiment) or {})
    loop = Loop(method, given)
    rule = ImprovementPerCostStop() if method.weighs_noise else GittinsStop()
    problem = loop.prepared(problem_of(experiment, method, pending))
    if not problem.measured:
        raise DataRequiredError("no trial has an outcome yet.")
    loop.check(problem)
    found: list[Assessment] = []

    def decide(problem: Problem) -> Decision | Stop:
        found.append(assess(method, problem, method.stop_rule or rule))
        return found[-1].decision_or_stop

    try:
        with reproducible(decision_seed(method.seed, problem.next_index)):
            avoiding_failures(method, problem, decide)
    except NothingToLearnFrom as error:
        raise DataRequiredError(str(error)) from error
    first, *again = found
    if not again:
        return first
    return replace(again[-1], reason=f"{again[-1].reason}, {BY_FAILURES}")


def method_to_check(
    cost: CostArgument,
    lmbda: float | StandardizedPrice | None,
    budget: float | None,
    rule: StopRule | None = None,
    **settings: Any,
) -> Gittins:
    """Return a method that applies the stopping rule to an experiment of another strategy.

    Args:
        cost: Cost of a trial.
        lmbda: Value of one unit of cost, in units of the objective.
        budget: Budget of all trials together.
        rule: The rule; None for ``GittinsStop``.
        settings: Further settings of ``Gittins``.

    Raises:
        InputError: If a value is invalid, or neither ``lmbda`` nor ``budget`` is given.
    """
    if lmbda is None and budget is None and (rule is None or rule.lmbda is None):
        raise InputError(
            "lmbda=None and budget=None: expected lmbda, the value of one unit of cost in units "
            "of the objective, or a budget from which it follows."
        )
    return Gittins(
        cost=cost,
        budget=budget,
        # A rule with its own price is applied at that price.
        lmbda=rule.lmbda if lmbda is None and budget is None and rule is not None else lmbda,
        stop=True if rule is None else rule,
        initial_trials=0,
        # Constraints are modeled as by Ax's default, whose trials they are.
        **{"kernel": "squared_exponential", "winsorize": True, "cost_model": "trend", **settings},
    )


@dataclass(eq=False, repr=False)
class GittinsStoppingStrategy(BaseGlobalStoppingStrategy):
    """Global stopping strategy of an ``Orchestrator``: end the run if no trial is worth its cost.

    For ``OrchestratorOptions(global_stopping_strategy=...)`` with any strategy.
    ``cost_aware_strategy`` needs none, since it stops by itself.

    Args:
        cost: Cost of a trial, as in ``cost_aware_strategy``.
        lmbda: Value of one unit of cost, in units of the objective.
        budget: Budget of all trials together; the run ends if no trial is affordable. Without
            ``lmbda``, it is the price at which exactly the remaining budget would be spent, found
            anew each time. Then the only reason to stop is that the budget is used up.
        rule: ``GittinsStop`` (None) or ``ImprovementPerCostStop``.
        surrogate_spec: The model of the objective; None for Ax's default GP.
        seed: Seed of all random numbers.
        min_trials: Number of completed trials before the rule applies.
        inactive_when_pending_trials: True to apply the rule only without pending trials. With
            ``max_pending_trials > 1`` there nearly always are some: use False there, and the rule
            accounts for them.

    Raises:
        UserInputError: If an argument has an invalid value.
    """

    cost: CostArgument
    lmbda: float | StandardizedPrice | None = None
    budget: float | None = None
    rule: StopRule | None = None
    surrogate_spec: SurrogateSpec | FixedHyperparameters | None = None
    seed: int = 0
    min_trials: int = 5
    inactive_when_pending_trials: bool = True

    @ax_errors()
    def __post_init__(self) -> None:
        integer_at_least(self.min_trials, 0, "min_trials")
        boolean(self.inactive_when_pending_trials, "inactive_when_pending_trials")
        super().__init__(self.min_trials, self.inactive_when_pending_trials)
        method = method_to_check(self.cost, self.lmbda, self.budget, self.rule, seed=self.seed)
        self._method = method.configured_for(model_of(method, self.surrogate_spec))
        self._last: tuple[str, tuple[bool, str]] | None = None

    def _should_stop_optimization(self, experiment: Experiment, **kwargs: Any) -> tuple[bool, str]:
        # Ax asks several times between two trials.
        trials = [(i, t.status, t.run_metadata) for i, t in experiment.trials.items()]
        seen = f"{trials}{experiment.lookup_data().df.to_json()}"
        if self._last is None or self._last[0] != seen:
            try:
                found = assess_experiment(
                    experiment, self._method, given_model(self.surrogate_spec)
                )
                answer = found.stop, found.stop_message() if found.stop else found.reason
            except DataRequiredError as error:
                answer = False, str(error)
            self._last = seen, answer
        return self._last[1]

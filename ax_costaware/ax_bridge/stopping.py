"""The stopping rule of the Gittins method for experiments that any strategy runs.

The check is the decision of the Gittins strategy itself, without making it: a model is fitted to
the data of the experiment, and asked whether any trial is worth its cost.
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
from ax_costaware.ax_bridge.records import live_observations, problem_of
from ax_costaware.ax_bridge.surrogates import model_of
from ax_costaware.ax_bridge.training_data import restore_data
from ax_costaware.core.decision import avoiding_failures
from ax_costaware.core.failures import BY_FAILURES
from ax_costaware.core.loop import Loop
from ax_costaware.core.model import FixedHyperparameters, ModelOptions
from ax_costaware.core.problem import Decision, Problem, Stop, decision_seed, reproducible
from ax_costaware.exceptions import InputError
from ax_costaware.methods.gittins import CostAware, Gittins, StopRule
from ax_costaware.methods.gittins.assessment import Assessment, assess
from ax_costaware.methods.gittins.rules import GittinsStop
from ax_costaware.methods.priced import CostArgument, NothingToLearnFrom


@ax_errors()
def assess_experiment(experiment: Experiment, method: CostAware, model: ModelOptions) -> Assessment:
    """What the Gittins method would decide now.

    A method that never stops by itself is asked whether it would by ``GittinsStop``.

    Raises:
        DataRequiredError: If no trial has an observation, or none a cost where costs are learned.
        UserInputError: If the experiment does not fit the method.
        UnsupportedError: If the experiment asks for what the method does not do.
    """
    check_optimization_config(experiment.optimization_config)
    restore_data(experiment)
    live = live_observations(experiment, extract_pending_observations(experiment) or {})
    loop = Loop(method, model)
    problem = loop.prepared(problem_of(experiment, method, live))
    if not problem.measured:
        raise DataRequiredError("no trial has an outcome yet.")
    loop.check(problem)
    found: list[Assessment] = []

    def decide(problem: Problem) -> Decision | Stop:
        found.append(assess(method, problem, method.rule or GittinsStop()))
        return found[-1].answer

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
    lmbda: float | None,
    budget: float | None,
    rule: StopRule | None = None,
    **settings: Any,
) -> Gittins:
    """A method that asks the stopping rule about an experiment of another strategy.

    Args:
        cost: What a trial costs.
        lmbda: What one unit of cost is worth, in units of the objective.
        budget: What all trials may cost together.
        rule: The rule; None for ``GittinsStop``.
        settings: Further ones of ``Gittins``.

    Raises:
        InputError: If a value cannot be used, or nothing says what a unit of cost is worth.
    """
    if lmbda is None and budget is None and (rule is None or rule.lmbda is None):
        raise InputError(
            "lmbda=None and budget=None: expected lmbda, what one unit of cost is worth in units "
            "of the objective, or a budget to find it from."
        )
    return Gittins(
        cost=cost,
        budget=budget,
        # A rule that brings its own is asked at that one.
        lmbda=rule.lmbda if lmbda is None and budget is None and rule is not None else lmbda,
        stop=True if rule is None else rule,
        initial_trials=0,
        # As Ax's default models them, whose trials they are.
        **{"kernel": "squared_exponential", "winsorize": True, "cost_model": "trend", **settings},
    )


@dataclass(eq=False, repr=False)
class GittinsStoppingStrategy(BaseGlobalStoppingStrategy):
    """Ends an ``Orchestrator``'s run when no trial is worth its cost, whatever strategy runs it.

    For ``OrchestratorOptions(global_stopping_strategy=...)``. ``cost_aware_strategy`` needs none:
    it stops by itself.

    Args:
        cost: What a trial costs, as in ``cost_aware_strategy``.
        lmbda: What one unit of cost is worth, in units of the objective.
        budget: What all trials may cost together; the run ends when no trial can be paid. Where
            ``lmbda`` is not given, it is the one at which just what is left would be spent, found
            anew each time: then there is no other reason to stop than that the budget is used up.
        rule: ``GittinsStop`` (None) or ``ImprovementPerCostStop``.
        surrogate_spec: The model of the objective; None for Ax's default GP.
        seed: Seed of everything random.
        min_trials: Completed trials before the rule is asked.
        inactive_when_pending_trials: Whether Ax asks only when no trial runs. With more than one
            at a time (``max_pending_trials``) one nearly always does: say False there, and what
            runs is taken into account.

    Raises:
        UserInputError: If an argument has a value that the method cannot use.
    """

    cost: CostArgument
    lmbda: float | None = None
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
        self._model = model_of(method, self.surrogate_spec)
        self._method = method.settled([self._model])
        self._last: tuple[str, tuple[bool, str]] | None = None

    def _should_stop_optimization(self, experiment: Experiment, **kwargs: Any) -> tuple[bool, str]:
        # Ax asks several times between two trials.
        trials = [(i, t.status, t.run_metadata) for i, t in experiment.trials.items()]
        seen = f"{trials}{experiment.lookup_data().df.to_json()}"
        if self._last is None or self._last[0] != seen:
            try:
                found = assess_experiment(experiment, self._method, self._model)
                answer = found.stop, found.stop_message() if found.stop else found.reason
            except DataRequiredError as error:
                answer = False, str(error)
            self._last = seen, answer
        return self._last[1]

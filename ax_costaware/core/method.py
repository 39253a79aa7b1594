"""What a method answers: to the loop that runs it, and to those who ask what a trial costs.

A method is one frozen value object, the same that is stored: its fields are its settings. It knows
no Ax. ``decide`` is a pure function of a ``Problem`` and of the method, so that a stored experiment
goes on as the running one would have. Costs and the budget are in the user's own unit.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from ax_costaware.acquisition.feasibility import feasible_first
from ax_costaware.argument_checks import (
    at_least,
    boolean,
    check_fields,
    number_between_zero_and_one,
    optional,
)
from ax_costaware.core.account import Budgeted, BudgetState, expected_costs
from ax_costaware.core.failures import is_near_failures
from ax_costaware.core.history import PastTrial
from ax_costaware.core.model import FixedHyperparameters, ModelOptions
from ax_costaware.core.problem import Best, Decision, Problem, Stop
from ax_costaware.core.trial_times import TrialTimes
from ax_costaware.costs.cost_model import SAME_VALUE
from ax_costaware.exceptions import InputError
from ax_costaware.models import FixedHyperparameterGP
from ax_costaware.space.parameters import Parameter, Row

NO_LIMIT = 2**31
"""More trials than anybody asks for at once."""

_MOST_INITIAL = 10_000
"""Trials of the longest initial design: more than an exact Gaussian process can learn from."""

_LOOKS = 1024
"""Points among which the best one is recommended where no trial is in the search space."""

_MOST_DRAWS = 256
"""Quasi-random trials that are passed over before an initial design gives up."""


@dataclass(frozen=True, kw_only=True)
class Method(Budgeted, ABC):
    """How the next trial is chosen, what trials cost, and what to deploy.

    A subclass is a frozen dataclass that is checked when it is made, and compared by value; the
    fields here are given by keyword. It defines ``decide``; where the defaults do not fit it
    answers the other questions, too. The defaults are those of a method whose trials control every
    parameter, cost ``cost_at`` and are measured, and which deploys the trial with the best
    posterior mean.
    """

    factory: ClassVar[str] = "strategy_of"
    """Name of the function that makes the strategy, for messages."""

    label: ClassVar[str] = "Method"
    """Name of the strategy and of its node that has the model."""

    measures_points: ClassVar[bool] = True
    """True if the best outcome is wanted, and no average is observed."""

    should_stop_unsupported: ClassVar[str | None] = None
    """Reason why ``should_stop`` does not apply: what the outcomes are; None if it applies."""

    hidden: ClassVar[tuple[str, ...]] = ()
    """Parameters that the model does not see."""

    sees_time: ClassVar[bool] = False
    """Whether the model's last input is the time of a trial; then ``times`` gives it."""

    repeats_design: ClassVar[bool] = False
    """Whether the quasi-random design may repeat itself, as where there are few trials."""

    risk_aversion: ClassVar[float] = 0.0
    """Standard deviations that are taken off the mean of an incumbent."""

    winsorize_iqr: ClassVar[float] = 10.0
    """Clip bad outliers at this many interquartile ranges, see ``winsorized``."""

    refuses_constraints: ClassVar[str | None] = "it does not look at other outcomes"
    """Why the method takes no outcome constraints; None where it does."""

    initial_trials: int = 5
    """Number of trials of the initial design."""

    seed: int = 0
    """Seed of everything random; a decision draws from (seed, trial index)."""

    feasibility_threshold: float = 0.9
    """Probability of keeping to all outcome constraints from which on a point may be deployed."""

    winsorize: bool = True
    """Whether a fitted model sees bad outliers of the objective as less bad ones."""

    num_restarts: int | None = None
    """Restarts of the inner optimisation; None for the default."""

    raw_samples: int | None = None
    """Raw starting points of the inner optimisation; None for the default."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fields(
            self,
            seed=at_least(0),
            initial_trials=at_least(0),
            num_restarts=optional(at_least(1)),
            raw_samples=optional(at_least(1)),
            feasibility_threshold=number_between_zero_and_one,
            winsorize=boolean,
        )
        if self.initial_trials > _MOST_INITIAL:
            raise InputError(
                f"initial_trials={self.initial_trials}: expected at most {_MOST_INITIAL}."
            )
        restarts, raw = self.num_restarts, self.raw_samples
        if restarts is not None and raw is not None and raw < restarts:
            raise InputError(
                f"raw_samples={raw} with num_restarts={restarts}: expected as many or more, since "
                "the restarts are chosen from them."
            )

    # What trials report

    @property
    def display_name(self) -> str:
        """Its name in messages: the function that makes its strategy, or a user's own class."""
        return str(vars(type(self)).get("factory", type(self).__name__))

    @property
    def reads(self) -> tuple[str, ...]:
        """Metrics beside the objective that the method reads."""
        return () if self.cost_metric is None else (self.cost_metric,)

    @property
    def latent(self) -> Mapping[str, Parameter]:
        """Parameters of what is deployed, by name, where that is no trial: by default none."""
        return {}

    def progress_parameter(self, ranges: Collection[str]) -> str | None:
        """The parameter in whose units trials report progress that is learned from; None: none.

        Args:
            ranges: Names of the parameters that are ranges of numbers.
        """
        return None

    # What is decided

    def failed_points(self, problem: Problem) -> Tensor:
        """Points ``k x d`` that stand for ``problem.failed``, in the units of the model."""
        failed = problem.failed
        return self.model_points(problem, [t.inputs for t in failed], [t.index for t in failed])

    def model_points(
        self, problem: Problem, rows: Sequence[Row], trials: Sequence[int] | None = None
    ) -> Tensor:
        """Trials at some parameterizations as points of the model, with the time if it sees it.

        Args:
            problem: The problem.
            rows: The parameterizations.
            trials: Indices of the trials, whose times they have; None: the present time.
        """
        X = problem.space.encode(rows)
        if not self.sees_time:
            return X
        times = self.times(problem.trials)
        when = [times.now] * len(rows) if trials is None else [times[index] for index in trials]
        return torch.cat([X, X.new_tensor(when).unsqueeze(-1)], dim=-1)

    def may_repeat(self, problem: Problem, parameters: Row) -> bool:
        """Whether a trial may be run twice at once: by default where the model sees the time.

        Args:
            problem: The problem.
            parameters: The trial's parameterization.
        """
        return self.sees_time

    def times(self, trials: Sequence[PastTrial]) -> TrialTimes:
        """When the trials are, for a method whose model sees the time: by default their index."""
        return TrialTimes(None, len(trials))

    def model(self, given: FixedHyperparameters | ModelOptions | None = None) -> ModelOptions:
        """What to model the objective with.

        Args:
            given: What the user asks for; None for the method's own.

        Raises:
            InputError: If the method cannot use that.
        """
        if isinstance(given, FixedHyperparameters):
            return given.of(FixedHyperparameterGP)
        return given or ModelOptions()

    def configured_for(self, models: Sequence[ModelOptions]) -> Self:
        """Disable winsorizing when hyperparameters are given."""
        is_given = any(not model.is_fitted for model in models)
        return replace(self, winsorize=False) if is_given else self

    def warnings(self) -> list[str]:
        """What the user should be warned of in the settings."""
        return []

    def current_model(self, problem: Problem) -> ModelOptions | None:
        """The model, for a method whose model depends on more than outcomes; else None."""
        return None

    def constraint_model(self, problem: Problem) -> ModelOptions:
        """The model of another metric that has bounds, with fitted hyperparameters."""
        return self.current_model(problem) or self.model()

    def check(self, problem: Problem) -> None:
        """Refuse an experiment that the method cannot run, before anything is spent.

        Raises:
            InputError: By the name of the argument, what it got and what it takes.
        """
        return None

    def check_trial(self, problem: Problem, trial: PastTrial) -> None:
        """Refuse an outcome that nothing can be learned from, by the trial's inputs.

        Asked before it is recorded; a method that refuses some asks it in ``check``, too.

        Raises:
            InputError: By the inputs, and with what is expected.
        """
        return None

    def not_learned(self, problem: Problem) -> Sequence[int]:
        """Indices of trials with an outcome that the model is not told of now: by default none."""
        return ()

    def left_out(self, problem: Problem) -> list[str]:
        """What a decision leaves out of account, in sentences for the log: by default nothing."""
        return []

    def check_outcomes(self, problem: Problem) -> None:
        """Refuse outcomes that the model would take for others: asked by ``recommend``.

        A method that refuses some asks it in ``check``, too.

        Raises:
            InputError: By the trials, and with what they lack.
        """
        return None

    def initial(self, problem: Problem) -> Decision | Stop:
        """The next trial of the initial design: by default quasi-random, within the budget."""
        state = self.budget_state(problem, initial=True)
        for row in problem.drawn(_MOST_DRAWS if state.pays(None) else 0):
            cost = self.with_switching_cost(problem, row, self.cost_at(row))
            if state.pays(cost):
                return self.initial_decision(problem, row, cost, state)
        return self.unfinished_design(self.exhausted(problem, state), state)

    def design_is_over(self, problem: Problem) -> bool:
        """Whether the initial design ends before it has all of its trials."""
        return False

    def origin_of(self, problem: Problem, row: Row) -> str:
        """Where a trial of the initial design comes from, as a phrase."""
        return "its values are quasi-random"

    @abstractmethod
    def decide(self, problem: Problem) -> Decision | Stop:
        """The next trial, with the reason; or that there should be none."""

    def recommend(self, problem: Problem) -> list[Best]:
        """What to deploy, best first: by default evaluated points, by their posterior mean.

        Feasible ones first, then the likeliest; last what was not run and is near to what failed.
        """
        found: list[tuple[Row, int | None]] = []
        for trial in problem.observed:
            if not self.is_deployable(problem, trial.inputs):
                continue
            row = self.deployed(problem.as_fixed(trial.inputs))
            (was_run,) = problem.space.are_near(row, [trial.inputs], SAME_VALUE)
            found.append((row, trial.index if was_run else None))
        if not found:  # no trial is in the search space, as after bounds were narrowed
            points = problem.space.sobol_points(_LOOKS, self.seed, problem.held)
            found = [(self.deployed(row), None) for row in problem.space.decode(points)]
        found.sort(key=lambda each: each[1] is None)
        rows, trials = zip(*found, strict=True)

        def is_risky(best: Best) -> bool:
            return best.trial_index is None and is_near_failures(problem, [best.parameters])

        return sorted(self.ranked(problem, rows, trials), key=is_risky)

    def is_deployable(self, problem: Problem, inputs: Row) -> bool:
        """Return whether what a trial with these inputs speaks for lies in the search space."""
        return problem.is_deployable(self.deployed(inputs))

    def deployed(self, parameters: Row) -> Row:
        """What a trial speaks for, which is deployed if it is the best: by default the trial."""
        return parameters

    def expected(self, problem: Problem, rows: Sequence[Row]) -> tuple[Tensor, Tensor]:
        """Posterior mean and variance of the outcome of trials at some parameterizations now.

        Returns:
            One of each for every row, in the objective's own unit and sign.
        """
        with torch.no_grad():
            moments = problem.posterior.mixture(self.model_points(problem, rows))
        return problem.scale.moments(*moments)

    def log_feasibility(self, problem: Problem, rows: Sequence[Row]) -> Tensor | None:
        """How likely trials at some parameterizations are to keep to all outcome constraints.

        Returns:
            The logarithm of the probability for every row, which tells apart what is too unlikely
            for a float; None where there are no constraints.
        """
        if problem.feasibility is None:
            return None
        with torch.no_grad():
            return problem.feasibility.log_probability(self.model_points(problem, rows))

    def num_payable(self, problem: Problem, initial: bool) -> int:
        """How many trials can be asked for together: what the budget is certain to pay for.

        At least one, since that the budget is exhausted is said when a trial is asked for.
        """
        state = self.budget_state(problem, initial)
        if self.budget is None or state.limit is None:
            return NO_LIMIT
        largest = self.largest_cost(problem, initial)
        if not largest:
            return NO_LIMIT
        largest = min(largest, self.max_trial_cost or largest)
        return max(1, math.floor((state.remaining or 0.0) / largest + 1e-9))

    # What subclasses share

    def unfinished_design(self, why: str, state: BudgetState) -> Stop:
        """That the initial design stops, and why, in a sentence."""
        limit = "max_trial_cost" if state.is_capped else "the budget"
        return Stop(
            f"{why} The initial design is not finished, so that no model says what to deploy: "
            f"compare the trials themselves, or raise {limit}."
        )

    def ranked(
        self, problem: Problem, rows: Sequence[Row], trials: Sequence[int | None]
    ) -> list[Best]:
        """Parameterizations by their posterior mean, best first; those that are feasible before.

        Args:
            problem: The problem.
            rows: The parameterizations, of which the same one counts once, the first.
            trials: For each the trial that evaluated it, if one did.
        """
        firsts = [i for i, row in enumerate(rows) if row not in rows[:i]]
        rows, trials = [rows[i] for i in firsts], [trials[i] for i in firsts]
        mean, variance = self.expected(problem, rows)
        compared = -mean if problem.minimize else mean
        if self.risk_aversion:
            compared = compared - self.risk_aversion * variance.sqrt()
        log_feasibility = self.log_feasibility(problem, rows)
        try:
            costs = expected_costs(self, problem, rows)
        except InputError:
            costs = [None] * len(rows)
        found: list[Best] = []
        for i in feasible_first(compared, log_feasibility, self.feasibility_threshold):
            moments = float(mean[i]), float(variance[i]) ** 0.5
            chance = None if log_feasibility is None else float(log_feasibility[i].exp())
            found.append(Best(dict(rows[i]), *moments, costs[i], None, trials[i], chance))
        return found

    def initial_decision(
        self,
        problem: Problem,
        row: Mapping[str, Any],
        cost: float | None,
        state: BudgetState,
        why: str | None = None,
        join: str = ";",
        **more: Any,
    ) -> Decision:
        """A trial of the initial design, with its place in it."""
        number, count = problem.num_begun + 1, self.initial_trials
        place = f"initial trial {number} of {count}"
        if number > count:
            place = f"initial trial {number}, since not all before it have an outcome"
        return Decision(
            parameters=dict(row),
            why=f"This is {place}{join} {why or f'{self.origin_of(problem, row)}.'}",
            expected_cost=cost,
            details={**state.record(), **more.pop("details", {})},
            extra=more,
            phase="initial",
        )

    @property
    def search_options(self) -> dict[str, Any]:
        """Options of the inner optimisation, as far as they are given."""
        options = {"num_restarts": self.num_restarts, "raw_samples": self.raw_samples}
        return {name: value for name, value in options.items() if value is not None}

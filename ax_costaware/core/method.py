"""Base class of all methods: the next trial, the costs of trials, and what to deploy.

A method is a frozen dataclass whose fields are its settings; stores keep it as it is. It does not
know Ax. ``decide`` is a pure function of the method and a ``Problem``, so that a loaded experiment
continues exactly as the running one would have. Costs and the budget are in the user's unit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self, final

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
from ax_costaware.core.account import Budgeted, BudgetState
from ax_costaware.core.failures import is_near_failures
from ax_costaware.core.further_budgets import further_costs
from ax_costaware.core.history import PastTrial
from ax_costaware.core.model import FixedHyperparameters, GivenModel, ModelOptions
from ax_costaware.core.problem import Best, Decision, Problem, Stop
from ax_costaware.core.trial_times import TrialTimes
from ax_costaware.costs.cost_model import SAME_VALUE
from ax_costaware.exceptions import InputError
from ax_costaware.models import FixedHyperparameterGP
from ax_costaware.space.parameters import Row

_MOST_INITIAL = 10_000
"""Largest initial design: an exact Gaussian process cannot be fitted to more trials."""

_NUM_CANDIDATES = 1024
"""Quasi-random points to recommend from if no trial is in the search space."""

_MAX_DRAWS = 256
"""Quasi-random points that an initial design tries for one that the budget pays for."""


class Expected(NamedTuple):
    """Moments and feasibility of parameterizations, in the objective's unit and sign."""

    mean: Tensor
    """``n`` posterior means of the objective."""

    variance: Tensor
    """``n`` posterior variances of it."""

    log_feasibility: Tensor | None
    """``n`` log probabilities that all outcome constraints are satisfied, since tiny probabilities
    underflow; None without constraints."""


class Omitted(NamedTuple):
    """Data that a decision ignores."""

    trials: Sequence[int] = ()
    """Indices of observed trials that the model leaves out."""

    sentences: Sequence[str] = ()
    """Sentences for the log."""


@dataclass(frozen=True, kw_only=True)
class Method(Budgeted, ABC):
    """Choice of the next trial, costs of trials, and choice of what to deploy.

    A subclass is a frozen dataclass. It must define ``decide``, and overrides further members
    where their defaults do not fit. The defaults are for a method whose trials

    - set every parameter,
    - cost ``cost_at``, and
    - are all measured,

    and that deploys the trial with the best posterior mean. The fields below are keyword-only.
    """

    factory: ClassVar[str] = "strategy_of"
    """Name of the function that makes the strategy, for messages."""

    initial_trials: int = 5
    """Number of trials of the initial design, quasi-random by default, before the model decides.
    With 0 the model decides from the first outcome on, also that of an attached trial."""

    seed: int = 0
    """Seed of all random numbers; each decision is seeded by (seed, trial index). Runs with the
    same seed and outcomes agree."""

    feasibility_threshold: float = 0.9
    """Least probability of satisfying all outcome constraints with which a point is feasible, and
    may be the incumbent, or be deployed."""

    winsorize: bool = True
    """Clip outcomes that are far worse than most if hyperparameters are fitted, so that one
    diverged trial does not set the scale of the model. For maximization the bound is
    ``Q1 - k * IQR``, with ``k`` the method's ``winsorize_iqr``."""

    num_restarts: int | None = None
    """Restarts of the acquisition function's optimizer; None for the method's default."""

    raw_samples: int | None = None
    """Raw samples from which starting points of that optimizer are chosen; None for the method's
    default."""

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

    # Outcomes of trials

    @property
    @final
    def display_name(self) -> str:
        """Name in messages: of the function that makes the strategy, or of a user's own class."""
        return str(vars(type(self)).get("factory", type(self).__name__))

    @property
    @final
    def reads(self) -> tuple[str, ...]:
        """Metrics that decisions need, besides the objective and constrained outcomes."""
        more = self.trial_costs.metric, self.traits.time_metric
        return (*(metric for metric in more if metric is not None), *self.traits.reads)

    # The model

    def failed_points(self, problem: Problem) -> Tensor:
        """Return the model's points ``k x d`` of the trials in ``problem.failed``."""
        failed = problem.failed
        return self.model_points(problem, [t.inputs for t in failed], [t.index for t in failed])

    @final
    def model_points(
        self, problem: Problem, rows: Sequence[Row], trials: Sequence[int] | None = None
    ) -> Tensor:
        """Return parameterizations as the model's points ``n x d``, with the time if it sees it.

        Args:
            problem: Inputs of the decision.
            rows: The parameterizations.
            trials: Indices of the trials that give the times; None for the present time.
        """
        X = problem.space.encode(rows)
        times = self.times(problem.trials)
        if times is None:
            return X
        when = [times.now] * len(rows) if trials is None else [times[index] for index in trials]
        return torch.cat([X, X.new_tensor(when).unsqueeze(-1)], dim=-1)

    @final
    def times(self, trials: Sequence[PastTrial]) -> TrialTimes | None:
        """Return the times of trials, past and future; None unless ``Traits.sees_time``."""
        if not self.traits.sees_time:
            return None
        metric, reported = self.traits.time_metric, None
        if metric is not None:
            reported = {t.index: t.metrics[metric] for t in trials if metric in t.metrics}
        return TrialTimes(reported, len(trials))

    def model(
        self, given: GivenModel = None, problem: Problem | None = None, metric: str | None = None
    ) -> ModelOptions:
        """Return the class of a model and its options.

        Args:
            given: The model of the objective that the user asks for; None for the method's own.
            problem: Inputs of the decision; None before there are any.
            metric: Metric of an outcome constraint; None for the objective.

        Raises:
            InputError: If the method cannot use ``given``.
        """
        if isinstance(given, FixedHyperparameters):
            return given.of(FixedHyperparameterGP)
        return given or ModelOptions()

    @final
    def configured_for(self, model: ModelOptions) -> Self:
        """Return the method without winsorizing if hyperparameters are given.

        A given noise variance and output scale describe the outcomes as they are reported.
        """
        return self if model.is_fitted else replace(self, winsorize=False)

    # Checks, and data that are ignored

    def check(self, problem: Problem) -> None:
        """Refuse an experiment that the method cannot run, before anything is spent.

        Raises:
            InputError: With the argument's name, its value, and what is expected.
        """
        return None

    def check_trial(self, problem: Problem, trial: PastTrial) -> None:
        """Refuse a trial's outcome if its inputs make it useless.

        Called before the outcome is recorded. A method that overrides it also calls it in
        ``check``, for data that were attached.

        Raises:
            InputError: With the inputs, and what is expected.
        """
        return None

    def omitted(self, problem: Problem) -> Omitted:
        """Return the data that a decision ignores; by default none."""
        return Omitted()

    def check_outcomes(self, problem: Problem) -> None:
        """Refuse outcomes that the model would misunderstand.

        Called before ``recommend``. A method that overrides it also calls it in ``check``.

        Raises:
            InputError: With the trials, and what they lack.
        """
        return None

    # Decisions

    def initial(self, problem: Problem) -> Decision | Stop | None:
        """Return the next trial of the initial design; None if the design ends early.

        By default the next quasi-random point whose cost the budget pays.
        """
        state = self.budget_state(problem, initial=True)
        for row in problem.drawn(_MAX_DRAWS if state.pays(None) else 0):
            cost = self.with_switching_cost(problem, row, self.cost_at(row))
            if state.pays(cost, further_costs(self, problem, [row])[0]):
                return self.initial_decision(problem, row, cost, state)
        return self.unfinished_design(self.exhausted(problem, state), state)

    @abstractmethod
    def decide(self, problem: Problem) -> Decision | Stop:
        """Return the next trial, or a stop, with the reason.

        Random numbers are seeded before the call. The result must depend on nothing but ``self``
        and ``problem``.
        """

    def recommend(self, problem: Problem) -> list[Best]:
        """Return what to deploy, best first; by default observed trials by their posterior mean.

        The order is:

        1. feasible points by their posterior mean, see ``feasibility_threshold``;
        2. other points by their probability of being feasible;
        3. points without a trial of their own that are near a failed trial.
        """
        found: list[tuple[Row, int | None]] = []
        for trial in problem.observed:
            row = self.deployed(problem, trial.inputs)
            if row is None:
                continue
            (was_run,) = problem.space.are_near(row, [trial.inputs], SAME_VALUE)
            found.append((row, trial.index if was_run else None))
        if not found:  # no trial is in the search space, as after bounds were narrowed
            points = problem.space.sobol_points(_NUM_CANDIDATES, self.seed, problem.held)
            drawn = problem.space.decode(points)
            found = [(self.deployed(problem, row) or row, None) for row in drawn]
        found.sort(key=lambda each: each[1] is None)
        rows, trials = zip(*found, strict=True)

        def is_risky(best: Best) -> bool:
            return best.trial_index is None and is_near_failures(problem, [best.parameters])

        return sorted(self.ranked(problem, rows, trials), key=is_risky)

    def deployed(self, problem: Problem, inputs: Row) -> Row | None:
        """Return what to deploy if a trial with these inputs is the best one.

        By default the inputs themselves, with the parameters that the caller fixes. Other answers
        are, for example, the same inputs at the target fidelity.

        Returns:
            The parameterization; None if it is not in the search space.
        """
        return problem.as_fixed(inputs) if problem.is_deployable(inputs) else None

    def expected(self, problem: Problem, rows: Sequence[Row]) -> Expected:
        """Return what is expected now of ``n`` parameterizations, if each is deployed."""
        X, chance = self.model_points(problem, rows), None
        with torch.no_grad():
            mean, variance = problem.scale.moments(*problem.posterior.mixture(X))
            if problem.feasibility is not None:
                chance = problem.feasibility.log_probability(X)
        return Expected(mean, variance, chance)

    # Helpers of subclasses

    @final
    def unfinished_design(self, why: str, state: BudgetState) -> Stop:
        """Return the stop of an initial design that cannot be finished.

        Args:
            why: The reason, as a sentence.
            state: The state of the budget.
        """
        limit = "max_trial_cost" if state.is_capped else "the budget"
        return Stop(
            f"{why} The initial design is not finished, so that no model says what to deploy: "
            f"compare the trials themselves, or raise {limit}."
        )

    @final
    def ranked(
        self, problem: Problem, rows: Sequence[Row], trials: Sequence[int | None]
    ) -> list[Best]:
        """Return distinct parameterizations as ``Best``, best first.

        Feasible ones come first, by ``mean - risk_aversion * standard_deviation``.

        Args:
            problem: Inputs of the decision.
            rows: The parameterizations; of equal ones the first is kept.
            trials: Index of the trial that evaluated each of them, or None.
        """
        firsts = [i for i, row in enumerate(rows) if row not in rows[:i]]
        rows, trials = [rows[i] for i in firsts], [trials[i] for i in firsts]
        mean, variance, log_feasibility = self.expected(problem, rows)
        compared = -mean if problem.minimize else mean
        if aversion := self.traits.risk_aversion:
            compared = compared - aversion * variance.sqrt()
        try:
            costs = self.trial_costs.expected(problem, rows)
        except InputError:
            costs = [None] * len(rows)
        found: list[Best] = []
        for i in feasible_first(compared, log_feasibility, self.feasibility_threshold):
            moments = float(mean[i]), float(variance[i]) ** 0.5
            chance = None if log_feasibility is None else float(log_feasibility[i].exp())
            found.append(Best(dict(rows[i]), *moments, costs[i], None, trials[i], chance))
        return found

    @final
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
        """Return the decision on a trial of the initial design.

        Args:
            problem: Inputs of the decision.
            row: The trial's parameterization.
            cost: Its expected cost, switching cost included; None if unknown.
            state: The state of the budget, which is recorded.
            why: The reason, as a sentence; None for its origin.
            join: Punctuation before the reason.
            more: Entries of ``Decision.extra``; ``details`` is added to ``Decision.details``.
        """
        number, count = problem.num_begun + 1, self.initial_trials
        place = f"initial trial {number} of {count}"
        if number > count:
            place = f"initial trial {number}, since not all before it have an outcome"
        return Decision(
            parameters=dict(row),
            why=f"This is {place}{join} {why or f'{origin_of(problem, row)}.'}",
            expected_cost=cost,
            details={**state.record(), **more.pop("details", {})},
            extra=more,
            phase="initial",
        )

    @property
    @final
    def search_options(self) -> dict[str, Any]:
        """Options of the acquisition function's optimizer, as far as they are given."""
        options = {"num_restarts": self.num_restarts, "raw_samples": self.raw_samples}
        return {name: value for name, value in options.items() if value is not None}


def origin_of(problem: Problem, row: Mapping[str, Any]) -> str:
    """Return the origin of a trial of the initial design, as a phrase."""
    if all(row[n] == x or n == problem.repeats for n, x in problem.center.items()):
        return "it is the center of the search space"
    return "its values are quasi-random"

"""Simulation of a method on a function: the decisions of a strategy, without Ax.

For benchmarks of thousands of decisions, and for experiments that are tracked elsewhere. A
simulation keeps the trials, and asks the loop for the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ax_costaware.acquisition.feasibility import OutcomeConstraint, merged
from ax_costaware.argument_checks import (
    finite_number,
    instance_of,
    integer_at_least,
    nonnegative_number,
    number_between_zero_and_one,
    number_with_square,
    one_of,
    optional,
    plain_value,
    positive_number,
    sequence_of,
)
from ax_costaware.core.account import LedgerEntry, ledger_of
from ax_costaware.core.decision import record_of
from ax_costaware.core.history import PastTrial
from ax_costaware.core.loop import Loop
from ax_costaware.core.method import Method
from ax_costaware.core.model import FixedHyperparameters, ModelOptions
from ax_costaware.core.objectives import Objective
from ax_costaware.core.problem import Best, Decision, Pending, Problem, Stop
from ax_costaware.core.repeats import (
    mean_and_error,
    realized_repeats,
    repeated_values,
)
from ax_costaware.core.tours import in_cheapest_order
from ax_costaware.exceptions import InputError
from ax_costaware.space.parameters import Choice, Range, Row, Value, check_fixed
from ax_costaware.space.space import Space


class Outcome(NamedTuple):
    """Result of a trial."""

    value: float | None = None
    """Value of the objective; None if it was not measured."""

    cost: float | None = None
    """Cost of the trial; None for its expected cost."""

    realized: Row | None = None
    """Realized values of uncontrolled inputs."""

    metrics: Mapping[str, float] | None = None
    """Values of further metrics that the method reads, or that are constrained."""

    failed: bool = False
    """True if the trial failed, so that there is no outcome."""

    curve: Mapping[float, float] | None = None
    """Learning curve: the objective by step, the last one at the end of the trial."""

    repeats: Sequence[float] | None = None
    """Values of the objective in the repeats of the trial, instead of ``value``."""


@dataclass
class Simulation:
    """A method with its trials, which asks for the next one.

    Call ``ask`` and ``tell`` in turn, and ``start`` for trials that run in parallel. ``simulate``
    does a whole run.

    Raises:
        InputError: If a field has the wrong type, trials are not numbered from 0 in order, an
            outcome is not observed, or ``Method.check`` refuses the problem.
    """

    method: Method
    """The method."""

    space: Space
    """Search space from ``Space.of``, with the ``hidden`` parameters of the method."""

    minimize: bool = False
    """True if smaller values of the objective are better."""

    hyperparameters: FixedHyperparameters | ModelOptions | None = None
    """Model of the objective; None for the method's own."""

    trials: list[PastTrial] = field(default_factory=list)
    """The trials so far."""

    constraints: Sequence[OutcomeConstraint] = ()
    """Outcome constraints, which have the method's own model."""

    objectives: Sequence[Objective] = ()
    """The objectives, if there are several. The first is the value of an ``Outcome``, the others
    are among its metrics; ``minimize`` is not used then."""

    def __post_init__(self) -> None:
        instance_of(self.method, "method", Method, "a method such as CostAware(...), no strategy")
        instance_of(self.space, "space", Space, "one that Space.of makes")
        kinds, expected = (
            FixedHyperparameters | ModelOptions | None,
            "FixedHyperparameters, or None",
        )
        instance_of(self.hyperparameters, "hyperparameters", kinds, expected)
        for name, kind in (
            ("trials", PastTrial),
            ("constraints", OutcomeConstraint),
            ("objectives", Objective),
        ):
            for item in sequence_of(getattr(self, name), name, f"a list of {kind.__name__}"):
                instance_of(item, name, kind, f"a list of {kind.__name__}")
        self.trials, self.objectives = list(self.trials), tuple(self.objectives)
        if len(self.objectives) == 1:
            raise InputError(f"objectives={self.objectives}: expected several, or none.")
        for index, trial in enumerate(self.trials):
            if trial.index != index:
                raise InputError(f"trials[{index}] has the index {trial.index}: expected {index}.")
            if trial.is_completed and trial.outcome is not None and not trial.is_observed:
                raise InputError(
                    f"trials[{index}] has an outcome and is_observed=False: expected True, or the "
                    "outcome None to leave the trial out of the model."
                )
            if trial.is_observed:
                number_with_square(plain_value(trial.outcome), f"the outcome of trials[{index}]")
            optional(nonnegative_number)(trial.reported_cost, f"the cost of trials[{index}]")
            self._check_row(trial.parameters, f"the parameters of trials[{index}]", is_whole=True)
            self._check_row(trial.realized, f"the realised inputs of trials[{index}]")
        self.space = self.method.traits.restricted(self.space)
        options = self.method.model(self.hyperparameters)
        self.method = self.method.configured_for(options)
        self.constraints = merged(self.constraints)
        self._loop = Loop(self.method, self.hyperparameters)
        self._loop.check(self.problem())

    @property
    def _objective(self) -> str:
        return self.objectives[0].metric if self.objectives else "objective"

    def problem(
        self, fixed: Row | None = None, weights: Mapping[str, float] | None = None
    ) -> Problem:
        """Return the inputs of the next decision.

        Args:
            fixed: Values of parameters to fix, by name; None for none.
            weights: Weights of several objectives, for a recommendation; None for equal ones.

        Raises:
            InputError: If ``fixed`` has an unknown name or an invalid value.
        """
        fixed, bounded = dict(fixed or {}), [bound.metric for bound in self.constraints]
        names = [each.metric for each in self.objectives] or [self._objective]
        check_fixed(fixed, self.space.parameters, self.space.order)
        return self._loop.prepared(
            Problem(
                space=self.space.held_at(fixed),
                trials=tuple(self.trials),
                pending=tuple(
                    Pending(trial.index, dict(trial.parameters), trial.is_to_be_measured)
                    for trial in self.trials
                    if trial.is_live
                ),
                fixed=fixed,
                minimize=self.objectives[0].minimize if self.objectives else self.minimize,
                objective=self._objective,
                objectives=tuple(self.objectives),
                weights=dict(weights or {}),
                metrics=frozenset({*names, *self.method.reads, *bounded}),
                constraints=tuple(self.constraints),
            )
        )

    def ask(self, fixed: Row | None = None) -> Decision | Stop:
        """Return the next trial, or a stop.

        Args:
            fixed: Values of parameters to fix, by name; None for none.

        Raises:
            InputError: If the method lacks data, or as in ``problem``.
        """
        return self._loop.ask(self.problem(fixed))

    def ask_batch(self, num_trials: int, fixed: Row | None = None) -> list[Decision] | Stop:
        """Return the next trials together, at most ``num_trials``; a stop if there is none.

        They are in the order of the least switching costs.

        Args:
            num_trials: Number of trials, at least one.
            fixed: Values of parameters to fix, by name; None for none.

        Raises:
            InputError: If ``num_trials`` is not an integer >= 1, or as in ``ask``.
        """
        integer_at_least(num_trials, 1, "num_trials")
        problem = replace(self.problem(fixed), batch_size=num_trials)
        found, records = list[Decision](), []
        while len(found) < num_trials:
            decision = self._loop.ask(self._loop.prepared(problem))
            if isinstance(decision, Stop):
                if not found:
                    return decision
                break
            found.append(decision)
            records.append(record_of(self.method, problem, decision))
            measure = bool(decision.extra.get("measure", True))
            added = Pending(None, dict(decision.parameters), measure)
            problem = replace(problem, pending=(*problem.pending, added))
        return [
            replace(
                found[i],
                expected_cost=record["expected_cost"],
                why=record["why"],
                details=record["decision"],
            )
            for i, record in in_cheapest_order(problem, self.method, records)
        ]

    def start(self, decision: Decision) -> PastTrial:
        """Record a trial that runs, so that later decisions take it as pending.

        Args:
            decision: The trial.

        Returns:
            The trial, whose index ``tell`` takes.

        Raises:
            InputError: If ``decision`` is not a ``Decision`` on a trial of the space.
        """
        instance_of(decision, "decision", Decision, "a Decision, as ask gives it")
        self._check_row(decision.parameters, "parameters", is_whole=True)
        record = record_of(self.method, self.problem(), decision)
        trial = PastTrial(len(self.trials), decision.parameters, status="RUNNING", record=record)
        self.trials.append(trial)
        return trial

    def tell(self, decision: Decision, outcome: Outcome, index: int | None = None) -> PastTrial:
        """Record a trial with its outcome.

        Args:
            decision: The trial, from ``ask``.
            outcome: Its outcome.
            index: Index from ``start``; None for a trial that was not started by it.

        Raises:
            InputError: If an argument has the wrong type, parameters or realized inputs are not of
                the space, a value or step is not finite, the cost is negative, or
                ``Method.check_trial`` refuses it. Nothing is recorded then.
        """
        instance_of(decision, "decision", Decision, "a Decision, as ask gives it")
        instance_of(outcome, "outcome", Outcome, "an Outcome, such as Outcome(0.5)")
        self._check_row(decision.parameters, "parameters", is_whole=True)
        metric = self.method.trial_costs.metric
        mean, error, count = outcome.value, None, None
        if outcome.repeats is not None:
            values = repeated_values(outcome.repeats, "repeats")
            (mean, error), count = mean_and_error(values), len(values)
        optional(number_with_square)(mean, "value")
        optional(nonnegative_number if metric is None else positive_number)(outcome.cost, "cost")
        for name in ("realized", "metrics", "curve"):
            instance_of(getattr(outcome, name), name, Mapping | None, "a mapping, or None")
        measured = dict(outcome.metrics or {})
        for name, value in measured.items():
            number_with_square(value, f"metrics[{name!r}]")
        if metric in measured:
            raise InputError(f"metrics has {metric!r}: expected what a trial cost as cost.")
        for step, value in (outcome.curve or {}).items():
            number_with_square(value, f"curve[{finite_number(step, 'a step of curve')!r}]")
        self._check_row(outcome.realized or {}, "realized")
        if metric is not None and outcome.cost is not None:
            measured[metric] = outcome.cost
        running = [trial.index for trial in self.trials if trial.is_live]
        if index is not None:
            one_of(index, "index", running)
        trial = PastTrial(
            index=len(self.trials) if index is None else index,
            parameters=decision.parameters,
            status="FAILED" if outcome.failed else "COMPLETED",
            outcome=mean,
            is_observed=mean is not None and not outcome.failed,
            realized={
                **realized_repeats(self.method.traits.repeats, decision.parameters, count),
                **(outcome.realized or {}),
            },
            reported_cost=outcome.cost,
            metrics=measured,
            errors={} if error is None else {self._objective: error},
            num_repeats={} if count is None else {self._objective: count},
            curves={self._objective: {s: (y, None) for s, y in (outcome.curve or {}).items()}},
            record=record_of(self.method, self.problem(), decision)
            if index is None
            else self.trials[index].record,
        )
        if trial.is_observed and trial.realized:
            self.method.check_trial(self.problem(), trial)
        self.trials[trial.index : trial.index + 1] = [trial]
        return trial

    def recommend(self) -> Best:
        """Return what to deploy.

        Raises:
            InputError: If no trial has an outcome.
        """
        return self.recommendations()[0]

    def recommendations(self, weights: Mapping[str, float] | None = None) -> list[Best]:
        """Return what to deploy, best first; with several objectives the front.

        Args:
            weights: Weights of the objectives by name; None for equal ones.

        Raises:
            InputError: If no trial has an outcome, or the weights do not fit.
        """
        problem = self.problem(weights=weights)
        if not problem.observed:
            raise InputError("no trial has an outcome yet: expected one to recommend from.")
        return self._loop.recommend(problem)

    @property
    def ledger(self) -> tuple[LedgerEntry, ...]:
        """Charges of all trials."""
        return ledger_of(self.trials, self.method)

    def _check_row(self, row: Row, what: str, is_whole: bool = False) -> None:
        """Refuse names and values that are not of the space; ranges need not be satisfied."""
        known = {**self.space.parameters, **(self.space.hidden if is_whole else {})}
        if is_whole and row.keys() != known.keys():
            raise InputError(f"{what}: got {dict(row)}; expected a value of each of {[*known]}.")
        for name, value in row.items():
            parameter = known[one_of(name, what, known)]
            if isinstance(parameter, Range):
                place = f"{what}[{name!r}]"
                if parameter.log_scale:
                    positive_number(value, place)
                elif parameter.logit_scale:
                    number_between_zero_and_one(value, place)
                number_with_square(value, place)
            elif isinstance(parameter, Choice):
                parameter.index(value)


def simulate(
    method: Method,
    space: Space,
    run: Callable[[dict[str, Value], bool], Outcome],
    num_trials: int,
    minimize: bool = False,
    hyperparameters: FixedHyperparameters | ModelOptions | None = None,
    constraints: Sequence[OutcomeConstraint] = (),
    objectives: Sequence[Objective] = (),
) -> Simulation:
    """Run a method on a function until it stops.

    Args:
        method: The method.
        space: The search space.
        run: The function, of a trial's parameterization and whether it is to be measured.
        num_trials: Largest number of trials.
        minimize: True if smaller values of the objective are better.
        hyperparameters: Model of the objective; None for the method's own.
        constraints: Outcome constraints, whose metrics ``run`` returns.
        objectives: The objectives, if there are several, see ``Simulation``.

    Returns:
        The simulation with its trials, which can be continued.

    Raises:
        InputError: If ``num_trials`` is not an integer >= 0, or as in ``Simulation``.
    """
    most = integer_at_least(num_trials, 0, "num_trials")
    simulation = Simulation(
        method, space, minimize, hyperparameters, constraints=constraints, objectives=objectives
    )
    for _ in range(most):
        decision = simulation.ask()
        if isinstance(decision, Stop):
            break
        measure = bool(decision.extra.get("measure", True))
        simulation.tell(decision, run(decision.parameters, measure))
    return simulation

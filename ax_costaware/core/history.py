"""What has happened: the trials of an experiment as a method sees them, and what each was charged.

The ledger is rebuilt from the stored trials each time it is asked for; nothing is carried in
memory, so a reloaded experiment has the same one (Tay et al. 2023, Section 2: the learner stops
when the costs of its queries use up the budget). All costs are in the user's own unit.

What a trial is charged:

- the cost that was reported for it, else the cost that was expected of it, else the mean of the
  reported costs (a trial of the initial design has no expected cost where costs are learned), with
  control sets that of the reported costs of its own;
- nothing, if it is an initial trial and the strategy does not charge those, or one of the past
  that was attached without charge;
- nothing, if it was abandoned or went stale without a reported cost, and no runner of the package
  had started it: it was never run;
- a trial that failed or was stopped early is charged, for it was run; a runner of the package says
  what its last attempt cost;
- attempts of such a runner that failed, timed out or were lost, and were followed by another, are
  charged on top: their known cost, else what is expected of an attempt;
- a trial that is not finished yet is charged what is expected of it, which reserves that much;
- what is expected of a trial counts its change-over from the trial that ran before it; a reported
  cost is that of the whole trial, its change-over included.

Where the method may do without a measurement, what costs is to measure (Wang et al. 2020,
"Cost-Efficient Online Hyperparameter Optimization"): a trial that was completed without an outcome
is charged what was reported, else nothing; one that was measured although the strategy did not ask
for it is charged like any other.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ax_costaware.exceptions import InputError
from ax_costaware.queries.argument_checks import LARGEST, nonnegative_number, plain_value
from ax_costaware.space.parameters import Row

if TYPE_CHECKING:
    from ax_costaware.core.account import Budgeted
    from ax_costaware.space.space import Space

ROUNDING = 1e-9
"""Relative slack of a budget: ten costs of 0.1 must fit in a budget of 1."""

NEVER_RUN = frozenset({"ABANDONED", "STALE"})
"""What becomes of trials that are given up, unless there is more to say of them."""

_LIVE = frozenset({"CANDIDATE", "STAGED", "RUNNING"})
_FAILED = frozenset({"FAILED", "ABANDONED", "STALE"})


@dataclass(frozen=True)
class PastTrial:
    """One trial, as far as it has come."""

    index: int
    """Its index."""

    parameters: Row
    """Its parameterization as it was planned, in raw units."""

    status: str = "COMPLETED"
    """What has become of it, as Ax calls it."""

    outcome: float | None = None
    """Value of the objective, in its own unit and sign, whatever the status."""

    is_observed: bool = False
    """Whether the model has learned from it."""

    was_measured: bool = False
    """Whether it has a value of what the objective was when it was decided on."""

    realized: Row = field(default_factory=dict)
    """Inputs as they were realised, as far as they were reported."""

    reported_cost: float | None = None
    """What it was reported to have cost."""

    cost_metric: str | None = None
    """Metric under which that was reported; None where that is not known, or it is under none."""

    metrics: Mapping[str, float] = field(default_factory=dict)
    """Values of the other metrics that the method reads."""

    errors: Mapping[str, float] = field(default_factory=dict)
    """Standard errors of outcomes, by metric, as far as they are known."""

    curves: Mapping[str, Mapping[float, tuple[float, float | None]]] = field(default_factory=dict)
    """Mean and standard error (None: unknown) by metric and step, where it reported progress."""

    record: Mapping[str, Any] = field(default_factory=dict)
    """What was stored of the decision; empty if the strategy did not generate it."""

    lost: tuple[float | None, ...] = ()
    """Costs of attempts that another followed; None where that is not known."""

    last_attempt: float | None = None
    """What the last attempt cost, if that is known."""

    is_charged: bool = True
    """Whether it is paid from the budget, as past data need not be."""

    was_started: bool = False
    """Whether a runner of the package has started it."""

    is_excluded: bool = False
    """Whether the user left it out of everything: then it was never run, and did not fail."""

    has_lost_value: bool = False
    """True if a choice no longer has the trial's value: it stays charged, and no model sees it."""

    @property
    def inputs(self) -> dict[str, Any]:
        """Its parameterization as it was realised."""
        return {**self.parameters, **self.realized}

    @property
    def decision(self) -> Mapping[str, Any]:
        """What the choice was made from."""
        return self.record.get("decision") or {}

    def decided_at(self, metric: str | None) -> bool:
        """Whether what was recorded of its decision has costs in the unit of a metric.

        Args:
            metric: The metric of a method that learns costs; None of one to which they are
                declared.
        """
        return bool(self.record.get("cost_metric", metric) == metric)

    @property
    def resumes_trial(self) -> int | None:
        """The trial that it goes on from, by its decision; None where it begins anew."""
        found: int | None = self.record.get("resumes_trial")
        return found

    @property
    def is_completed(self) -> bool:
        """Whether it was completed."""
        return self.status == "COMPLETED"

    @property
    def is_live(self) -> bool:
        """Whether it may still report."""
        return self.status in _LIVE

    @property
    def never_ran(self) -> bool:
        """Whether it was given up before it ran: it cost nothing, and need not make sense."""
        return self.status in NEVER_RUN and self.reported_cost is None and not self.was_started

    @property
    def was_set_up(self) -> bool:
        """Whether what is set in it was set here, or is to be: what the next trial may change."""
        return self.is_charged and not self.never_ran

    @property
    def has_failed(self) -> bool:
        """Whether it came to an end without an outcome, though it was to have one."""
        gone = self.status in _FAILED or (self.status == "EARLY_STOPPED" and self.outcome is None)
        return gone and not self.is_observed and not self.is_excluded

    @property
    def counts(self) -> bool:
        """Whether something is learned from it, or may be: its inputs have to make sense."""
        return not (self.has_failed or self.never_ran or self.has_lost_value)

    @property
    def is_to_be_measured(self) -> bool:
        """Whether the strategy asks for its outcome; True where it did not decide on it."""
        return bool(self.record.get("measure", True))


@dataclass(frozen=True)
class LedgerEntry:
    """One trial's line in the ledger; costs are in the user's own unit."""

    trial_index: int
    """Index of the trial in the experiment."""

    control_set: str | None
    """Name of the control set that the trial used; None for a method without control sets."""

    initial: bool
    """Whether the trial belongs to the initial design: generated there, or attached by the user
    before the rule made its first decision."""

    by_rule: bool
    """Whether the strategy's rule chose the trial (one that the user attaches after the rule's
    first decision is neither initial nor by the rule)."""

    expected_cost: float | None
    """What the trial was expected to cost when it was generated; None where costs are learned and
    nothing was expected yet."""

    reported_cost: float | None
    """What the trial was reported to have cost on completion, if anything was reported."""

    charged: float
    """What the trial takes from the budget."""

    status: str
    """Name of the trial's status in Ax."""

    skipped: bool = False
    """Whether the trial was completed without a value of the objective, under a method that may do
    without; False for all other methods."""

    lost: float = 0.0
    """The part of ``charged`` that went into attempts which failed and were followed by another."""

    change_over: float = 0.0
    """What it cost to set other values than in the trial before; part of what is charged."""


def ledger_of(trials: Sequence[PastTrial], method: Budgeted) -> tuple[LedgerEntry, ...]:
    """The ledger: one entry per trial, by increasing trial index.

    Args:
        trials: All trials, by increasing index.
        method: Gives the costs of trials that were not generated by the strategy, and
            ``charge_initial`` says whether initial trials are charged.

    Raises:
        InputError: If the method does not fit a trial, as where it names no control set of it or a
            cost that is none, or an input is no number of a size that models can take.
    """
    # What failed, or was given up, may have failed for just that.
    check_inputs(trial for trial in trials if trial.counts)
    check_reported(trials, method)
    names, changes = control_sets_of(trials, method), change_overs(trials, method)
    reported: dict[str | None, list[float]] = {name: [] for name in names}
    for trial, name, change in zip(trials, names, changes, strict=True):
        if trial.reported_cost is not None and trial.reported_cost >= change:
            reported[name].append(trial.reported_cost - change)
    entries: list[LedgerEntry] = []
    rule_has_begun = False
    for trial, name, change in zip(trials, names, changes, strict=True):
        phase = trial.record.get("phase")
        is_measured = trial.outcome is not None or trial.was_measured
        by_rule = phase == "rule"
        rule_has_begun = rule_has_begun or by_rule
        initial = not by_rule and (phase == "initial" or not rule_has_begun)
        skipped = method.may_skip and trial.is_completed and not is_measured
        expected = estimate = expected_cost_of(trial, method, change)
        if estimate is not None and trial.decided_at(method.cost_metric):
            # Of the trials before it, the one that it was to follow may never have run.
            estimate += change - float(trial.record.get("change_over", change))
        if method.may_skip and is_measured and not estimate:
            # Where the strategy asked for no measurement, none was expected to be paid.
            estimate = method.cost_at(trial.parameters)
        if not trial.is_live and not trial.never_ran:
            came_to = _checked(method, "cost_as_run", method.cost_as_run(trial, trials))
            estimate = estimate if came_to is None else came_to + change
        if estimate is None and not trial.never_ran:
            by_others = method.cost_by_others(name, reported)
            estimate = (_checked(method, "cost_by_others", by_others) or 0.0) + change
        estimate, change = (0.0, 0.0) if skipped else (estimate or 0.0, change)
        free = trial.never_ran or not trial.is_charged
        free = free or (initial and not method.charge_initial)
        last = None if trial.is_completed else trial.last_attempt
        charged = next(c for c in (trial.reported_cost, last, estimate) if c is not None)
        again = estimate - change
        lost = math.fsum(again if cost is None else cost for cost in trial.lost)
        entries.append(
            LedgerEntry(
                trial_index=trial.index,
                control_set=name,
                initial=initial,
                by_rule=by_rule,
                expected_cost=expected,
                reported_cost=trial.reported_cost,
                charged=0.0 if free else charged + lost,
                status=trial.status,
                skipped=skipped,
                lost=0.0 if free else lost,
                change_over=0.0 if free else min(change, charged),
            )
        )
    return tuple(entries)


def settings_of(trial: PastTrial, method: Budgeted) -> Row:
    """What a trial sets of what costs to be changed, by name; nothing of what it does not name."""
    cost = method.change_cost
    if cost is None:
        return {}
    control_set = method.control_set_of(trial)
    names = cost.names if control_set is None else {*cost.names} & {*control_set.parameters}
    return {name: trial.parameters[name] for name in names if name in trial.parameters}


def change_overs(trials: Sequence[PastTrial], method: Budgeted) -> list[float]:
    """What it cost each trial to set other values than in the one before.

    Args:
        trials: All trials, by increasing index.
        method: Says what change-overs cost, and what a trial sets.
    """
    cost, found, before = method.change_cost, [0.0] * len(trials), None
    for i, trial in enumerate(trials if cost is not None else ()):
        if trial.was_set_up:
            assert cost is not None
            now = settings_of(trial, method)
            found[i], before = cost.between(before, now), now
    return found


def costs_of_runs(trials: Sequence[PastTrial], method: Budgeted) -> dict[int, float]:
    """What runs have cost by the end of each trial, by trial, as far as all of it was reported.

    Change-overs are no part of it; what was reported as no more than them is left out. A trial that
    goes on from another one adds to its cost.
    """
    found: dict[int, float] = {}
    for trial, change in zip(trials, change_overs(trials, method), strict=True):
        before = 0.0 if trial.resumes_trial is None else found.get(trial.resumes_trial)
        reported = trial.reported_cost
        if reported is not None and reported > change and before is not None:
            found[trial.index] = reported - change + before
    return found


def control_sets_of(trials: Sequence[PastTrial], method: Budgeted) -> list[str | None]:
    """Names of the control sets of trials; None where there are none.

    Raises:
        InputError: If a trial that ran, or may run, names none that the method has.
    """
    names: list[str | None] = []
    for trial in trials:
        control_set = None
        with suppress(InputError) if trial.never_ran else blaming(trial):
            control_set = method.control_set_of(trial)
        names.append(None if control_set is None else str(control_set.name))
    return names


def _checked(method: Budgeted, answer: str, cost: Any) -> float | None:
    """A cost that a method answers, which may be a user's, as a plain number."""
    name = f"{type(method).__name__}.{answer}"
    return None if cost is None else nonnegative_number(plain_value(cost), name)


def expected_cost_of(trial: PastTrial, method: Budgeted, change: float = 0.0) -> float | None:
    """Cost expected when the trial was generated, else the declared one; None if unknown.

    Args:
        trial: The trial.
        method: Declares costs.
        change: What its change-over costs beside a declared one.
    """
    recorded = trial.record.get("expected_cost")
    if recorded is not None and trial.decided_at(method.cost_metric):
        return float(recorded)
    declared = None
    with suppress(InputError) if trial.never_ran else blaming(trial):
        declared = _checked(method, "cost_at", method.cost_at(trial.parameters))
    return None if declared is None else declared + change


def check_reported(trials: Sequence[PastTrial], method: Budgeted) -> None:
    """Refuse costs that a method cannot learn from: in another unit, or none.

    Raises:
        InputError: By the indices of the trials, and how to report their costs.
    """
    metric = method.cost_metric
    if metric is None:
        return
    costs = {t.index: t.reported_cost for t in trials if t.reported_cost is not None}
    if bad := {i: cost for i, cost in costs.items() if not 0 < cost < math.inf}:
        raise InputError(
            f"cost={metric!r}: the reported costs by trial {bad} are not all finite numbers > 0. "
            "Ax's data keep ten decimals, so that a small cost may be zero there: "
            "complete_trial(..., cost=...) keeps all digits, and so does another unit. To correct "
            f"a cost: ax_costaware.report_cost(client, {next(iter(bad))}, ...)."
        )
    others: dict[str, list[int]] = {}
    for trial in trials:
        if trial.index in costs and trial.cost_metric not in (None, metric):
            others.setdefault(str(trial.cost_metric), []).append(trial.index)
    for other, indices in others.items():
        raise InputError(
            f"cost={metric!r}: the costs of trials {indices} were reported as {other!r}, and need "
            f"not be in the same unit. Report each as {metric!r}, with "
            f"ax_costaware.report_cost(client, {indices[0]}, ...) or in Ax's data; or leave the "
            f"trial out, with ax_costaware.exclude_trial(client, {indices[0]})."
        )


def check_inputs(trials: Iterable[PastTrial]) -> None:
    """Refuse a trial that no decision can be made beside, as it is at no point of any model.

    Raises:
        InputError: If an input is no number, or beyond 1e100.
    """
    for trial in trials:
        for name, value in trial.inputs.items():
            if isinstance(value, float) and not abs(value) <= LARGEST:
                with blaming(trial):
                    raise InputError(f"{name}={value!r}: expected a number of at most 1e100.")


def check_complete(trials: Iterable[PastTrial], space: Space) -> None:
    """Refuse a trial without a value of some parameter, or with one that is none of it.

    The parameter may have been added after it.

    Raises:
        InputError: If there is one.
    """
    for trial in trials:
        missing = [name for name in space.order if name not in trial.inputs]
        if missing:
            with blaming(trial):
                raise InputError(
                    f"it has no value of {missing}: expected parameters that are added with "
                    "backfill_values, which Ax keeps in a database, and forgets in a JSON file."
                )
        for name, column in space.columns.items():
            with blaming(trial):
                column.encode(trial.inputs[name])


@contextmanager
def blaming(trial: PastTrial) -> Iterator[None]:
    """Where a refusal is of a trial, as one attached by mistake: it says how to go on without."""
    try:
        yield
    except InputError as error:
        said, name = str(error), f"trial {trial.index}"
        named = said if said.startswith((f"{name} ", f"{name},")) else f"{name}: {said}"
        raise InputError(
            f"{named} To go on without the trial: ax_costaware.exclude_trial(client, "
            f"{trial.index})."
        ) from error

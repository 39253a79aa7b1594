"""The ledger: what every trial of an experiment was charged to the budget.

The ledger is rebuilt from the stored experiment each time it is asked for; nothing is carried in
memory, so a reloaded experiment has the same one (Tay et al. 2023, Section 2: the learner stops
when the costs of its queries use up the budget). All costs are in the user's own unit.

What a trial is charged:

- the cost that was reported for it, else the cost that was expected of it, else the mean of the
  reported costs (a trial of the initial design has no expected cost where costs are learned), with
  control sets that of the reported costs of its own;
- nothing, if it is an initial trial and the strategy does not charge those;
- nothing, if it was abandoned or went stale without a reported cost, and no runner of the package
  had started it: it was never run;
- a trial that failed or was stopped early is charged, for it was run; a runner of the package says
  what its last attempt cost;
- attempts of such a runner that failed, timed out or were lost, and were followed by another, are
  charged on top: their known cost, else what is expected of an attempt;
- a trial that is not finished yet is charged what is expected of it, which reserves that much.

Where the method may do without a measurement, what costs is to measure (Wang et al. 2020,
"Cost-Efficient Online Hyperparameter Optimization"): a trial that was completed without an outcome
is charged what was reported, else nothing; one that was measured although the strategy did not ask
for it is charged like any other.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ax.core.base_trial import BaseTrial
from ax.core.experiment import Experiment
from ax.core.trial import Trial
from ax.core.trial_status import TrialStatus
from ax.exceptions.core import UnsupportedError

from ax_costaware.precision import more_precise
from ax_costaware.records import RECORD

if TYPE_CHECKING:
    from ax_costaware.generators.method_settings import MethodSettings

_NEVER_RUN = frozenset({TrialStatus.ABANDONED, TrialStatus.STALE})


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


def ledger(experiment: Experiment, settings: MethodSettings) -> tuple[LedgerEntry, ...]:
    """The ledger of an experiment: one entry per trial, by increasing trial index.

    Args:
        experiment: The Ax experiment.
        settings: The strategy's settings. They give the costs of trials that were not generated
            by the strategy and name the metric under which costs are reported, if there is one,
            and ``charge_initial`` says whether initial trials are charged.

    Raises:
        UserInputError: If the settings do not fit a trial, as where it names no control set of
            the strategy.
        UnsupportedError: If a trial has several arms.
    """
    reported = reported_costs(experiment, settings)
    by_control_set = _by_control_set(experiment, settings, reported)
    measured = measured_trials(experiment) if settings.may_skip else frozenset()
    entries: list[LedgerEntry] = []
    rule_has_begun = False
    for index, trial in sorted(experiment.trials.items()):
        trial = with_one_arm(trial)
        control_set = settings.control_set_of(trial)
        decision = decision_record(trial)
        by_rule = decision.get("phase") == "rule"
        rule_has_begun = rule_has_begun or by_rule
        initial = not by_rule and (decision.get("phase") == "initial" or not rule_has_begun)
        expected = expected_cost_of(trial, settings)
        record = outcome_record(trial)
        was_started = bool(record.get("attempts") or record.get("running"))
        free = (initial and not settings.charge_initial) or (
            index not in reported and trial.status in _NEVER_RUN and not was_started
        )
        skipped = settings.may_skip and trial.status.is_completed and index not in measured
        due = expected
        if skipped:
            due = 0.0
        elif index in measured:
            # Where the strategy asked for no measurement, none was expected to be paid.
            due = settings.declared_cost(trial)
        if due is None:
            due = settings.cost_by_others(control_set, by_control_set)
        estimate = 0.0 if due is None else due
        failed, last = _attempts(trial)
        lost = 0.0 if free else math.fsum(estimate if cost is None else cost for cost in failed)
        if index in reported:
            due = reported[index]
        elif last is not None and not trial.status.is_completed:
            due = last
        else:
            due = estimate
        entries.append(
            LedgerEntry(
                trial_index=index,
                control_set=None if control_set is None else control_set.name,
                initial=initial,
                by_rule=by_rule,
                expected_cost=expected,
                reported_cost=reported.get(index),
                charged=0.0 if free else due + lost,
                status=trial.status.name,
                skipped=skipped,
                lost=lost,
            )
        )
    return tuple(entries)


def _attempts(trial: Trial) -> tuple[list[float | None], float | None]:
    """What the attempts of a runner cost that another followed, and the last one; None: unknown."""
    record = outcome_record(trial)
    attempts = record.get("attempts") or []
    costs = [attempt.get("cost") for attempt in attempts]
    # The user may have completed by hand what the runner had not.
    by_hand = trial.status.is_completed and attempts and attempts[-1]["state"] != "completed"
    if record.get("running") or by_hand or not costs:
        return costs, None
    return costs[:-1], costs[-1]


def _by_control_set(
    experiment: Experiment, settings: MethodSettings, reported: Mapping[int, float]
) -> dict[str | None, list[float]]:
    """The reported costs by the name of their trials' control set, by increasing trial index."""
    found: dict[str | None, list[float]] = {}
    for index in sorted(reported):
        control_set = settings.control_set_of(with_one_arm(experiment.trials[index]))
        name = None if control_set is None else str(control_set.name)
        found.setdefault(name, []).append(reported[index])
    return found


def reported_costs(experiment: Experiment, settings: MethodSettings) -> dict[int, float]:
    """What the trials were reported to have cost, at full precision; others are not in it.

    The cost that ``complete_trial`` recorded, or the value of the settings' cost metric: recorded
    or, for a trial that has ended, among Ax's data. Where Ax's data were changed after the record,
    they count.
    """
    metric = settings.cost_metric
    in_data = {} if metric is None else values_in_data(experiment, metric)
    reported: dict[int, float] = {}
    for index, trial in experiment.trials.items():
        record = outcome_record(trial)
        cost = record.get("cost")
        if cost is None and metric is not None:
            cost, _ = (record.get("outcomes") or {}).get(metric, (None, None))
        # Before a trial has ended, data are what it has cost so far.
        if index in in_data and trial.status.is_terminal:
            cost = more_precise(in_data[index], cost)
        if cost is not None:
            reported[index] = float(cost)
    return reported


def values_in_data(experiment: Experiment, metric: str) -> dict[int, float]:
    """Finite values of ``metric`` among Ax's data, by trial index; ten decimals of them."""
    frame = experiment.lookup_data().df
    rows = frame[frame["metric_name"] == metric]
    return {
        int(index): float(mean)
        for index, mean in zip(rows["trial_index"], rows["mean"], strict=True)
        if math.isfinite(mean)
    }


def measured_trials(experiment: Experiment) -> frozenset[int]:
    """Trials with a finite value of the objective, in Ax's data or recorded, whatever status."""
    config = experiment.optimization_config
    names = [] if config is None else config.objective.metric_names
    recorded = {
        index: outcome_record(trial).get("outcomes") or {}
        for index, trial in experiment.trials.items()
        if trial.status.is_completed
    }
    found = [
        values_in_data(experiment, name).keys()
        | {i for i, outcomes in recorded.items() if name in outcomes}
        for name in names
    ]
    return frozenset(set.intersection(*found)) if found else frozenset()


def spent(entries: Iterable[LedgerEntry]) -> float:
    """Total charged by ``entries``, what is reserved for unfinished trials included."""
    return math.fsum(entry.charged for entry in entries)


def remaining(entries: Iterable[LedgerEntry], budget: float | None) -> float | None:
    """What is left of ``budget``; None without a budget, negative if reported costs overran it."""
    return None if budget is None else budget - spent(entries)


def with_one_arm(trial: BaseTrial) -> Trial:
    """``trial``, which has one arm.

    Raises:
        UnsupportedError: If it can have several.
    """
    if not isinstance(trial, Trial):
        raise UnsupportedError(
            f"trial {trial.index} is a {type(trial).__name__}: a cost belongs to one arm, so each "
            "arm needs a trial of its own."
        )
    return trial


def decision_record(trial: BaseTrial) -> dict[str, Any]:
    """What the generator recorded about its decision; empty if it did not generate the trial."""
    generator_run = trial.generator_run if isinstance(trial, Trial) else None
    gen_metadata = None if generator_run is None else generator_run.gen_metadata
    return dict((gen_metadata or {}).get(RECORD) or {})


def is_to_be_measured(trial: BaseTrial) -> bool:
    """Whether the strategy asks for the trial's outcome; True where it did not decide on it."""
    return bool(decision_record(trial).get("measure", True))


def outcome_record(trial: BaseTrial) -> dict[str, Any]:
    """What was reported on completion (realised inputs, cost, outcomes); empty before that."""
    return dict(trial.run_metadata.get(RECORD) or {})


def expected_cost_of(trial: Trial, settings: MethodSettings) -> float | None:
    """Cost expected when the trial was generated, else the declared one; None if unknown."""
    recorded = decision_record(trial).get("expected_cost")
    return settings.declared_cost(trial) if recorded is None else float(recorded)

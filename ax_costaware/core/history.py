"""History of an experiment: its trials, as a method sees them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ax_costaware.argument_checks import LARGEST
from ax_costaware.exceptions import InputError
from ax_costaware.space.parameters import Row

if TYPE_CHECKING:
    from ax_costaware.space.space import Space

NEVER_RUN = frozenset({"ABANDONED", "STALE"})
"""Statuses of trials that never ran, unless a cost or an attempt of a runner says otherwise."""

_LIVE = frozenset({"CANDIDATE", "STAGED", "RUNNING"})
_FAILED = frozenset({"FAILED", "ABANDONED", "STALE"})


@dataclass(frozen=True)
class PastTrial:
    """Snapshot of a trial."""

    index: int
    """Index of the trial."""

    parameters: Row
    """Planned parameterization, in raw units."""

    status: str = "COMPLETED"
    """Name of the trial's status in Ax."""

    outcome: float | None = None
    """Value of the objective in its own unit and sign, whatever the status; None without one."""

    is_observed: bool = False
    """True if the model is fitted to the outcome."""

    was_measured: bool = False
    """True if it has a value of the metric that was the objective when it was generated."""

    realized: Row = field(default_factory=dict)
    """Realized inputs that were reported; others are as planned."""

    reported_cost: float | None = None
    """Reported cost; None without one."""

    cost_metric: str | None = None
    """Metric under which the cost was reported; None if unknown."""

    metrics: Mapping[str, float] = field(default_factory=dict)
    """Values of other metrics that the method reads, by name."""

    errors: Mapping[str, float] = field(default_factory=dict)
    """Known standard errors of outcomes, by metric."""

    num_repeats: Mapping[str, int] = field(default_factory=dict)
    """Number of repeats whose mean is the outcome, by metric, where their values were reported."""

    curves: Mapping[str, Mapping[float, tuple[float, float | None]]] = field(default_factory=dict)
    """Learning curves: mean and standard error (None: unknown) by metric and step."""

    record: Mapping[str, Any] = field(default_factory=dict)
    """Stored record of the decision; empty if the strategy did not generate the trial."""

    attempts: tuple[float | None, ...] = ()
    """Cost of each attempt of a runner, in order; None if unknown, as while it runs. Empty if no
    runner of the package has started the trial."""

    is_charged: bool = True
    """True if the trial is paid from the budget. Attached past data may be free."""

    is_excluded: bool = False
    """True if the user excluded the trial: it neither ran nor failed."""

    has_lost_value: bool = False
    """True if a choice no longer has the trial's value: it stays charged, and no model sees it."""

    @property
    def inputs(self) -> dict[str, Any]:
        """Realized parameterization."""
        return {**self.parameters, **self.realized}

    @property
    def decision(self) -> Mapping[str, Any]:
        """Recorded basis of the decision, ``Decision.details``."""
        return self.record.get("decision") or {}

    def decided_at(self, metric: str | None) -> bool:
        """True if the recorded costs of the decision are in the unit of a cost metric.

        Args:
            metric: The cost metric of a method that learns costs; None if costs are declared.
        """
        return bool(self.record.get("cost_metric", metric) == metric)

    @property
    def resumes_trial(self) -> int | None:
        """Index of the trial that it resumes; None if it is a run of its own."""
        found: int | None = self.record.get("resumes_trial")
        return found

    @property
    def is_completed(self) -> bool:
        """True if it was completed."""
        return self.status == "COMPLETED"

    @property
    def is_live(self) -> bool:
        """True if it may still report an outcome."""
        return self.status in _LIVE

    @property
    def never_ran(self) -> bool:
        """True if it was abandoned before it ran: it is free, and its inputs are not checked."""
        return self.status in NEVER_RUN and self.reported_cost is None and not self.attempts

    @property
    def was_set_up(self) -> bool:
        """True if the trial's settings are, or will be, the state of the equipment."""
        return self.is_charged and not self.never_ran

    @property
    def has_failed(self) -> bool:
        """True if it ended without the outcome that it should have had."""
        gone = self.status in _FAILED or (self.status == "EARLY_STOPPED" and self.outcome is None)
        return gone and not self.is_observed and not self.is_excluded

    @property
    def counts(self) -> bool:
        """True if a model is, or may be, fitted to it, so that its inputs have to be valid."""
        return not (self.has_failed or self.never_ran or self.has_lost_value)

    @property
    def has_measurement(self) -> bool:
        """True if it has a value of the objective, or of what was the objective at its decision."""
        return self.outcome is not None or self.was_measured

    @property
    def is_to_be_measured(self) -> bool:
        """True if the strategy asks for its outcome, or did not generate it."""
        return bool(self.record.get("measure", True))


def check_inputs(trials: Iterable[PastTrial]) -> None:
    """Refuse inputs that would make a model NaN.

    Raises:
        InputError: If an input is NaN, or its absolute value is above 1e100.
    """
    for trial in trials:
        for name, value in trial.inputs.items():
            if isinstance(value, float) and not abs(value) <= LARGEST:
                with blaming(trial):
                    raise InputError(f"{name}={value!r}: expected a number of at most 1e100.")


def check_complete(trials: Iterable[PastTrial], space: Space) -> None:
    """Refuse trials that lack a parameter, or have an invalid value of one.

    A trial lacks parameters that were added to the experiment after it.

    Raises:
        InputError: With the first such trial.
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
    """Name the trial in errors, and say how to exclude it: it may be attached by mistake."""
    try:
        yield
    except InputError as error:
        said, name = str(error), f"trial {trial.index}"
        named = said if said.startswith((f"{name} ", f"{name},")) else f"{name}: {said}"
        raise InputError(
            f"{named} To go on without the trial: ax_costaware.exclude_trial(client, "
            f"{trial.index})."
        ) from error

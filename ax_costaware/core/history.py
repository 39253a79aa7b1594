"""What has happened: the trials of an experiment as a method sees them."""

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

    attempts: tuple[float | None, ...] = ()
    """Cost of each attempt of a runner, the one that counts last; None where that is not known, as
    while it runs. Empty if no runner of the package has started the trial."""

    is_charged: bool = True
    """Whether it is paid from the budget, as past data need not be."""

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
        return self.status in NEVER_RUN and self.reported_cost is None and not self.attempts

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

"""Where a Gittins experiment stands before a decision: money, and what lambda has come to.

Everything is read back from the stored trials, so that a reloaded experiment decides alike. Costs
are in the user's own unit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ax.core.experiment import Experiment
from ax.core.trial_status import TrialStatus
from ax.exceptions.core import UserInputError

from ax_costaware.generators.gittins_settings import GittinsSettings
from ax_costaware.generators.method_settings import ROUNDING
from ax_costaware.ledger import (
    LedgerEntry,
    decision_record,
    ledger,
    remaining,
    reported_costs,
    spent,
)


@dataclass(frozen=True)
class GittinsStanding:
    """Where the experiment stands before the next decision."""

    trial_index: int
    """Index that the next trial will have."""

    undelivered: int
    """Decisions of the same batch that are no trials yet."""

    spent: float
    """What was spent, reservations for unfinished trials and undelivered decisions included."""

    remaining: float | None
    """What is left of the budget; None without one."""

    remaining_before: float | None
    """The same before the undelivered decisions."""

    held_lambda: float | None
    """The lambda that the first decision found from the budget; None before that."""

    relative_lambda: float | None
    """The lambda of a decay that is in force, in its own unit; None without a decay."""


def gittins_standing(
    experiment: Experiment, settings: GittinsSettings, undelivered: Sequence[float] = ()
) -> GittinsStanding:
    """Where ``experiment`` stands.

    Args:
        experiment: The experiment.
        settings: The settings of the strategy.
        undelivered: Expected costs of decisions of the same batch that are no trials yet.
    """
    entries = ledger(experiment, settings)
    before, reserved = remaining(entries, settings.budget), math.fsum(undelivered)
    relative = None
    if settings.decay is not None:
        # Lambda only falls; the least is the last, in whatever order trials were generated.
        past = [d["next_relative_lambda"] for d in _decisions(experiment, "decay")]
        relative = min([settings.decay.initial, *past])
    return GittinsStanding(
        trial_index=len(experiment.trials) + len(undelivered),
        undelivered=len(undelivered),
        spent=spent(entries) + reserved,
        remaining=None if before is None else before - reserved,
        remaining_before=before,
        held_lambda=_held_lambda(experiment, settings),
        relative_lambda=relative,
    )


def _held_lambda(experiment: Experiment, settings: GittinsSettings) -> float | None:
    """Lambda of the first decision that found it from this budget, if it is to be held."""
    if settings.lambda_source != "budget" or settings.rule is None or settings.budget is None:
        return None
    for decision in _decisions(experiment, "budget"):
        if math.isclose(decision["spent"] + decision["remaining"], settings.budget, rel_tol=1e-9):
            return float(decision["lambda"])
    return None


def _decisions(experiment: Experiment, source: str) -> Iterator[Mapping[str, Any]]:
    """What was recorded of decisions whose lambda came from ``source``, by trial index."""
    for _, trial in sorted(experiment.trials.items()):
        decision = decision_record(trial).get("decision") or {}
        if decision.get("lambda_source") == source:
            yield decision


def largest_charge(entries: Sequence[LedgerEntry]) -> float:
    """The largest amount that any trial was charged, or would have been; zero without trials."""
    amounts = [
        entry.charged or entry.reported_cost or entry.expected_cost or 0.0 for entry in entries
    ]
    return max(amounts, default=0.0)


def checked_reported_costs(experiment: Experiment, settings: GittinsSettings) -> dict[int, float]:
    """The costs to learn from, by trial index: of failed trials, too, where they were reported.

    Raises:
        UserInputError: If a completed trial has no cost, or a cost is not a finite number > 0.
    """
    metric = settings.cost_metric
    reported = reported_costs(experiment, settings)
    missing = [
        index
        for index, trial in sorted(experiment.trials.items())
        if trial.status is TrialStatus.COMPLETED and index not in reported
    ]
    if missing:
        raise UserInputError(
            f"cost={metric!r}: trials {missing} were completed without a cost, and trials are "
            "chosen by what they cost. Report it with complete_trial(..., cost=...); for a trial "
            "that is completed add it to the data, for example with "
            f"client.attach_data({missing[0]}, {{{metric!r}: ...}})."
        )
    bad = {i: c for i, c in sorted(reported.items()) if not 0 < c < math.inf}
    if bad:
        raise UserInputError(
            f"cost={metric!r}: the reported costs by trial {bad} are not all finite numbers > 0. "
            "Ax's data keep ten decimals, so that a small cost may be zero there: "
            "complete_trial(..., cost=...) keeps all digits, and so does another unit."
        )
    return reported


def affordable_limit(where: GittinsStanding, settings: GittinsSettings) -> float | None:
    """The largest cost that what is left pays for, rounding allowed for; None without a budget."""
    if where.remaining is None or settings.budget is None:
        return None
    slack = ROUNDING * settings.budget
    return where.remaining + slack if where.remaining > slack else 0.0

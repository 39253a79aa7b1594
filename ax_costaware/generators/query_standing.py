"""Where an experiment of priced queries stands before the next decision: money.

Everything is a function of what is stored with the trials. Costs are in the user's own unit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ax.core.experiment import Experiment

from ax_costaware.generators.method_settings import ROUNDING
from ax_costaware.generators.target_settings import TargetSettings
from ax_costaware.ledger import ledger, remaining, spent


@dataclass(frozen=True)
class QueryStanding:
    """Money before a decision."""

    trial_index: int
    """Index that the trial will have."""

    undelivered: int
    """Decisions of the same batch that are no trials yet."""

    spent: float
    """What was spent, reservations for unfinished trials and undelivered decisions included."""

    remaining: float | None
    """What is left of the budget; None without one."""

    limit: float | None
    """The largest cost that this pays for, rounding allowed for; None for any."""

    def pays(self, cost: float) -> bool:
        """Whether a cost can be paid."""
        return self.limit is None or cost <= self.limit

    def exhausted(self, settings: TargetSettings) -> str:
        """That no query can be paid, as a sentence."""
        assert settings.budget is not None
        batch = ""
        if self.undelivered:
            batch = (
                f" With {self.undelivered} before it in the batch there is nothing left for this "
                f"one: ask for {self.undelivered}."
            )
        return (
            f"The budget is exhausted: {self.spent:g} of {settings.budget:g} is spent "
            "(reservations for unfinished trials included), and what is left pays for no query."
            f"{batch}"
        )

    def record(self) -> Mapping[str, Any]:
        """What is stored of it with the trial."""
        return {"spent": self.spent, "remaining": self.remaining}


def query_standing(
    experiment: Experiment,
    settings: TargetSettings,
    undelivered: Sequence[Mapping[str, Any]],
    initial: bool,
) -> QueryStanding:
    """Where ``experiment`` stands.

    Args:
        experiment: The experiment.
        settings: The settings of the strategy.
        undelivered: Parameterizations of decisions that are no trials yet.
        initial: Whether these, and the next decision, belong to the initial design.
    """
    free = initial and not settings.charge_initial
    reserved = 0.0 if free else math.fsum(settings.cost_at(row) for row in undelivered)
    entries = ledger(experiment, settings)
    left = remaining(entries, settings.budget)
    left = None if left is None else left - reserved
    limit = None
    if left is not None and not free:
        assert settings.budget is not None
        slack = ROUNDING * settings.budget
        limit = left + slack if left > slack else 0.0
    return QueryStanding(
        trial_index=len(experiment.trials) + len(undelivered),
        undelivered=len(undelivered),
        spent=spent(entries) + reserved,
        remaining=left,
        limit=limit,
    )

"""Where an experiment with costly feedback stands before the next decision: time and money.

Everything is a function of what is stored with the trials. Costs are in the user's own unit, times
in the unit of the metric that reports them, or trials.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ax.core.experiment import Experiment

from ax_costaware.generators.feedback_settings import CostlyFeedbackSettings
from ax_costaware.generators.trial_times import trial_times
from ax_costaware.ledger import ledger, remaining, spent


@dataclass(frozen=True)
class FeedbackStanding:
    """Time and money before a decision."""

    trial_index: int
    """Index that the trial will have."""

    now: float
    """Its time."""

    spent: float
    """What was spent, reservations for unfinished trials included."""

    remaining: float | None
    """What is left of the budget; None without one."""

    pays: bool
    """Whether that pays for a measurement."""

    def too_dear(self, settings: CostlyFeedbackSettings) -> str:
        """Why nothing is measured where it does not pay, as a phrase."""
        return (
            f"what is left of the budget, {max(self.remaining or 0.0, 0.0):g} of "
            f"{settings.budget:g}, does not pay for a measurement, which costs {settings.cost:g}"
        )

    def record(self) -> Mapping[str, Any]:
        """What is stored of it with the trial."""
        return {"now": self.now, "spent": self.spent, "remaining": self.remaining}


def feedback_standing(
    experiment: Experiment, settings: CostlyFeedbackSettings, undelivered: int, initial: bool
) -> FeedbackStanding:
    """Where ``experiment`` stands.

    Args:
        experiment: The experiment.
        settings: The settings of the strategy.
        undelivered: Number of decisions that are no trials yet. What is kept for each is the cost
            of a measurement.
        initial: Whether these, and the next decision, belong to the initial design.
    """
    free = initial and not settings.charge_initial
    reserved = 0.0 if free else undelivered * settings.cost
    entries = ledger(experiment, settings)
    left = remaining(entries, settings.budget)
    left = None if left is None else left - reserved
    index = len(experiment.trials) + undelivered
    return FeedbackStanding(
        trial_index=index,
        now=trial_times(experiment, settings.time)[index],
        spent=spent(entries) + reserved,
        remaining=left,
        pays=free or settings.pays(left),
    )

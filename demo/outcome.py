"""What comes of a run, apart from the runs themselves, whose import of Ax takes many seconds."""

from __future__ import annotations

from dataclasses import dataclass

LABELS = {
    "control_sets": "ax_costaware, seven control sets",
    "full_control": "ax_costaware, full control only",
    "plain_ax": "plain Ax, full control only",
}


@dataclass(frozen=True)
class Run:
    """What came of one run."""

    method: str
    """One of ``LABELS``."""

    seed: int

    spent: float
    """Cost of all trials."""

    control_sets: tuple[str, ...]
    """Names of the control sets that there were."""

    chosen: tuple[tuple[float, str], ...]
    """Per trial the cost spent after it, and its control set."""

    values: tuple[tuple[float, float], ...]
    """Cost spent, and the true expected margin of what would be deployed then."""

    deployed: dict[str, float]
    """Inputs to set in the end; the others are not controlled."""

    best_possible: float
    """True margin of the best setting there is."""

    summary: str = ""
    """Return what the budget was spent on, in words."""

    @property
    def value(self) -> float:
        """The true expected margin of what is deployed in the end."""
        return self.values[-1][1]

"""What is left of a budget for the next decision, by the ledger of what has happened."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from ax_costaware.methods.past import LedgerEntry


def spent(entries: Iterable[LedgerEntry]) -> float:
    """Total charged by ``entries``, what is reserved for unfinished trials included."""
    return math.fsum(entry.charged for entry in entries)


def remaining(entries: Iterable[LedgerEntry], budget: float | None) -> float | None:
    """What is left of ``budget``; None without a budget, negative if reported costs overran it."""
    return None if budget is None else budget - spent(entries)


@dataclass(frozen=True)
class Money:
    """What was spent before a decision, and what is left for it."""

    entries: tuple[LedgerEntry, ...]
    """The ledger."""

    spent: float
    """What was spent, reservations for unfinished trials and undelivered decisions included."""

    remaining: float | None
    """What is left of the budget; None without one."""

    before: float | None
    """The same before the undelivered decisions."""

    limit: float | None
    """The largest cost that can be paid, rounding allowed for; None for any."""

    capped: bool = False
    """Whether that is the most that any one trial may cost, and more is left."""

    def pays(self, cost: float | None) -> bool:
        """Whether a cost can be paid; anything that is left pays for one that is not known."""
        if self.limit is None:
            return True
        return self.limit > 0 if cost is None else cost <= self.limit

    @property
    def said(self) -> str:
        """What was spent, and what of a budget was not, as a phrase."""
        text = f"Spent {self.spent:g}"
        if self.remaining is None:
            return text
        return f"{text} of {self.spent + self.remaining:g}, which saves {max(self.remaining, 0):g}"

    def record(self) -> dict[str, float | None]:
        """What is stored of it with a decision."""
        return {"spent": self.spent, "remaining": self.remaining}

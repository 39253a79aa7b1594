"""Trials that are paid: what each sets and costs, by a method, and what of a budget is left.

That is what the ledger is made from. Costs and the budget are in the user's own unit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ax_costaware.core.change_overs import change_over
from ax_costaware.core.history import ROUNDING, LedgerEntry, PastTrial, change_overs, ledger_of
from ax_costaware.core.problem import Problem
from ax_costaware.exceptions import InputError
from ax_costaware.queries import ChangeCost, ControlSet
from ax_costaware.queries.argument_checks import boolean, check_fields, positive_number_or_none
from ax_costaware.space.parameters import Row

_LOOKS = 128
"""Parameterizations whose known costs are looked at."""


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


@dataclass(frozen=True, kw_only=True)
class Budgeted:
    """What a method says of what trials cost.

    The defaults are those of a method whose trials control every parameter, and cost ``cost_at``.
    """

    may_skip: ClassVar[bool] = False
    """Whether a trial may do without a measurement, which then costs nothing."""

    budget: float | None = None
    """What the experiment may cost in total; None for no limit."""

    max_trial_cost: float | None = None
    """What any one trial may be expected to cost; None for no limit."""

    charge_initial: bool = True
    """Whether initial trials are paid from the budget."""

    def __post_init__(self) -> None:
        check_fields(
            self,
            budget=positive_number_or_none,
            max_trial_cost=positive_number_or_none,
            charge_initial=boolean,
        )

    # What a trial sets and costs

    @property
    def cost_metric(self) -> str | None:
        """Metric under which costs are reported, for a method that learns them; else None."""
        return None

    @property
    def change_cost(self) -> ChangeCost | None:
        """What change-overs cost on top of all other costs; None: nothing."""
        return None

    def control_set_of(self, trial: PastTrial) -> ControlSet | None:
        """The control set that the trial names; None: the trial controls every parameter.

        Raises:
            InputError: If the method has control sets and the trial names none of them.
        """
        return None

    def candidates(self) -> Sequence[ControlSet]:
        """The control sets that a decision is between; none for a method without."""
        return ()

    def cost_at(self, parameters: Row) -> float | None:
        """What a trial costs by the settings alone; None where it can only be learned.

        A change-over comes on top, see ``change_cost``.

        Raises:
            InputError: If the settings give the trial no finite cost > 0.
        """
        return None

    def costs_at(self, problem: Problem, rows: Sequence[Row]) -> Sequence[float | None]:
        """What trials are expected to cost by all that is known; None where nothing is.

        Without change-overs, as ``cost_at``.

        Raises:
            InputError: If a trial has no finite cost > 0, or what costs are learned from is none.
        """
        return [self.cost_at(row) for row in rows]

    def cost_as_run(self, trial: PastTrial, trials: Sequence[PastTrial]) -> float | None:
        """What a trial that has ended costs by how far it came; None: what was expected of it."""
        return None

    def cost_by_others(
        self, control_set: str | None, reported: Mapping[str | None, Sequence[float]]
    ) -> float | None:
        """What a trial costs of which nothing was expected, by what others were reported to cost.

        The mean of all reported costs, unless the method knows better.

        Args:
            control_set: Name of the trial's control set; None if it controls every parameter.
            reported: Reported costs of trials less their change-overs, by the name of their
                control set.

        Returns:
            The cost; None if nothing was reported that tells.
        """
        costs = [cost for others in reported.values() for cost in others]
        return math.fsum(costs) / len(costs) if costs else None

    def reserved(self, problem: Problem, initial: bool) -> list[float]:
        """What the undelivered decisions of a problem are expected to cost, but for change-overs.

        Args:
            problem: The problem.
            initial: Whether they belong to the initial design, in which no cost is learned.
        """
        rows = problem.undelivered
        costs = [self.cost_at(row) for row in rows] if initial else self.costs_at(problem, rows)
        return [cost or 0.0 for cost in costs]

    def largest_cost(self, problem: Problem, initial: bool) -> float | None:
        """The most that a trial may be expected to cost; None for no limit of a batch."""
        if not problem.space.columns:
            return None
        rows = problem.space.sobol_rows(_LOOKS)
        # A cost need not be one where no trial can be.
        costs = [self.cost_at(row) or 0.0 for row in rows if problem.space.meets(row)]
        return max(costs, default=0.0) + (self.change_cost.most if self.change_cost else 0.0)

    def group_of(self, parameters: Row) -> str | None:
        """What a trial is spent on, for pictures of spending; None: nothing that has a name."""
        return None

    def groups(self) -> Sequence[str]:
        """All that ``group_of`` may say, in the order in which it is shown."""
        return ()

    def check_costs_of(self, declared_by: type[Budgeted], argument: str, *names: str) -> None:
        """Refuse a subclass that overrides a cost where the search reads another one.

        Args:
            declared_by: The class whose search it is.
            argument: Where that reads costs from.
            names: The methods that a subclass may not override.

        Raises:
            InputError: By the class and the method.
        """
        for name in names:
            if getattr(type(self), name) is not getattr(declared_by, name):
                raise InputError(
                    f"{type(self).__name__}.{name}: expected that of {declared_by.__name__}, whose "
                    f"search reads costs from {argument} alone, so that other costs would be "
                    "charged than are searched by. Declare costs there, or derive from Method."
                )

    # What is left

    def money(self, problem: Problem, initial: bool = False) -> Money:
        """What was spent before a decision, and what is left for it.

        Args:
            problem: The problem.
            initial: Whether the decision belongs to the initial design, which may be free.
        """
        free, total = initial and not self.charge_initial, 0.0
        if problem.undelivered and not free:
            total = math.fsum(self.reservations(problem, initial))
        entries = ledger_of(problem.trials, self)
        before = remaining(entries, self.budget)
        left = None if before is None else before - total
        limit = None
        if left is not None and self.budget is not None and not free:
            slack = ROUNDING * self.budget
            limit = left + slack if left > slack else 0.0
        most = None if self.max_trial_cost is None else self.max_trial_cost * (1 + ROUNDING)
        capped = most is not None and (limit is None or most < limit)
        limit = most if capped else limit
        return Money(entries, spent(entries) + total, left, before, limit, capped)

    def reservations(self, problem: Problem, initial: bool) -> list[float]:
        """What the undelivered decisions are expected to cost, change-overs included."""
        count = len(problem.trials)
        batch = [PastTrial(count + i, row) for i, row in enumerate(problem.undelivered)]
        changes = change_overs([*problem.trials, *batch], self)[count:]
        costs = self.reserved(problem, initial)
        return [cost + change for cost, change in zip(costs, changes, strict=True)]

    def with_change_over(self, problem: Problem, row: Row, cost: float | None) -> float | None:
        """What the next trial costs with its change-over; None if the rest of it is not known."""
        return None if cost is None else cost + change_over(problem, self, row)

    def exhausted(
        self, problem: Problem, money: Money, left: str = "what is left pays for no trial"
    ) -> str:
        """That nothing can be paid any more, and how that shows in what is ``left``."""
        if money.capped:
            return f"No trial is expected to cost at most max_trial_cost={self.max_trial_cost:g}."
        return (
            f"The budget is exhausted: {money.spent:g} of {self.budget:g} is spent (reservations "
            f"for unfinished trials included), and {left}."
        )

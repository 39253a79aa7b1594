"""Account of an experiment: ``spending`` and ``set_budget``.

A budget may be changed while the experiment runs, or after it has stopped.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd
from ax.core.trial_status import TrialStatus
from ax.exceptions.core import UserInputError

from ax_costaware.argument_checks import positive_number
from ax_costaware.ax_bridge.client import SessionClient, holding_lock, open_session
from ax_costaware.ax_bridge.records import past_trials
from ax_costaware.ax_bridge.strategy import set_method
from ax_costaware.core.account import (
    ROUNDING,
    Budgeted,
    LedgerEntry,
    ledger_of,
    remaining,
    spent,
)
from ax_costaware.core.further_budgets import in_unit
from ax_costaware.core.history import PastTrial
from ax_costaware.display import display_number

_COSTS = ("expected_cost", "reported_cost", "charged", "lost", "switching_cost")


@dataclass(frozen=True)
class Spending:
    """Account of an experiment, in the user's own unit of cost."""

    budget: float | None
    """Budget of the strategy; None if it has none."""

    spent: float
    """Total charged so far, including reservations for unfinished trials."""

    remaining: float | None
    """Budget minus ``spent``: None without a budget, negative if reported costs overran it."""

    entries: tuple[LedgerEntry, ...]
    """Entries of the trials, by increasing trial index."""

    unit: str | None = None
    """Name of the unit of cost, if it has one."""

    further: Mapping[str, Spending] = field(default_factory=dict)
    """Accounts of further budgets, by the name of their unit."""

    @property
    def reserved(self) -> float:
        """Part of ``spent`` that is reserved for unfinished trials."""
        return math.fsum(
            entry.charged for entry in self.entries if not TrialStatus[entry.status].is_terminal
        )

    def to_frame(self) -> pd.DataFrame:
        """Return the entries as a table with a row per trial.

        - ``trial_index``, ``status``: as in the experiment
        - ``control_set``: None for a method without control sets
        - ``expected_cost``: NaN if nothing was expected yet
        - ``reported_cost``: NaN if none was reported
        - ``charged``: the amount that counts
        - ``lost``: part of it for failed attempts of a runner that were followed by another
        - ``switching_cost``: part of it for setting other values than the trial before, and for
          the set-up of a batch
        - ``initial``: True in the initial design
        - ``skipped``: True if completed without a measurement, where the method allows it
        """
        columns = ["trial_index", "control_set", *_COSTS, "status", "initial", "skipped"]
        frame = pd.DataFrame(list(self.entries), columns=columns)
        return frame.astype(dict.fromkeys(_COSTS, float))

    @property
    def lost(self) -> float:
        """Part of ``spent`` that went into failed attempts that were retried."""
        return math.fsum(entry.lost for entry in self.entries)

    @property
    def switching_costs(self) -> float:
        """Part of ``spent`` for setting other values than the trial before, and for set-ups."""
        return math.fsum(entry.switching_cost for entry in self.entries)

    def __str__(self) -> str:
        total = f"Spent {display_number(self.spent)}"
        if self.budget is not None:
            total += f" of {display_number(self.budget)}"
        if self.unit is not None:
            total += f" {self.unit}"
        parts = {
            "reserved for unfinished trials": self.reserved,
            "lost in attempts": self.lost,
            "for switching costs": self.switching_costs,
        }
        shares = [
            f"{display_number(part)} of it {what}" for what, part in parts.items() if part > 0
        ]
        if shares:
            total += f" ({', '.join(shares)})"
        if self.remaining is not None:
            total += f", {display_number(self.remaining)} remaining"
        charged: dict[str, list[float]] = {}
        for entry in self.entries:
            charged.setdefault(_kind(entry), []).append(entry.charged)
        lines = [
            f"  {kind}: {len(costs)} trial{'' if len(costs) == 1 else 's'}, "
            f"{display_number(math.fsum(costs))}"
            for kind, costs in sorted(charged.items(), key=lambda item: -len(item[1]))
        ]
        return "\n".join([f"{total}.", *lines, *map(str, self.further.values())])


@holding_lock
def spending(client: SessionClient) -> Spending:
    """Return the amount spent, the remaining budget, and the charge of each trial.

    A trial is charged its reported cost, else its expected cost. Unfinished trials reserve their
    expected cost. A skipped measurement is free where the method allows skipping. Failed attempts
    of a runner that were followed by another are charged, too. ``ax_costaware.core.account`` has
    all cases.

    Args:
        client: An Ax ``Client``, an ``AxClient``, or a tuple ``(Experiment, GenerationStrategy)``.

    Raises:
        UserInputError: If the client has no experiment or no strategy of this package; if the
            strategy does not fit a trial, for example lacks its control set; or if a cost that it
            learns from is not a finite number > 0, or was reported as another metric.
        UnsupportedError: If a trial has several arms.
    """
    session = open_session(client)
    method = session.method
    trials = past_trials(session.experiment, method)
    further = {
        unit: _spending(other, [in_unit(trial, unit, other) for trial in trials])
        for unit, other in method.trial_costs.further.items()
    }
    return replace(_spending(method, trials), further=further)


def _spending(method: Budgeted, trials: Sequence[PastTrial]) -> Spending:
    """Return the account of one budget."""
    entries = ledger_of(trials, method)
    left = remaining(entries, method.budget)
    return Spending(method.budget, spent(entries), left, entries, method.trial_costs.unit)


def origin_of(entry: LedgerEntry) -> str:
    """Return the origin of a trial."""
    return "initial" if entry.initial else "chosen by the model" if entry.by_rule else "attached"


def _kind(entry: LedgerEntry) -> str:
    """Return the group of a trial: skipped, its control set, or its origin."""
    return "skipped" if entry.skipped else entry.control_set or origin_of(entry)


@holding_lock
def set_budget(client: SessionClient, budget: float | Mapping[str, float]) -> None:
    """Raise or lower the budget of an experiment; the next decision uses it.

    Later decisions are those of a strategy that always had this budget, on the same trials, also
    after the old budget was used up:

    - a price of cost that follows from the budget is found anew from the remaining budget, and with
      a stopping rule held from then on;
    - control sets of unknown cost are explored again if the share of a larger budget allows it;
    - a run that a given ``lmbda`` has stopped stops again.

    The budget is saved at once if the client has a database. A refused call changes nothing.

    Args:
        client: An Ax ``Client``, an ``AxClient``, or a tuple ``(Experiment, GenerationStrategy)``.
            Its strategy has a budget.
        budget: Budget of all trials together, past ones included; at least the amount already
            spent, in the unit of the costs. With several budgets also a mapping from units to the
            budgets that change.

    Raises:
        UserInputError: If the strategy has no budget, or none in a unit; if ``budget`` is not a
            finite number > 0, is below the amount spent (reservations for unfinished trials
            included), or is refused by the strategy.
        UnsupportedError: If another process runs the experiment.
    """
    session = open_session(client, to_write=True)
    account, method = spending(client), session.method
    if account.budget is None:
        made = f"ax_costaware.{method.factory}(..., budget=...)"
        if method.display_name != method.factory:
            made = f"ax_costaware.strategy_of({method.display_name}(..., budget=...))"
        raise UserInputError(
            f"budget={budget!r}: the strategy has no budget to change, and decides differently "
            "from one with a budget. Set a strategy with a budget: "
            f"client.set_generation_strategy({made})."
        )
    accounts = dict[str | None, Spending](account.further) | {account.unit: account}
    named, given = isinstance(budget, Mapping), dict[str | None, float]()
    given.update(budget if isinstance(budget, Mapping) else {account.unit: budget})
    for unit, total in given.items():
        if unit not in accounts:
            raise UserInputError(f"budget={budget!r}: expected units out of {[*accounts]}.")
        at = accounts[unit]
        expected = (
            f"a finite number > 0, and no less than what is spent: {at.spent:.10g} of "
            f"{at.budget:.10g}, reservations for unfinished trials included"
        )
        name = f"budget[{unit!r}]" if named else "budget"
        given[unit] = positive_number(total, name, expected)
        if given[unit] * (1 + ROUNDING) < at.spent:
            raise UserInputError(f"{name}={total!r}: expected {expected}.")
    changed: dict[str, Any] = {"budget": given.get(account.unit, account.budget)}
    if account.further:
        changed["further_budgets"] = tuple(
            replace(each, total=given.get(each.unit, each.total))
            for each in vars(method)["further_budgets"]
        )
    set_method(session.strategy, replace(method, **changed))
    session.save_everything()

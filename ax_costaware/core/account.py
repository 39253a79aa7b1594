"""The account: charges of trials, and the budget that is left.

The ledger is computed from the stored trials on every call. A loaded experiment therefore has the
same ledger (Tay et al. 2023, section 2: the learner stops when the costs of its queries use up the
budget). All costs are in the user's unit.

A trial is charged the first of these that is known:

1. its reported cost;
2. its expected cost, for an ended trial by the progress that it made;
3. the mean reported cost of other trials, with control sets of those with the same one. A trial of
   the initial design has no expected cost if costs are learned.

A pending trial reserves its expected cost. Failed and early-stopped trials ran, so they are
charged; a runner of the package reports the cost of the last attempt. Earlier attempts of such a
runner are charged on top, at their known or their expected cost.

Expected and reported costs include the switching cost from the trial that ran before.

A trial is free

- if it is initial and ``charge_initial`` is False,
- if it is past data that was attached without charge, or
- if it never ran: it was abandoned or went stale without a reported cost, and no runner of the
  package had started it.

For a method that may skip measurements, the measurement is what costs (Wang et al. 2020,
"Cost-Efficient Online Hyperparameter Optimization"). A trial that was completed without an outcome
is charged its reported cost, or nothing. A trial that was measured although the strategy did not
ask for it is charged like any other.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, final

from ax_costaware.argument_checks import (
    boolean,
    check_fields,
    nonnegative_number,
    one_of,
    plain_value,
    positive_number_or_none,
)
from ax_costaware.core.batches import BATCH
from ax_costaware.core.further_budgets import further_states
from ax_costaware.core.history import PastTrial, blaming, check_inputs
from ax_costaware.core.problem import Problem
from ax_costaware.core.switching import switching_cost, switching_costs
from ax_costaware.core.traits import CONTROL_SET, Traits
from ax_costaware.core.trial_costs import TrialCosts
from ax_costaware.costs import ControlSet
from ax_costaware.exceptions import InputError
from ax_costaware.space.parameters import Row

ROUNDING = 1e-9
"""Relative slack of a budget: ten costs of 0.1 must fit in a budget of 1."""


@dataclass(frozen=True)
class LedgerEntry:
    """One trial's line in the ledger; costs are in the user's own unit."""

    trial_index: int
    """Index of the trial in the experiment."""

    control_set: str | None
    """Name of the control set that the trial used; None for a method without control sets."""

    initial: bool
    """True if the trial belongs to the initial design: generated there, or attached by the user
    before the rule made its first decision."""

    by_rule: bool
    """True if the strategy's rule chose the trial (one that the user attaches after the rule's
    first decision is neither initial nor by the rule)."""

    expected_cost: float | None
    """Expected cost of the trial when it was generated; None if it was unknown."""

    reported_cost: float | None
    """Cost that was reported on completion, if any."""

    charged: float
    """Part of the budget that the trial takes."""

    status: str
    """Name of the trial's status in Ax."""

    skipped: bool = False
    """True if the trial was completed without an outcome, under a method that may skip
    measurements."""

    lost: float = 0.0
    """Part of ``charged`` for failed attempts that were followed by another one."""

    switching_cost: float = 0.0
    """Part of ``charged`` for changing the settings of the trial before, and for the set-up of a
    batch."""


def ledger_of(trials: Sequence[PastTrial], method: Budgeted) -> tuple[LedgerEntry, ...]:
    """Return the ledger: one entry per trial, by increasing trial index.

    Args:
        trials: All trials, by increasing index.
        method: The method, which declares or learns the costs of trials.

    Raises:
        InputError: If a trial names no control set of the method, its cost is invalid, or an input
            is NaN or above 1e100.
    """
    # Failed trials are not checked: they may have failed because of an invalid input.
    check_inputs(trial for trial in trials if trial.counts)
    check_reported(trials, method)
    names, changes = control_sets_of(trials, method), switching_costs(trials, method)
    costs = method.trial_costs
    reported: dict[str | None, list[float]] = {name: [] for name in names}
    for trial, name, change in zip(trials, names, changes, strict=True):
        cost = None if goes_unmeasured(trial, method) else trial.reported_cost
        if cost is not None and cost >= change:
            reported[name].append(cost - change)
    entries: list[LedgerEntry] = []
    rule_has_begun = False
    for trial, name, change in zip(trials, names, changes, strict=True):
        phase = trial.record.get("phase")
        by_rule = phase == "rule"
        rule_has_begun = rule_has_begun or by_rule
        initial = not by_rule and (phase == "initial" or not rule_has_begun)
        is_unmeasured = goes_unmeasured(trial, method)
        expected = estimate = expected_cost_of(trial, method, change)
        if estimate is not None and trial.decided_at(costs.metric):
            # The trial that it was planned to follow may never have run, so its switching cost may
            # differ from the recorded one.
            estimate += change - float(trial.record.get("switching_cost", change))
        if method.traits.may_skip and trial.has_measurement and not estimate:
            # The strategy asked for no measurement and recorded no cost, but there was one.
            estimate = method.cost_at(trial.parameters)
        if not trial.is_live and not trial.never_ran:
            came_to = _checked(costs, "as_run", costs.as_run(trial, trials))
            estimate = estimate if came_to is None else came_to + change
        if estimate is None and not trial.never_ran:
            by_others = _checked(costs, "by_others", costs.by_others(name, reported))
            estimate = (by_others or 0.0) + change
        estimate, change = (0.0, 0.0) if is_unmeasured else (estimate or 0.0, change)
        free = trial.never_ran or not trial.is_charged
        free = free or (initial and not method.charge_initial)
        *before, last = trial.attempts or (None,)
        last = None if trial.is_completed else last
        charged = next(c for c in (trial.reported_cost, last, estimate) if c is not None)
        again = estimate - change
        lost = math.fsum(again if cost is None else cost for cost in before)
        entries.append(
            LedgerEntry(
                trial_index=trial.index,
                control_set=name,
                initial=initial,
                by_rule=by_rule,
                expected_cost=expected,
                reported_cost=trial.reported_cost,
                charged=0.0 if free else charged + lost,
                status=trial.status,
                skipped=is_unmeasured and trial.is_completed,
                lost=0.0 if free else lost,
                switching_cost=0.0 if free else min(change, charged),
            )
        )
    return tuple(entries)


def goes_unmeasured(trial: PastTrial, method: Budgeted) -> bool:
    """True if a trial has no measurement, so that its cost is not that of a measurement."""
    if not method.traits.may_skip or trial.has_measurement:
        return False
    return trial.is_completed or not trial.is_to_be_measured


def costs_of_runs(trials: Sequence[PastTrial], method: Budgeted) -> dict[int, float]:
    """Return the total costs of runs up to the end of each trial, by trial index.

    A trial that resumes another one adds to its total. Switching costs are subtracted. Trials are
    left out if they went without a measurement, or if a part of their run has no reported cost
    above its switching cost.
    """
    found: dict[int, float] = {}
    for trial, change in zip(trials, switching_costs(trials, method), strict=True):
        before = 0.0 if trial.resumes_trial is None else found.get(trial.resumes_trial)
        reported = None if goes_unmeasured(trial, method) else trial.reported_cost
        if reported is not None and reported > change and before is not None:
            found[trial.index] = reported - change + before
    return found


def control_sets_of(trials: Sequence[PastTrial], method: Budgeted) -> list[str | None]:
    """Return the names of the control sets of trials; None for a method without control sets.

    Raises:
        InputError: If a trial that ran, or may run, names no control set of the method.
    """
    names: list[str | None] = []
    for trial in trials:
        control_set = None
        with suppress(InputError) if trial.never_ran else blaming(trial):
            control_set = method.control_set_of(trial)
        names.append(None if control_set is None else str(control_set.name))
    return names


def _checked(of: Budgeted | TrialCosts, answer: str, cost: Any) -> float | None:
    """Return the cost that a member of an object, perhaps a user's, has returned, as a float."""
    name = f"{type(of).__name__}.{answer}"
    return None if cost is None else nonnegative_number(plain_value(cost), name)


def expected_cost_of(trial: PastTrial, method: Budgeted, change: float = 0.0) -> float | None:
    """Return the expected cost at generation, else the declared cost; None if unknown.

    Args:
        trial: The trial.
        method: Declares costs.
        change: Switching cost of the trial, which a declared cost does not include.
    """
    recorded = trial.record.get("expected_cost")
    if recorded is not None and trial.decided_at(method.trial_costs.metric):
        return float(recorded)
    declared = None
    with suppress(InputError) if trial.never_ran else blaming(trial):
        declared = _checked(method, "cost_at", method.cost_at(trial.parameters))
    return None if declared is None else declared + change


def check_reported(trials: Sequence[PastTrial], method: Budgeted) -> None:
    """Refuse reported costs that a method cannot learn from: invalid, or in another unit.

    Raises:
        InputError: With the indices of the trials, and how to report their costs.
    """
    metric = method.trial_costs.metric
    if metric is None:
        return
    costs = {t.index: t.reported_cost for t in trials if t.reported_cost is not None}
    free = {t.index for t in trials if t.reported_cost == 0 and goes_unmeasured(t, method)}
    if bad := {i: c for i, c in costs.items() if not (0 < c < math.inf or i in free)}:
        raise InputError(
            f"cost={metric!r}: the reported costs by trial {bad} are not all finite numbers > 0. "
            "Ax's data keep ten decimals, so that a small cost may be zero there: "
            "complete_trial(..., cost=...) keeps all digits, and so does another unit. To correct "
            f"a cost: ax_costaware.report_cost(client, {next(iter(bad))}, ...)."
        )
    others: dict[str, list[int]] = {}
    for trial in trials:
        if trial.index in costs and trial.cost_metric not in (None, metric):
            others.setdefault(str(trial.cost_metric), []).append(trial.index)
    for other, indices in others.items():
        raise InputError(
            f"cost={metric!r}: the costs of trials {indices} were reported as {other!r}, and need "
            f"not be in the same unit. Report each as {metric!r}, with "
            f"ax_costaware.report_cost(client, {indices[0]}, ...) or in Ax's data; or leave the "
            f"trial out, with ax_costaware.exclude_trial(client, {indices[0]})."
        )


def spent(entries: Iterable[LedgerEntry]) -> float:
    """Return the total of all charges, reservations for unfinished trials included."""
    return math.fsum(entry.charged for entry in entries)


def remaining(entries: Iterable[LedgerEntry], budget: float | None) -> float | None:
    """Return the budget left: None without a budget, negative if reported costs exceed it."""
    return None if budget is None else budget - spent(entries)


@dataclass(frozen=True)
class BudgetState:
    """Budget spent and left before a decision."""

    entries: tuple[LedgerEntry, ...]
    """The ledger."""

    spent: float
    """Total charged, reserved for pending trials, and reserved for decisions of the same batch."""

    remaining: float | None
    """Budget that is left; None without a budget."""

    remaining_before_batch: float | None
    """Budget that is left before the reservations for decisions of the same batch."""

    limit: float | None
    """Largest cost that can be paid, with slack for rounding; None for no limit."""

    is_capped: bool = False
    """True if ``limit`` is ``max_trial_cost`` and not the remaining budget."""

    further: Mapping[str, BudgetState] = field(default_factory=dict)
    """States of further budgets, by the name of their unit."""

    def pays(
        self, cost: float | None, further: Mapping[str, float | None] = MappingProxyType({})
    ) -> bool:
        """True if a cost can be paid. An unknown cost (None) is paid by any budget left.

        Args:
            cost: The cost.
            further: Costs in further units, by name.
        """
        if not all(self.further[unit].pays(other) for unit, other in further.items()):
            return False
        if self.limit is None:
            return True
        return self.limit > 0 if cost is None else cost <= self.limit

    @property
    def summary(self) -> str:
        """Phrase with the budget spent and saved."""
        text = f"Spent {self.spent:g}"
        if self.remaining is None:
            return text
        return f"{text} of {self.spent + self.remaining:g}, which saves {max(self.remaining, 0):g}"

    def record(self) -> dict[str, Any]:
        """Return the part that is stored with a decision."""
        found: dict[str, Any] = {"spent": self.spent, "remaining": self.remaining}
        if self.further:
            found["further"] = {unit: state.record() for unit, state in self.further.items()}
        return found


@dataclass(frozen=True, kw_only=True)
class Budgeted:
    """Costs of a method's trials, and its budget.

    The defaults are for a method whose trials set every parameter, and cost ``cost_at``.
    """

    budget: float | None = None
    """Largest total cost of all trials; None for no limit. A trial is only chosen if its expected
    cost is affordable. If none is, the run ends: the next request raises
    ``OptimizationShouldStop`` with the recommendation. If costs are learned, the last trial or
    batch may exceed the budget by the error of its expected cost."""

    max_trial_cost: float | None = None
    """Largest expected cost of one trial; None for no limit. With learned costs, trials before the
    first report may cost more, and initial ones if none is known to be affordable."""

    charge_initial: bool = True
    """Charge the initial trials to the budget."""

    def __post_init__(self) -> None:
        check_fields(
            self,
            budget=positive_number_or_none,
            max_trial_cost=positive_number_or_none,
            charge_initial=boolean,
        )

    # Costs and control sets of trials

    @property
    def traits(self) -> Traits:
        """Properties of the method's trials; a subclass may replace them by a value."""
        return Traits()

    @final
    def control_set_of(self, trial: PastTrial) -> ControlSet | None:
        """Return the control set of a trial; None if the trial sets every parameter.

        Raises:
            InputError: If the method has control sets, and the trial names none of them.
        """
        known = {control_set.name: control_set for control_set in self.traits.control_sets}
        if not known:
            return None
        what = f"trial {trial.index} has {CONTROL_SET}"
        return known[one_of(trial.parameters.get(CONTROL_SET), what, [*known])]

    @property
    def trial_costs(self) -> TrialCosts:
        """Costs of trials; by default declared by ``cost_at``."""
        return TrialCosts(self)

    def cost_at(self, parameters: Row) -> float | None:
        """Return the declared cost of a trial, without switching costs; None if it is learned.

        By default that of ``trial_costs``. The optimizer, the records and the ledger use it.

        Raises:
            InputError: If the declared cost is not a finite number > 0 there.
        """
        return self.trial_costs.at(parameters)

    @property
    @final
    def has_own_cost(self) -> bool:
        """True if a subclass overrides ``cost_at``."""
        return type(self).cost_at is not Budgeted.cost_at

    # The budget

    @final
    def budget_state(self, problem: Problem, initial: bool = False) -> BudgetState:
        """Return the budget spent and left before a decision.

        Args:
            problem: Inputs of the decision.
            initial: True for a decision of the initial design, which may be free of charge.
        """
        free, total = initial and not self.charge_initial, 0.0
        if problem.earlier_in_batch and not free:
            total = math.fsum(self.reservations(problem, initial))
        entries = ledger_of(problem.trials, self)
        before = remaining(entries, self.budget)
        left = None if before is None else before - total
        limit = None
        if left is not None and self.budget is not None and not free:
            slack = ROUNDING * self.budget
            limit = left + slack if left > slack else 0.0
        most = None if self.max_trial_cost is None else self.max_trial_cost * (1 + ROUNDING)
        is_capped = most is not None and (limit is None or most < limit)
        limit = most if is_capped else limit
        further = further_states(self, problem, initial)
        if not all(state.pays(None) for state in further.values()):
            limit, is_capped = 0.0, False
        return BudgetState(entries, spent(entries) + total, left, before, limit, is_capped, further)

    @final
    def reservations(self, problem: Problem, initial: bool) -> list[float]:
        """Return the expected costs of earlier decisions of the batch, with switching costs."""
        count = len(problem.trials)
        rows = enumerate(problem.earlier_in_batch)
        batch = [PastTrial(count + i, row, record={BATCH: count}) for i, row in rows]
        changes = switching_costs([*problem.trials, *batch], self)[count:]
        costs = self.trial_costs.reserved(problem, initial)
        return [cost + change for cost, change in zip(costs, changes, strict=True)]

    @final
    def with_switching_cost(self, problem: Problem, row: Row, cost: float | None) -> float | None:
        """Return the cost of the next trial with its switching cost; None if ``cost`` is None."""
        return None if cost is None else cost + switching_cost(problem, self, row)

    @final
    def exhausted(
        self, problem: Problem, state: BudgetState, left: str = "what is left pays for no trial"
    ) -> str:
        """Return the sentence that no further trial can be paid.

        Args:
            problem: Inputs of the decision.
            state: The state of the budget.
            left: Clause about the remaining budget.
        """
        if state.is_capped:
            return f"No trial is expected to cost at most max_trial_cost={self.max_trial_cost:g}."
        for unit, other in self.trial_costs.further.items():
            if not state.further[unit].pays(None):
                return f"In {unit}: {other.exhausted(problem, state.further[unit], left)}"
        return (
            f"The budget is exhausted: {state.spent:g} of {self.budget:g} is spent (reservations "
            f"for unfinished trials included), and {left}."
        )

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
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from ax_costaware.argument_checks import (
    boolean,
    check_fields,
    nonnegative_number,
    plain_value,
    positive_number,
    positive_number_or_none,
)
from ax_costaware.core.history import PastTrial, blaming, check_inputs
from ax_costaware.core.problem import Problem
from ax_costaware.core.switching import switching_cost, switching_costs
from ax_costaware.costs import ControlSet, SwitchingCost
from ax_costaware.costs.cost_model import CostModel
from ax_costaware.costs.declared_cost import Declared, DeclaredCost, cost_of
from ax_costaware.exceptions import InputError
from ax_costaware.space.parameters import Row

ROUNDING = 1e-9
"""Relative slack of a budget: ten costs of 0.1 must fit in a budget of 1."""

_NUM_SAMPLES = 128
"""Quasi-random parameterizations from which the largest declared cost is estimated."""


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
    """Part of ``charged`` for changing the settings of the trial before."""


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
        if estimate is not None and trial.decided_at(method.cost_metric):
            # The trial that it was planned to follow may never have run, so its switching cost may
            # differ from the recorded one.
            estimate += change - float(trial.record.get("switching_cost", change))
        if method.may_skip and trial.has_measurement and not estimate:
            # The strategy asked for no measurement and recorded no cost, but there was one.
            estimate = method.cost_at(trial.parameters)
        if not trial.is_live and not trial.never_ran:
            came_to = _checked(method, "cost_as_run", method.cost_as_run(trial, trials))
            estimate = estimate if came_to is None else came_to + change
        if estimate is None and not trial.never_ran:
            by_others = method.cost_by_others(name, reported)
            estimate = (_checked(method, "cost_by_others", by_others) or 0.0) + change
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
    if not method.may_skip or trial.has_measurement:
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


def _checked(method: Budgeted, answer: str, cost: Any) -> float | None:
    """Return the cost that a member of a method, perhaps a user's, has returned, as a float."""
    name = f"{type(method).__name__}.{answer}"
    return None if cost is None else nonnegative_number(plain_value(cost), name)


def expected_cost_of(trial: PastTrial, method: Budgeted, change: float = 0.0) -> float | None:
    """Return the expected cost at generation, else the declared cost; None if unknown.

    Args:
        trial: The trial.
        method: Declares costs.
        change: Switching cost of the trial, which a declared cost does not include.
    """
    recorded = trial.record.get("expected_cost")
    if recorded is not None and trial.decided_at(method.cost_metric):
        return float(recorded)
    declared = None
    with suppress(InputError) if trial.never_ran else blaming(trial):
        declared = _checked(method, "cost_at", method.cost_at(trial.parameters))
    return None if declared is None else declared + change


def expected_costs(method: Budgeted, problem: Problem, rows: Sequence[Row]) -> list[float | None]:
    """Return the expected costs of trials, learned or declared, without switching costs.

    Args:
        method: Declares costs, or learns them.
        problem: Has the trials from which costs are learned.
        rows: The parameterizations.

    Returns:
        A cost per parameterization; None if unknown.

    Raises:
        InputError: If a declared or reported cost is not a finite number > 0.
    """
    found = [method.cost_at(row) for row in rows]
    if method.cost_metric is None or (model := method.trial_costs(problem)) is None:
        return found
    return [*modelled_costs(model, problem, rows)]


def modelled_costs(model: CostModel, problem: Problem, rows: Sequence[Row]) -> list[float]:
    """Return the expected costs of parameterizations by a model, without switching costs."""
    X = problem.space.encode(rows)
    with torch.no_grad():
        costs: list[float] = model.log_cost(X).exp().tolist()
    return costs


def check_reported(trials: Sequence[PastTrial], method: Budgeted) -> None:
    """Refuse reported costs that a method cannot learn from: invalid, or in another unit.

    Raises:
        InputError: With the indices of the trials, and how to report their costs.
    """
    metric = method.cost_metric
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

    def pays(self, cost: float | None) -> bool:
        """True if a cost can be paid. An unknown cost (None) is paid by any budget left."""
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

    def record(self) -> dict[str, float | None]:
        """Return the part that is stored with a decision."""
        return {"spent": self.spent, "remaining": self.remaining}


@dataclass(frozen=True, kw_only=True)
class Budgeted:
    """Costs of a method's trials, and its budget.

    The defaults are for a method whose trials set every parameter, and cost ``cost_at``.
    """

    may_skip: ClassVar[bool] = False
    """True if a trial may skip its measurement, and is then free."""

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
    def cost_metric(self) -> str | None:
        """Metric of reported costs, for a method that learns costs; else None."""
        return None

    @property
    def switching_cost(self) -> SwitchingCost | None:
        """Switching costs, on top of all other costs; None without any."""
        return None

    def control_set_of(self, trial: PastTrial) -> ControlSet | None:
        """Return the control set of a trial; None if the trial sets every parameter.

        Raises:
            InputError: If the method has control sets, and the trial names none of them.
        """
        return None

    def candidates(self) -> Sequence[ControlSet]:
        """Return the control sets to choose from; none for a method without control sets."""
        return ()

    @property
    def declared_cost(self) -> Declared | None:
        """Declared cost of trials, differentiable if it is a ``Cost``; None to use ``cost_at``."""
        return None

    @property
    def searched_cost(self) -> Declared:
        """Cost that the optimizer uses: ``declared_cost``, or ``cost_at`` of a subclass."""
        if self.declared_cost is None or type(self).cost_at is not Budgeted.cost_at:
            return self._own_cost
        return self.declared_cost

    def _own_cost(self, parameters: dict[str, Any]) -> float:
        name = f"{type(self).__name__}.cost_at({parameters})"
        return positive_number(plain_value(self.cost_at(parameters)), name)

    def cost_at(self, parameters: Row) -> float | None:
        """Return the declared cost of a trial, without ``switching_cost``; None if it is learned.

        By default ``declared_cost``. The optimizer, the records and the ledger use it.

        Raises:
            InputError: If the declared cost is not a finite number > 0 there.
        """
        cost = self.declared_cost
        return None if cost is None else cost_of(cost, parameters)

    def trial_costs(self, problem: Problem) -> CostModel | None:
        """Return the cost model over the model's space, without switching costs; None if unknown.

        By default the declared cost. A method that learns costs returns a fitted model.

        Raises:
            InputError: If a reported cost cannot be learned from.
        """
        if self.cost_metric is not None:
            return None
        return DeclaredCost(self.searched_cost, problem.space)

    def cost_as_run(self, trial: PastTrial, trials: Sequence[PastTrial]) -> float | None:
        """Return the declared cost of an ended trial by the progress it made; None for as planned.

        Args:
            trial: The trial.
            trials: All trials, of which it may resume one.
        """
        return None

    def cost_by_others(
        self, control_set: str | None, reported: Mapping[str | None, Sequence[float]]
    ) -> float | None:
        """Return the cost of a trial without an expected cost, from reported costs of others.

        By default the mean of all reported costs.

        Args:
            control_set: Name of the trial's control set; None if it sets every parameter.
            reported: Reported costs minus switching costs, by the name of the control set.

        Returns:
            The cost; None without a suitable reported cost.
        """
        costs = [cost for others in reported.values() for cost in others]
        return math.fsum(costs) / len(costs) if costs else None

    def reserved(self, problem: Problem, initial: bool) -> list[float]:
        """Return the expected costs of earlier decisions of the batch, without switching costs.

        Args:
            problem: Inputs of the decision.
            initial: True for the initial design, in which costs are not yet learned.
        """
        rows = problem.earlier_in_batch
        costs = [self.cost_at(row) for row in rows]
        if not initial:
            costs = expected_costs(self, problem, rows)
        return [cost or 0.0 for cost in costs]

    def largest_cost(self, problem: Problem, initial: bool) -> float | None:
        """Return the largest expected cost of a trial; None if it does not limit a batch."""
        if not problem.space.columns:
            return None
        rows = problem.space.sobol_rows(_NUM_SAMPLES)
        # Outside of the parameter constraints the declared cost may be invalid.
        costs = [self.cost_at(row) or 0.0 for row in rows if problem.space.meets(row)]
        return max(costs, default=0.0) + (self.switching_cost.most if self.switching_cost else 0.0)

    def group_of(self, parameters: Row) -> str | None:
        """Return the group of a trial in pictures of spending; None for no group."""
        return None

    def groups(self) -> Sequence[str]:
        """Return all groups, in the order in which they are shown."""
        return ()

    def check_costs_of(self, declared_by: type[Budgeted], argument: str, *names: str) -> None:
        """Refuse a subclass that overrides a cost which the optimizer does not use.

        Otherwise trials would be charged other costs than they were chosen by.

        Args:
            declared_by: The class whose optimizer is used.
            argument: Argument from which that takes the costs.
            names: Members that a subclass may not override.

        Raises:
            InputError: With the class and the member.
        """
        for name in names:
            if getattr(type(self), name) is not getattr(declared_by, name):
                raise InputError(
                    f"{type(self).__name__}.{name}: expected that of {declared_by.__name__}, whose "
                    f"search reads costs from {argument} alone, so that other costs would be "
                    "charged than are searched by. Declare costs there, or derive from Method."
                )

    # The budget

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
        return BudgetState(entries, spent(entries) + total, left, before, limit, is_capped)

    def reservations(self, problem: Problem, initial: bool) -> list[float]:
        """Return the expected costs of earlier decisions of the batch, with switching costs."""
        count = len(problem.trials)
        batch = [PastTrial(count + i, row) for i, row in enumerate(problem.earlier_in_batch)]
        changes = switching_costs([*problem.trials, *batch], self)[count:]
        costs = self.reserved(problem, initial)
        return [cost + change for cost, change in zip(costs, changes, strict=True)]

    def with_switching_cost(self, problem: Problem, row: Row, cost: float | None) -> float | None:
        """Return the cost of the next trial with its switching cost; None if ``cost`` is None."""
        return None if cost is None else cost + switching_cost(problem, self, row)

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
        return (
            f"The budget is exhausted: {state.spent:g} of {self.budget:g} is spent (reservations "
            f"for unfinished trials included), and {left}."
        )

"""Attachment of earlier trials as a table: ``attach_table``.

The whole table is checked before anything is written. All rows are attached and stored at once, or
none. A row is recorded as ``complete_trial`` records it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pandas as pd
from ax.core.experiment import Experiment
from ax.core.parameter import ChoiceParameter, FixedParameter, RangeParameter
from ax.core.trial_status import TrialStatus
from ax.exceptions.core import UserInputError

from ax_costaware.argument_checks import (
    boolean,
    number_with_square,
    one_of,
    positive_number,
    standard_error,
)
from ax_costaware.ax_bridge.attached import PastRow, attach_past
from ax_costaware.ax_bridge.checks import check_optimization_config
from ax_costaware.ax_bridge.client import SessionClient, holding_lock, open_session
from ax_costaware.ax_bridge.log import log_spending
from ax_costaware.ax_bridge.records import CHARGED, problem_of
from ax_costaware.core import PastTrial, Problem
from ax_costaware.core.account import ledger_of
from ax_costaware.core.decision import check_all
from ax_costaware.exceptions import InputError
from ax_costaware.methods import Method
from ax_costaware.session.realized import OutOfBoundsWarning, read_value, within_bounds
from ax_costaware.session.reported import (
    TrialTerms,
    check_cost_of_trial,
    known_switching_costs,
    read_cost,
    record_of,
)
from ax_costaware.space.parameters import Row

_COST = "cost"

_STATUS = "status"

_SEM = "_sem"

_ENDED = {
    status.name.lower(): status
    for status in (TrialStatus.COMPLETED, TrialStatus.FAILED, TrialStatus.ABANDONED)
}
"""Status of a past trial, by its name in a table."""


@holding_lock
def attach_table(client: SessionClient, frame: pd.DataFrame, charge: bool = False) -> list[int]:
    """Attach earlier trials, one per row, with their outcomes and costs.

    The models learn from them at once. They count towards ``initial_trials``: with enough of them
    the model chooses the next trial. If the client has a database, they are stored in one
    transaction. If a row is refused, or the table cannot be stored, nothing is kept.

    - each parameter: the realized value, in its own unit; empty for an inactive parameter
    - ``control_set``: name of the trial's control set, with control sets
    - the objective, and other metrics that the strategy reads: the value
    - ``<metric>_sem``: standard error (optional)
    - other metrics of the experiment: the value (optional)
    - ``cost``: in the user's own unit; required if costs are learned
    - ``status``: ``"completed"`` (the default), ``"failed"`` or ``"abandoned"``

    A failed or abandoned trial has no outcomes; its cost is recorded, and it is not proposed again.
    An empty cell (None or NaN) of an optional column is unknown. A column with the name of a
    parameter or a metric belongs to it.

    Args:
        client: An Ax ``Client``, an ``AxClient``, or a tuple ``(Experiment, GenerationStrategy)``.
        frame: The table, with the columns above.
        charge: True to charge the trials to the budget: each its ``cost``, or its expected cost,
            with switching costs. False: they are free, without switching costs. Their costs are
            learned from in both cases.

    Returns:
        The indices of the trials, in the order of the rows.

    Raises:
        UserInputError: By row and column, if a column is missing, unknown or repeated; a value is
            missing or invalid; a failed trial has an outcome; or a row does not fit the method or
            the parameter constraints.
        UnsupportedError: If another process runs the experiment, or no method supports it.

    Warns:
        OutOfBoundsWarning: If values lie outside their parameter's bounds. They are used.
    """
    session = open_session(client, to_write=True)
    boolean(charge, "charge")
    experiment, method = session.experiment, session.method
    check_optimization_config(experiment.optimization_config)
    known = problem_of(experiment, method)
    problem = replace(known, trials=())
    check_all(method, problem)
    table = _Table(frame, problem, method, experiment)
    rows = [table.row(i) for i in range(len(frame))]
    trials = tuple(table.past_trial(i, *row, charge) for i, row in enumerate(rows))
    _check_costs(table, trials, known.trials)
    _check_trials(table, trials)
    _warn_out_of_bounds(table, rows)
    if not charge:
        rows = [(arm, {**record, CHARGED: False}, status) for arm, record, status in rows]
    indices = attach_past(experiment, rows, session.client)
    if charge:
        log_spending(experiment, method, indices[-1])
    return indices


class _Table:
    """Data frame with checked columns.

    Args:
        frame: The data frame.
        problem: The problem, without trials.
        method: The method.
        experiment: The experiment.

    Raises:
        UserInputError: If ``frame`` is not a data frame, has no rows, a column is missing, unknown
            or repeated, or a metric that is read has the name of a parameter.
    """

    def __init__(
        self, frame: pd.DataFrame, problem: Problem, method: Method, experiment: Experiment
    ) -> None:
        if not isinstance(frame, pd.DataFrame):
            raise UserInputError(f"frame is a {type(frame).__name__}: expected a pandas DataFrame.")
        self.problem, self.method = problem, method
        self.search_space = experiment.search_space
        parameters = self.search_space.parameters.values()
        inputs = [p for p in parameters if isinstance(p, RangeParameter | ChoiceParameter)]
        self.inputs: dict[str, RangeParameter | ChoiceParameter] = {p.name: p for p in inputs}
        self.fixed = {p.name: p.value for p in parameters if isinstance(p, FixedParameter)}
        self.read = [m for m in method.reads if m != method.trial_costs.metric]
        self.conditional = problem.space.conditions.keys()
        self.first = max(experiment.trials, default=-1) + 1
        further = [one.metric for one in problem.objectives[1:]]
        self.due = due = [problem.objective, *further, *self.read]
        if both := [name for name in due if name in {**self.inputs, **self.fixed}]:
            raise UserInputError(
                f"frame cannot tell the metrics {both} from parameters of the same names: give "
                "the metrics other names, or attach and complete the trials one by one."
            )
        needed = [*self.inputs, *due]
        metrics = {*experiment.metrics, *method.reads} - self.inputs.keys() - self.fixed.keys()
        columns = list(frame.columns)
        others = {*metrics, *self.inputs, *self.fixed}
        errors = {metric: f"{metric}{_SEM}" for metric in sorted(metrics) if metric in columns}
        self.errors = {metric: name for metric, name in errors.items() if name not in others}
        optional = (*sorted(metrics - {*needed}), *self.errors.values(), *self.fixed)
        known = [*needed, *optional, _COST, _STATUS]
        if missing := [name for name in needed if name not in columns]:
            raise UserInputError(f"frame lacks the columns {missing}: it has {columns}.")
        if twice := sorted({str(name) for name in columns if columns.count(name) > 1}):
            raise UserInputError(f"frame has the columns {twice} more than once.")
        if unknown := [name for name in columns if name not in known]:
            raise UserInputError(
                f"frame has the columns {unknown}, which are not parameters or metrics of the "
                f"experiment: expected columns from {list(dict.fromkeys(known))}."
            )
        if frame.empty:
            raise UserInputError("frame has no rows: expected one for each trial.")
        self.metrics = [metric for metric in columns if metric in metrics]
        # Comparisons with pandas' own missing value have no truth value.
        self.columns: dict[str, list[Any]] = {
            name: [None if value is pd.NA else value for value in frame[name].tolist()]
            for name in columns
        }
        self.labels = frame.index.tolist()

    def name(self, i: int) -> str:
        """Return the name of a row in a message: its position, and its label if that differs."""
        label = self.labels[i]
        return f"row {i}" if label == i else f"row {i} (index {label!r})"

    def row(self, i: int) -> PastRow:
        """Return the trial of a row.

        Raises:
            UserInputError: If a value does not fit its column.
        """
        name = self.name(i)
        cells = {column: values[i] for column, values in self.columns.items()}
        for column, value in self.fixed.items():
            if column in cells and cells[column] != value:
                raise UserInputError(
                    f"{name}, {column!r}={cells[column]!r}: the experiment fixes it to {value!r}."
                )
        realized = {
            column: read_value(cells[column], parameter, f"{name}, {column!r}")
            for column, parameter in self.inputs.items()
            if not (column in self.conditional and _is_missing(cells[column]))
        }
        # The arm is the planned trial, which is within bounds.
        planned = {column: within_bounds(x, self.inputs[column]) for column, x in realized.items()}
        arm = {**planned, **self.fixed}
        active = [c for c in self.inputs if self.problem.space.hierarchy.is_active(c, arm)]
        if active != list(realized):
            raise UserInputError(
                f"{name} has values of {list(realized)}: expected values of {active}, which are "
                "active with them, and empty cells of others."
            )
        try:
            self.search_space.validate_membership(arm)
        except ValueError as error:
            raise UserInputError(f"{name}: {error}") from error
        control_set = self.method.control_set_of(PastTrial(self.first + i, arm))
        free = self.problem.space.columns.keys()
        left = set() if control_set is None else free - set(control_set.parameters)
        other = {c: x for c, x in realized.items() if x != planned[c] or c in left}
        status = self._status(name, cells)
        outcomes = self._outcomes(name, cells, status)
        cost = self._cost(name, cells, outcomes, status)
        return arm, record_of(other, outcomes, cost, self.method.trial_costs.metric), status

    def _other(self, column: str, cells: Mapping[str, Any]) -> Any:
        """Return the cell of a column that is neither a parameter nor a metric; None if empty."""
        is_taken = column in (*self.inputs, *self.metrics, *self.fixed)
        return None if is_taken or _is_missing(cells.get(column)) else cells[column]

    def _status(self, name: str, cells: Mapping[str, Any]) -> TrialStatus:
        given = self._other(_STATUS, cells)
        ended = "completed" if given is None else given
        return _ENDED[one_of(ended, f"{name}, {_STATUS!r}", _ENDED)]

    def _outcomes(
        self, name: str, cells: Mapping[str, Any], status: TrialStatus
    ) -> dict[str, tuple[float, float | None]]:
        found: dict[str, tuple[float, float | None]] = {}
        for metric in self.metrics:
            what, sem = f"{name}, {metric!r}", cells.get(self.errors.get(metric, ""))
            is_needed = metric in self.due and status.is_completed
            is_cost = metric == self.method.trial_costs.metric
            if not (status.is_completed or is_cost or _is_missing(cells[metric])):
                raise UserInputError(
                    f"{what}={cells[metric]!r}: expected an empty cell, since the trial's "
                    f"{_STATUS!r} is {status.name.lower()!r}."
                )
            if _is_missing(cells[metric]) and not is_needed:
                if not _is_missing(sem):
                    raise UserInputError(f"{what} is missing, and has a standard error, {sem!r}.")
                continue
            check = positive_number if is_cost else number_with_square
            mean = check(cells[metric], what)
            error = f"{name}, {metric + _SEM!r}"
            found[metric] = (mean, None if _is_missing(sem) else standard_error(sem, error))
        return found

    def _cost(
        self,
        name: str,
        cells: Mapping[str, Any],
        outcomes: Mapping[str, tuple[float, Any]],
        status: TrialStatus,
    ) -> float | None:
        metric = self.method.trial_costs.metric
        with _prefixed(name):
            cost = read_cost(self._other(_COST, cells), outcomes, metric)
        if cost is None and metric is not None and status.is_completed:
            raise UserInputError(
                f"{name}, {_COST!r} is missing, and so is {metric!r}: expected what the trial "
                "cost, which the strategy learns from."
            )
        return cost

    def past_trial(
        self, i: int, arm: Row, record: Mapping[str, Any], status: TrialStatus, charge: bool
    ) -> PastTrial:
        """Return a row as the method sees it, with realized inputs in place of planned ones."""
        outcomes = record["outcomes"]
        return PastTrial(
            index=self.first + i,
            parameters=self.problem.space.pinned({**arm, **record["realized"]}),
            status=status.name,
            outcome=outcomes[self.problem.objective][0] if status.is_completed else None,
            is_observed=status.is_completed,
            reported_cost=record.get("cost"),
            metrics={m: outcomes[m][0] for m in self.method.reads if m in outcomes},
            is_charged=charge,
        )


def _check_costs(table: _Table, trials: Sequence[PastTrial], before: Sequence[PastTrial]) -> None:
    """Refuse costs that a cost model cannot learn from.

    Raises:
        UserInputError: By the first such row.
    """
    method = table.method
    changes = known_switching_costs([*before, *trials], method)[len(before) :]
    for i, (trial, change) in enumerate(zip(trials, changes, strict=True)):
        control_set = method.control_set_of(trial)
        if trial.reported_cost is None and not trial.is_completed:
            continue  # The cost of a failed trial is optional.
        with _prefixed(table.name(i)):
            terms = TrialTerms(None, control_set, method.trial_costs.metric, change)
            check_cost_of_trial(trial.reported_cost, trial.index, terms)


def _check_trials(table: _Table, trials: Sequence[PastTrial]) -> None:
    """Refuse rows that would block decisions of the method.

    Raises:
        UserInputError: By the first such row.
    """

    def check(*some: PastTrial) -> None:
        check_all(table.method, replace(table.problem, trials=some))
        ledger_of(some, table.method)
        for trial in some:
            if trial.is_completed:
                table.method.check_trial(table.problem, trial)

    try:
        check(*trials)
    except InputError:
        for i, trial in enumerate(trials):
            try:
                check(trial)
            except InputError as error:
                # The outer error explains how to proceed with an attached trial.
                said = error.__cause__ if isinstance(error.__cause__, InputError) else error
                raise UserInputError(f"{table.name(i)}: {said}") from error
        raise


def _warn_out_of_bounds(table: _Table, rows: Sequence[PastRow]) -> None:
    found = [
        f"{table.name(i)}, {name!r}={value!r}"
        for i, (_, record, _) in enumerate(rows)
        for name, value in record["realized"].items()
        if value != within_bounds(value, table.inputs[name])
    ]
    if found:
        count = f" {len(found)} values do, the first of them at" if len(found) > 1 else ""
        warnings.warn(
            f"values outside the bounds of their parameter:{count} {found[0]}. They are recorded "
            "and learned from; nothing beyond the bounds is recommended.",
            OutOfBoundsWarning,
            stacklevel=4,  # beyond the decorator
        )


def _is_missing(value: object) -> bool:
    return bool(pd.api.types.is_scalar(value) and pd.isna(value))


@contextmanager
def _prefixed(name: str) -> Iterator[None]:
    """Prefix errors with the name of a row."""
    try:
        yield
    except UserInputError as error:
        raise UserInputError(f"{name}: {error}") from error

"""Validation of reports on trials, by ``complete_trial`` and by the package's runners.

Everything is checked before anything is written. Costs are in the user's own unit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, TypeAlias

import numpy.typing as npt
from ax.core.base_trial import BaseTrial
from ax.core.experiment import Experiment
from ax.core.types import TParamValue
from ax.exceptions.core import UserInputError

from ax_costaware.argument_checks import (
    nonnegative_number,
    number_where,
    number_with_square,
    optional,
    positive_number,
    sequence_of,
    standard_error,
)
from ax_costaware.ax_bridge.checks import ax_errors
from ax_costaware.ax_bridge.client import Outcomes, Session
from ax_costaware.ax_bridge.records import (
    REPEATS,
    objective_metrics,
    past_trials,
    planned_trial,
    problem_without_trials,
    progress_parameter,
)
from ax_costaware.core.history import PastTrial
from ax_costaware.core.method import Method
from ax_costaware.core.repeats import is_repeated, mean_and_error, repeated_values
from ax_costaware.core.switching import switching_costs
from ax_costaware.costs import ControlSet
from ax_costaware.exceptions import InputError
from ax_costaware.session.realized import read_realized, read_value

Measurement: TypeAlias = float | tuple[float, float | None] | list[float] | npt.NDArray[Any]
"""Mean, mean with its standard error (None: unknown, to be inferred by the model), or values of
repeats."""

RawData: TypeAlias = Measurement | Mapping[str, Measurement]
"""Measurement of the objective, or one per metric."""

RawCurve: TypeAlias = Sequence[Measurement] | Mapping[str, Measurement | Sequence[Measurement]]
"""Measurement of the objective for each of several steps, or of metrics."""

_RELATIVE_TOLERANCE = 1e-9
"""Largest relative difference of one cost that is given in two places."""


@dataclass(frozen=True)
class TrialTerms:
    """Facts of a trial's strategy that determine how the trial is reported."""

    controlled: tuple[str, ...] | None
    """Names of the parameters to set; None for all of them."""

    learned: ControlSet | None
    """Control set of the trial, whose cost is learned if it is unknown; None if there is none, or
    if nothing is learned from its cost."""

    cost_metric: str | None
    """Metric under which costs are reported, for a method that learns them; else None."""

    switching_cost: float = 0.0
    """Switching cost of the trial, a part of its cost."""


def completion_record(
    trial: BaseTrial,
    terms: TrialTerms,
    raw_data: RawData | RawCurve | None,
    realized: Mapping[str, TParamValue] | None,
    cost: float | None,
) -> dict[str, Any]:
    """Return the record of a completed trial, after everything in it was checked.

    Args:
        trial: The trial; it is not changed.
        terms: Facts of its strategy.
        raw_data: As of ``complete_trial``.
        realized: As of ``complete_trial``.
        cost: As of ``complete_trial``.

    Returns:
        ``realized``, by parameter; ``outcomes``, by metric the mean and its standard error (None if
        unknown); ``cost``, where it is known, with the ``cost_metric`` that it is learned from; and
        ``repeats``, by metric the values of those that were reported.

    Raises:
        UserInputError: As of ``complete_trial``.
    """
    outcomes = read_outcomes(raw_data, trial.experiment, terms.cost_metric)
    values = read_realized(realized, trial.experiment.search_space, terms.controlled)
    paid = read_cost(cost, outcomes, terms.cost_metric)
    check_cost_of_trial(paid, trial.index, terms)
    record = record_of(values, outcomes, paid, terms.cost_metric)
    if several := _repeats(raw_data, trial.experiment):
        record[REPEATS] = several
    return record


def check_inputs(trial: BaseTrial, method: Method, record: Mapping[str, Any]) -> None:
    """Refuse an outcome at inputs that the method cannot learn from, unless it chose them.

    Args:
        trial: The trial.
        method: The method.
        record: As of ``completion_record``.

    Raises:
        UserInputError: If the method refuses the inputs.
    """
    planned, realized = planned_trial(trial), record["realized"]
    if not record["outcomes"] or (planned.record and not realized):
        return
    try:
        problem = problem_without_trials(trial.experiment, method)
        method.check_trial(problem, replace(planned, realized=realized))
    except InputError as error:
        raise UserInputError(f"trial {trial.index}: {error}") from error


def record_of(
    realized: Mapping[str, TParamValue],
    outcomes: Outcomes,
    cost: float | None,
    cost_metric: str | None,
) -> dict[str, Any]:
    """Return the stored form of checked values; see ``completion_record``."""
    found = {metric: list(outcome) for metric, outcome in outcomes.items()}
    paid: dict[str, Any] = {} if cost is None else {"cost": cost}
    if cost is not None and cost_metric is not None:
        found.setdefault(cost_metric, [cost, None])
        paid["cost_metric"] = cost_metric
    return {"realized": dict(realized), "outcomes": found, **paid}


@ax_errors()
def read_curve(
    raw_data: RawData | RawCurve | None,
    progression: float | Sequence[float],
    experiment: Experiment,
    method: Method,
) -> dict[float, dict[str, tuple[float, float | None]]]:
    """Return the outcomes of each step, by increasing steps; see ``read_outcomes``.

    Args:
        raw_data: As of ``complete_trial``.
        progression: As of ``complete_trial``.
        experiment: The experiment.
        method: The method, which names the parameter of progress.

    Raises:
        UserInputError: If the method learns from no progress, the steps are not increasing values
            of the parameter, or a metric has another number of values, or invalid ones.
    """
    parameter = progress_parameter(experiment, method)
    if parameter is None:
        raise UserInputError(
            f"progression={progression!r}: expected None, since the strategy does not have exactly "
            "one fidelity that is a range of numbers."
        )
    expected = (
        f"increasing steps within [{parameter.lower}, {parameter.upper}], in units of "
        f"{parameter.name!r}"
    )
    several = not isinstance(progression, Real)
    given = sequence_of(progression, "progression", expected) if several else [progression]
    steps: list[Any] = [read_value(step, parameter, "progression") for step in given]
    if not steps or sorted({*steps}) != steps or not all(map(parameter.validate, steps)):
        raise UserInputError(f"progression={progression!r}: expected {expected}.")
    rows = _by_step(raw_data, len(steps)) if several else [raw_data]
    cost_metric = method.trial_costs.metric
    found = [read_outcomes(row, experiment, cost_metric) for row in rows]
    return dict(zip(steps, found, strict=True))


def _by_step(raw_data: Any, count: int) -> list[Any]:
    """Return the report of each of several steps; a value that is no series is of the last."""
    is_mapping = isinstance(raw_data, Mapping)
    rows: list[dict[str, Any]] = [{} for _ in range(count)]
    for name, values in (raw_data if is_mapping else {"raw_data": raw_data}).items():
        if isinstance(values, Real | tuple):
            rows[-1][name] = values
            continue
        expected = "a list with a value for each step in progression"
        series = sequence_of(values, name, expected)
        if len(series) != count:
            raise UserInputError(
                f"{name}={values!r} has {len(series)} values, progression {count}: expected "
                f"{expected}."
            )
        for row, value in zip(rows, series, strict=True):
            row[name] = value
    if not all(rows):
        raise UserInputError(
            f"raw_data={raw_data!r}: expected lists with a value for each step in progression."
        )
    return rows if is_mapping else [row["raw_data"] for row in rows]


@ax_errors()
def read_outcomes(
    raw_data: RawData | RawCurve | None, experiment: Experiment, cost_metric: str | None = None
) -> dict[str, tuple[float, float | None]]:
    """Return mean and standard error (None if unknown) per metric; empty without a measurement.

    Args:
        raw_data: The user's argument.
        experiment: The experiment, with the metrics that may be named.
        cost_metric: A metric that may be named although the experiment does not have it.

    Raises:
        UserInputError: If a metric is unknown to the experiment, a number is not finite, a
            standard error is negative, or ``raw_data`` has none of the accepted forms.
    """
    if raw_data is None:
        return {}
    if not isinstance(raw_data, Mapping):
        return {_objective_metric(experiment): _read_measurement(raw_data, "raw_data")}
    if not raw_data:
        raise UserInputError(
            "raw_data={} has no metric: expected a metric's name with its value, or None for a "
            "skipped measurement."
        )
    known = {*experiment.metrics, *([] if cost_metric is None else [cost_metric])}
    if unknown := [metric for metric in raw_data if metric not in known]:
        raise UserInputError(
            f"raw_data names {unknown}, which the experiment does not have: expected metrics from "
            f"{sorted(known)}."
        )
    return {
        str(metric): _read_measurement(value, f"raw_data[{metric!r}]")
        for metric, value in raw_data.items()
    }


def _repeats(raw_data: Any, experiment: Experiment) -> dict[str, list[float]]:
    """Return the values of repeats by metric, after ``read_outcomes`` has checked them."""
    if not isinstance(raw_data, Mapping):
        if not is_repeated(raw_data):
            return {}
        raw_data = {_objective_metric(experiment): raw_data}
    return {
        str(metric): repeated_values(value, metric)
        for metric, value in raw_data.items()
        if is_repeated(value)
    }


def _read_measurement(value: Any, what: str) -> tuple[float, float | None]:
    if is_repeated(value):
        return mean_and_error(repeated_values(value, what))
    if not isinstance(value, tuple):
        return number_with_square(value, what), None
    if len(value) != 2:
        raise UserInputError(
            f"{what}={value!r} has {len(value)} items: expected a number, (mean, sem), or a list "
            "of repeats."
        )
    mean, sem = value
    return (
        number_with_square(mean, f"mean in {what}"),
        optional(standard_error)(sem, f"sem in {what}"),
    )


def _objective_metric(experiment: Experiment) -> str:
    metrics = objective_metrics(experiment)
    if len(metrics) != 1:
        raise UserInputError(
            f"raw_data is one measurement, but the objective has the metrics {metrics}: expected "
            "a mapping from metric to measurement."
        )
    return metrics[0]


@ax_errors()
def read_cost(cost: Any, outcomes: Outcomes, metric: str | None) -> float | None:
    """Return the cost of a trial; None if the user does not report it.

    Args:
        cost: The argument ``cost`` of ``complete_trial``.
        outcomes: Reported outcomes, by metric.
        metric: Metric under which costs are reported, for a method that learns them. Such a cost is
            never zero, since the model is of its logarithm.

    Raises:
        UserInputError: If a cost is not finite, is negative, or is zero where costs are learned, or
            if ``cost`` and the metric's value disagree.
    """
    if metric is None:
        return None if cost is None else nonnegative_number(cost, "cost")
    what = f"raw_data[{metric!r}]"
    measured = None if metric not in outcomes else positive_number(outcomes[metric][0], what)
    if cost is None:
        return measured
    given = positive_number(cost, "cost")
    if measured is not None and not math.isclose(given, measured, rel_tol=_RELATIVE_TOLERANCE):
        raise UserInputError(
            f"cost={cost!r} and {what}={measured!r} disagree: expected one cost of the trial."
        )
    return given


@ax_errors()
def check_cost_of_trial(cost: float | None, trial_index: int, terms: TrialTerms) -> None:
    """Refuse a cost that a cost model cannot learn from.

    Args:
        cost: Reported cost; None if there is none.
        trial_index: Index of the trial.
        terms: Facts of its strategy.

    Raises:
        UserInputError: If the cost of the trial is learned, and ``cost`` is not larger than its
            switching cost and the known part of its control set's cost; or if it is None and the
            cost of the control set is unknown.
    """
    control_set, change, least = terms.learned, terms.switching_cost, 0.0
    if control_set is not None and control_set.cost is None:
        least = control_set.fixed_cost
        what = (
            f"the cost of trial {trial_index}: of its control set {control_set.name!r} only "
            f"fixed_cost={least:g} is known, and the rest is learned"
        )
    elif terms.cost_metric is None or cost is None:
        return
    else:
        what = f"the whole cost of trial {trial_index}"
    part = f"; it includes the switching cost of {change:g}" if change else ""
    expected = f"a finite number > {least + change:g}, {what}{part}"
    number_where(cost, "cost", expected, lambda paid: paid - change > least)


def switching_cost_of(session: Session, trial: BaseTrial, cost: float | None = None) -> float:
    """Return the switching cost of a trial: of setting other values than the trial before it.

    Args:
        session: The experiment and its method.
        trial: The trial.
        cost: Cost that is about to be reported, which implies that the trial ran.
    """
    costs = session.method.trial_costs
    if costs.switching is None and not costs.setup:
        return 0.0
    trials = past_trials(session.experiment, session.method)
    before = [other for other in trials if other.index < trial.index]
    (own,) = (other for other in trials if other.index == trial.index)
    if cost is not None and not own.is_excluded:
        own = replace(own, reported_cost=cost)
    return known_switching_costs([*before, own], session.method)[-1]


def known_switching_costs(trials: Sequence[PastTrial], method: Method) -> list[float]:
    """Return ``switching_costs``; zeros if a trial names no control set of the method.

    Such a trial blocks decisions, but other trials can still be reported.
    """
    with suppress(InputError):
        return switching_costs(trials, method)
    return [0.0] * len(trials)

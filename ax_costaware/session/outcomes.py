"""Reading the outcome that the user reports for a trial, before anything is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from ax.core.experiment import Experiment
from ax.exceptions.core import UserInputError

from ax_costaware.session.numbers import finite_number, nonnegative_number

Measurement: TypeAlias = float | tuple[float, float | None]
"""A mean, or a mean with its standard error (None: unknown, to be inferred by the model)."""

RawData: TypeAlias = Measurement | Mapping[str, Measurement]
"""A measurement of the objective, or one per metric."""


def read_outcomes(
    raw_data: RawData | None, experiment: Experiment, cost_metric: str | None = None
) -> dict[str, tuple[float, float | None]]:
    """Per metric the mean and its standard error (None if unknown); empty if nothing was measured.

    Args:
        raw_data: What the user gave.
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
            "measurement that was skipped."
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


def _read_measurement(value: Any, what: str) -> tuple[float, float | None]:
    if not isinstance(value, tuple):
        return finite_number(value, what), None
    if len(value) != 2:
        raise UserInputError(
            f"{what}={value!r} has {len(value)} items: expected a number or (mean, sem)."
        )
    mean, sem = value
    return (
        finite_number(mean, f"mean in {what}"),
        None if sem is None else nonnegative_number(sem, f"sem in {what}"),
    )


def _objective_metric(experiment: Experiment) -> str:
    config = experiment.optimization_config
    metrics = [] if config is None else config.objective.metric_names
    if len(metrics) != 1:
        raise UserInputError(
            f"raw_data is one measurement, but the objective has the metrics {metrics}: expected "
            "a mapping from metric to measurement."
        )
    return str(metrics[0])

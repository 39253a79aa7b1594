"""Metrics that read the package's records of a trial.

With ``complete_trial`` a user skips a measurement by not reporting one. Under an ``Orchestrator``,
or ``Client.run_trials``, Ax asks the experiment's metrics instead. A metric without a value is an
error there, for which the trial is abandoned. ``SkippingMetric`` therefore reads the decision
first. ``ReportedMetric`` and ``CostMetric`` fetch nothing: they read what a runner of the package,
or ``complete_trial``, recorded.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from ax.api.protocols import IMetric
from ax.core.base_trial import BaseTrial
from ax.core.data import MAP_KEY, Data
from ax.core.experiment import Experiment
from ax.core.metric import Metric, MetricFetchResult
from ax.utils.common.result import Ok

from ax_costaware.ax_bridge.records import (
    RECORD,
    outcome_record,
    planned_trial,
    recorded_outcomes,
    values_in_data,
)
from ax_costaware.ax_bridge.storage import register_metric


class SkippingMetric(IMetric):
    """``IMetric`` that is measured only where the strategy asks for it.

    Use it in place of ``IMetric`` for the objective of ``costly_feedback_strategy``. Define
    ``fetch``, which makes the measurement::

        class Accuracy(SkippingMetric):
            def fetch(self, trial_index, trial_metadata):
                return 0, validation_accuracy()

        client.configure_metrics([Accuracy("accuracy")])

    ``fetch`` is not called in a trial that is not to be measured. Such a trial is completed without
    a value: it is neither failed nor abandoned, and does not count towards the tolerated failure
    rate. It is still run, since its parameters are to be used.

    A subclass is registered with Ax's JSON and SQL stores under the name of the class. Import its
    module before a stored experiment is loaded. Arguments of the constructor must be kept as
    attributes of the same names, from which a stored metric is made again.
    """

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        register_metric(cls)

    @abstractmethod
    def fetch(
        self, trial_index: int, trial_metadata: Mapping[str, Any]
    ) -> tuple[int, float | tuple[float, float]]:
        """Return a measurement; see ``IMetric.fetch``."""

    def has_value(self, trial: BaseTrial) -> bool:
        """True if there is a value to fetch, that is, if the strategy asks for one."""
        return planned_trial(trial).is_to_be_measured

    def fetch_trial_data(self, trial: BaseTrial, **kwargs: Any) -> MetricFetchResult:
        """Return the data of ``fetch``; no data without a value."""
        if not self.has_value(trial):
            return Ok(value=Data())
        fetched: MetricFetchResult = super().fetch_trial_data(trial, **kwargs)
        return fetched

    def fetch_data_prefer_lookup(
        self,
        experiment: Experiment,
        metrics: list[Metric],
        trials: list[BaseTrial] | None = None,
        **kwargs: Any,
    ) -> tuple[dict[int, dict[str, MetricFetchResult]], bool]:
        """Fetch data without the metrics that have no value for a trial.

        Ax would take their empty data for an error and log it.
        """
        found: dict[int, dict[str, MetricFetchResult]] = {}
        is_new = False
        known = {metric.name: values_in_data(experiment, metric.name) for metric in metrics}
        for trial in experiment.trials.values() if trials is None else trials:
            asked = [
                metric
                for metric in metrics
                if trial.index in known[metric.name]
                or (isinstance(metric, SkippingMetric) and metric.has_value(trial))
            ]
            if asked:
                results, new = super().fetch_data_prefer_lookup(
                    experiment, asked, [trial], **kwargs
                )
                found.update(results)
                is_new = is_new or new
        return found, is_new


class ReportedMetric(SkippingMetric):
    """Metric with the values that the user's function returned, under the metric's name.

    Use it with the package's runners, which record what the function returned::

        client.configure_runner(FunctionRunner(train))
        client.configure_metrics([ReportedMetric("accuracy")])

    A trial has no data if

    - the strategy asked not to measure it,
    - the function returned ``TrialResult(raw_data=None)``, or
    - the function returned no value of a tracking metric.
    """

    has_map_data = False  # Recorded values have no progression, as under ``complete_trial``.

    def fetch(
        self, trial_index: int, trial_metadata: Mapping[str, Any]
    ) -> tuple[int, tuple[float, float]]:
        """Return the recorded mean and standard error (NaN if unknown).

        Raises:
            KeyError: If none was recorded.
        """
        mean, sem = trial_metadata[RECORD]["outcomes"][self.name]
        return 0, (mean, math.nan if sem is None else sem)

    def has_value(self, trial: BaseTrial) -> bool:
        """True if the trial's record has a value of this metric."""
        return self.name in recorded_outcomes(trial)

    def fetch_trial_data(self, trial: BaseTrial, **kwargs: Any) -> MetricFetchResult:
        """Return the recorded value without Ax's progression; no data without a value."""
        frame = super().fetch_trial_data(trial, **kwargs).unwrap().full_df
        return Ok(value=Data(df=frame.drop(columns=MAP_KEY, errors="ignore")))


class CostMetric(ReportedMetric):
    """Cost of a trial as a metric: as the function reports it, or as the runner measures it.

    It shows costs next to the outcomes in Ax's tables, and passes them to a strategy that learns
    costs, such as ``cost_aware_strategy(cost="seconds")`` with ``CostMetric("seconds")``. A trial
    without a recorded cost has no data. Costs are in the user's own unit.
    """

    def fetch(
        self, trial_index: int, trial_metadata: Mapping[str, Any]
    ) -> tuple[int, tuple[float, float]]:
        """Return the recorded cost.

        Raises:
            KeyError: If none was recorded.
        """
        record = trial_metadata[RECORD]
        if "cost" in record:
            return 0, (record["cost"], math.nan)
        return super().fetch(trial_index, trial_metadata)

    def has_value(self, trial: BaseTrial) -> bool:
        """True if the trial's record has a cost."""
        return "cost" in outcome_record(trial) or super().has_value(trial)

"""Metrics that look at what the package recorded with a trial before Ax asks for their values.

With ``complete_trial`` a user skips a measurement by not reporting one. Under an ``Orchestrator``,
or ``Client.run_trials``, Ax asks the experiment's metrics instead, and a metric that has no value
to give counts as an error, for which the trial is abandoned. ``SkippingMetric`` looks at the
decision that is stored with the trial first; ``ReportedMetric`` and ``CostMetric`` need nothing
fetched, since they read what a runner of the package (or ``complete_trial``) recorded.
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
    """An ``IMetric`` that is measured only where the strategy asks for it.

    Take it in the place of ``IMetric`` for the objective of ``costly_feedback_strategy`` and define
    ``fetch``, which is where the measurement is paid for::

        class Accuracy(SkippingMetric):
            def fetch(self, trial_index, trial_metadata):
                return 0, validation_accuracy()

        client.configure_metrics([Accuracy("accuracy")])

    In a trial that ``query`` says not to measure ``fetch`` is not called, and the trial is
    completed without a value: it is neither failed nor abandoned, and does not count towards the
    tolerated failure rate. The trial is still run, since its parameters are to be used.

    A subclass is registered with Ax's JSON and SQL stores when it is defined, under the name of
    the class; import its module before a stored experiment is loaded. It is made anew from the
    arguments of its constructor, which it must keep as attributes of the same names.
    """

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        register_metric(cls)

    @abstractmethod
    def fetch(
        self, trial_index: int, trial_metadata: Mapping[str, Any]
    ) -> tuple[int, float | tuple[float, float]]:
        """Measure; see ``IMetric.fetch``."""

    def has_value(self, trial: BaseTrial) -> bool:
        """Whether there is a value to fetch: whether the strategy asks for one."""
        return planned_trial(trial).is_to_be_measured

    def fetch_trial_data(self, trial: BaseTrial, **kwargs: Any) -> MetricFetchResult:
        """No data where there is no value, else those of ``fetch``."""
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
        """As of any metric, but without metrics that a trial has no value of.

        Ax would take their empty data for an error and say so in the log.
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
    """A metric whose values are what the user's function returned, under the metric's name.

    It goes with the package's runners, which record what the function returned with the trial::

        client.configure_runner(FunctionRunner(train))
        client.configure_metrics([ReportedMetric("accuracy")])

    A trial without a recorded value has no data: one that the strategy asked not to measure, one of
    which the function said so by ``TrialResult(raw_data=None)``, or one that the function returned
    no value of a tracking metric for.
    """

    has_map_data = False  # What is recorded has no progression, as under ``complete_trial``.

    def fetch(
        self, trial_index: int, trial_metadata: Mapping[str, Any]
    ) -> tuple[int, tuple[float, float]]:
        """The recorded mean and standard error (NaN if unknown).

        Raises:
            KeyError: If none was recorded.
        """
        mean, sem = trial_metadata[RECORD]["outcomes"][self.name]
        return 0, (mean, math.nan if sem is None else sem)

    def has_value(self, trial: BaseTrial) -> bool:
        """Whether the trial's record has a value of this metric."""
        return self.name in recorded_outcomes(trial)

    def fetch_trial_data(self, trial: BaseTrial, **kwargs: Any) -> MetricFetchResult:
        """The recorded value, without the progression that Ax adds; no data where there is none."""
        frame = super().fetch_trial_data(trial, **kwargs).unwrap().full_df
        return Ok(value=Data(df=frame.drop(columns=MAP_KEY, errors="ignore")))


class CostMetric(ReportedMetric):
    """The cost of a trial as a metric: what the function said, or what the runner measured.

    It shows costs beside the outcomes in Ax's tables, and gives them to a strategy that learns
    them, as ``cost_aware_strategy(cost="seconds")`` does from ``CostMetric("seconds")``. A trial
    whose cost was not recorded has no data. In the user's own unit.
    """

    def fetch(
        self, trial_index: int, trial_metadata: Mapping[str, Any]
    ) -> tuple[int, tuple[float, float]]:
        """The recorded cost.

        Raises:
            KeyError: If none was recorded.
        """
        record = trial_metadata[RECORD]
        if "cost" in record:
            return 0, (record["cost"], math.nan)
        return super().fetch(trial_index, trial_metadata)

    def has_value(self, trial: BaseTrial) -> bool:
        """Whether the trial's record has a cost."""
        return "cost" in outcome_record(trial) or super().has_value(trial)

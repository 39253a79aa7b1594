"""A metric that is fetched only in the trials for which the strategy asks for a measurement.

With ``complete_trial`` a user skips a measurement by not reporting one. Under an ``Orchestrator``,
or ``Client.run_trials``, Ax asks the experiment's metrics instead, and a metric that has no value
to give counts as an error, for which the trial is abandoned. The metric of this module looks at the
decision that is stored with the trial first.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from ax.api.protocols import IMetric
from ax.core.base_trial import BaseTrial
from ax.core.data import Data
from ax.core.experiment import Experiment
from ax.core.metric import Metric, MetricFetchResult
from ax.utils.common.result import Ok

from ax_costaware.ledger import is_to_be_measured, values_in_data
from ax_costaware.storage import register_metric


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

    def fetch_trial_data(self, trial: BaseTrial, **kwargs: Any) -> MetricFetchResult:
        """No data where the strategy asks for none, else those of ``fetch``."""
        if not is_to_be_measured(trial):
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
        """As of any metric, but without trials that have no value and are to have none.

        Ax would take their empty data for an error and say so in the log.
        """
        known = {i for metric in metrics for i in values_in_data(experiment, metric.name)}
        relevant = [
            trial
            for trial in (experiment.trials.values() if trials is None else trials)
            if trial.index in known or is_to_be_measured(trial)
        ]
        return super().fetch_data_prefer_lookup(experiment, metrics, relevant, **kwargs)

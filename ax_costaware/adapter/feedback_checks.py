"""Checks that an Ax experiment and the settings of the costly-feedback method fit together.

They run before every trial is generated, so that nothing is spent on an experiment that the method
cannot go on with. What needs only the settings is checked in ``CostlyFeedbackSettings``.
"""

from __future__ import annotations

from ax.core.experiment import Experiment
from ax.exceptions.core import UserInputError

from ax_costaware.adapter.experiment_checks import check_optimization_config, check_parameters
from ax_costaware.generators.feedback_settings import CostlyFeedbackSettings
from ax_costaware.ledger import measured_trials, values_in_data


def check_feedback_experiment(experiment: Experiment, settings: CostlyFeedbackSettings) -> None:
    """Check that the method can run on ``experiment``.

    Raises:
        UserInputError: If there is no objective, or times are to be reported and the metric is the
            objective, is none of the experiment's, or lacks the time of a trial with an outcome.
        UnsupportedError: If the experiment asks for what the method does not do.
    """
    check_parameters(experiment.search_space)
    config = experiment.optimization_config
    check_optimization_config(config)
    assert config is not None
    metric = settings.time
    if metric is None:
        return
    if metric in config.objective.metric_names:
        raise UserInputError(
            f"time={metric!r} is the objective: expected another metric, in which the time of each "
            "trial is reported."
        )
    if metric not in experiment.metrics:
        raise UserInputError(
            f"time={metric!r} is no metric of the experiment: add it with "
            f"client.configure_tracking_metrics([{metric!r}])."
        )
    unknown = measured_trials(experiment) - values_in_data(experiment, metric).keys()
    # A trial that still runs may yet report its time.
    if missing := sorted(i for i in unknown if experiment.trials[i].status.is_terminal):
        raise UserInputError(
            f"time={metric!r}: trials {missing} have an outcome but no time. Report it with "
            f"complete_trial(..., raw_data={{..., {metric!r}: ...}}); for a trial that is "
            f"completed add it with client.attach_data({missing[0]}, {{{metric!r}: ...}})."
        )

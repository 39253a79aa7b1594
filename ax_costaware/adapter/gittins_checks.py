"""Checks that an Ax experiment and the settings of the Gittins method fit together.

They run before the first trial is generated, so that nothing is spent on an experiment that the
method cannot finish. What needs only the settings is checked in ``GittinsSettings``.
"""

from __future__ import annotations

from ax.core.experiment import Experiment
from ax.exceptions.core import UserInputError

from ax_costaware.adapter.cost_checks import check_cost
from ax_costaware.adapter.experiment_checks import check_optimization_config, check_parameters
from ax_costaware.generators.gittins_settings import GittinsSettings


def check_gittins_experiment(experiment: Experiment, settings: GittinsSettings) -> None:
    """Check that the method can run on ``experiment``.

    Raises:
        UserInputError: If there is no objective, or the cost does not fit the parameters.
        UnsupportedError: If the experiment asks for what the method does not do.
    """
    check_parameters(experiment.search_space)
    config = experiment.optimization_config
    check_optimization_config(config)
    assert config is not None
    if settings.cost_metric in config.objective.metric_names:
        raise UserInputError(
            f"cost={settings.cost!r} is the objective: expected another metric, in which the cost "
            "of each trial is reported."
        )
    check_cost(experiment.search_space, settings.cost, settings.cost_at)

"""Transform that gives the model the time of each observation, as its last input.

An experiment has no parameter for time: it passes. On the way to the model every observation gets
the time of its trial, a point that belongs to no trial gets "now", the time of the next one, and on
the way out the time is dropped again. Ax's predictions and analyses are thereby of the present.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, cast, runtime_checkable

from ax.adapter.transforms.base import Transform
from ax.core.data_utils import ExperimentData
from ax.core.observation import ObservationFeatures
from ax.core.parameter import ParameterType, RangeParameter
from ax.core.search_space import SearchSpace
from ax.exceptions.core import UnsupportedError
from ax.generators.types import TConfig

from ax_costaware.generators.trial_times import TrialTimes

if TYPE_CHECKING:
    from ax.adapter.base import Adapter

TIME = "__time__"
"""Name of the model's input, and key of the candidate metadata that hold a point's time."""


@runtime_checkable
class KnowsTime(Protocol):
    """An adapter that knows when its trials are."""

    def trial_times(self) -> TrialTimes:
        """The times of the trials, past and to come."""
        ...


class TimeFeature(Transform):
    """Adds the time on the way to the model, and drops it on the way out.

    It has to come after the transforms of the inputs, so that time is the last of them and in its
    own unit. (Ax's surrogate scales its inputs by their bounds: those of the time are 0 and 1,
    which leaves it alone.)

    Raises:
        UnsupportedError: If the adapter does not know when its trials are.
    """

    def __init__(
        self,
        search_space: SearchSpace | None = None,
        experiment_data: ExperimentData | None = None,
        adapter: Adapter | None = None,
        config: TConfig | None = None,
    ) -> None:
        super().__init__(
            search_space=search_space,
            experiment_data=experiment_data,
            adapter=adapter,
            config=config,
        )
        if not isinstance(adapter, KnowsTime):
            raise UnsupportedError(
                f"adapter={adapter!r}: it does not know when its trials are; expected a "
                "FeedbackAdapter."
            )
        self._clock: KnowsTime = adapter

    def transform_search_space(self, search_space: SearchSpace) -> SearchSpace:
        """The search space with the time as its last parameter, in place."""
        search_space.add_parameter(
            RangeParameter(TIME, parameter_type=ParameterType.FLOAT, lower=0.0, upper=1.0)
        )
        return search_space

    def transform_observation_features(
        self, observation_features: list[ObservationFeatures]
    ) -> list[ObservationFeatures]:
        """The features with the time, in place.

        It is the time of the trial that they belong to, or the one that their metadata say, or now.
        """
        # Once for all: an adapter looks the times up in the experiment.
        times = self._clock.trial_times()
        now = times.now
        for features in observation_features:
            time = (features.metadata or {}).get(TIME, now)
            if features.trial_index is not None:
                time = times[int(features.trial_index)]
            features.parameters[TIME] = float(cast(float, time))
        return observation_features

    def untransform_observation_features(
        self, observation_features: list[ObservationFeatures]
    ) -> list[ObservationFeatures]:
        """The features without the time, in place."""
        for features in observation_features:
            features.parameters.pop(TIME, None)
        return observation_features

    def transform_experiment_data(self, experiment_data: ExperimentData) -> ExperimentData:
        """The data with a column of times."""
        arms, times = experiment_data.arm_data, self._clock.trial_times()
        trials = arms.index.get_level_values("trial_index")
        return ExperimentData(
            arm_data=arms.assign(**{TIME: [times[int(i)] for i in trials]}),
            observation_data=experiment_data.observation_data,
        )

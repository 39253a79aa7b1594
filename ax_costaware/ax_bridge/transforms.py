"""Transforms of what a model sees: parameters that it does not, and the time that it does.

They do nothing for a method that has neither.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from ax.adapter.transforms.base import Transform
from ax.adapter.transforms.int_to_float import IntToFloat
from ax.core.data_utils import ExperimentData
from ax.core.observation import ObservationFeatures
from ax.core.parameter import ParameterType, RangeParameter
from ax.core.search_space import SearchSpace
from ax.exceptions.core import UnsupportedError

if TYPE_CHECKING:
    from ax_costaware.ax_bridge.adapter import CostAwareAdapter

TIME = "__time__"
"""Name of the model's input that holds a point's time."""


class MethodTransform(Transform):
    """A transform that asks the adapter's method what to do.

    Raises:
        UnsupportedError: If the adapter has none.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not hasattr(self.adapter, "method"):
            raise UnsupportedError(
                f"adapter={self.adapter!r}: it has no method; expected a CostAwareAdapter."
            )
        self.of = cast("CostAwareAdapter", self.adapter)


class _Sorted(set[str]):
    """A set that is gone over in order."""

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(super().__iter__()))


class IntToFloatInOrder(IntToFloat):
    """Ax's transform of integers, by which constrained ones are rounded at random.

    Ax goes over them in the order of a set, which differs from process to process; this one goes
    in the order of their names.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.transform_parameters = _Sorted(self.transform_parameters)


class HideParameters(MethodTransform):
    """Drops the parameters that the method hides from the model.

    Which inputs a trial controlled says nothing about the objective once the realised inputs are
    known (Tay et al. 2023: f is a function of x alone). It has to be the first of the transforms
    after those that Ax itself puts in front.
    """

    def transform_search_space(self, search_space: SearchSpace) -> SearchSpace:
        """The search space without them."""
        hidden = self.of.method.hidden
        if not hidden:
            return search_space
        return SearchSpace(
            parameters=[p for name, p in search_space.parameters.items() if name not in hidden],
            parameter_constraints=[c.clone() for c in search_space.parameter_constraints],
        )

    def transform_observation_features(
        self, observation_features: list[ObservationFeatures]
    ) -> list[ObservationFeatures]:
        """The features without them, in place."""
        for features in observation_features:
            for name in self.of.method.hidden:
                features.parameters.pop(name, None)
        return observation_features

    def transform_experiment_data(self, experiment_data: ExperimentData) -> ExperimentData:
        """The data without their columns."""
        hidden = list(self.of.method.hidden)
        arms = experiment_data.arm_data.drop(columns=hidden, errors="ignore")
        return replace(experiment_data, arm_data=arms)


class TimeFeature(MethodTransform):
    """Adds the time on the way to the model, as its last input, and drops it on the way out.

    An experiment has no parameter for time: it passes. Every observation gets the time of its
    trial, a point that belongs to no trial gets "now", the time of the next one; Ax's predictions
    and analyses are thereby of the present. It has to come after the transforms of the inputs, so
    that time is the last of them and in its own unit. (Ax's surrogate scales its inputs by their
    bounds: those of the time are 0 and 1, which leaves it alone.)
    """

    def transform_search_space(self, search_space: SearchSpace) -> SearchSpace:
        """The search space with the time as its last parameter, in place."""
        if self.of.method.sees_time:
            search_space.add_parameter(
                RangeParameter(TIME, parameter_type=ParameterType.FLOAT, lower=0.0, upper=1.0)
            )
        return search_space

    def transform_observation_features(
        self, observation_features: list[ObservationFeatures]
    ) -> list[ObservationFeatures]:
        """The features with the time of the trial that they belong to, or now, in place."""
        if self.of.method.sees_time:
            times = self.of.times()
            for features in observation_features:
                index = features.trial_index
                features.parameters[TIME] = times.now if index is None else times[int(index)]
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
        if not self.of.method.sees_time:
            return experiment_data
        arms, times = experiment_data.arm_data, self.of.times()
        of_rows = [times[int(i)] for i in arms.index.get_level_values("trial_index")]
        return replace(experiment_data, arm_data=arms.assign(**{TIME: of_rows}))

"""The time of observations on the way to the model, and back."""

from __future__ import annotations

import pytest
from ax.core.data_utils import ExperimentData
from ax.core.observation import ObservationFeatures
from ax.core.parameter import ParameterType, RangeParameter
from ax.core.search_space import SearchSpace
from ax.exceptions.core import UnsupportedError
from ax_costaware.generators.trial_times import TrialTimes
from pandas import DataFrame, MultiIndex

from ax_costaware.ax_bridge.transforms import TIME, TimeFeature


class _Clock:
    def trial_times(self) -> TrialTimes:
        return TrialTimes({0: 0.5, 1: 2.5}, 2)


def transform() -> TimeFeature:
    return TimeFeature(adapter=_Clock())  # type: ignore[arg-type]


def test_search_space() -> None:
    """Time comes last, with bounds that Ax's scaling of inputs leaves alone."""
    space = SearchSpace([RangeParameter("x", ParameterType.FLOAT, 2.0, 3.0)])
    found = transform().transform_search_space(space)
    assert list(found.parameters) == ["x", TIME]
    assert (found.parameters[TIME].lower, found.parameters[TIME].upper) == (0.0, 1.0)


def test_observation_features() -> None:
    """The time of the trial, or of the metadata, or now; and it is dropped again."""
    features = [
        ObservationFeatures({"x": 1.0}, trial_index=1, metadata={TIME: 9.0}),
        ObservationFeatures({"x": 1.0}, metadata={TIME: 9.0}),
        ObservationFeatures({"x": 1.0}),
        ObservationFeatures({}, trial_index=3),
    ]
    step = transform()
    found = step.transform_observation_features(features)
    assert [f.parameters[TIME] for f in found] == [2.5, 9.0, 4.5, 6.5]
    back = step.untransform_observation_features(found)
    assert [f.parameters for f in back] == [{"x": 1.0}] * 3 + [{}]


def test_experiment_data() -> None:
    """A column of the trials' times, in the order of the rows."""
    index = MultiIndex.from_tuples([(1, "1_0"), (0, "0_0")], names=["trial_index", "arm_name"])
    data = ExperimentData(
        arm_data=DataFrame({"x": [0.1, 0.2], "metadata": [None, None]}, index=index),
        observation_data=DataFrame(index=index),
    )
    found = transform().transform_experiment_data(data)
    assert list(found.arm_data.columns) == ["x", "metadata", TIME]
    assert found.arm_data[TIME].tolist() == [2.5, 0.5]
    assert TIME not in data.arm_data.columns


def test_an_adapter_without_times_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="adapter=None: it does not know when its trials"):
        TimeFeature()

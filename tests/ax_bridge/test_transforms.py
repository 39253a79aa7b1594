"""The time of observations on the way to the model, and back; and what the model does not see."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from ax.core.data_utils import ExperimentData
from ax.core.observation import ObservationFeatures
from ax.core.parameter import ChoiceParameter, ParameterType, RangeParameter
from ax.core.parameter_constraint import ParameterConstraint
from ax.core.search_space import SearchSpace
from ax.exceptions.core import UnsupportedError
from botorch.models import SingleTaskGP
from pandas import DataFrame, MultiIndex

from ax_costaware.ax_bridge.nodes import fitted_adapter
from ax_costaware.ax_bridge.transforms import TIME, HideParameters, MethodTransform, TimeFeature
from ax_costaware.core.method import Method
from ax_costaware.core.model import winsorized
from ax_costaware.core.trial_times import TrialTimes
from ax_costaware.methods.control_sets import ControlSets
from ax_costaware.methods.costly_feedback import CostlyFeedback
from ax_costaware.methods.gittins import Gittins
from tests.ax.gittins_toy import make_client
from tests.ax.toy import CONTROL_SETS, MARGINALS

OUTCOMES = [3.0, 1.0, 2.0, 2.5, 1.5, -40.0, 60.0, 2.2]


@pytest.mark.parametrize("minimize", [False, True])
@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        # A test that most pass: what fails is no outlier.
        ([1.0] * 8 + [0.0, 0.0], [1.0] * 8 + [0.0, 0.0]),
        ([0.0] * 8 + [2.0, -1e6], [0.0] * 8 + [2.0, -20.0]),
        ([3.0] * 4, [3.0] * 4),
    ],
)
def test_outcomes_that_are_mostly_the_same(
    outcomes: list[float], expected: list[float], minimize: bool
) -> None:
    """The quartiles are the same, and say nothing of what is far."""
    sign = -1.0 if minimize else 1.0
    Y = sign * torch.tensor(outcomes, dtype=torch.double)
    assert (sign * winsorized(Y, minimize, 10.0)).tolist() == expected


@pytest.mark.parametrize(
    ("minimize", "wanted", "ends"),
    [(False, True, (-2.0, 60.0)), (True, True, (-40.0, 6.0)), (True, False, (-40.0, 60.0))],
)
def test_outliers_are_those_of_ax(minimize: bool, wanted: bool, ends: tuple[float, float]) -> None:
    """The model sees the same numbers as below Ax, and only where the method asks for them."""
    client = make_client(minimize, winsorize=wanted, initial_trials=8, surrogate_spec=None)
    for outcome in OUTCOMES:
        (index,) = client.get_next_trials(1)
        client.complete_trial(index, {"y": outcome})
    adapter = fitted_adapter(client._experiment, client._generation_strategy)
    model, Y = adapter.botorch_model, torch.tensor(OUTCOMES, dtype=torch.double)
    assert isinstance(model, SingleTaskGP)
    seen, _ = model.outcome_transform.untransform(model.train_targets.unsqueeze(-1))
    expected = winsorized(Y, minimize, 1.5) if wanted else Y
    assert seen.flatten().tolist() == pytest.approx(expected.tolist())
    assert (float(expected.min()), float(expected.max())) == ends
    assert [trial.outcome for trial in adapter.problem().observed] == OUTCOMES


class _Adapter:
    def __init__(self, method: Method) -> None:
        self.method = method

    def times(self) -> TrialTimes:
        return TrialTimes({0: 0.5, 1: 2.5}, 2)


def transform(method: Method | None = None) -> TimeFeature:
    return TimeFeature(adapter=_Adapter(method or CostlyFeedback()))  # type: ignore[arg-type]


def hiding(method: Method | None = None) -> HideParameters:
    method = method or ControlSets(CONTROL_SETS, MARGINALS)
    return HideParameters(adapter=_Adapter(method))  # type: ignore[arg-type]


def test_search_space() -> None:
    """Time comes last, with bounds that Ax's scaling of inputs leaves alone."""
    space = SearchSpace([RangeParameter("x", ParameterType.FLOAT, 2.0, 3.0)])
    found = transform().transform_search_space(space)
    assert list(found.parameters) == ["x", TIME]
    assert (found.parameters[TIME].lower, found.parameters[TIME].upper) == (0.0, 1.0)


def test_observation_features() -> None:
    """The time of the trial, or now; and it is dropped again."""
    features = [
        ObservationFeatures({"x": 1.0}, trial_index=1),
        ObservationFeatures({"x": 1.0}),
        ObservationFeatures({}, trial_index=3),
    ]
    step = transform()
    found = step.transform_observation_features(features)
    assert [f.parameters[TIME] for f in found] == [2.5, 4.5, 6.5]
    back = step.untransform_observation_features(found)
    assert [f.parameters for f in back] == [{"x": 1.0}] * 2 + [{}]


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


def space_with(name: str) -> SearchSpace:
    """A search space with a parameter that may be hidden."""
    choice = ChoiceParameter(
        name, ParameterType.STRING, ["a", "b", "c"], is_ordered=False, sort_values=False
    )
    x = RangeParameter("x", ParameterType.FLOAT, 0.0, 1.0)
    return SearchSpace([choice, x], [ParameterConstraint(inequality="x <= 0.5")])


def test_the_control_set_is_hidden() -> None:
    """From the space, which keeps its constraints, from points and from data."""
    found = hiding().transform_search_space(space_with("control_set"))
    assert list(found.parameters) == ["x"]
    assert len(found.parameter_constraints) == 1
    features = [ObservationFeatures({"control_set": "a", "x": 1.0}), ObservationFeatures({})]
    seen = hiding().transform_observation_features(features)
    assert [f.parameters for f in seen] == [{"x": 1.0}, {}]
    index = MultiIndex.from_tuples([(0, "0_0")], names=["trial_index", "arm_name"])
    data = ExperimentData(
        arm_data=DataFrame({"x": [0.1], "control_set": ["a"]}, index=index),
        observation_data=DataFrame(index=index),
    )
    assert list(hiding().transform_experiment_data(data).arm_data.columns) == ["x"]
    assert "control_set" in data.arm_data.columns


@pytest.mark.parametrize("make", [transform, hiding])
def test_nothing_is_done_for_a_method_without(make: Callable[[Method], MethodTransform]) -> None:
    step = make(Gittins(1.0))
    space = space_with("control_set")
    assert list(step.transform_search_space(space).parameters) == ["control_set", "x"]
    features = [ObservationFeatures({"control_set": "a", "x": 1.0})]
    (seen,) = step.transform_observation_features(features)
    assert seen.parameters == {"control_set": "a", "x": 1.0}


@pytest.mark.parametrize("step", [TimeFeature, HideParameters])
def test_an_adapter_without_a_method_is_refused(step: type[MethodTransform]) -> None:
    with pytest.raises(UnsupportedError, match="adapter=None: it has no method"):
        step()

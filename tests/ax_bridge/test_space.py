"""The space of an experiment, against Ax's own transforms, there and back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from ax.adapter.torch import TorchAdapter
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from ax.core.experiment import Experiment
from ax.core.metric import Metric
from ax.core.objective import Objective
from ax.core.observation import ObservationFeatures
from ax.core.optimization_config import OptimizationConfig
from ax.core.parameter import ChoiceParameter, FixedParameter, ParameterType, RangeParameter
from ax.core.search_space import SearchSpace
from torch import Tensor

from ax_costaware import FixedHyperparameters, complete_trial, cost_aware_strategy
from ax_costaware.ax_bridge.node import fitted_problem
from ax_costaware.ax_bridge.search_space import parameter_of, parameters_of_configs, space_of
from ax_costaware.space.parameters import Choice
from ax_costaware.space.space import Space
from tests.space.test_space import check_same


@pytest.fixture(scope="module")
def adapter() -> TorchAdapter:
    """Ax's adapter of an experiment with every kind of parameter."""
    client = Client()
    client.configure_experiment(
        name="every",
        parameters=[
            ChoiceParameterConfig("soil", ["sand", "clay", "peat"], "str", is_ordered=False),
            RangeParameterConfig("dose", (-5, 5), "float"),
            ChoiceParameterConfig("site", ["here"], "str", is_ordered=False),
            RangeParameterConfig("pots", (1, 4), "int"),
            ChoiceParameterConfig("size", ["S", "M", "L"], "str", is_ordered=True),
            ChoiceParameterConfig("kind", ["treatment", "control"], "str", is_ordered=False),
            ChoiceParameterConfig("lamp", [20, 1, 5], "int", is_ordered=True),
            RangeParameterConfig("days", (1, 64), "int", scaling="log"),
            ChoiceParameterConfig("dial", [0.75, 0.5], "float", is_ordered=True),
            ChoiceParameterConfig("code", [3, 1, 7], "int", is_ordered=False),
            RangeParameterConfig("rate", (0.01, 1.0), "float", scaling="log"),
            ChoiceParameterConfig("lid", [True, False], "bool", is_ordered=True),
            ChoiceParameterConfig("fan", [True, False], "bool", is_ordered=False),
        ],
        parameter_constraints=["dose + pots <= 5"],
    )
    client.configure_optimization("y")
    strategy = cost_aware_strategy(1.0, initial_trials=0, surrogate_spec=FixedHyperparameters(0.5))
    client.set_generation_strategy(strategy)
    arm: dict[str, Any] = {"dose": 0.0, "pots": 1, "days": 3, "rate": 0.1, "soil": "clay"}
    arm |= {"kind": "control", "lamp": 5, "dial": 0.5, "code": 7, "size": "L", "lid": False}
    arm |= {"fan": True, "site": "here"}
    complete_trial(client, client.attach_trial(arm), {"y": 1.0})
    found = strategy.adapter
    assert isinstance(found, TorchAdapter)
    return found


@pytest.fixture(scope="module")
def space(adapter: TorchAdapter) -> Space:
    """The space of the same experiment."""
    return space_of(adapter._experiment.search_space)


@pytest.fixture(scope="module")
def points(space: Space) -> Tensor:
    """Points all over it."""
    return space.sobol_points(128, seed=0)


def by_ax(adapter: TorchAdapter, rows: list[dict[str, Any]]) -> Tensor:
    """Points of parameterizations by Ax's own transforms."""
    features = [ObservationFeatures(parameters=dict(row)) for row in rows]
    found = adapter.transform_observation_features(features)
    assert isinstance(found, Tensor)
    return found


def test_encodes_as_ax_does(adapter: TorchAdapter, space: Space) -> None:
    """Parameterizations of all kinds and values; and back again they are the same."""
    rows = space.sobol_rows(256, seed=1)
    for name, parameter in space.parameters.items():
        values = parameter.values_up_to(8)
        assert values is None or {row[name] for row in rows} == set(values), name
    X = space.encode(rows)
    assert torch.allclose(X, by_ax(adapter, rows), atol=1e-12, rtol=0.0)
    for row, found in zip(rows, space.decode(X), strict=True):
        check_same(found, row, but_for_rounding=("rate",))
        assert list(found) == list(adapter._experiment.search_space.parameters)
        adapter._experiment.search_space.check_types(found, raise_error=True)


def test_points_are_valid_and_decode_as_ax_does(
    adapter: TorchAdapter, space: Space, points: Tensor
) -> None:
    """Of the search space, within its constraint, and the same after going through Ax and back."""
    rows = space.decode(points)
    assert len(rows) == 128
    for row, point in zip(rows, points, strict=True):
        adapter._experiment.search_space.check_types(row, raise_error=True)
        assert row["dose"] + row["pots"] <= 5 + 1e-9  # type: ignore[operator]
        features = [ObservationFeatures(dict(zip(adapter.parameters, point.tolist(), strict=True)))]
        for transform in reversed(list(adapter.transforms.values())):
            features = transform.untransform_observation_features(features)
        assert features[0].parameters == pytest.approx(row)
    assert torch.allclose(by_ax(adapter, rows), points, atol=1e-12)
    for name in ("soil", "kind", "lamp", "dial", "code", "size", "lid", "fan"):
        assert len({row[name] for row in rows}) == len(space.columns[name].parameter.values)  # type: ignore[union-attr]
    held = space.columns["lamp"].indices[0]
    assert (space.sobol_points(16, seed=0, fixed={held: 5.0})[:, held] == 5.0).all()


def test_what_only_parameters_can_say() -> None:
    """Ax's configurations have no logit scale, no log scale of a choice, and no sorted names."""
    parameters = [
        ChoiceParameter(
            "power", ParameterType.FLOAT, [0.01, 1.0, 0.1], is_ordered=True, log_scale=True
        ),
        RangeParameter("share", ParameterType.FLOAT, 0.1, 0.9, logit_scale=True),
        ChoiceParameter("lamp", ParameterType.INT, [20, 1, 5], is_ordered=True, sort_values=True),
        ChoiceParameter(
            "size", ParameterType.STRING, ["S", "M", "L"], is_ordered=True, sort_values=True
        ),
        ChoiceParameter(
            "soil", ParameterType.STRING, ["sand", "clay"], is_ordered=False, sort_values=True
        ),
        FixedParameter("site", ParameterType.INT, 3),
        RangeParameter("x", ParameterType.FLOAT, 0.0, 1.0, digits=2),
    ]
    config = OptimizationConfig(Objective("y", metric_name_to_signature={"y": "y"}))
    experiment = Experiment(
        SearchSpace(parameters),
        name="parameters",
        optimization_config=config,
        tracking_metrics=[Metric("y")],
    )
    strategy = cost_aware_strategy(1.0, surrogate_spec=FixedHyperparameters(0.5))
    run = strategy.gen_single_trial(experiment=experiment)
    trial = experiment.new_trial(run).mark_running(no_runner_required=True)
    complete_trial((experiment, strategy), trial.index, {"y": 1.0})
    adapter = strategy.adapter
    assert isinstance(adapter, TorchAdapter)
    space = fitted_problem(experiment, strategy).space
    rows = space.sobol_rows(64)
    X = space.encode(rows)
    assert torch.allclose(X, by_ax(adapter, rows), atol=1e-12, rtol=0.0)
    # As a trial has it, and is charged for.
    assert all(row["x"] == parameters[-1].cast(row["x"]) for row in rows)
    share = space.columns["share"].indices[0]
    assert X[:, share].sigmoid().tolist() == pytest.approx([row["share"] for row in rows])
    for row, found in zip(rows, space.decode(X), strict=True):
        check_same(found, row, but_for_rounding=("share",))
    assert torch.allclose(space.raw("power", X), X.new_tensor([row["power"] for row in rows]))


def test_choices_on_a_log_scale() -> None:
    """Of Ax's parameters, and of the configurations of later versions of Ax."""
    parameter = ChoiceParameter(
        "rate", ParameterType.FLOAT, [1.0, 10.0, 100.0], is_ordered=True, log_scale=True
    )
    expected = Choice("rate", (1.0, 10.0, 100.0), is_ordered=True, log_scale=True)
    assert parameter_of(parameter) == expected
    config = ChoiceParameterConfig("rate", [1.0, 10.0, 100.0], "float", is_ordered=True)
    for log_scale in (None, False, True):
        config.log_scale = log_scale  # type: ignore[attr-defined]
        (found,) = parameters_of_configs([config])
        assert found == replace(expected, log_scale=bool(log_scale))

"""Costs and parameters in the model's input space, against Ax's own way back."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from ax.core.observation import ObservationFeatures
from ax.exceptions.core import UserInputError
from torch import Tensor

from ax_costaware import (
    AffineCost,
    ConstantCost,
    FixedHyperparameters,
    TableCost,
    complete_trial,
    gittins_strategy,
)
from ax_costaware.adapter.cost_aware_adapter import fitted_adapter
from ax_costaware.adapter.cost_space import known_cost
from ax_costaware.adapter.decoded_space import DecodedSpace
from ax_costaware.adapter.gittins_adapter import GittinsAdapter
from ax_costaware.generators.gittins_settings import GittinsSettings


@pytest.fixture(scope="module")
def adapter() -> GittinsAdapter:
    """A fitted adapter of an experiment with every kind of parameter."""
    client = Client()
    client.configure_experiment(
        name="every",
        parameters=[
            RangeParameterConfig("dose", (-5, 5), "float"),
            RangeParameterConfig("pots", (1, 4), "int"),
            RangeParameterConfig("days", (1, 64), "int", scaling="log"),
            RangeParameterConfig("rate", (0.01, 1.0), "float", scaling="log"),
            ChoiceParameterConfig("soil", ["sand", "clay", "peat"], "str", is_ordered=False),
            ChoiceParameterConfig("lamp", [1, 5, 20], "int", is_ordered=True),
            ChoiceParameterConfig("code", [3, 1, 7], "int", is_ordered=False),
            ChoiceParameterConfig("size", ["S", "M", "L"], "str", is_ordered=True),
            ChoiceParameterConfig("lid", [True, False], "bool", is_ordered=True),
            ChoiceParameterConfig("site", ["here"], "str", is_ordered=False),
        ],
        parameter_constraints=["dose + pots <= 5"],
    )
    client.configure_optimization("y")
    strategy = gittins_strategy(1.0, initial_trials=0, surrogate_spec=FixedHyperparameters(0.5))
    client.set_generation_strategy(strategy)
    arm: dict[str, Any] = {"dose": 0.0, "pots": 1, "days": 3, "rate": 0.1, "soil": "clay"}
    arm |= {"lamp": 5, "code": 7, "size": "L", "lid": False, "site": "here"}
    complete_trial(client, client.attach_trial(arm), {"y": 1.0})
    adapter = fitted_adapter(client._experiment, strategy)
    assert isinstance(adapter, GittinsAdapter)
    return adapter


@pytest.fixture(scope="module")
def space(adapter: GittinsAdapter) -> DecodedSpace:
    """Its decoded space."""
    return adapter.space()


@pytest.fixture(scope="module")
def points(space: DecodedSpace) -> Tensor:
    """Points all over it."""
    return space.sobol_points(128, seed=0)


def test_points_are_valid_and_decode_as_ax_does(
    adapter: GittinsAdapter, space: DecodedSpace, points: Tensor
) -> None:
    """Of the search space, within its constraint, and the same after going through Ax and back."""
    rows = space.decode(points)
    assert len(rows) == 128
    for row, point in zip(rows, points, strict=True):
        adapter.experiment.search_space.check_types(row, raise_error=True)
        assert row["dose"] + row["pots"] <= 5 + 1e-9  # type: ignore[operator]
        features = [ObservationFeatures(dict(zip(adapter.parameters, point.tolist(), strict=True)))]
        for transform in reversed(list(adapter.transforms.values())):
            features = transform.untransform_observation_features(features)
        assert features[0].parameters == pytest.approx(row)
    assert torch.allclose(adapter.model_points(rows), points, atol=1e-12)
    for name in ("soil", "lamp", "code", "size", "lid"):
        assert len({row[name] for row in rows}) == len(space.columns[name].parameter.values)  # type: ignore[union-attr]
    held = space.columns["lamp"].indices[0]
    assert (space.sobol_points(16, seed=0, fixed={held: 5.0})[:, held] == 5.0).all()


COSTS = [
    2.5,
    ConstantCost(3.0),
    AffineCost({"days": 0.5, "rate": 10.0, "dose": 0.1, "lamp": 0.01, "code": 0.2}, fixed=2.0),
    TableCost("soil", {"clay": 1.0, "sand": 2.0, "peat": 4.0}),
    TableCost("size", {"S": 1.0, "M": 2.0, "L": 4.0}),
    TableCost("lid", {True: 1.0, False: 2.0}),
    TableCost("pots", {1: 1.0, 2: 5.0, 3: 2.0, 4: 1.5}),
    TableCost("site", {"here": 1.5}),
    lambda x: 1.0 + x["days"] + len(x["soil"]) + 2.0 * x["lid"],
]


@pytest.mark.parametrize("cost", COSTS, ids=repr)
def test_costs_at_valid_points_are_those_of_the_parameterizations(
    cost: Any, space: DecodedSpace, points: Tensor
) -> None:
    """For every kind of cost and parameter."""
    settings = GittinsSettings(cost)
    found = known_cost(settings, space)(points)
    expected = points.new_tensor([settings.cost_at(row) for row in space.decode(points)])
    assert torch.allclose(found, expected, rtol=1e-9)
    batched = known_cost(settings, space)(points.reshape(4, 32, -1))
    assert torch.equal(batched, found.reshape(4, 32))


@pytest.mark.parametrize("cost", [COSTS[2], COSTS[3]], ids=repr)
def test_gradients_of_value_objects(cost: Any, space: DecodedSpace, points: Tensor) -> None:
    """Also between the corners of one-hot blocks."""
    function = known_cost(GittinsSettings(cost), space)
    inner = 0.5 * points[:4] + 0.5 * points[4:8]
    blocks = [i for name in ("soil", "code") for i in space.columns[name].indices]
    inner[:, blocks] = inner[:, blocks].clamp(0.1, 0.9)
    inner.requires_grad_()
    assert torch.autograd.gradcheck(function, (inner,), atol=1e-5)


def test_gradient_of_a_function_stays_within_the_bounds(
    space: DecodedSpace, points: Tensor
) -> None:
    """Differences in the smooth columns, one-sided at a bound; none in the others."""
    seen: list[float] = []

    def cost(x: dict[str, Any]) -> float:
        seen.append(x["rate"])
        return float(1.0 + 3.0 * x["rate"] + x["days"] + (x["dose"] + 5.0) ** 2)

    X = points[:3].clone()
    dose, rate = space.columns["dose"].indices[0], space.columns["rate"].indices[0]
    X[0, rate], X[1, rate] = space.bounds[0, rate], space.bounds[1, rate]
    X.requires_grad_()
    known_cost(GittinsSettings(cost), space)(X).sum().backward()  # type: ignore[no-untyped-call]
    assert X.grad is not None
    raw = torch.pow(10.0, X.detach()[:, rate])
    slope = 3.0 * raw * torch.log(torch.tensor(10.0))
    assert torch.allclose(X.grad[:, rate], slope.to(X), rtol=1e-3)
    assert torch.allclose(X.grad[:, dose], 2 * (X.detach()[:, dose] + 5.0), rtol=1e-3, atol=1e-3)
    assert X.grad.count_nonzero(dim=-1).max() == 2
    assert min(seen) >= 0.01
    assert max(seen) <= 1.0


def test_refusals(space: DecodedSpace, points: Tensor) -> None:
    """By the name of the argument, with the parameterization."""
    with pytest.raises(UserInputError, match=r"reads \['moon'\]"):
        known_cost(GittinsSettings(AffineCost({"moon": 1.0})), space)
    bad = known_cost(GittinsSettings(lambda x: -float(x["pots"])), space)
    with pytest.raises(UserInputError, match=r"cost gave -\d.0 for {'dose': .*finite number > 0"):
        bad(points)

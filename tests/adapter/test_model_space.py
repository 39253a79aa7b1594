"""Control sets and marginals in the model's space, for every kind of parameter."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig

from ax_costaware import (
    ControlSet,
    Discrete,
    Empirical,
    FixedHyperparameters,
    TruncatedNormal,
    complete_trial,
    control_set_parameter,
    control_set_strategy,
)
from ax_costaware.adapter.control_set_adapter import ControlSetAdapter
from ax_costaware.adapter.cost_aware_adapter import fitted_adapter
from ax_costaware.adapter.model_space import ModelSpace
from ax_costaware.queries.nodes import ProductNodes

SETS = (ControlSet(["x", "soil"], 1.0, "few"), ControlSet(["x", "soil", "n", "rate"], 2.0, "many"))
MARGINALS = {
    "soil": Discrete(("clay", "sand", "peat"), (0.2, 0.5, 0.3)),
    "n": Empirical((1.0, 1.0, 4.0)),
    "rate": TruncatedNormal(0.5, 0.3, 0.01, 1.0),
    "lamp": Discrete((1, 5, 20), (0.2, 0.2, 0.6)),
}


@pytest.fixture(scope="module")
def adapter() -> ControlSetAdapter:
    """An adapter fitted to three attached trials."""
    client = Client()
    client.configure_experiment(
        name="space",
        parameters=[
            RangeParameterConfig("x", (-1.0, 3.0), "float"),
            ChoiceParameterConfig("soil", ["clay", "sand", "peat"], "str", is_ordered=False),
            RangeParameterConfig("n", (1, 4), "int"),
            RangeParameterConfig("rate", (0.01, 1.0), "float", scaling="log"),
            ChoiceParameterConfig("lamp", [1, 5, 20], "int", is_ordered=True),
            control_set_parameter(SETS),
        ],
        parameter_constraints=["x + 2*n <= 7"],
    )
    client.configure_optimization("y")
    strategy = control_set_strategy(
        SETS, MARGINALS, initial_trials=0, surrogate_spec=FixedHyperparameters(0.5), num_nodes=64
    )
    client.set_generation_strategy(strategy)
    for i in range(3):
        arm: dict[str, Any] = {"x": 0.5 * i, "soil": "clay", "n": 1 + i, "rate": 0.1, "lamp": 5}
        index = client.attach_trial({**arm, "control_set": "many"})
        complete_trial(client, index, {"y": float(i)}, realized={"lamp": 20})
    return fitted_adapter(client._experiment, strategy)


@pytest.fixture(scope="module")
def space(adapter: ControlSetAdapter) -> ModelSpace:
    """Its model space."""
    return adapter.model_space_view()


def test_columns_and_bounds(adapter: ControlSetAdapter, space: ModelSpace) -> None:
    """A one-hot choice has three columns, a log-scale range one of logarithms."""
    assert {n: len(c) for n, c in space.columns.items()} == {
        "x": 1, "soil": 3, "n": 1, "rate": 1, "lamp": 1,
    }  # fmt: skip
    assert sorted(i for c in space.columns.values() for i in c) == list(range(7))
    few, many = space.control_sets
    assert set(few) == {*space.columns["x"], *space.columns["soil"]}
    assert set(many) - set(few) == {*space.columns["n"], *space.columns["rate"]}
    (rate,) = space.columns["rate"]
    assert space.bounds[:, rate].tolist() == pytest.approx([-2.0, 0.0])
    assert space.bounds[:, space.columns["x"][0]].tolist() == [-1.0, 3.0]
    (constraint,) = space.constraints
    point = space.default.clone()
    point[list(space.columns["x"])], point[list(space.columns["n"])] = 1.0, 3.0
    indices, coefficients, bound = constraint
    assert float(coefficients @ point[indices]) == pytest.approx(bound)


def test_nominal_values(space: ModelSpace) -> None:
    """Most probable atoms, the mean on the raw scale, and a possible value for a sample's mean."""
    assert space.nominal["soil"] == "sand"
    assert space.nominal["lamp"] == 20
    assert (space.nominal["n"], type(space.nominal["n"])) == (1, int)
    assert space.nominal["rate"] == pytest.approx(MARGINALS["rate"].nominal)


def test_nodes_are_raw_nodes_after_the_transforms(space: ModelSpace) -> None:
    """Both rules integrate functions of the raw inputs."""
    soil, rate = list(space.columns["soil"]), space.columns["rate"][0]
    nodes, weights = space.nodes, space.weights
    assert torch.all(nodes[:, soil].sum(dim=-1) == 1.0)
    blocks = dict(zip(space.product.columns, range(7), strict=False))
    expected = MARGINALS["rate"]
    raw_mean = float(weights @ (10 ** nodes[:, rate]))
    assert raw_mean == pytest.approx(float(expected.nominal), abs=0.01)
    block = blocks[space.columns["rate"]]
    exact = space.product.weights[block] @ (10 ** space.product.nodes[block]).squeeze(-1)
    assert float(exact) == pytest.approx(float(expected.nominal), rel=1e-9)
    n = blocks[space.columns["n"]]
    assert space.product.nodes[n].flatten().tolist() == [1.0, 4.0]
    assert space.product.weights[n].tolist() == pytest.approx([2 / 3, 1 / 3])
    assert space.product.weights[blocks[space.columns["soil"]]].sum() == pytest.approx(1.0)
    assert len(space.product.weights[blocks[space.columns["x"]]]) == 1, "always controlled"


def test_exact_values_and_query(space: ModelSpace) -> None:
    """Rounding on the way back does not change a discrete value; a query holds what it controls."""
    point = space.default.clone()
    point[list(space.columns["n"])] = 3.0 - 1e-9
    raw, values = space.discrete["soil"]
    point[list(space.columns["soil"])] = values[raw.index("peat")] * (1 - 1e-9)
    assert space.exact_values(point, ["x", "soil", "n"]) == {"soil": "peat", "n": 3}
    query = space.query(point, 1)
    assert isinstance(query, ProductNodes)
    sizes = dict(zip(query.columns, (len(w) for w in query.weights), strict=True))
    assert (sizes[space.columns["x"]], sizes[space.columns["n"]]) == (1, 1)
    assert sizes[space.columns["lamp"]] == 3
    assert all(math.isclose(float(w.sum()), 1.0) for w in query.weights)


def test_discrete_columns_leave_out_what_is_fixed(space: ModelSpace) -> None:
    """A fixed input is not searched."""
    every = [columns for columns, _ in space.discrete_columns({})]
    assert set(every) == {space.columns[name] for name in ("soil", "n", "lamp")}
    fixed = [columns for columns, _ in space.discrete_columns({space.columns["n"][0]: 2.0})]
    assert set(fixed) == {space.columns[name] for name in ("soil", "lamp")}


def test_training_inputs_are_the_realised_ones(adapter: ControlSetAdapter) -> None:
    """The lamp was planned at 5 and came out at 20, in a control set that leaves it to chance."""
    assert adapter.get_training_data().arm_data["lamp"].tolist() == [20, 20, 20]

"""Control sets and marginals in the model's space, for every kind of parameter."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from ax_costaware.core.history import PastTrial
from ax_costaware.core.model import FixedHyperparameters
from ax_costaware.core.problem import Problem
from ax_costaware.core.simulation import Simulation
from ax_costaware.core.traits import CONTROL_SET
from ax_costaware.costs.control_set import ControlSet
from ax_costaware.laws import Marginal
from ax_costaware.laws.marginals import Discrete, Empirical, TruncatedNormal
from ax_costaware.laws.nodes import ProductNodes
from ax_costaware.methods.control_sets import ControlSets
from ax_costaware.methods.control_sets.query_space import QuerySpace
from ax_costaware.space.parameters import Choice, Range
from ax_costaware.space.space import Space

SETS = (ControlSet(["x", "soil"], 1.0, "few"), ControlSet(["x", "soil", "n", "rate"], 2.0, "many"))
SOILS = ("clay", "sand", "peat")
MARGINALS: dict[str, Marginal] = {
    "soil": Discrete(SOILS, (0.2, 0.5, 0.3)),
    "n": Empirical((1.0, 1.0, 4.0)),
    "rate": TruncatedNormal(0.5, 0.3, 0.01, 1.0),
    "lamp": Discrete((1, 5, 20), (0.2, 0.2, 0.6)),
}
METHOD = ControlSets(SETS, MARGINALS, initial_trials=0, num_nodes=64)


@pytest.fixture(scope="module")
def problem() -> Problem:
    """A problem with three attached trials."""
    space = Space.of(
        [
            Range("x", -1.0, 3.0),
            Choice("soil", SOILS),
            Range("n", 1, 4, is_integer=True),
            Range("rate", 0.01, 1.0, log_scale=True),
            Choice("lamp", (1, 5, 20), is_ordered=True),
            Choice(CONTROL_SET, ("few", "many")),
        ],
        [({"x": 3.0}, 6.0)],
        hidden=[CONTROL_SET],
    )
    trials = []
    for i in range(3):
        arm: dict[str, Any] = {"x": 0.5 * i, "soil": "clay", "n": 1 + i, "rate": 0.1, "lamp": 5}
        arm[CONTROL_SET] = "many"
        trials.append(PastTrial(i, arm, outcome=float(i), is_observed=True, realized={"lamp": 20}))
    model = FixedHyperparameters(0.5)
    return Simulation(METHOD, space, hyperparameters=model, trials=trials).problem()


@pytest.fixture(scope="module")
def space(problem: Problem) -> QuerySpace:
    """Its query space."""
    return QuerySpace(problem, METHOD)


def columns_of(space: QuerySpace, name: str) -> list[int]:
    """The columns of a parameter."""
    return list(space.space.columns[name].indices)


def test_nodes_are_raw_nodes_after_the_transforms(space: QuerySpace) -> None:
    """Both rules integrate functions of the raw inputs."""
    soil, (rate,) = columns_of(space, "soil"), columns_of(space, "rate")
    (nodes, weights), product = space.nodes, space.product
    assert torch.all(nodes[:, soil].sum(dim=-1) == 1.0)
    blocks = {name: product.columns.index(c.indices) for name, c in space.space.columns.items()}
    expected = float(MARGINALS["rate"].nominal)
    raw_mean = float(weights @ (10 ** nodes[:, rate]))
    assert raw_mean == pytest.approx(expected, abs=0.01)
    block = blocks["rate"]
    exact = product.weights[block] @ (10 ** product.nodes[block]).squeeze(-1)
    assert float(exact) == pytest.approx(expected, rel=1e-9)
    assert product.nodes[blocks["n"]].flatten().tolist() == [1.0, 4.0]
    assert product.weights[blocks["n"]].tolist() == pytest.approx([2 / 3, 1 / 3])
    assert product.weights[blocks["soil"]].sum() == pytest.approx(1.0)
    assert len(product.weights[blocks["x"]]) == 1, "always controlled"


def test_exact_values_and_query(space: QuerySpace) -> None:
    """Rounding on the way back does not change a discrete value; a query holds what it controls."""
    point = space.default.clone()
    point[columns_of(space, "n")] = 3.0 - 1e-9
    point[columns_of(space, "soil")] = space.discrete["soil"][2] * (1 - 1e-9)
    found = space.controlled(point, ["x", "soil", "n"])
    assert found == {"x": found["x"], "soil": "peat", "n": 3}
    assert isinstance(found["n"], int)
    query, _ = space.query(point, 1)
    assert isinstance(query, ProductNodes)
    sizes = dict(zip(query.columns, (len(w) for w in query.weights), strict=True))
    columns = space.space.columns
    assert (sizes[columns["x"].indices], sizes[columns["n"].indices]) == (1, 1)
    assert sizes[columns["lamp"].indices] == 3
    assert all(math.isclose(float(w.sum()), 1.0) for w in query.weights)


def test_a_search_leaves_alone_what_is_fixed(space: QuerySpace) -> None:
    """Discrete columns take their values, in a search that may choose them."""
    assert set(space.discrete) == {"soil", "n", "lamp"}
    assert space.discrete["n"].tolist() == [[1.0], [2.0], [3.0], [4.0]]
    assert space.discrete["lamp"].tolist() == [[1.0], [5.0], [20.0]]
    assert space.discrete["soil"].tolist() == torch.eye(3).tolist()
    (n,), soil = columns_of(space, "n"), columns_of(space, "soil")
    options = {"num_restarts": 2, "raw_samples": 32}
    for held in ({n: 2.0}, {n: 4.0}, dict(zip(soil, (0.0, 0.0, 1.0), strict=True))):
        for index in (0, 1):
            found = space.search([index], "ucb", seed=0, held=held, **options)
            (point,) = found.point
            held_here = [i for i in held if i in space.control_sets[index]]
            assert point[held_here].tolist() == [held[i] for i in held_here]
            if index == 1:
                assert float(point[n]) in (1.0, 2.0, 3.0, 4.0)
                row = space.space.decode(point.unsqueeze(0))[0]
                assert 3 * float(str(row["x"])) <= 6 + 1e-6
            assert sorted(point[soil].tolist()) == [0.0, 0.0, 1.0]


def test_nominal_values(space: QuerySpace) -> None:
    """Most probable atoms, the mean on the raw scale, and a possible value for a sample's mean."""
    assert space.nominal["soil"] == "sand"
    assert space.nominal["lamp"] == 20
    assert (space.nominal["n"], type(space.nominal["n"])) == (1, int)
    assert space.nominal["rate"] == pytest.approx(MARGINALS["rate"].nominal)
    assert torch.equal(space.default, space.space.encode([space.nominal])[0])

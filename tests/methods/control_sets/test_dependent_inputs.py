"""Joint laws and learned marginals in the model's space, for every kind of parameter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from ax_costaware.core.history import PastTrial
from ax_costaware.core.model import FixedHyperparameters
from ax_costaware.core.problem import Problem
from ax_costaware.core.simulation import Simulation
from ax_costaware.core.traits import CONTROL_SET
from ax_costaware.costs import ControlSet
from ax_costaware.exceptions import InputError
from ax_costaware.laws import (
    Discrete,
    GaussianCopula,
    JointEmpirical,
    Learned,
    ProductNodes,
    Uniform,
)
from ax_costaware.methods.control_sets import ControlSets
from ax_costaware.methods.control_sets.learned import learned_from, realized_inputs
from ax_costaware.methods.control_sets.query_space import QuerySpace
from ax_costaware.space.parameters import Choice, Range
from ax_costaware.space.space import Space

SETS = (
    ControlSet(["x"], 1.0, "none"),
    ControlSet(["x", "soil"], 2.0, "soil"),
    ControlSet(["x", "rate", "n"], 2.0, "numbers"),
    ControlSet(["x", "soil", "n", "rate"], 3.0, "all"),
)
SOILS = ("clay", "sand", "peat")
FRAME = {
    "soil": [SOILS[i % 3] for i in range(30)],
    "n": [1 + (i * i) % 4 for i in range(30)],
    "rate": [0.01 * 100 ** (((i % 3) + i / 30) / 4) for i in range(30)],
}
MARGINALS = {"lamp": Learned(Discrete((1, 5), (0.5, 0.5)), 2.0), "wind": Learned(Uniform(0, 1))}
REALIZED = ({"lamp": 5, "wind": 0.25}, {"lamp": 20, "wind": 0.5}, {"lamp": 20, "wind": 1.75})


SPACE = Space.of(
    [
        Range("x", -1.0, 3.0),
        Choice("soil", SOILS),
        Range("n", 1, 4, is_integer=True),
        Range("rate", 0.01, 1.0, log_scale=True),
        Choice("lamp", (1, 5, 20), is_ordered=True),
        Range("wind", 0.0, 1.0),
        Choice(CONTROL_SET, tuple(str(s.name) for s in SETS)),
    ],
    hidden=[CONTROL_SET],
)


def make_method(**options: Any) -> ControlSets:
    """A method with learned marginals, and a joint law of soil, n and rate."""
    laws = {"marginals": MARGINALS, "joint": JointEmpirical(FRAME), **options}
    return ControlSets(SETS, initial_trials=0, num_nodes=64, **laws)


def make_problem(method: ControlSets) -> Problem:
    """A problem with three attached trials that leave lamp and wind to chance."""
    trials = []
    for i, realized in enumerate(REALIZED):
        arm: dict[str, Any] = {"x": 0.5 * i, "soil": "clay", "n": 1 + i, "rate": 0.1}
        arm |= {"lamp": 5, "wind": 0.5, CONTROL_SET: "all"}
        # A controlled input that came out differently tells nothing of the uncontrolled inputs.
        given = {**realized, "rate": 0.2}
        trials.append(PastTrial(i, arm, outcome=float(i), is_observed=True, realized=given))
    model = FixedHyperparameters(0.5)
    return Simulation(method, SPACE, hyperparameters=model, trials=trials).problem()


METHOD = make_method()


@pytest.fixture(scope="module")
def problem() -> Problem:
    """The problem."""
    return make_problem(METHOD)


@pytest.fixture(scope="module")
def space(problem: Problem) -> QuerySpace:
    """Its query space."""
    return QuerySpace(problem, METHOD)


def columns_of(space: QuerySpace, name: str) -> list[int]:
    """The columns of a parameter."""
    return list(space.space.columns[name].indices)


def codes_of(space: QuerySpace, name: str) -> dict[Any, torch.Tensor]:
    """The columns of each value of a choice."""
    column = space.space.columns[name]
    return dict(zip(column.parameter.values_up_to(9) or (), space.discrete[name], strict=True))


def test_who_gets_conditional_nodes(space: QuerySpace) -> None:
    """Only control sets that control a part of the joint law; a product there is none."""
    assert [given is not None for given in space.given] == [False, True, True, False]
    assert space.product is None


def test_shared_nodes_are_rows_of_the_sample(space: QuerySpace) -> None:
    """Rows go together, on the model's scale: log rates, integers, one-hot soils."""
    soil = columns_of(space, "soil")
    (rate,) = columns_of(space, "rate")
    (n,) = columns_of(space, "n")
    codes = codes_of(space, "soil")
    rows = [
        torch.cat([codes[s], torch.tensor([float(k), r], dtype=torch.double).log10()])
        for s, k, r in zip(*FRAME.values(), strict=True)
    ]
    expected = torch.stack(rows)
    nodes, weights = space.nodes
    found = torch.cat([nodes[:, soil], nodes[:, [n, rate]]], dim=-1)
    found[:, -2] = found[:, -2].log10()
    distance = (found.unsqueeze(1) - expected).abs().sum(dim=-1)
    assert float(distance.min(dim=-1).values.max()) < 1e-9
    assert len(set(distance.argmin(dim=-1).tolist())) == len(rows), "every row is a node"
    assert float(weights.sum()) == pytest.approx(1.0)


def test_conditional_nodes_weigh_rows_by_what_is_controlled(space: QuerySpace) -> None:
    """Given peat, only rows with peat count; given rate and n, those that are near on the log."""
    point = space.default.clone()
    codes = codes_of(space, "soil")
    point[columns_of(space, "soil")] = codes["peat"]
    nodes, weights = space.given[1](point.unsqueeze(0))  # type: ignore[misc]
    (rate,) = columns_of(space, "rate")
    peat = torch.tensor(
        [r for s, r in zip(FRAME["soil"], FRAME["rate"], strict=True) if s == "peat"]
    )
    at_peat = weights[0] @ nodes[0, :, rate]
    assert float(at_peat) == pytest.approx(float(peat.log10().mean()), abs=1e-3)

    columns = [*columns_of(space, "n"), rate]
    numbers = torch.tensor([FRAME["n"], FRAME["rate"]], dtype=torch.double).T
    numbers[:, 1] = numbers[:, 1].log10()
    point[columns] = torch.tensor([2.0, -1.2], dtype=torch.double)
    nodes, weights = space.given[2](point.unsqueeze(0))  # type: ignore[misc]
    assert bool((nodes[0][:, columns] == point[columns]).all())
    scott = numbers.std(dim=0) * len(numbers) ** (-1 / 6)
    chances = (-0.5 * ((point[columns] - numbers) / scott).square().sum(dim=-1)).softmax(dim=0)
    for soil, code in codes.items():
        is_soil = (nodes[0][:, columns_of(space, "soil")] - code).abs().sum(dim=-1) < 1e-9
        expected = chances[torch.tensor([s == soil for s in FRAME["soil"]])].sum()
        assert float(weights[0][is_soil].sum()) == pytest.approx(float(expected), abs=1e-9)


def test_expectation_is_over_the_conditional_law(problem: Problem, space: QuerySpace) -> None:
    """The mean of a query is the weighted mean of the model's own at the nodes."""
    point = 0.3 * SPACE.bounds[0] + 0.7 * SPACE.bounds[1]
    point[columns_of(space, "soil")] = space.discrete["soil"][0]
    means, variances = space.expectations(point.expand(4, -1), range(4))
    for i in range(4):
        nodes, weights = space.query(point, i)
        assert isinstance(nodes, torch.Tensor)
        assert weights is not None
        held = list(space.control_sets[i])
        assert bool((nodes[:, held] == point[held]).all())
        posterior = problem.model.posterior(nodes)
        assert float(means[i]) == pytest.approx(float(weights @ posterior.mean[:, 0]), abs=1e-9)
        assert 0 < float(variances[i]) <= float(posterior.variance.max()) + 1e-9


def test_learned_marginals_follow_what_was_realised(problem: Problem, space: QuerySpace) -> None:
    """Nodes have the posterior predictive law; arms keep the prior's nominal values."""
    assert [t.uncontrolled for t in realized_inputs(problem.trials, METHOD)] == [*REALIZED]
    (lamp,), (wind,) = columns_of(space, "lamp"), columns_of(space, "wind")
    nodes, weights = space.nodes
    shares = {
        value: float(weights[(nodes[:, lamp] - code).abs() < 1e-9].sum())
        for value, code in codes_of(space, "lamp").items()
    }
    # Two prior values, one 5, and two 20s, which the prior does not have.
    assert shares == pytest.approx({1: 1 / 5, 5: 2 / 5, 20: 2 / 5}, abs=0.02)
    mean = (10 * 0.5 + 0.25 + 0.5 + 1.75) / 13
    assert float(weights @ nodes[:, wind]) == pytest.approx(mean, abs=0.01)
    assert (space.nominal["lamp"], space.nominal["wind"]) == (1, 0.5)


def test_learned_marginals_have_a_product_rule() -> None:
    """Without dependence the one-dimensional rules hold the learned law exactly."""
    marginals = {"soil": Discrete(SOILS), "n": Discrete((1, 2)), "rate": Uniform(0.1, 1.0)}
    method = make_method(joint=None, marginals={**MARGINALS, **marginals})
    space = QuerySpace(make_problem(method), method)
    assert space.product is not None
    assert space.given == (None,) * 4
    block = space.product.columns.index(SPACE.columns["lamp"].indices)
    assert sorted(space.product.weights[block].tolist()) == pytest.approx([0.2, 0.4, 0.4])
    block = space.product.columns.index(SPACE.columns["wind"].indices)
    mean = space.product.weights[block] @ space.product.nodes[block][:, 0]
    assert float(mean) == pytest.approx((10 * 0.5 + 0.25 + 0.5 + 1.75) / 13)
    rule, _ = space.query(space.default, 0)
    assert isinstance(rule, ProductNodes)


def test_values_that_a_discrete_prior_lacks_have_no_prior_probability() -> None:
    law = learned_from(Learned(Discrete((1, 5), (0.25, 0.75)), 4.0), [20, 5])
    assert isinstance(law, Learned)
    assert law.prior == Discrete((1, 5, 20), (0.25, 0.75, 0.0))
    assert law.nodes_and_weights(9)[1].tolist() == pytest.approx([1 / 6, 4 / 6, 1 / 6])
    assert learned_from(Uniform(0, 1), [0.5]) == Uniform(0, 1)


@pytest.mark.parametrize(
    ("frame", "marginals", "message"),
    [
        ({"soil": FRAME["soil"], "wind": [2.0] * 15 + [0.1] * 15}, {}, r"joint.marginal\('wind'\)"),
        ({"soil": ["mud"] * 30}, {"wind": Uniform(0, 1)}, r"joint.marginal\('soil'\).*'mud'"),
        ({"sun": FRAME["rate"]}, {"wind": Uniform(0, 1)}, "joint has an entry for 'sun'"),
        ({"n": [1.5] * 30}, {"wind": Uniform(0, 1)}, "not integers"),
        ({"rate": FRAME["soil"]}, {"wind": Uniform(0, 1)}, "not numbers"),
    ],
)
def test_joint_laws_must_fit_the_experiment(
    problem: Problem, frame: dict[str, Any], marginals: dict[str, Any], message: str
) -> None:
    others = {"soil": Discrete(SOILS), "n": Discrete((1, 2)), "rate": Uniform(0.1, 1.0)}
    laws = {**{n: m for n, m in others.items() if n not in frame}, "lamp": Discrete((1, 5))}
    method = ControlSets(SETS, marginals={**laws, **marginals}, joint=JointEmpirical(frame))
    with pytest.raises(InputError, match=message):
        method.check(problem)


def test_an_input_has_one_law() -> None:
    joint = JointEmpirical(FRAME)
    with pytest.raises(InputError, match=r"both have \['n'\]"):
        ControlSets(SETS, marginals={"n": Discrete((1, 2))}, joint=joint)
    with pytest.raises(InputError, match="expected a joint law such as"):
        ControlSets(SETS, marginals={}, joint=FRAME)  # type: ignore[arg-type]
    learned = GaussianCopula({"n": Learned(Uniform(0, 1)), "rate": Uniform(0, 1)}, np.eye(2))
    with pytest.raises(InputError, match=r"Learned marginals, of \['n'\]: a joint law is not"):
        ControlSets(SETS, marginals={}, joint=learned)


def test_points_of_what_failed_follow_the_law_of_its_inputs() -> None:
    """Rows of a sample are sorted: the first of them are a corner of it, far from most trials."""
    method = make_method()
    arm = {"x": 0.5, "soil": "peat", "n": 1, "rate": 0.01, "lamp": 5, "wind": 0.5}
    trials = [
        PastTrial(i, {**arm, CONTROL_SET: name}, status="FAILED")
        for i, name in enumerate(("none", "soil"))
    ]
    points = method.failed_points(Simulation(method, SPACE, trials=trials).problem())
    rows = SPACE.decode(points)
    assert {row["soil"] for row in rows[:8]} == {*SOILS}
    assert {row["soil"] for row in rows[8:]} == {"peat"}
    rates = [r for s, r in zip(FRAME["soil"], FRAME["rate"], strict=True) if s == "peat"]
    found = [float(str(row["rate"])) for row in rows[8:]]
    assert np.log10(found).mean() == pytest.approx(np.log10(rates).mean(), abs=0.05)

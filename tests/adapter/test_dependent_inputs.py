"""Joint laws and learned marginals in the model's space, for every kind of parameter."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from ax.exceptions.core import UserInputError

from ax_costaware import (
    ControlSet,
    Discrete,
    FixedHyperparameters,
    GaussianCopula,
    JointEmpirical,
    Learned,
    Uniform,
    complete_trial,
    control_set_parameter,
    control_set_strategy,
)
from ax_costaware.adapter.control_set_adapter import ControlSetAdapter
from ax_costaware.adapter.cost_aware_adapter import fitted_adapter
from ax_costaware.adapter.experiment_checks import check_search_space
from ax_costaware.adapter.model_space import ModelSpace
from ax_costaware.adapter.realized_inputs import learned_from, realized_inputs
from ax_costaware.generators.control_set_settings import ControlSetSettings
from ax_costaware.queries.joint.kernel import kernel_of, smoothing_of
from ax_costaware.session import OutOfBoundsWarning

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


def make_adapter(**strategy: Any) -> ControlSetAdapter:
    """An adapter fitted to three attached trials that leave lamp and wind to chance."""
    client = Client()
    client.configure_experiment(
        name="space",
        parameters=[
            RangeParameterConfig("x", (-1.0, 3.0), "float"),
            ChoiceParameterConfig("soil", list(SOILS), "str", is_ordered=False),
            RangeParameterConfig("n", (1, 4), "int"),
            RangeParameterConfig("rate", (0.01, 1.0), "float", scaling="log"),
            ChoiceParameterConfig("lamp", [1, 5, 20], "int", is_ordered=True),
            RangeParameterConfig("wind", (0.0, 1.0), "float"),
            control_set_parameter(SETS),
        ],
    )
    client.configure_optimization("y")
    options: dict[str, Any] = {"marginals": MARGINALS, "joint": JointEmpirical(FRAME), **strategy}
    chosen = control_set_strategy(
        SETS,
        initial_trials=0,
        surrogate_spec=FixedHyperparameters(0.5),
        num_nodes=64,
        **options,
    )
    client.set_generation_strategy(chosen)
    for i, realized in enumerate(REALIZED):
        arm: dict[str, Any] = {"x": 0.5 * i, "soil": "clay", "n": 1 + i, "rate": 0.1}
        index = client.attach_trial({**arm, "lamp": 5, "wind": 0.5, "control_set": "all"})
        # A controlled input that came out differently tells nothing of what is left to chance.
        given = {**realized, "rate": 0.2}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OutOfBoundsWarning)
            complete_trial(client, index, {"y": float(i)}, realized=given)
    return fitted_adapter(client._experiment, chosen)  # type: ignore[return-value]


@pytest.fixture(scope="module")
def adapter() -> ControlSetAdapter:
    """The adapter with a joint law of soil, n and rate."""
    return make_adapter()


@pytest.fixture(scope="module")
def space(adapter: ControlSetAdapter) -> ModelSpace:
    """Its model space."""
    return adapter.model_space_view()


def test_who_gets_conditional_nodes(space: ModelSpace) -> None:
    """Only control sets that control a part of the joint law; a product there is none."""
    assert [given is not None for given in space.given] == [False, True, True, False]
    assert space.product is None


def test_shared_nodes_are_rows_of_the_sample(space: ModelSpace) -> None:
    """Rows go together, on the model's scale: log rates, integers, one-hot soils."""
    soil = list(space.columns["soil"])
    (rate,) = space.columns["rate"]
    (n,) = space.columns["n"]
    codes = dict(zip(space.discrete["soil"][0], space.discrete["soil"][1], strict=True))
    rows = [
        torch.cat([codes[s], torch.tensor([float(k), r], dtype=torch.double).log10()])
        for s, k, r in zip(*FRAME.values(), strict=True)
    ]
    expected = torch.stack(rows)
    found = torch.cat([space.nodes[:, soil], space.nodes[:, [n, rate]]], dim=-1)
    found[:, -2] = found[:, -2].log10()
    distance = (found.unsqueeze(1) - expected).abs().sum(dim=-1)
    assert float(distance.min(dim=-1).values.max()) < 1e-9
    assert len(set(distance.argmin(dim=-1).tolist())) == len(rows), "every row is a node"
    assert float(space.weights.sum()) == pytest.approx(1.0)


def test_conditional_nodes_weigh_rows_by_what_is_controlled(space: ModelSpace) -> None:
    """Given peat, only rows with peat count; given rate and n, those that are near on the log."""
    point = space.default.clone()
    raw, codes = space.discrete["soil"]
    point[list(space.columns["soil"])] = codes[raw.index("peat")]
    nodes, weights = space.given[1](point.unsqueeze(0))  # type: ignore[misc]
    (rate,) = space.columns["rate"]
    peat = torch.tensor(
        [r for s, r in zip(FRAME["soil"], FRAME["rate"], strict=True) if s == "peat"]
    )
    at_peat = weights[0] @ nodes[0, :, rate]
    assert float(at_peat) == pytest.approx(float(peat.log10().mean()), abs=1e-3)

    columns = [*space.columns["n"], rate]
    numbers = torch.tensor([FRAME["n"], FRAME["rate"]], dtype=torch.double).T
    numbers[:, 1] = numbers[:, 1].log10()
    point[columns] = torch.tensor([2.0, -1.2], dtype=torch.double)
    nodes, weights = space.given[2](point.unsqueeze(0))  # type: ignore[misc]
    assert bool((nodes[0][:, columns] == point[columns]).all())
    is_kind = [[float(soil == kind) for kind in SOILS] for soil in FRAME["soil"]]
    smoothing = smoothing_of(numbers, 2, numbers[:, :0], torch.tensor(is_kind))
    chances = kernel_of(numbers, 2, smoothing).weights(point[columns].unsqueeze(0))[0]
    for soil, code in zip(raw, codes, strict=True):
        is_soil = (nodes[0][:, list(space.columns["soil"])] - code).abs().sum(dim=-1) < 1e-9
        expected = chances[torch.tensor([s == soil for s in FRAME["soil"]])].sum()
        assert float(weights[0][is_soil].sum()) == pytest.approx(float(expected), abs=1e-9)


def test_expectation_is_over_the_conditional_law(
    adapter: ControlSetAdapter, space: ModelSpace
) -> None:
    """The mean of a query is the weighted mean of the model's own at the nodes."""
    point = 0.3 * space.bounds[0] + 0.7 * space.bounds[1]
    _, codes = space.discrete["soil"]
    point[list(space.columns["soil"])] = codes[0]
    means, variances = space.expectations(adapter.botorch_model, [(point, i) for i in range(4)])
    for i in range(4):
        query = space.query(point, i)
        assert isinstance(query, tuple)
        nodes, weights = query
        held = list(space.control_sets[i])
        assert bool((nodes[:, held] == point[held]).all())
        posterior = adapter.botorch_model.posterior(nodes)
        assert float(means[i]) == pytest.approx(float(weights @ posterior.mean[:, 0]), abs=1e-9)
        assert 0 < float(variances[i]) <= float(posterior.variance.max()) + 1e-9


def test_learned_marginals_follow_what_was_realised(
    adapter: ControlSetAdapter, space: ModelSpace
) -> None:
    """Nodes have the posterior predictive law; arms keep the prior's nominal values."""
    assert [t.chance for t in realized_inputs(adapter.experiment, adapter.settings)] == [*REALIZED]
    (lamp,), (wind,) = space.columns["lamp"], space.columns["wind"]
    codes = dict(zip(*space.discrete["lamp"], strict=True))
    shares = {
        value: float(space.weights[(space.nodes[:, lamp] - code).abs() < 1e-9].sum())
        for value, code in codes.items()
    }
    # Two prior values, one 5, and two 20s, which the prior does not have.
    assert shares == pytest.approx({1: 1 / 5, 5: 2 / 5, 20: 2 / 5}, abs=0.02)
    mean = (10 * 0.5 + 0.25 + 0.5 + 1.75) / 13
    assert float(space.weights @ space.nodes[:, wind]) == pytest.approx(mean, abs=0.01)
    assert (space.nominal["lamp"], space.nominal["wind"]) == (1, 0.5)


def test_learned_marginals_have_a_product_rule() -> None:
    """Without dependence the one-dimensional rules hold the learned law exactly."""
    marginals = {"soil": Discrete(SOILS), "n": Discrete((1, 2)), "rate": Uniform(0.1, 1.0)}
    space = make_adapter(joint=None, marginals={**MARGINALS, **marginals}).model_space_view()
    assert space.product is not None
    assert space.given == (None,) * 4
    block = space.product.columns.index(space.columns["lamp"])
    assert sorted(space.product.weights[block].tolist()) == pytest.approx([0.2, 0.4, 0.4])
    block = space.product.columns.index(space.columns["wind"])
    mean = space.product.weights[block] @ space.product.nodes[block][:, 0]
    assert float(mean) == pytest.approx((10 * 0.5 + 0.25 + 0.5 + 1.75) / 13)
    rule = space.query(space.default, 0)
    assert not isinstance(rule, tuple)


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
    adapter: ControlSetAdapter, frame: dict[str, Any], marginals: dict[str, Any], message: str
) -> None:
    others = {"soil": Discrete(SOILS), "n": Discrete((1, 2)), "rate": Uniform(0.1, 1.0)}
    laws = {**{n: m for n, m in others.items() if n not in frame}, "lamp": Discrete((1, 5))}
    settings = ControlSetSettings(
        SETS, marginals={**laws, **marginals}, joint=JointEmpirical(frame)
    )
    with pytest.raises(UserInputError, match=message):
        check_search_space(adapter.experiment.search_space, settings)


def test_an_input_has_one_law() -> None:
    joint = JointEmpirical(FRAME)
    with pytest.raises(UserInputError, match=r"both have \['n'\]"):
        ControlSetSettings(SETS, marginals={"n": Discrete((1, 2))}, joint=joint)
    with pytest.raises(UserInputError, match="expected a joint law such as"):
        ControlSetSettings(SETS, marginals={}, joint=FRAME)  # type: ignore[arg-type]
    learned = GaussianCopula({"n": Learned(Uniform(0, 1)), "rate": Uniform(0, 1)}, np.eye(2))
    with pytest.raises(UserInputError, match=r"Learned marginals, of \['n'\]: a joint law is not"):
        ControlSetSettings(SETS, marginals={}, joint=learned)

"""Joint nodes and product rules."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from ax_costaware.exceptions import InputError
from ax_costaware.laws import (
    Discrete,
    Empirical,
    Marginal,
    ProductNodes,
    TruncatedNormal,
    Uniform,
    sobol_nodes,
)

MARGINALS: tuple[Marginal, ...] = (
    Uniform(-1.0, 3.0),
    TruncatedNormal.from_variance(0.5, 0.04, 0.0, 1.0),
    Discrete([1, 4], [0.75, 0.25]),
    Empirical([0.0, 1.0, 1.0, 5.0]),
)


def test_sobol_nodes_have_the_laws() -> None:
    nodes, weights = sobol_nodes(MARGINALS, 1024)
    assert nodes.shape == (1024, 4)
    assert nodes.dtype == weights.dtype == torch.double
    assert torch.equal(weights, torch.full((1024,), 1 / 1024, dtype=torch.double))
    means = weights @ nodes
    for column, law in enumerate(MARGINALS):
        assert float(means[column]) == pytest.approx(law.expectation, abs=2e-3)
        spread = weights @ (nodes[:, column] - law.expectation) ** 2
        assert float(spread) == pytest.approx(law.variance, rel=1e-2)


def test_sobol_nodes_are_independent_across_columns() -> None:
    nodes, weights = sobol_nodes(MARGINALS, 1024)
    centred = nodes - weights @ nodes
    correlation = torch.corrcoef(centred.T)
    assert float((correlation - torch.eye(4)).abs().max()) < 0.02


def test_sobol_nodes_beat_random_ones() -> None:
    # The mean of a product of 4 functions with 256 nodes, over 20 seeds.
    def error(nodes: Tensor) -> float:
        return float((nodes / torch.tensor([m.expectation for m in MARGINALS])).prod(-1).mean() - 1)

    quasi = [error(sobol_nodes(MARGINALS, 256, seed)[0]) for seed in range(20)]
    random = [
        error(torch.stack([m.sample(256, 10 * seed + i) for i, m in enumerate(MARGINALS)], dim=-1))
        for seed in range(20)
    ]
    assert math.hypot(*quasi) < math.hypot(*random) / 3


def test_seed_decides_the_nodes_and_nothing_else_does() -> None:
    before = torch.get_rng_state()
    nodes, _ = sobol_nodes(MARGINALS, 16, seed=3)
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(1)
    assert torch.equal(sobol_nodes(MARGINALS, 16, seed=3)[0], nodes)
    assert not torch.equal(sobol_nodes(MARGINALS, 16, seed=4)[0], nodes)
    assert torch.equal(sobol_nodes(MARGINALS, 8, seed=3)[0], nodes[:8])


def test_choices_are_positions() -> None:
    nodes, weights = sobol_nodes([Discrete(["a", "b", "c"], [0.5, 0.25, 0.25])], 64)
    shares = [float(weights[nodes[:, 0] == position].sum()) for position in range(3)]
    assert shares == [0.5, 0.25, 0.25]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], 4), r"marginals=\[\]: expected a list of one or more marginals"),
        ((Uniform(0, 1), 4), r"marginals=Uniform.*: expected a list of one or more marginals"),
        (([Uniform(0, 1), 0.5], 4), r"marginals\[1\]=0\.5: expected a list"),
        (([Uniform(0, 1)], 0), r"n=0: expected an integer >= 1\."),
        (([Uniform(0, 1)], 4.0), r"n=4\.0: expected an integer >= 1\."),
        (([Uniform(0, 1)], 4, -1), r"seed=-1: expected an integer >= 0\."),
        (([Uniform(0, 1)], 4, [1]), r"seed=\[1\]: expected an integer >= 0\."),
    ],
)
def test_sobol_nodes_refuse(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        sobol_nodes(*arguments)


def test_product_rule_of_marginals() -> None:
    rule = ProductNodes.from_marginals(MARGINALS, n=16)
    assert rule.columns == ((0,), (1,), (2,), (3,))
    assert [tuple(nodes.shape) for nodes in rule.nodes] == [(16, 1), (16, 1), (2, 1), (3, 1)]
    expected = math.prod(m.variance + m.expectation**2 for m in MARGINALS)
    value = 1.0
    for nodes, weights in zip(rule.nodes, rule.weights, strict=True):
        value *= float(weights @ nodes[:, 0] ** 2)
    assert value == pytest.approx(expected, rel=1e-12)


def test_product_rule_has_64_nodes_unless_told_otherwise() -> None:
    assert len(ProductNodes.from_marginals([Uniform(0, 1)]).weights[0]) == 64
    with pytest.raises(InputError, match=r"marginals=\[\]"):
        ProductNodes.from_marginals([])


def test_a_block_carries_a_one_hot_encoded_choice() -> None:
    rule = ProductNodes(
        columns=[[3], [0, 1, 2]],  # type: ignore[arg-type]
        nodes=[torch.zeros(1, 1), torch.eye(3)],  # type: ignore[arg-type]
        weights=[torch.ones(1), torch.tensor([0.5, 0.25, 0.25])],  # type: ignore[arg-type]
    )
    assert rule.columns == ((3,), (0, 1, 2))
    assert isinstance(rule.nodes, tuple)
    assert isinstance(rule.weights, tuple)
    with pytest.raises(dataclasses.FrozenInstanceError):
        rule.columns = ()  # type: ignore[misc]


ONE, HALF = torch.ones(1, 1), torch.full((2,), 0.5)


@pytest.mark.parametrize(
    ("columns", "nodes", "weights", "message"),
    [
        ([], [], [], "have 0, 0 and 0 blocks: expected the same number, at least one"),
        ([[0]], [ONE], [], "have 1, 1 and 0 blocks"),
        ([[0], [0]], [ONE, ONE], [ONE[0], ONE[0]], r"columns=\(\(0,\), \(0,\)\): expected blocks"),
        ([[]], [ONE], [ONE[0]], r"columns=\(\(\),\): expected blocks"),
        ([[-1]], [ONE], [ONE[0]], r"columns=\(\(-1,\),\): expected blocks"),
        ([[0.0]], [ONE], [ONE[0]], "expected blocks of one or more column indices"),
        ([[0]], [torch.ones(2)], [HALF], r"nodes\[0\]: got shape \(2,\); expected .*, 1\)"),
        ([[0, 1]], [ONE], [ONE[0]], r"nodes\[0\]: got shape \(1, 1\); expected .*, 2\)"),
        ([[0]], [torch.ones(0, 1)], [torch.ones(0)], r"nodes\[0\]: got shape \(0, 1\)"),
        (
            [[0]],
            [ONE * math.nan],
            [ONE[0]],
            r"nodes\[0\]: got NaN or infinite values",
        ),
        ([[0]], [ONE], [HALF], r"weights\[0\] has the shape \(2,\): expected one weight for each"),
        ([[0]], [ONE], [ONE[0] / 2], r"weights\[0\] has the minimum 0\.5 and the sum 0\.5"),
        ([[0]], [ONE], [ONE[0] * math.nan], r"weights\[0\] has the minimum nan"),
        (
            [[0]],
            [torch.ones(2, 1)],
            [torch.tensor([1.5, -0.5])],
            r"weights\[0\] has the minimum -0\.5 and the sum 1\.0: expected weights >= 0",
        ),
    ],
)
def test_product_nodes_refuse(columns: Any, nodes: Any, weights: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ProductNodes(columns, nodes, weights)

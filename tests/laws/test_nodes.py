"""Joint nodes and product rules."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
import torch

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


def test_seed_decides_the_nodes_and_nothing_else_does() -> None:
    before = torch.get_rng_state()
    nodes, _ = sobol_nodes(MARGINALS, 16, seed=3)
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(1)
    assert torch.equal(sobol_nodes(MARGINALS, 16, seed=3)[0], nodes)
    assert not torch.equal(sobol_nodes(MARGINALS, 16, seed=4)[0], nodes)
    assert torch.equal(sobol_nodes(MARGINALS, 8, seed=3)[0], nodes[:8])


def test_product_rule_of_marginals() -> None:
    rule = ProductNodes.from_marginals(MARGINALS, n=16)
    assert rule.columns == ((0,), (1,), (2,), (3,))
    assert [tuple(nodes.shape) for nodes in rule.nodes] == [(16, 1), (16, 1), (2, 1), (3, 1)]
    expected = math.prod(m.variance + m.expectation**2 for m in MARGINALS)
    value = 1.0
    for nodes, weights in zip(rule.nodes, rule.weights, strict=True):
        value *= float(weights @ nodes[:, 0] ** 2)
    assert value == pytest.approx(expected, rel=1e-12)


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


ONE, HALF, TWO = torch.ones(1, 1), torch.full((2,), 0.5), torch.ones(2, 1)
UNIT = [Uniform(0, 1)]


@pytest.mark.parametrize(
    ("make", "refused", "name"),
    [
        (sobol_nodes, [([], 4), (Uniform(0, 1), 4), ([*UNIT, 0.5], 4)], "marginals"),
        (sobol_nodes, [(UNIT, 0), (UNIT, 4.0)], "n="),
        (sobol_nodes, [(UNIT, 4, -1), (UNIT, 4, [1])], "seed"),
        (ProductNodes.from_marginals, [([],)], "marginals"),
        (ProductNodes, [([], [], []), ([[0]], [ONE], [])], "blocks"),
        (ProductNodes, [([c], [ONE], [ONE[0]]) for c in ([], [-1], [0.0])], "column"),
        (ProductNodes, [([[0], [0]], [ONE, ONE], [ONE[0], ONE[0]])], "columns"),
        (ProductNodes, [([[0]], [torch.ones(2)], [HALF]), ([[0, 1]], [ONE], [ONE[0]])], "nodes"),
        (ProductNodes, [([[0]], [n], [n[:, 0]]) for n in (TWO[:0], ONE * math.nan)], "nodes"),
        (
            ProductNodes,
            [([[0]], [ONE], [w]) for w in (HALF, ONE[0] / 2, ONE[0] * math.nan)],
            "weights",
        ),
        (ProductNodes, [([[0]], [TWO], [torch.tensor([1.5, -0.5])])], "weights"),
    ],
)
def test_refused_arguments(make: Any, refused: list[tuple[Any, ...]], name: str) -> None:
    for arguments in refused:
        with pytest.raises(InputError, match=name):
            make(*arguments)

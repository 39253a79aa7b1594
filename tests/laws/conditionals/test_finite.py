"""Finitely many queries over finitely many points."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from ax_costaware.exceptions import InputError
from ax_costaware.laws import FiniteConditional, SharedNodes

POLICIES = ((0.5, 0.5, 0.0), (0.1, 0.2, 0.7))


def test_rows_are_the_weights() -> None:
    conditional = FiniteConditional(np.array(POLICIES))
    A = torch.tensor([[[1.0]], [[0.0]]], dtype=torch.double)
    rule = conditional.joint_rule(A)
    assert isinstance(rule, SharedNodes)
    assert rule.nodes.tolist() == [[0.0], [1.0], [2.0]]
    assert rule.weights.tolist() == [[list(POLICIES[1])], [list(POLICIES[0])]]
    assert conditional.column_rule(A) is None
    nodes, weights = conditional.nodes_and_weights(A)
    assert nodes.shape == (2, 1, 3, 1)
    assert weights.shape == (2, 1, 3)
    assert (conditional.num_query_columns, conditional.num_latent_columns) == (1, 1)


def test_points_may_have_several_columns() -> None:
    conditional = FiniteConditional(POLICIES, [[0, 1], [1, 0], [2, 2]], ["a", "b"])
    assert conditional.num_latent_columns == 2
    assert eval(repr(conditional)) == conditional
    assert hash(conditional) == hash(eval(repr(conditional)))
    rule = conditional.joint_rule(torch.ones(1, 1))
    assert rule.nodes.tolist() == [[0, 1], [1, 0], [2, 2]]
    assert rule.nodes.dtype == rule.weights.dtype == torch.float32
    assert conditional.within([0, 0], [2, 2]) == conditional
    with pytest.raises(InputError, match=r"points\[2\].*outside of X"):
        conditional.within([0, 0], [2, 1])
    with pytest.raises(InputError, match=r"points\[2\]=\(2\.0,\)"):
        FiniteConditional(POLICIES).within([0], [1])


@pytest.mark.parametrize("index", [-1.0, 2.0, 0.5, math.nan])
def test_queries_that_are_no_index(index: float) -> None:
    with pytest.raises(InputError, match="expected"):
        FiniteConditional(POLICIES).check_queries(torch.tensor([[0.0], [index]]))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"policies": ()}, "policies"),
        ({"policies": ((0.5, 0.6),)}, r"policies\[0\].*sum to 1\.1"),
        ({"policies": ((1.5, -0.5),)}, r"policies\[0\].*>= 0"),
        ({"policies": ((0.5, math.nan),)}, r"policies\[0\]\[1\]=nan"),
        ({"policies": ((1.0,), (0.5, 0.5))}, r"policies\[1\]"),
        ({"points": [[0], [1]]}, "points has 2 rows: expected 3"),
        ({"points": [[0], [1], [1]]}, "rows that differ"),
        ({"queries": ["a"]}, "2 different numbers or strings"),
        ({"queries": ["a", "a"]}, "2 different numbers or strings"),
        ({"queries": ["a", True]}, "2 different numbers or strings"),
        ({"queries": "ab"}, "queries='ab'"),
    ],
)
def test_bad_fields(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        FiniteConditional(**{"policies": POLICIES, **fields})


def test_probabilities_of_single_precision() -> None:
    generator = torch.Generator().manual_seed(0)
    policies = torch.rand(5, 30, generator=generator).softmax(-1)
    assert FiniteConditional(policies).policies == tuple(map(tuple, policies.tolist()))


def test_numpy_queries_are_plain_and_finite() -> None:
    found = FiniteConditional(POLICIES, queries=[np.int64(3), np.str_("b")])
    assert [type(query) for query in found.queries or ()] == [int, str]
    with pytest.raises(InputError, match="different numbers or strings"):
        FiniteConditional(POLICIES, queries=(math.nan, 1))

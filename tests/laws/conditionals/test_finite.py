"""Finitely many queries over finitely many points."""

from __future__ import annotations

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

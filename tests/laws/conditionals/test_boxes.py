"""Points that are uniform on boxes and cells."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import torch

from ax_costaware.exceptions import InputError
from ax_costaware.laws import CellConditional, UniformBoxConditional

from .rules import column_average, joint_average

CENTRES = torch.tensor([[0.5, 0.5], [0.3, 0.9], [0.02, 0.97]], dtype=torch.double)
LOWER, UPPER = (0.0, 0.0), (1.0, 1.0)
HALVES = ((0.5, 0.5), (0.25, 0.25), (0.125, 0.125))
CELLS = CellConditional(HALVES, LOWER, UPPER)


def uniform_average(centre: float, half: float, clip: bool) -> float:
    """The average of the exponential, of what is outside of the unit interval at its bounds."""
    low, high = centre - half, centre + half
    if not clip:
        return (math.exp(high) - math.exp(low)) / (2 * half)
    inside = math.exp(min(high, 1)) - math.exp(max(low, 0))
    return (inside + max(0 - low, 0) + max(high - 1, 0) * math.e) / (2 * half)


@pytest.mark.parametrize("clip", [False, True])
def test_averages_are_the_closed_form(clip: bool) -> None:
    options: dict[str, Any] = {"lower": LOWER, "upper": UPPER, "outside": "clip"} if clip else {}
    conditional = UniformBoxConditional((0.1, 0.3), **options)
    rule = conditional.column_rule(CENTRES)
    assert rule is not None
    found = column_average(rule, [torch.exp, torch.exp])
    expected = [
        uniform_average(a, 0.1, clip) * uniform_average(b, 0.3, clip) for a, b in CENTRES.tolist()
    ]
    assert found.tolist() == pytest.approx(expected, abs=1e-12)
    # Joint nodes are moved to the bounds, which is coarser where a box leaves X.
    joint = joint_average(conditional, CENTRES, lambda x: x.exp().prod(-1))
    assert joint.tolist() == pytest.approx(expected, rel=2e-3 if clip else 1e-9)


def test_boxes_that_leave_are_refused() -> None:
    conditional = UniformBoxConditional(0.1, LOWER, UPPER)
    conditional.check_queries(CENTRES[:2])
    conditional.check_queries(torch.tensor([[0.1, 0.9]], dtype=torch.double))
    with pytest.raises(InputError, match=r"query \(0\.02, 0\.97\).*up to 0\.61"):
        conditional.check_queries(CENTRES)
    dataclasses.replace(conditional, outside="keep").check_queries(CENTRES)


def test_many_columns_take_quasi_random_nodes() -> None:
    conditional = UniformBoxConditional(0.2, [0] * 5, [1] * 5, "clip")
    A = torch.full((1, 5), 0.9, dtype=torch.double)
    nodes, weights = conditional.nodes_and_weights(A)
    assert nodes.shape == (1, 64, 5)
    assert float(nodes.max()) == 1.0
    assert float((weights * nodes.mean(-1)).sum()) == pytest.approx(0.9 - 0.1 * 0.125, abs=2e-3)


def test_number_of_columns() -> None:
    unknown = UniformBoxConditional(0.1)
    assert unknown.num_latent_columns is None
    with pytest.raises(InputError, match="number of columns"):
        unknown.column_rule(CENTRES)
    assert unknown.within(LOWER, UPPER).num_query_columns == 2
    assert UniformBoxConditional(np.array([0.1, 0.2])).num_query_columns == 2
    bounded = UniformBoxConditional(0.1, LOWER, UPPER)
    assert eval(repr(bounded)) == bounded == unknown.within(LOWER, UPPER)
    assert bounded.within([0, 0], [2, 2]) == bounded


def test_cells_of_levels() -> None:
    A = torch.tensor([[0, 0.5, 0.5], [1, 0.25, 0.75], [2, 0.875, 0.125]], dtype=torch.double)
    CELLS.check_queries(A)
    assert (CELLS.num_query_columns, CELLS.num_latent_columns) == (3, 2)
    rule = CELLS.column_rule(A)
    assert rule is not None
    found = column_average(rule, [torch.exp, torch.exp])
    expected = [
        uniform_average(a, HALVES[int(level)][0], False)
        * uniform_average(b, HALVES[int(level)][1], False)
        for level, a, b in A.tolist()
    ]
    assert found.tolist() == pytest.approx(expected, abs=1e-12)
    joint = joint_average(CELLS, A, lambda x: x.exp().prod(-1))
    assert joint.tolist() == pytest.approx(expected, abs=1e-9)
    assert eval(repr(CELLS)) == CELLS
    assert CELLS.within(LOWER, UPPER) == CELLS

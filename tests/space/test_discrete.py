import itertools

import pytest
import torch

from ax_costaware.space.discrete import combinations, exchanges, satisfied


def _ones(columns, rhs, sign=1.0):
    index = torch.tensor(columns)
    return index, torch.full((len(index),), sign, dtype=torch.double), rhs


def _sum_is(columns, total):
    return [_ones(columns, total), _ones(columns, -total, -1.0)]


INTEGERS = [((i,), torch.arange(7.0).double().unsqueeze(-1)) for i in range(4)]
STEPS = [((i,), 0.25 * torch.arange(9.0).double().unsqueeze(-1)) for i in range(3)]
ONE_HOT = ((4, 5, 6), torch.eye(3).double())
WEIGHTED = [(torch.tensor([0, 1, 2]), torch.tensor([2.0, 3.0, -1.0]).double(), 9.5)]


@pytest.mark.parametrize(
    ("blocks", "upper", "constraints"),
    [
        (INTEGERS, 6.0, _sum_is([0, 1, 2, 3], 6.0)),
        (INTEGERS, 6.0, []),
        (INTEGERS, 6.0, [*_sum_is([0, 1], 3.0), *_sum_is([1, 2, 3], 5.0)]),
        (INTEGERS, 6.0, [*WEIGHTED, _ones([0, 1, 3], -5.0, -1.0)]),
        (INTEGERS, 6.0, _sum_is([0, 1, 2, 3], 25.0)),
        (STEPS, 2.0, _sum_is([0, 1, 2], 1.75)),
        ([*INTEGERS, ONE_HOT], 6.0, _sum_is([0, 1, 2, 3], 4.0)),
    ],
)
def test_combinations_are_those_of_brute_force(blocks, upper, constraints):
    d = 1 + max(max(columns) for columns, _ in blocks)
    bounds = torch.tensor([[0.0] * d, [upper] * d], dtype=torch.double)
    every = itertools.product(*[values.tolist() for _, values in blocks])
    points = torch.tensor([[*itertools.chain(*row)] for row in every], dtype=torch.double)
    expected = points[satisfied(points, constraints)]
    found = combinations(blocks, bounds, constraints, 10_000)
    assert sorted(found.tolist()) == sorted(expected.tolist())
    assert len(expected) < 2 or combinations(blocks, bounds, constraints, len(expected) - 1) is None
    some = combinations(blocks, bounds, constraints, 20, torch.Generator().manual_seed(0))
    assert len(some) == min(20, len(expected))
    assert len(some.unique(dim=0)) == len(some)
    assert satisfied(some, constraints).all()


def test_other_columns_may_be_anywhere_between_their_bounds():
    bounds = torch.tensor([[0.0, 0.0, 0.5], [6.0, 6.0, 2.5]], dtype=torch.double)
    found = combinations(INTEGERS[:2], bounds, [_ones([0, 1, 2], 13.5)], 100)
    assert sorted(found.tolist()) == [[5.0, 6.0, 0.5], [6.0, 5.0, 0.5], [6.0, 6.0, 0.5]]


def test_many_values_of_which_constraints_leave_few():
    values = torch.arange(5001.0).double().unsqueeze(-1)
    bounds = torch.tensor([[0.0] * 4, [5000.0] * 4], dtype=torch.double)
    blocks = [((i,), values) for i in range(4)]
    assert len(combinations(blocks, bounds, _sum_is(range(4), 10.0), 1000)) == 286


def test_exchanges_keep_the_sum_with_any_weights():
    bounds = torch.tensor([[0.0] * 4, [6.0] * 4], dtype=torch.double)
    X = torch.tensor([[3.0, 2.0, 1.0, 0.5]], dtype=torch.double)
    weights = torch.tensor([2.0, 3.0, 1.0]).double()
    constraints = [(torch.arange(3), weights, 13.0), (torch.arange(3), -weights, -13.0)]
    found = exchanges(X, INTEGERS[:3], bounds, constraints).unique(dim=0)
    assert found.tolist() == [
        [0.0, 4.0, 1.0, 0.5],
        [1.0, 2.0, 5.0, 0.5],
        [2.0, 2.0, 3.0, 0.5],
        [3.0, 1.0, 4.0, 0.5],
        [6.0, 0.0, 1.0, 0.5],
    ]
    held = exchanges(X, INTEGERS[:3], bounds, constraints, {2})
    assert {*map(tuple, held.tolist())} == {(0.0, 4.0, 1.0, 0.5), (6.0, 0.0, 1.0, 0.5)}


def test_a_real_number_makes_room_for_an_integer():
    bounds = torch.tensor([[0.0, 0.0], [6.0, 1.0]], dtype=torch.double)
    X = torch.tensor([[2.0, 0.5]], dtype=torch.double)
    found = exchanges(X, INTEGERS[:1], bounds, [_ones([0, 1], -3.0, -1.0)])
    assert [3.0, 0.0] in found.tolist()

"""Inclusion and cost groups."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ax_costaware.methods.control_sets.rules.rule import (
    cost_groups,
    maximal,
    proper_supersets,
)

families = st.lists(
    st.frozensets(st.sampled_from("abcdef"), min_size=1), min_size=1, max_size=12, unique=True
)


@given(families)
def test_proper_supersets_are_those_of_python(sets: list[frozenset[str]]) -> None:
    contained = proper_supersets(sets)
    assert contained.tolist() == [[part < whole for whole in sets] for part in sets]


@given(families, st.data())
def test_maximal_sets_are_part_of_no_other(sets: list[frozenset[str]], data: st.DataObject) -> None:
    among = data.draw(st.lists(st.sampled_from(range(len(sets))), min_size=1, unique=True))
    expected = [i for i in sorted(among) if not any(sets[i] < sets[j] for j in among)]
    assert maximal(proper_supersets(sets), among) == expected


def test_one_set_is_maximal() -> None:
    assert maximal(proper_supersets([frozenset("a")]), [0]) == [0]


@pytest.mark.parametrize(
    ("costs", "groups"),
    [
        ([1.0], [(0,)]),
        ([0.1, 1.0, 0.1, 0.2], [(0, 2), (3,), (1,)]),
        ([0.3, 0.1 + 0.2, 0.30001], [(0, 1), (2,)]),
        ([3, 2, 1], [(2,), (1,), (0,)]),
    ],
)
def test_cost_groups(costs: list[float], groups: list[tuple[int, ...]]) -> None:
    assert cost_groups(costs) == groups

"""Tables of pairs are read by the names of their columns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from ax_costaware.exceptions import InputError
from ax_costaware.laws import LearnedConditional
from ax_costaware.methods import IndirectQueries
from ax_costaware.space import Range

GENERATOR = np.random.default_rng(0)
A = GENERATOR.random((30, 2))
X = 10 * A + 0.1 * GENERATOR.standard_normal((30, 2))
ARRAYS = LearnedConditional(X, A)
TURNED = LearnedConditional(
    pd.DataFrame(X[:, ::-1], columns=["z2", "z1"]), pd.DataFrame(A[:, ::-1], columns=["a2", "a1"])
)
TARGETS = (Range("z1", -1, 11), Range("z2", -1, 11))


def method(conditional: LearnedConditional, **options: object) -> IndirectQueries:
    """The method of it."""
    return IndirectQueries(target_parameters=TARGETS, conditional=conditional, **options)  # type: ignore[arg-type]


def test_columns_are_matched_with_parameters() -> None:
    """As if an array had been given in the parameters' order."""
    asked = method(TURNED)
    assert asked.query_names(["a1", "a2"]) == ("a2", "a1")
    law, expected = asked.law, method(ARRAYS).law
    assert isinstance(law, LearnedConditional)
    assert isinstance(expected, LearnedConditional)
    np.testing.assert_array_equal(law.X, expected.X)
    np.testing.assert_array_equal(law.A[:, ::-1], expected.A)
    assert method(law) == method(replace(law))
    assert (law.target_names, law.query_names) == (("z1", "z2"), ("a2", "a1"))
    assert method(ARRAYS).query_names(["a1", "a2"]) == ("a1", "a2")


def test_bounds_move_with_their_columns() -> None:
    bounded = replace(TURNED, lower=(-2, -1), upper=(12, 11), outside="clip")
    ordered = bounded.ordered(("z1", "z2"))
    assert (ordered.lower, ordered.upper) == ((-1.0, -2.0), (11.0, 12.0))


def test_more_pairs_are_matched_too() -> None:
    more = pd.DataFrame([[3.0, 8.0]], columns=["z1", "z2"])
    queries = pd.DataFrame([[0.3, 0.8]], columns=["a1", "a2"])
    grown = TURNED.with_pairs(more, queries)
    assert grown.X[-1].tolist() == [8.0, 3.0]
    assert grown.A[-1].tolist() == [0.8, 0.3]
    assert grown.target_names == ("z2", "z1")
    with pytest.raises(InputError, match=r"A has the columns \['a1', 'b'\]"):
        TURNED.with_pairs(more, queries.rename(columns={"a2": "b"}))


def test_other_names_are_refused() -> None:
    other = LearnedConditional(pd.DataFrame(X, columns=["z1", "w"]), A)
    with pytest.raises(InputError, match=r"X has the columns \['z1', 'w'\]"):
        method(other)
    with pytest.raises(InputError, match=r"query_parameters=\('a1', 'a2'\): A .*\('a2', 'a1'\)"):
        method(TURNED, query_parameters=("a1", "a2"))


def test_columns_without_names_are_read_by_position() -> None:
    plain = LearnedConditional(pd.DataFrame(X), pd.DataFrame(A))
    assert plain.target_names is None
    assert plain == ARRAYS
    assert plain != TURNED
    assert "target_names=('z2', 'z1')" in repr(TURNED)

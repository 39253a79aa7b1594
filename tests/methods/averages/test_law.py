"""Pairs that are gathered while an experiment runs, and the conditional that grows by them."""

from __future__ import annotations

import numpy as np

from ax_costaware.methods.averages.law import Pairs, grown, joined, pairs_of
from ax_costaware.queries import GaussianConditional, LearnedConditional


def some(count: int, seed: int = 0) -> Pairs:
    random = np.random.default_rng(seed)
    X, A = (random.standard_normal((count, columns)).tolist() for columns in (2, 1))
    return Pairs(tuple(map(tuple, X)), tuple(map(tuple, A)))


def test_stored_pairs_in_the_order_of_the_names() -> None:
    assert pairs_of({}, ["x", "y"], ["a"]) == ((), ())
    given = some(3)
    points, queries = np.array(given.X), np.array(given.A)
    columns = dict(zip(("y", "x"), points.T.tolist(), strict=True))
    found = pairs_of({"X": columns, "A": {"a": queries[:, 0].tolist()}}, ["x", "y"], ["a"])
    assert np.array_equal(found.X, points[:, ::-1])
    assert np.array_equal(found.A, queries)


def test_pairs_of_other_targets_are_left_alone() -> None:
    """Those added after a strategy with others had queries without points, and ended the run."""
    old = {"X": {"x": [1.0]}, "A": {"a": [2.0]}}
    new = {"X": {"x": [3.0], "y": [4.0]}, "A": {"a": [5.0]}}
    stored = joined(old, new)
    assert pairs_of(stored, ["x"], ["a"]) == (((1.0,), (3.0,)), ((2.0,), (5.0,)))
    assert pairs_of(stored, ["x", "y"], ["a"]) == (((3.0, 4.0),), ((5.0,),))
    assert pairs_of(joined(stored, old), ["x", "y"], ["a"]) == (((3.0, 4.0),), ((5.0,),))
    assert pairs_of(stored, ["z"], ["a"]) == ((), ())
    # As it was stored before: the latest queries are those of the points.
    assert pairs_of({"X": {"y": [4.0]}, "A": {"a": [2.0, 5.0]}}, ["y"], ["a"]) == (
        ((4.0,),),
        ((5.0,),),
    )


def test_a_conditional_grows_once() -> None:
    """The same object for the same pairs, so that it is fitted once; another for others."""
    base = some(9)
    law = LearnedConditional(base.X, base.A)
    more = some(3, seed=1)
    found = grown(law, more)
    assert found == law.with_pairs(more.X, more.A)
    assert grown(law, some(3, seed=1)) is found
    assert grown(law, some(3, seed=2)) is not found
    assert grown(law, some(0)) is law
    known = GaussianConditional(((1.0,),), covariance=1.0)
    assert grown(known, more) is known

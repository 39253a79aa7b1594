"""Pairs that are kept with an experiment, and the conditional that grows by them."""

from __future__ import annotations

import numpy as np
from ax.core.experiment import Experiment
from ax.core.search_space import SearchSpace

from ax_costaware.generators.pairs import Pairs, append_pairs, grown, pairs_of
from ax_costaware.queries.conditionals import GaussianConditional, LearnedConditional


def some(count: int, seed: int = 0) -> Pairs:
    random = np.random.default_rng(seed)
    return Pairs(random.standard_normal((count, 2)), random.standard_normal((count, 1)))


def test_pairs_of_an_experiment() -> None:
    """In the order of the names that are asked for; other properties stay."""
    experiment = Experiment(SearchSpace([]), properties={"mine": 1, "ax_costaware": {"other": 2}})
    assert len(pairs_of(experiment, ["x", "y"], ["a"])) == 0
    first, second = some(3), some(2, seed=1)
    append_pairs(experiment, ["x", "y"], ["a"], first)
    append_pairs(experiment, ["y", "x"], ["a"], Pairs(second.X[:, ::-1], second.A))
    found = pairs_of(experiment, ["x", "y"], ["a"])
    assert np.array_equal(found.X, np.concatenate([first.X, second.X]))
    assert np.array_equal(found.A, np.concatenate([first.A, second.A]))
    assert experiment._properties["mine"] == 1
    assert experiment._properties["ax_costaware"]["other"] == 2


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

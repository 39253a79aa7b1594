"""Pairs that are gathered while an experiment runs, and the conditional that grows by them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from ax_costaware.core import FixedHyperparameters, Outcome, simulate
from ax_costaware.core.simulation import Simulation
from ax_costaware.exceptions import InputError
from ax_costaware.laws import (
    Conditional,
    GaussianConditional,
    JointNodes,
    LearnedConditional,
    SharedNodes,
)
from ax_costaware.methods.averages.indirect_queries import IndirectQueries
from ax_costaware.methods.averages.law import Pairs, joined, pairs_of, with_pairs
from ax_costaware.space import Range, Space


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
    found = with_pairs(law, more)
    assert found == law.with_pairs(more.X, more.A)
    assert with_pairs(law, some(3, seed=1)) is found
    assert with_pairs(law, some(3, seed=2)) is not found
    assert with_pairs(law, some(0)) is law
    known = GaussianConditional(((1.0,),), covariance=1.0)
    assert with_pairs(known, more) is known


@dataclass(frozen=True)
class OwnConditional(Conditional):
    """A user's own law: five points about the query, of which a test makes a rule."""

    rule: Callable[[Tensor, Tensor], Any] = JointNodes
    num_query_columns = num_latent_columns = 1

    def joint_rule(self, A: Tensor) -> Any:
        nodes = (A.unsqueeze(-2) + torch.linspace(-0.1, 0.1, 5).to(A).unsqueeze(-1)).clamp(0, 1)
        return self.rule(nodes, torch.full_like(nodes[..., 0], 0.2))

    def within(self, lower: Any, upper: Any) -> OwnConditional:
        return self


def of_own(rule: Callable[[Tensor, Tensor], Any]) -> IndirectQueries:
    fast: dict[str, Any] = {"num_restarts": 2, "raw_samples": 16, "num_samples": 4}
    return IndirectQueries(
        conditional=OwnConditional(rule),
        cost=1.0,
        target_parameters=(Range("x", 0, 1),),
        hyperparameters=FixedHyperparameters(0.3),
        initial_trials=2,
        **fast,
    )


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (lambda nodes, weights: None, "joint_rule gave None"),
        (lambda nodes, weights: JointNodes(nodes / 0, weights), "nodes of joint_rule .*got NaN"),
        (lambda nodes, weights: JointNodes(nodes[..., 0], weights), r"nodes .* shape \(2, J, 1\)"),
        (lambda nodes, weights: JointNodes(nodes, weights.numpy()), "weights .*got array"),
        (lambda nodes, weights: JointNodes(nodes, weights[..., 1:]), r"weights .*got shape \(2, 4"),
        (lambda nodes, weights: JointNodes(nodes, -weights), "weights .* sum to .*a sum of one"),
        (lambda nodes, weights: JointNodes(nodes.float(), weights), "float32 and torch.float64; e"),
        (lambda nodes, weights: SharedNodes(nodes, weights), "nodes"),
    ],
)
def test_a_law_of_ones_own_that_is_none_is_refused_at_once(rule: Any, message: str) -> None:
    """Before the initial design is paid, where the model would fail after it, or trust it."""
    with pytest.raises(InputError, match=rf"(?s)conditional=OwnConditional.*{message}"):
        Simulation(of_own(rule), Space.of([Range("a", 0, 1)]))


@pytest.mark.usefixtures("short_searches")
def test_a_law_of_ones_own_need_not_have_a_gradient() -> None:
    """One that is read from a table has none; a search began with an error of PyTorch."""
    run = simulate(
        of_own(lambda nodes, weights: JointNodes(nodes.detach(), weights)),
        Space.of([Range("a", 0, 1)]),
        lambda row, measure: Outcome(float(str(row["a"]))),
        3,
    )
    assert len(run.trials) == 3

"""What every conditional promises: averages of one, gradients, types, shapes, copies."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from ax_costaware.laws import (
    CellConditional,
    Conditional,
    FiniteConditional,
    GaussianConditional,
    LearnedConditional,
    RegressedConditional,
    UniformBoxConditional,
    register_conditional_mean,
)

from .rules import tensors_of, uniform

LOW, HIGH = (0.0, 0.0), (1.0, 1.0)
WEIGHT = ((0.5, 0.2), (0.0, 0.7))
RNG = np.random.default_rng(0)
A, X = RNG.random((20, 2)), RNG.random((20, 2))
CLIPPED: dict[str, Any] = {"lower": LOW, "upper": HIGH, "outside": "clip"}
register_conditional_mean("tests: wave", lambda A: torch.cos(3 * A / 2))

CONDITIONALS: dict[str, Conditional] = {
    "normal": GaussianConditional(WEIGHT, (0.1, 0.0), (0.05, 0.4)),
    "dependent": GaussianConditional(WEIGHT, (0.1, 0.0), ((0.05, 0.03), (0.03, 0.09))),
    "clipped": GaussianConditional(WEIGHT, None, (0.05, 0.4), **CLIPPED),
    "a column without scatter": GaussianConditional(WEIGHT, None, (0.0, 0.4), **CLIPPED),
    "four columns": GaussianConditional(np.eye(4)[:, :2], None, 0.3),
    "named": GaussianConditional.from_mean("tests: wave", 2, 0.5),
    "box": UniformBoxConditional((0.1, 0.3)),
    "clipped box": UniformBoxConditional((0.1, 0.3), **CLIPPED),
    "flat box": UniformBoxConditional((0.0, 0.3), **CLIPPED),
    "one half-width": UniformBoxConditional(0.1, LOW, HIGH),
    "cells": CellConditional(((0.5, 0.5), (0.25, 0.25)), LOW, HIGH),
    "finite": FiniteConditional(((0.5, 0.5, 0.0), (0.1, 0.2, 0.7)), [[0, 1], [1, 0], [2, 2]]),
    "learned": LearnedConditional(X, A),
    "regressed": RegressedConditional(X, A, lower=(-9, -9), upper=(9, 9)),
}
each = pytest.mark.parametrize("name", CONDITIONALS)


def queries(name: str, n: int = 3) -> torch.Tensor:
    if name == "finite":
        return torch.tensor([[1.0], [0.0], [1.0]], dtype=torch.double)[:n]
    inside = 0.3 + 0.4 * uniform(n, 2)
    levels = torch.ones(n, 1, dtype=torch.double)
    return torch.cat([levels, inside], dim=-1) if name == "cells" else inside


@each
def test_gradients_are_finite_differences(name: str) -> None:
    if name == "finite":
        return
    given, level = queries(name), queries(name)[:, :-2]

    def tensors(inside: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(tensors_of(CONDITIONALS[name], torch.cat([level, inside], dim=-1)))

    assert torch.autograd.gradcheck(tensors, (given[:, -2:].requires_grad_(),))
    if name == "learned":  # Also at a query of the pairs, where a distance is zero.
        assert torch.autograd.gradcheck(tensors, (torch.tensor(A[:3]).requires_grad_(),))


@each
def test_weights_types_and_shapes(name: str) -> None:
    conditional, given = CONDITIONALS[name], queries(name)
    nodes, weights = conditional.nodes_and_weights(given)
    d = nodes.shape[-1]
    assert conditional.num_latent_columns in (None, d)
    assert conditional.num_query_columns == given.shape[-1]
    if name != "learned":
        torch.testing.assert_close(weights.sum(dim=-1), torch.ones(3).double())
    for rule in (conditional.column_rule(given), conditional.joint_rule(given)):
        assert rule is None or bool(rule.weights.isfinite().all())
    for leading in ((3, 1), (0,)):
        A = given[: leading[0]].reshape(*leading, given.shape[-1])
        found, shares = conditional.nodes_and_weights(A)
        assert found.shape == (*leading, shares.shape[-1], d)
        assert shares.shape[:-1] == leading
    single, light = conditional.nodes_and_weights(given.float())
    assert single.dtype == light.dtype == torch.float32
    torch.testing.assert_close(single.double(), nodes, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(light.double(), weights, rtol=1e-3, atol=1e-4)


@each
def test_value_object(name: str) -> None:
    conditional = CONDITIONALS[name]
    for other in (copy.deepcopy(conditional), pickle.loads(pickle.dumps(conditional))):
        assert other == conditional
        assert hash(other) == hash(conditional)
    assert [other for other in CONDITIONALS.values() if other == conditional] == [conditional]
    if name not in ("learned", "regressed"):
        assert eval(repr(conditional)) == conditional
        return
    assert repr(conditional).startswith(
        f"{type(conditional).__name__}(<20 pairs: 2 columns of X, 2 "
    )
    kind: Any = type(conditional)
    bounds = {"lower": (-9, -9), "upper": (9, 9)} if name == "regressed" else {}
    same = kind(pd.DataFrame(X), torch.tensor(A), **bounds)
    assert same == conditional
    assert kind(pd.DataFrame(X, columns=["x", "y"]), A, **bounds) != conditional
    assert kind(X, A, seed=1, **bounds) != conditional
    assert kind(X + 1, A, **bounds) != conditional
    assert kind(X[:15], A[:15], **bounds).with_pairs(X[15:], A[15:]) == conditional
    with pytest.raises(ValueError, match="read-only"):
        conditional.X[0] = 0.0


def test_numbers_of_numpy_are_numbers() -> None:
    rows = GaussianConditional(np.eye(2), covariance=[np.array([1.0, 0.5]), np.array([0.5, 2.0])])
    assert rows.covariance == ((1.0, 0.5), (0.5, 2.0))
    pair = GaussianConditional(np.eye(2), torch.zeros(2), [np.float64(1.0), 2])
    assert pair == GaussianConditional(((1, 0), (0, 1)), [0, 0], (1.0, 2.0))
    box = UniformBoxConditional(np.float64(0.1), num_columns=2)
    assert box == UniformBoxConditional(0.1, num_columns=2)
    policies = FiniteConditional(np.eye(2), queries=[np.int64(3), np.str_("b")])
    assert [type(query) for query in policies.queries or ()] == [int, str]

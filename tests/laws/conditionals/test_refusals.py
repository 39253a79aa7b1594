"""What is refused by conditionals, by the name of the argument."""

from __future__ import annotations

import dataclasses
from math import inf, nan
from typing import Any

import numpy as np
import pytest
import torch

from ax_costaware.exceptions import InputError
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

LOW, HIGH = (0.0, 0.0), (1.0, 1.0)
RNG = np.random.default_rng(0)
A1, A2 = RNG.random((60, 1)), RNG.random((60, 2))
NORMAL = GaussianConditional(((15.0, 0.0), (0.0, 15.0)), (-5.0, 0.0), 0.5)
BOX = UniformBoxConditional((0.1, 0.1))
CELLS = CellConditional(((0.5, 0.5), (0.25, 0.25)), LOW, HIGH)
FINITE = FiniteConditional(((0.5, 0.5, 0.0), (0.1, 0.2, 0.7)))
LEARNED = LearnedConditional(3 * A1, A1)
REGRESSED = RegressedConditional(3 * A2, A2)
NAMED = {"weight": None, "bias": None}
SKEWED: list[Any] = [((1, 0), (1, 1)), ((1, 2), (2, 1)), ((1, 0),)]
NEITHER = "both bounds or neither"


@pytest.mark.parametrize(
    ("conditional", "name", "refused"),
    [
        (NORMAL, "weight", [{"weight": w} for w in (3, [], [[1.0], [1.0, 2.0]], [[nan]], None)]),
        (NORMAL, "bias", [{"bias": (1.0,)}]),
        (
            NORMAL,
            "covariance",
            [{"covariance": c} for c in (-1, "wide", (1.0,), (1, -1), (), *SKEWED)],
        ),
        (NORMAL, "either", [{"mean": "f"}]),
        (NORMAL, "from_mean", [{"query_columns": 2}]),
        (NORMAL, "query_columns", [NAMED | {"mean": "f", "query_columns": n} for n in (None, 0)]),
        (NORMAL, "mean=3", [NAMED | {"mean": 3, "query_columns": 1}]),
        (BOX, "half_width", [{"half_width": h} for h in (-0.1, (0.1, -0.1), "", ("wide", -1))]),
        (
            BOX,
            "half_width",
            [{"half_width": h, "num_columns": 3} for h in (("wide", 1), (0.1, 0.2))],
        ),
        (BOX, "num_columns", [{"half_width": 0.1, "num_columns": 0}]),
        (BOX, "num_nodes", [{"num_nodes": 1.5}]),
        (CELLS, "half_widths", [{"half_widths": h} for h in ((), ((0.5, 0.0),))]),
        (CELLS, "lower", [{"half_widths": ((0.5,),)}]),
        (CELLS, "bounds", [{"lower": None, "upper": None}]),
        (FINITE, "policies", [{"policies": ()}]),
        (
            FINITE,
            r"policies\[0\]",
            [{"policies": (row,)} for row in ((0.5, 0.6), (1.5, -0.5), (0.5, nan))],
        ),
        (FINITE, r"policies\[1\]", [{"policies": ((1.0,), (0.5, 0.5))}]),
        (FINITE, "points", [{"points": [[0], [1]]}]),
        (FINITE, "rows that differ", [{"points": [[0], [1], [1]]}]),
        (
            FINITE,
            "quer",
            [{"queries": q} for q in (["a"], ["a", "a"], ["a", True], "ab", (nan, 1))],
        ),
        (LEARNED, "X has 50 rows and A has 60", [{"X": A1[:50]}]),
        (LEARNED, "X has nan in row 3, column 0", [{"X": np.where(A1[3] == A1, nan, A1)}]),
        (LEARNED, "A has inf in row 3, column 0", [{"A": np.where(A1[3] == A1, inf, A1)}]),
        (LEARNED, "A ", [{"A": 1e200 * A1}, {"A": np.ones((60, 1))}]),
        (LEARNED, "pairs", [{"X": np.ones((60, 60))}, {"X": [1.0], "A": [1.0]}]),
        (LEARNED, "X of shape", [{"X": [], "A": []}, {"X": 3.0}, {"X": np.ones((60, 1, 1))}]),
        (
            LEARNED,
            "X is not numeric",
            [{"X": x} for x in (["a"] * 60, [True] * 60, A1 + 1j, [[1.0], [1.0, 2.0]] * 30)],
        ),
        (LEARNED, "lengthscale", [{"lengthscale": 0}]),
        (LEARNED, "regularization", [{"regularization": r} for r in (-1.0, 1e-15)]),
        (LEARNED, "landmarks", [{"landmarks": 1}]),
        (LEARNED, "outside of X", [{"lower": [0.0], "upper": [1.0]}]),
        (REGRESSED, "X has 50 rows and A has 60", [{"X": A2[:50]}]),
        (REGRESSED, "4 pairs", [{"X": A2[:4], "A": A2[:4]}]),
        (REGRESSED, "A has the value", [{"A": np.ones((60, 2))}]),
        (REGRESSED, "outside", [{"outside": "refuse"}]),
    ],
)
def test_refused_fields(conditional: Any, name: str, refused: list[dict[str, Any]]) -> None:
    for fields in refused:
        with pytest.raises(InputError, match=name):
            dataclasses.replace(conditional, **fields)


@pytest.mark.parametrize("conditional", [NORMAL, BOX, CELLS, LEARNED, REGRESSED], ids=repr)
def test_refused_bounds_nodes_and_seeds(conditional: Any) -> None:
    fields = {field.name for field in dataclasses.fields(conditional)}
    d = conditional.num_latent_columns
    for given, name in (
        ({"lower": [0.0] * d, "upper": None}, NEITHER),
        ({"lower": [0.0] * d, "upper": [1.0] * (d + 1)}, "upper|lower"),
        ({"lower": [0.0] * d, "upper": [0.0] * d}, "lower < upper"),
        ({"outside": "drop"}, "outside='drop'"),
        ({"outside": None}, "outside=None"),
        ({"num_nodes": 0}, "num_nodes=0"),
        ({"seed": -1}, "seed=-1"),
    ):
        if given.keys() <= fields:
            with pytest.raises(InputError, match=name):
                dataclasses.replace(conditional, **given)


@pytest.mark.parametrize(
    ("conditional", "queries"),
    [
        (NORMAL, [torch.zeros(3, 3), torch.tensor(0.0), torch.zeros(3, 2).long(), [[0.0, 0.0]]]),
        (NORMAL, [torch.tensor([[0.0, nan]]), torch.tensor([[0.0, inf]])]),
        (CELLS, [torch.tensor([[0, 0.5, 0.5], [level, 0.5, 0.5]]) for level in (3, -1, 0.5, nan)]),
        (CELLS, [torch.tensor([[1, 0.1, 0.5]])]),
        (FINITE, [torch.tensor([[0.0], [index]]) for index in (-1.0, 2.0, 0.5, nan)]),
        (LEARNED, [torch.tensor([[nan]])]),
    ],
)
def test_refused_queries(conditional: Conditional, queries: list[Any]) -> None:
    for A in queries:
        with pytest.raises(InputError, match=r"A|quer|shape|level"):
            conditional.check_queries(A)


def test_refused_means() -> None:
    for name, function in (("", torch.sin), (3, torch.sin), ("tests: text", "sin")):
        with pytest.raises(InputError, match=r"name|function"):
            register_conditional_mean(name, function)  # type: ignore[arg-type]
    missing = GaussianConditional.from_mean("tests: not there", 1, 0.5)
    with pytest.raises(InputError, match="'tests: not there'"):
        missing.column_rule(torch.zeros(1, 1))
    wrong = GaussianConditional.from_mean("tests: wrong", 2, (0.5, 0.5))
    for function in (
        lambda A: A.sum(),
        lambda A: A[..., :1],
        lambda A: A.tolist(),
        lambda A: A / 0,
    ):
        register_conditional_mean("tests: wrong", function)
        with pytest.raises(InputError, match="'tests: wrong'"):
            wrong.joint_rule(torch.ones(3, 2))

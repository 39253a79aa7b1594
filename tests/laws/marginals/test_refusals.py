"""What is refused by marginals, by the name of the argument."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nan
from typing import Any

import numpy as np
import pytest
import torch

from ax_costaware.exceptions import InputError
from ax_costaware.laws import Discrete, Empirical, Learned, Marginal, TruncatedNormal, Uniform
from tests.laws.marginals.laws import each_law

UNIT = Uniform(0, 1)


def normal(*arguments: Any) -> TruncatedNormal:
    return TruncatedNormal(*arguments, 0, 1)


def of_variance(*arguments: Any) -> TruncatedNormal:
    return TruncatedNormal.from_variance(*arguments, 0, 1)


@pytest.mark.parametrize(
    ("make", "refused", "name"),
    [
        (
            Discrete,
            [[], "abc", 3, None, [1, "a"], [1, True], [1, nan], [1, 1.0], ["a"] * 2],
            "values",
        ),
        (
            lambda shares: Discrete([1, 2], shares),
            [[0.5, 0.4], [0.5, 0.50001], [1.0], [0.5, 0.25, 0.25], [1.5, -0.5], ["1", "0"], 1.0],
            "probabilities",
        ),
        (lambda node: Discrete([1, 2]).decode(torch.tensor([node])), [1.5, nan, 3.0], "nodes"),
        (lambda node: Discrete(["a"]).decode(torch.tensor([node])), [1.5, nan, 3.0], "nodes"),
        (lambda _: Uniform(0, 1).decode(torch.zeros(4, 1)), [None], "nodes of shape"),
        (Empirical, [[], "12", 1.0, [1.0, nan], [-inf], [True], ["a"], np.eye(2)], "samples"),
        (lambda low: Uniform(low, 1.0), [1.0, 2, nan, "0", 1 - 1e-200], "lower"),
        (lambda high: Uniform(0, high), [inf, True, None, 10**400, 1e-200], "upper"),
        (lambda mean: normal(mean, 1), [nan], "mean"),
        (lambda std: normal(0.5, std), [0, -1, True, 1e-10, 1e7], "std"),
        (lambda mean: normal(mean, 1e-7), [-1e3], "a single value"),
        (lambda high: TruncatedNormal(0.5, 1, 1, high), [1, 0], "lower=1, upper"),
        (lambda mean: of_variance(mean, 0.01), [inf], "mean"),
        (
            lambda variance: of_variance(0.5, variance),
            [1 / 12, 1 / 12 - 1e-17, 0.0834, 1.0, 0.0, -0.1, nan, 1e-30],
            "variance",
        ),
        (Learned, [0.5, Learned(UNIT)], "prior"),
        (lambda strength: Learned(UNIT, strength), [0, nan], "strength"),
        (lambda samples: Learned(UNIT, 1, samples), [[0.5, nan], ["a"], 0.5], "samples"),
        (lambda samples: Learned(Empirical([1.0]), 1, samples), [[True]], "samples"),
        (lambda samples: Learned(Discrete([1, 2]), 1, samples), [[3], [True]], "samples"),
        (lambda samples: Learned(Discrete(["a"]), 1, samples), ["a", [1]], "samples"),
        (Learned(UNIT).updated, [0.5], "values"),
        (lambda seed: UNIT.sample(3, seed=seed), [-1, 0.5, None], "seed"),
    ],
)
def test_refused_arguments(make: Callable[[Any], Any], refused: list[Any], name: str) -> None:
    for argument in refused:
        with pytest.raises(InputError, match=name):
            make(argument)


@each_law
def test_refused_probabilities_and_numbers(law: Marginal) -> None:
    outside = [torch.tensor([0.5, u], dtype=torch.double) for u in (-1e-9, 1.0 + 1e-9, nan)]
    for u in (*outside, torch.tensor([0, 1]), 0.5):
        with pytest.raises(InputError, match=r"u( has the entry|=)"):
            law.icdf(u)  # type: ignore[arg-type]
    for n in (0, 2.0, True):
        for call in (law.nodes_and_weights, lambda n: law.sample(n, seed=0)):
            with pytest.raises(InputError, match="n="):
                call(n)

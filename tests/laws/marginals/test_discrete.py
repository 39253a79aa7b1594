"""Laws on finitely many values, numbers or not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from ax_costaware.exceptions import InputError
from ax_costaware.laws import Discrete


@pytest.mark.parametrize("n", [1, 2, 64])
def test_rule_is_the_atoms_in_order(n: int) -> None:
    nodes, weights = Discrete([3, 1, 10], [0.5, 0.2, 0.3]).nodes_and_weights(n)
    assert nodes.tolist() == [1.0, 3.0, 10.0]
    assert weights.tolist() == pytest.approx([0.2, 0.5, 0.3])


def test_values_that_are_no_numbers_are_positions() -> None:
    law = Discrete(["sand", "clay", "loam"], [0.3, 0.2, 0.5])
    assert not law.is_numeric
    nodes, weights = law.nodes_and_weights(1)
    assert nodes.tolist() == [0.0, 1.0, 2.0]
    assert weights.tolist() == pytest.approx([0.3, 0.2, 0.5])
    assert law.decode(nodes) == ["sand", "clay", "loam"]
    quantiles = law.icdf(torch.tensor([0.0, 0.3, 0.31, 0.5, 0.51, 1.0], dtype=torch.double))
    assert law.decode(quantiles) == ["sand", "sand", "clay", "clay", "loam", "loam"]


@pytest.mark.parametrize("values", [("a", "b"), (True, False)])
@pytest.mark.parametrize("name", ["expectation", "variance", "lower", "upper"])
def test_values_that_are_no_numbers_have_no_moments(values: tuple[Any, ...], name: str) -> None:
    law = Discrete(values, [0.3, 0.7])
    with pytest.raises(InputError, match=f"are not numbers and have no {name}"):
        getattr(law, name)
    assert law.mode == values[1]
    assert law.nominal == values[1]


def test_atoms_of_probability_zero_never_occur() -> None:
    law = Discrete([1, 2, 3, 4], [0.0, 0.5, 0.5, 0.0])
    assert law.nodes_and_weights(8)[0].tolist() == [2.0, 3.0]
    assert (law.lower, law.upper) == (2.0, 3.0)
    assert law.icdf(torch.tensor([0.0, 1.0])).tolist() == [2.0, 3.0]
    assert law.values == (1, 2, 3, 4)


def test_distribution_function_steps_at_the_atoms() -> None:
    law = Discrete([1, 2, 4], [0.25, 0.25, 0.5])
    x = torch.tensor([0.9, 1.0, 1.9, 2.0, 3.9, 4.0], dtype=torch.double)
    assert law.cdf(x).tolist() == [0.0, 0.25, 0.25, 0.5, 0.5, 1.0]


def test_kinds_of_values_are_kept() -> None:
    nodes = torch.tensor([2.0, 1.0], dtype=torch.double)
    assert [type(v) for v in Discrete([1, 2]).decode(nodes)] == [int, int]
    assert [type(v) for v in Discrete([1, 2.0]).decode(nodes)] == [float, float]
    assert Discrete([1, 2]).decode(nodes) == [2, 1]
    assert Discrete([True, False]).decode(torch.tensor([0.0, 1.0])) == [True, False]
    assert Discrete([0.1, 0.7]).decode(torch.tensor([0.7, 0.1], dtype=torch.float)) == [0.7, 0.1]


def test_numpy_values_become_python_values() -> None:
    law = Discrete(np.array([1, 2]), np.array([0.5, 0.5]))  # type: ignore[arg-type]
    assert law == Discrete((1, 2))
    assert [type(value) for value in law.values] == [int, int]
    assert Discrete([np.str_("a"), np.str_("b")]) == Discrete(["a", "b"])
    assert Discrete([np.int64(1), np.float64(0.5)]).values == (1.0, 0.5)  # type: ignore[list-item]
    assert Discrete([np.True_, np.False_]).values == (True, False)  # type: ignore[list-item]


def test_single_precision_probabilities_pass_and_are_normalised() -> None:
    shares = torch.full((7,), 1 / 7, dtype=torch.float)
    law = Discrete(list(range(7)), shares)  # type: ignore[arg-type]
    weights = law.nodes_and_weights(7)[1]
    assert float(weights.sum()) == pytest.approx(1.0, abs=1e-15)

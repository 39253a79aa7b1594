"""Laws on finitely many values, numbers or not."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from ax_costaware.exceptions import InputError
from ax_costaware.laws import Discrete


def test_moments_and_support() -> None:
    law = Discrete([3, 1, 10], [0.5, 0.25, 0.25])
    assert law.expectation == pytest.approx(4.25)
    assert law.variance == pytest.approx(0.5 * 1.25**2 + 0.25 * 3.25**2 + 0.25 * 5.75**2)
    assert (law.lower, law.upper) == (1.0, 10.0)


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
    with pytest.raises(InputError, match=f"are not numbers and have no {name}: expected numbers"):
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


def test_most_probable_value_is_the_first_of_several() -> None:
    assert Discrete([3, 1, 2]).mode == 3
    assert Discrete([3, 1, 2], [0.2, 0.4, 0.4]).nominal == 1


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


def test_equal_probabilities_are_the_default() -> None:
    assert Discrete([1, 2, 3, 4]).probabilities == (0.25, 0.25, 0.25, 0.25)
    assert repr(Discrete(["a", "b"])) == "Discrete(values=('a', 'b'), probabilities=(0.5, 0.5))"


@pytest.mark.parametrize("values", [[1, 2], [True, False], ["1", "2"]])
def test_laws_on_other_kinds_of_values_differ(values: list[Any]) -> None:
    equal = [Discrete(v) == Discrete(values) for v in ([1, 2], [True, False], ["1", "2"])]
    assert sum(equal) == 1


def test_single_precision_probabilities_pass_and_are_normalised() -> None:
    shares = torch.full((7,), 1 / 7, dtype=torch.float)
    law = Discrete(list(range(7)), shares)  # type: ignore[arg-type]
    weights = law.nodes_and_weights(7)[1]
    assert float(weights.sum()) == pytest.approx(1.0, abs=1e-15)


@pytest.mark.parametrize("nodes", [[1.5], [1.0, math.nan], [3.0]])
def test_refuses_to_decode_what_is_no_node(nodes: list[float]) -> None:
    with pytest.raises(InputError, match=r"nodes has the entry .*: expected values of Discrete"):
        Discrete([1, 2]).decode(torch.tensor(nodes))
    with pytest.raises(InputError, match=r"nodes has the entry .*: expected positions of"):
        Discrete(["a"]).decode(torch.tensor(nodes))


KINDS = "expected one or more distinct values, all numbers or all strings or all booleans"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([], r"values=\[\]: " + KINDS),
        ("abc", "values='abc': " + KINDS),
        (3, "values=3: " + KINDS),
        (None, "values=None: " + KINDS),
        ([1, "a"], r"values\[0\]=1: " + KINDS),
        (["a", 1], r"values\[1\]=1: " + KINDS),
        ([1, True], r"values\[0\]=1: " + KINDS),
        ([1, None], r"values\[1\]=None: " + KINDS),
        ([1, math.inf], r"values\[1\]=inf: " + KINDS),
        ([1, math.nan], r"values\[1\]=nan: " + KINDS),
        ([1, 2, 1], r"values has 1.* more than once: " + KINDS),
        ([1, 1.0], r"values has 1.* more than once: " + KINDS),
        (["a", "a"], "values has 'a' more than once: " + KINDS),
    ],
)
def test_refuses_values(values: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Discrete(values)


TWO = "expected 2 numbers >= 0 that sum to one, one for each value"


@pytest.mark.parametrize(
    ("probabilities", "message"),
    [
        ([0.5, 0.4], rf"probabilities=\[0\.5, 0\.4\] sum to 0\.9: {TWO}"),
        ([0.5, 0.50001], rf"sum to 1\.00001: {TWO}"),
        ([1.0], rf"probabilities=\[1\.0\] has 1 entries: {TWO}"),
        ([0.5, 0.25, 0.25], f"has 3 entries: {TWO}"),
        ([1.5, -0.5], r"probabilities\[1\]=-0\.5: expected a finite number >= 0\."),
        ([math.nan, 1], r"probabilities\[0\]=nan: expected a finite number >= 0\."),
        (["0.5", "0.5"], r"probabilities\[0\]='0\.5': expected a finite number >= 0\."),
        (1.0, rf"probabilities=1\.0: {TWO}"),
        ([0.0, 0.0], rf"sum to 0\.0: {TWO}"),
    ],
)
def test_refuses_probabilities(probabilities: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Discrete([1, 2], probabilities)

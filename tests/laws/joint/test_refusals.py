"""What is refused by joint laws, by the name of the argument."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from math import inf, nan
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ax_costaware.exceptions import InputError
from ax_costaware.laws import Discrete, GaussianCopula, JointEmpirical, JointLaw, Uniform
from tests.laws.joint.places import placement
from tests.laws.joint.test_law import each_law

TWO = {"a": Uniform(0, 1), "b": Uniform(0, 1)}
OK = [0.1 * i for i in range(12)]
MATRICES = [
    0.5,
    [0.5, 0.5],
    np.eye(3),
    [[1, 0.5], [0.5]],
    [[1, nan], [0.5, 1]],
    [[1, 0.5], [0.4, 1]],
]
INDEFINITE = [[[2, 0.5], [0.5, 1]], [[1, 1], [1, 1]], [[1, -2], [-2, 1]]]
TWICE = [("a", OK), ("a", OK)]


@pytest.mark.parametrize(
    ("make", "refused", "name"),
    [
        (lambda laws: GaussianCopula(laws, [[1]]), [{}, 3], "marginals="),
        (lambda law: GaussianCopula({"a": law}, [[1]]), [0.5, Discrete(["x", "y"])], "'a'"),
        (lambda laws: GaussianCopula(laws, np.eye(2)), [[("a", Uniform(0, 1))] * 2], "'a'"),
        (lambda R: GaussianCopula(TWO, R), [*MATRICES, *INDEFINITE], "correlation"),
        (GaussianCopula.fit, [{"a": OK[:5]}], "frame has 5 rows"),
        (GaussianCopula.fit, [{"a": [*OK, nan]}], r"frame\['a'\]"),
        (
            lambda column: GaussianCopula.fit({"a": OK, "b": column}),
            [list("abcdefghijkl"), [True, False] * 6, [0.5] * 12],
            r"frame\['b'\]",
        ),
        (
            lambda laws: GaussianCopula.fit({"a": OK}, laws),
            [{"b": Uniform(0, 1)}, [1], {"a": 3}],
            "marginals",
        ),
        (JointEmpirical, [{}, 3, pd.DataFrame(), ["ab"], {1: OK}, {"": OK}, {"a": []}], "frame"),
        (JointEmpirical, [TWICE, pd.DataFrame([[1.0, 2.0]] * 12, columns=["a", "a"])], "'a'"),
        (JointEmpirical, [{"a": OK[:9]}, {"a": OK, "b": OK[:11]}], "frame"),
        (
            lambda column: JointEmpirical({"a": column}),
            [
                *([*OK, nan], [*OK, None], [inf, *OK], ["x", *OK], [True, *OK], np.ones((12, 2))),
                *([*"abcdefghij", None], 3, "abcdefghijkl", pd.array([*range(11), None], "Int64")),
            ],
            r"frame\['a'\]",
        ),
    ],
)
def test_refused_arguments(make: Callable[[Any], Any], refused: list[Any], name: str) -> None:
    for argument in refused:
        with pytest.raises(InputError, match=name):
            make(argument)


@each_law
def test_refused_by_every_law(law: JointLaw) -> None:
    lacking = dataclasses.replace(placement(), columns={"dose": (0,)})
    calls: list[tuple[Callable[[], Any], str]] = [
        (lambda: law.nodes_given(["wind"], placement()), "'wind'"),
        (lambda: law.nodes_given(["dose"], lacking), "is no parameter"),
        (lambda: law.joint_rows(["wind"], 4, 0), "'wind'"),
        (lambda: law.marginal("wind"), "'wind'"),
        (lambda: law.cdf_given("wind", 1.0, {}), "'wind'"),
        (lambda: law.cdf_given("days", 1, {"days": 2}), "given has 'days'"),
        (lambda: law.cdf_given("days", "a", {}), "days='a'"),
        (lambda: law.cdf_given("days", 1, {"rain": nan}), "rain=nan"),
        (lambda: law.joint_rows(["days"], 0, 0), "n=0"),
        (lambda: law.joint_rows(["days"], 4, -1), "seed=-1"),
        (lambda: law.nodes_given((), placement(num_nodes=0)), "num_nodes=0"),
        (lambda: law.nodes_given(("dose",), placement(num_nodes=0)), "num_nodes=0"),
    ]
    for call, name in calls:
        with pytest.raises(InputError, match=name):
            call()


def test_refused_values_of_another_kind() -> None:
    law = JointEmpirical({"soil": ["clay", "sand"] * 20, "till": [True, False] * 20})
    with pytest.raises(InputError, match="soil=1"):
        law.cdf_given("till", True, {"soil": 1})
    with pytest.raises(InputError, match="till=1"):
        law.cdf_given("till", 1, {})

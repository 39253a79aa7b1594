"""Tables of candidates and descriptors: refusals, and the space with a table."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
import torch

from ax_costaware.exceptions import InputError
from ax_costaware.space import Candidates, Choice, Descriptors, Fixed, Range, Space
from ax_costaware.space.finite_spaces import all_points, is_untried

ROWS: list[dict[str, Any]] = [
    {"salt": 1, "rate": 0.1, "ligand": "a", "mass": 1.0, "price": 2.0},
    {"salt": 2, "rate": 0.1, "ligand": "b", "mass": 5.0, "price": 1.0},
    {"salt": 2, "rate": 0.3, "ligand": "a", "mass": 1.0, "price": 3.0},
    {"salt": 4, "rate": 0.01, "ligand": "c", "mass": 2.5, "price": 0.5},
]
PARAMETERS = [
    Range("salt", 0, 5, is_integer=True),
    Range("rate", 0.001, 1.0, log_scale=True),
    Choice("ligand", ("a", "b", "c")),
]
CANDIDATES = Candidates(ROWS, cost="price", descriptors={"ligand": ["mass"]})


def changed(row: int, **values: Any) -> list[dict[str, Any]]:
    """The rows, one of them with other values."""
    return [{**each, **values} if i == row else each for i, each in enumerate(ROWS)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"table": 3}, "expected a data frame, a list of dictionaries"),
        ({"table": []}, "has the columns"),
        ({"table": ROWS[:1]}, "has 1 rows: expected two or more"),
        ({"table": [*ROWS, {"salt": 1}]}, r"table\[4\]"),
        ({"table": {"a": [1, 2], "b": [1]}}, "lengths {'a': 2, 'b': 1}"),
        ({"table": {"a": []}}, "has no rows"),
        ({"table": {3: [1, 2]}}, r"the columns \[3\]"),
        ({"table": changed(2, salt=None)}, r"\['salt'\] has no value in row 2"),
        ({"table": changed(1, rate=float("nan"))}, r"\['rate'\] has no value in row 1"),
        ({"table": changed(1, rate=float("inf"))}, r"\['rate'\] has inf in row 1"),
        ({"table": changed(1, rate="x")}, "expected values of one kind"),
        ({"table": [*ROWS, ROWS[1]]}, "rows 1 and 4 of table have the same values"),
        ({"table": ROWS, "cost": "cost"}, "cost='cost': expected one of"),
        ({"table": changed(3, price=0.0), "cost": "price"}, "the cost 0.0 in row 3"),
        ({"table": ROWS, "cost": "ligand"}, "the cost 'a' in row 0"),
        ({"table": ROWS, "descriptors": {"metal": ["mass"]}}, "'metal'"),
        ({"table": ROWS, "descriptors": {"ligand": ["size"]}}, "'size'"),
        (
            {"table": changed(2, mass=3.0), "descriptors": {"ligand": ["mass"]}},
            "'mass' 1.0 in row 0 and 3.0 in row 2, both with ligand='a'",
        ),
        (
            {"table": changed(1, mass=1.0), "descriptors": {"ligand": ["mass"]}},
            "'a' and 'b' have the same descriptors",
        ),
        ({"table": {"price": [1, 2]}, "cost": "price"}, "expected columns of parameters"),
    ],
)
def test_invalid_tables(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Candidates(**arguments)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"mass": [1, 2]}, "expected 'ligand'"),
        ({"ligand": ["a", "b"]}, "one or more descriptors"),
        ({"ligand": ["a", "a"], "mass": [1, 2]}, "has 'a' more than once"),
        ({"ligand": ["a", "b"], "mass": ["x", "y"]}, "has 'x' in 'mass'"),
        ({"ligand": ["a", "b"], "mass": [1.0, 1.0]}, "the same descriptors"),
    ],
)
def test_invalid_descriptors(table: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Descriptors("ligand", table)


@pytest.mark.parametrize(
    ("candidates", "parameters", "message"),
    [
        (Candidates({"metal": ["x", "y"]}), PARAMETERS, "column 'metal', which is no parameter"),
        (Candidates({"salt": [1, 9]}), PARAMETERS, "has 9 in row 1 of 'salt'"),
        (Candidates({"salt": [1, 1.5]}), PARAMETERS, "has 1.5 in row 1 of 'salt'"),
        (Candidates({"ligand": ["a", "d"]}), PARAMETERS, "has 'd' in row 1 of 'ligand'"),
        (Candidates({"k": [1, 2]}), [*PARAMETERS, Fixed("k", 1)], "has 2 in row 1 of 'k'"),
    ],
)
def test_tables_that_do_not_fit(candidates: Candidates, parameters: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Space.of(parameters).restricted(candidates)


@pytest.mark.parametrize(
    ("descriptors", "message"),
    [
        ([Descriptors("salt", {"salt": [1, 2], "m": [1, 2]})], "descriptors has 'salt'"),
        ([Descriptors("ligand", {"ligand": ["a", "b"], "m": [1, 2]})], r"has the values \['c'\]"),
        ([Descriptors("ligand", {"ligand": ["a", "b", "c"], "m": [1, 2, 3]})] * 2, "more than on"),
    ],
)
def test_descriptors_that_do_not_fit(descriptors: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Space.of(PARAMETERS).restricted(None, descriptors)


def test_forms_of_a_table_are_equal() -> None:
    by_columns = {name: [row[name] for row in ROWS] for name in ROWS[0]}
    for table in (pd.DataFrame(ROWS), by_columns, CANDIDATES.text):
        assert Candidates(table, cost="price", descriptors={"ligand": ["mass"]}) == CANDIDATES
    assert repr(CANDIDATES) == (
        "Candidates(4 rows of salt, rate, ligand, cost='price', descriptors={'ligand': ('mass',)})"
    )


def test_rows_are_found_by_ten_digits() -> None:
    assert CANDIDATES.find({"salt": 2.0, "rate": 3 * 0.1, "ligand": "a", "more": 1}) == 2
    assert CANDIDATES.find({"salt": 2, "rate": 0.3001, "ligand": "a"}) is None
    assert CANDIDATES.find({"salt": 2}) is None


@pytest.mark.parametrize("table", [CANDIDATES, Candidates(CANDIDATES.table, cost="price")])
def test_only_rows_are_in_the_space(table: Candidates) -> None:
    names = ("salt", "rate", "ligand") if table.descriptors else table.names
    parameters = PARAMETERS if table.descriptors else [*PARAMETERS, Range("mass", 0, 9)]
    space = Space.of(parameters).restricted(table)
    rows = [table.row(i) for i in range(len(table))]
    assert space.decode(space.encode(rows)) == [space.ordered(row) for row in rows]
    points = all_points(space)
    assert points is not None
    assert sorted(points.tolist()) == sorted(space.encode(rows).tolist())
    assert space.smooth == set()
    assert space.center in rows
    drawn = space.sobol_rows(8, seed=3)
    assert sorted(map(str, drawn[:4])) == sorted(map(str, rows)) == sorted(map(str, drawn[4:]))
    assert len(space.sobol_points(64, 0)) == 4
    for row in rows:
        assert space.contains(row)
        assert space.admits(row)
        assert space.meets(row)
    off = {**rows[0], "ligand": "c"}
    assert not (space.contains(off))
    assert not (space.admits(off))
    assert not (space.meets(off))
    held = space.held_at({"salt": 2})
    assert [row["salt"] for row in held.sobol_rows(4)] == [2] * 4
    assert names == table.names
    with pytest.raises(InputError, match="no row of candidates has"):
        space.held_at({"salt": 3})


def test_parameters_without_a_column_are_free() -> None:
    space = Space.of([*PARAMETERS, Range("time", 0, 1), Range("n", 1, 2, is_integer=True)])
    space = space.restricted(CANDIDATES)
    assert len(space.smooth) == 1
    assert all_points(space) is None
    points = all_points(space, space.columns_of({"time": 0.5}))
    assert points is not None
    assert len(points) == 8
    X = space.neighbors(space.sobol_points(3, 0), {})
    assert all(space.meets(row) for row in space.decode(X))
    assert all(space.meets(row) for row in space.sobol_rows(9))


def test_descriptors_are_standardized_columns() -> None:
    table = {"ligand": ["c", "a", "b"], "mass": [3, 1, 2], "same": [1, 1, 1], "angle": [0, 0, 9]}
    space = Space.of(PARAMETERS).restricted(None, [Descriptors("ligand", table)])
    columns = list(space.columns["ligand"].indices)
    codes = space.encode([{"salt": 1, "rate": 0.1, "ligand": v} for v in "abc"])[:, columns]
    expected = torch.tensor([[1.0, 0], [2, 9], [3, 0]], dtype=torch.double)
    expected = (expected - expected.mean(0)) / expected.std(0, correction=0)
    torch.testing.assert_close(codes, expected)
    assert space.blocks == []
    row = {"salt": 1, "rate": 0.1, "ligand": "b"}
    assert space.decode(space.encode([row]) + 1e-3)[0]["ligand"] == "b"


def test_untried_points_of_a_large_table() -> None:
    points = torch.eye(40, dtype=torch.double)[torch.randint(40, (2000,))]
    points[:, 0] += torch.rand(2000, dtype=torch.double)
    tried = points[::4].clone() * (1 + 1e-14)
    expected = torch.ones(2000, dtype=torch.bool)
    expected[::4] = False
    assert bool((is_untried(points, tried) == expected).all())

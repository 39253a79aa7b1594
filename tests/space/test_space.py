"""A search space as columns of a model, and back, for every kind of parameter."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from ax_costaware.acquisition.optimize import Region, maximize
from ax_costaware.exceptions import InputError
from ax_costaware.space.parameters import Choice, Fixed, Parameter, Range, Row, takes
from ax_costaware.space.space import Space

PARAMETERS: tuple[Parameter, ...] = (
    Range("dose", -5, 5),
    Range("pots", 1, 4, is_integer=True),
    Fixed("site", "here"),
    Range("days", 1, 64, is_integer=True, log_scale=True),
    Range("rate", 0.01, 1.0, log_scale=True),
    Range("share", 0.1, 0.9, logit_scale=True),
    Choice("soil", ("sand", "clay", "peat")),
    Choice("kind", ("control", "treatment")),
    Choice("lamp", (1, 5, 20), is_ordered=True),
    Choice("code", (3, 1, 7)),
    Choice("power", (0.01, 0.1, 1.0), is_ordered=True, log_scale=True),
    Choice("size", ("S", "M", "L"), is_ranked=True),
    Choice("lid", (True, False)),
)
CONTROL_SET = Choice("control_set", ("dose", "all"))

SPACE = Space.of([*PARAMETERS[:4], CONTROL_SET, *PARAMETERS[4:]], hidden=["control_set"])
BOUNDED = Space.of(PARAMETERS, [({"dose": 1.0, "pots": 1.0}, 5.0)])


def check_same(found: Row, row: Row, but_for_rounding: tuple[str, ...]) -> None:
    """Check that two parameterizations are equal, those on another scale to rounding."""
    assert found.keys() == row.keys()
    for name, value in row.items():
        assert found[name] == (pytest.approx(value, 1e-12) if name in but_for_rounding else value)


def test_columns() -> None:
    """One for a number, on the model's scale; one for each value of a choice without an order."""
    sizes = {name: len(column.indices) for name, column in SPACE.columns.items()}
    assert sizes == {
        "dose": 1, "pots": 1, "days": 1, "rate": 1, "share": 1, "soil": 3, "kind": 2, "lamp": 1,
        "code": 3, "power": 1, "size": 1, "lid": 2,
    }  # fmt: skip
    every = [i for column in SPACE.columns.values() for i in column.indices]
    assert every == list(range(18))
    assert SPACE.bounds.shape == (2, 18)

    def ends(name: str) -> list[float]:
        found: list[float] = SPACE.bounds[:, SPACE.columns[name].indices[0]].tolist()
        return found

    assert ends("dose") == [-5.0, 5.0]
    assert ends("days") == pytest.approx([0.0, math.log10(64)])
    assert ends("rate") == pytest.approx([-2.0, 0.0])
    assert ends("share") == pytest.approx([-math.log(9), math.log(9)])
    assert ends("soil") == [0.0, 1.0]
    assert ends("lamp") == [1.0, 20.0]
    assert ends("power") == pytest.approx([-2.0, 0.0])
    assert ends("size") == [0.0, 2.0]
    assert SPACE.smooth == {SPACE.columns[name].indices[0] for name in ("dose", "rate", "share")}


def test_spaces_of_the_same_parameters_are_equal() -> None:
    assert Space.of(PARAMETERS) == Space.of(PARAMETERS)
    assert Space.of(PARAMETERS) != BOUNDED
    assert Space.of(PARAMETERS) != Space.of([Range("dose", -5, 6), *PARAMETERS[1:]])


def test_names_in_the_order_of_the_declaration() -> None:
    """A hidden parameter is no column and none of the names, but has its place in a row."""
    assert SPACE.names == [parameter.name for parameter in PARAMETERS]
    assert list(SPACE.parameters.values()) == list(PARAMETERS)
    assert SPACE.hidden == {"control_set": CONTROL_SET}
    row: dict[str, Any] = {"control_set": "all", "rate": 0.1, "dose": 1.0, "moon": 1}
    assert list(SPACE.ordered(row)) == ["dose", "control_set", "rate"]


def test_there_and_back() -> None:
    rows = SPACE.sobol_rows(256, seed=3)
    assert all(set(row) == set(SPACE.names) for row in rows)
    for name in ("pots", "soil", "kind", "lamp", "code", "power", "size", "lid"):
        assert {row[name] for row in rows} == set(SPACE.parameters[name].values_up_to(9) or ())
    X = SPACE.encode(rows)
    assert bool((SPACE.bounds[0] - 1e-9 <= X).all())
    assert bool((SPACE.bounds[1] + 1e-9 >= X).all())
    back = SPACE.decode(X)
    for row, found in zip(rows, back, strict=True):
        check_same(found, row, but_for_rounding=("rate", "share"))
        assert list(found) == SPACE.names
        assert [type(found[name]) for name in found] == [type(row[name]) for name in found]
    assert torch.allclose(SPACE.encode(back), X, atol=1e-12, rtol=0.0)
    assert SPACE.encode([]).shape == (0, 18)


def test_the_nearest_valid_row() -> None:
    """Rounded, within the bounds, and of a block the largest column."""
    (row,) = SPACE.sobol_rows(1)
    point = SPACE.encode([row])
    for name, values in {
        "dose": (7.0,),
        "pots": (2.6,),
        "days": (math.log10(9.6),),
        "soil": (0.1, 0.2, 0.6),
        "lamp": (11.0,),
        "power": (-1.4,),
        "size": (1.6,),
        "lid": (0.4, 0.6),
    }.items():
        point[0, list(SPACE.columns[name].indices)] = point.new_tensor(values)
    (found,) = SPACE.decode(point)
    expected = {"dose": 5.0, "pots": 3, "days": 10, "soil": "peat", "lamp": 5}
    expected |= {"power": 0.1, "size": "L", "lid": False}
    assert {name: found[name] for name in expected} == expected


def test_a_value_that_there_is_not() -> None:
    (row,) = SPACE.sobol_rows(1)
    for name, value in (("soil", "mud"), ("lid", 1), ("lamp", 2)):
        with pytest.raises(InputError, match=f"{name!r} has the value {value!r}"):
            SPACE.encode([{**row, name: value}])


def test_raw_values_of_points_have_gradients() -> None:
    """Also between the corners of a block of numbers; a fixed one has its value everywhere."""
    space = Space.of([*PARAMETERS, Fixed("pressure", 2)])
    X = 0.7 * space.encode(space.sobol_rows(3)) + 0.3 * space.encode(space.sobol_rows(3, seed=1))
    block = list(space.columns["code"].indices)
    X[:, block] = X[:, block].clamp(0.1, 0.9)
    for name in ("dose", "days", "rate", "share", "code", "power"):
        at = X.clone().requires_grad_()
        assert torch.autograd.gradcheck(lambda A, n=name: space.raw(n, A), (at,))
    rows = space.sobol_rows(8)
    for name in ("pots", "share", "code", "lamp", "power", "pressure"):
        expected = [float(str(row[name])) for row in rows]
        assert space.raw(name, space.encode(rows)).tolist() == pytest.approx(expected)
    assert [n for n in space.names if not space.parameters[n].is_numeric] == [
        "site", "soil", "kind", "size", "lid",
    ]  # fmt: skip


def test_points_are_valid_and_different() -> None:
    points = BOUNDED.sobol_points(128, seed=0)
    assert len(points) == 128
    rows = BOUNDED.decode(points)
    assert all(row["dose"] + row["pots"] <= 5 + 1e-9 for row in rows)  # type: ignore[operator]
    assert all(BOUNDED.meets(row) for row in rows)
    assert torch.allclose(BOUNDED.encode(rows), points, atol=1e-12)
    for name in ("pots", "soil", "kind", "lamp", "code", "power", "size", "lid"):
        assert {row[name] for row in rows} == set(BOUNDED.parameters[name].values_up_to(9) or ())
    held = BOUNDED.columns["lamp"].indices[0]
    assert (BOUNDED.sobol_points(16, seed=0, fixed={held: 5.0})[:, held] == 5.0).all()
    few = Space.of([Choice("soil", ("sand", "clay")), Range("pots", 1, 3, is_integer=True)])
    assert len(few.sobol_points(64, seed=0)) == 6
    impossible = replace(few, sums=(({"pots": 1.0}, 0.0),))
    assert len(impossible.sobol_points(64, seed=0)) == 0


def test_constraints() -> None:
    """By columns as by rows, fixed parameters on the other side; and of some parameters only."""
    space = Space.of(
        [Range("x", 0, 1), Fixed("f", 2.0), Range("z", 0, 1)],
        [({"x": 1.0, "z": -1.0, "f": 0.25}, 1.0), ({"z": 2.0}, 1.0)],
    )
    found = [(i.tolist(), c.tolist(), rhs) for i, c, rhs in space.inequality_constraints]
    assert found == [([0, 1], [-1.0, 1.0], -0.5), ([1], [-2.0], -1.0)]
    row = {"x": 1.0, "z": 0.25, "f": 2.0}
    assert not space.meets(row)
    assert space.meets(row, among=[])
    assert not space.meets({**row, "x": 0.5, "z": 0.75})
    assert space.meets({**row, "x": 0.5, "z": 0.75}, among=["x"])
    assert space.meets({**row, "x": 0.75})


@pytest.mark.parametrize(("unit", "weight"), [(1.0, 1e-9), (1e-9, 1.0), (1e-6, 1e6)])
def test_constraints_whose_sums_vary_by_little(unit: float, weight: float) -> None:
    """The tolerance is that of numbers of one."""
    ranges = [Range("x", 0, unit), Range("y", 0, unit)]
    limit = {"x": weight, "y": weight}, weight * unit
    space = Space.of(ranges, [limit])
    for share, holds in ((0.999, True), (1.0, True), (1.001, False)):
        row = {"x": share * unit, "y": 0.0}
        assert space.meets(row) is holds
        assert len(space.feasible(space.encode([row]))) == holds
    assert not Space.of(ranges, equalities=[limit]).meets({"x": 0.999 * unit, "y": 0.0})


def test_a_sum_that_is_over_by_rounding_is_searched() -> None:
    """BoTorch refuses a constraint of columns that are all held where it is not met exactly."""
    tenths = tuple(0.1 * i for i in range(11))
    assert -1 + tenths[3] + tenths[7] > 0
    space = Space.of(
        [*(Choice(n, tenths, is_ordered=True) for n in "ab"), *(Range(n, 0, 1) for n in "cd")],
        [({"a": 1.0, "b": 1.0}, 1.0), ({"c": 1.0, "d": 1.0}, 1.0)],
    )
    row: Row = {"a": tenths[3], "b": tenths[7], "c": tenths[3], "d": tenths[7]}
    assert space.meets(row)
    held = space.held_at({"c": row["c"], "d": row["d"]})
    assert len(held.inequality_constraints) == 1
    assert space.held_at({"c": 0.5}).inequality_constraints == space.inequality_constraints
    start = held.encode([row])
    region = Region(
        held.bounds,
        fixed={column: float(start[0, column]) for column in (0, 1, 3)},
        constraints=held.inequality_constraints,
    )
    (found,) = maximize(lambda X, _: -((X[:, 2] - 0.2) ** 2), [region], [start])
    assert found.point[0].tolist() == pytest.approx(
        [tenths[3], tenths[7], 0.2, tenths[7]], abs=1e-6
    )
    assert not space.meets({**row, "b": 0.8})
    with pytest.raises(InputError, match="leaves no room"):
        space.held_at({"c": 0.3, "d": 0.8})


def test_neighbors_differ_in_one_choice_or_in_one_integer_by_one() -> None:
    parameters = (
        Range("dose", -5, 5),
        Range("pots", 1, 4, is_integer=True),
        Range("days", 1, 64, is_integer=True, log_scale=True),
        Choice("soil", ("sand", "clay", "peat")),
        Choice("lamp", (1, 5, 20), is_ordered=True),
    )
    space = Space.of(parameters, [({"dose": 1.0, "pots": 1.0}, 5.0)])
    row: Row = {"dose": 2.0, "pots": 3, "days": 8, "soil": "clay", "lamp": 20}
    found = space.decode(space.neighbors(space.encode([row]), {}))
    # Four pots are too many for this dose, but not for less of it. The point itself is that with
    # nothing changed.
    others: list[Row] = [
        {"pots": 2}, {"days": 7}, {"days": 9}, {"soil": "sand"}, {"soil": "peat"}, {"lamp": 1},
        {"lamp": 5}, {}, {"pots": 4, "dose": 1.0}, {"pots": 2, "dose": 3.0},
        {"pots": 1, "dose": 4.0},
    ]  # fmt: skip
    assert len(found) == len(others)
    for other in others:
        assert {**row, **other} in [
            {**near, "days": round(float(str(near["days"])))} for near in found
        ]
    held = space.columns_of({"soil": "clay", "lamp": 20, "days": 8})
    kept = space.decode(space.neighbors(space.encode([row]), held))
    by_dose = [{**row, "pots": pots, "dose": 5.0 - pots} for pots in (4, 2, 1)]
    assert sorted(kept, key=str) == sorted([*by_dose, {**row, "pots": 2}], key=str)


@pytest.mark.parametrize("end", [11, 13, 100, 399])
def test_a_bound_on_a_log_scale_is_itself(end: int) -> None:
    """Its logarithm's power is a little less, or more."""
    space = Space.of([Range("x", 1, 2000), Range("s", 1, end, log_scale=True)])
    (row,) = space.decode(space.bounds[1:])
    assert row["s"] == end


@pytest.mark.parametrize(
    ("parameter", "value", "is_one"),
    [
        (Range("n", 1, 100, is_integer=True), 50.5, False),
        (Range("n", 1, 100, is_integer=True), 50.0, True),
        (Range("n", 1, 100, is_integer=True), np.int64(50), True),
        (Range("x", 0, 1), True, False),
        (Range("x", 0, 1), "0.5", False),
        (Choice("c", (1, 2)), True, False),
        (Choice("c", (1, 2)), 1.0, True),
        (Choice("c", (True, False)), np.bool_(True), True),
        (Fixed("f", 1), True, False),
        (Fixed("f", 1), 1, True),
    ],
)
def test_which_values_are_a_parameters(parameter: Parameter, value: object, is_one: bool) -> None:
    assert takes(parameter, value) is is_one


@pytest.mark.parametrize(
    ("parameter", "reason"),
    [
        (Range("b", 1, 10, log_scale=True), "'a \\+ b <= 3': 'b' is searched on another scale"),
        (Range("b", 0.1, 0.9, logit_scale=True), "'b' is searched on another scale"),
        (Choice("b", (1, 2, 4), is_ordered=True, log_scale=True), "on another scale. Expected"),
        (Choice("b", (1, 2, 4)), "'b' is a choice of values without an order"),
        (Fixed("b", "x"), "'b' is no number"),
        (Range("c", 0, 1), "'b' is no parameter"),
    ],
)
def test_a_sum_of_what_is_not_linear_is_refused(parameter: Parameter, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        Space.of([Range("a", 0, 5), parameter], [({"a": 1.0, "b": 1.0}, 3.0)])


def test_a_sum_of_all_that_is_linear() -> None:
    others = [Range("b", 0, 5, is_integer=True), Choice("c", (0, 1, 2), is_ordered=True)]
    space = Space.of([Range("a", 0, 5), *others, Fixed("d", 1)], [(dict.fromkeys("abcd", 1.0), 3)])
    assert all(space.meets(row) for row in space.decode(space.sobol_points(32, 0)))

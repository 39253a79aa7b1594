"""The tree of cells: it always partitions its box, whatever is measured."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ax_costaware.exceptions import InputError
from ax_costaware.methods import Cell, ResolutionTree

TREE = ResolutionTree((-5.0, 0.0), (10.0, 15.0), 6)


@st.composite
def trees(draw: st.DrawFn) -> ResolutionTree:
    d = draw(st.integers(1, 3))
    splits = draw(
        st.lists(st.integers(1, 4), min_size=d, max_size=d).filter(lambda k: max(k) > 1)
        | st.integers(2, 3)
    )
    lower = draw(st.lists(st.floats(-1e3, 1e3), min_size=d, max_size=d))
    widths = draw(st.lists(st.floats(1e-3, 1e3), min_size=d, max_size=d))
    upper = [low + width for low, width in zip(lower, widths, strict=True)]
    return ResolutionTree(lower, upper, draw(st.integers(0, 4)), splits)  # type: ignore[arg-type]


@st.composite
def cells(draw: st.DrawFn, tree: ResolutionTree) -> Cell:
    level = draw(st.integers(0, tree.max_level))
    assert isinstance(tree.splits, tuple)
    return Cell(level, tuple(draw(st.integers(0, k**level - 1)) for k in tree.splits))


def box(tree: ResolutionTree, cell: Cell) -> list[tuple[int, int]]:
    """The cell, exactly: its sides in those of the finest cells."""
    assert isinstance(tree.splits, tuple)
    sides = [k ** (tree.max_level - cell.level) for k in tree.splits]
    return [(i * side, (i + 1) * side) for i, side in zip(cell.index, sides, strict=True)]


def assert_partition(tree: ResolutionTree, leaves: tuple[Cell, ...]) -> None:
    boxes = [box(tree, leaf) for leaf in leaves]
    assert isinstance(tree.splits, tuple)
    volumes = [math.prod(b - a for a, b in sides) for sides in boxes]
    assert sum(volumes) == math.prod(k**tree.max_level for k in tree.splits)
    if len(boxes) <= 40:
        for i, one in enumerate(boxes):
            for other in boxes[:i]:
                apart = (b <= c or d <= a for (a, b), (c, d) in zip(one, other, strict=True))
                assert any(apart)


@given(st.data())
@settings(deadline=None, max_examples=150)
def test_leaves_partition_and_active_cells_are_they_and_their_children(data: st.DataObject) -> None:
    tree = data.draw(trees())
    measured: list[Cell] = []
    for _ in range(data.draw(st.integers(0, 6))):
        active = tree.active(measured)
        attached = data.draw(st.booleans())
        cell = data.draw(cells(tree) if attached else st.sampled_from(active))
        before = set(tree.leaves(measured))
        measured.append(cell)
        leaves = tree.leaves(measured)
        assert_partition(tree, leaves)
        children = {child for leaf in leaves for child in tree.children(leaf)}
        assert set(tree.active(measured)) == set(leaves) | children
        assert list(tree.active(measured)) == sorted(tree.active(measured))
        # What is measured is a leaf no more, unless it is of the finest level.
        if cell.level < tree.max_level:
            assert cell not in leaves
            if cell in before:
                assert set(leaves) == before - {cell} | set(tree.children(cell))
        elif not attached:
            assert cell in leaves
        assert tree.leaves(measured[::-1]) == leaves


@given(st.data())
@settings(deadline=None, max_examples=150)
def test_a_cell_and_its_centre(data: st.DataObject) -> None:
    tree = data.draw(trees())
    cell = data.draw(cells(tree))
    centre, half = tree.centre(cell), tree.half_widths(cell.level)
    assert tree.cell_at(cell.level, centre) == cell
    assert tree.cell_at(float(cell.level), np.array(centre) * (1 + 1e-12)) == cell
    for low, high, c, h in zip(tree.lower, tree.upper, centre, half, strict=True):
        assert low <= c - h * (1 - 1e-9)
        assert c + h * (1 - 1e-9) <= high
    # Points of the box lie in a cell of each level, those on its faces, too.
    for part in (-1.0, -0.7, 0.0, 0.7):
        point = [c + part * (1 - 1e-6) * h for c, h in zip(centre, half, strict=True)]
        assert tree.cell_around(cell.level, point) == cell
    last = Cell(cell.level, tuple(n - 1 for n in tree._counts[cell.level]))
    assert tree.cell_around(cell.level, tree.upper) == last
    children = tree.children(cell)
    assert len(children) == (tree.num_children if cell.level < tree.max_level else 0)
    # Each child's ancestors are the cell and those of the cell.
    above = list(tree.ancestors(cell))
    assert len(above) == cell.level
    assert all(list(tree.ancestors(child)) == [cell, *above] for child in children)
    if children:
        assert np.mean([tree.centre(c) for c in children], axis=0) == pytest.approx(
            np.array(centre), rel=1e-9, abs=1e-9
        )


def test_the_papers_tree() -> None:
    assert TREE.num_children == 4
    assert TREE.root == Cell(0, (0, 0))
    assert TREE.centre(TREE.root) == (2.5, 7.5)
    assert TREE.half_widths(0) == (7.5, 7.5)
    assert TREE.half_widths(6) == (7.5 / 64, 7.5 / 64)
    assert [TREE.cost(level) for level in range(7)] == [0.5, 1, 1.5, 2, 2.5, 3, 3.5]
    assert TREE.noise_of(3) is None
    noisy = replace(TREE, noise=tuple(0.5 / cost for cost in TREE.costs or ()))
    assert noisy.noise_of(0) == 1.0
    assert noisy.noise_of(6) == pytest.approx(0.5 / 3.5)
    assert replace(TREE, noise=0.3).noise == (0.3,) * 7


def test_measuring_a_leaf_a_child_and_below() -> None:
    root, children = TREE.root, TREE.children(TREE.root)
    assert TREE.leaves() == (root,)
    assert TREE.active() == (root, *children)
    assert TREE.leaves([root]) == children
    # A child splits its parent, and is split; its siblings stay.
    once = TREE.leaves([children[1]])
    assert set(once) == set(children) - {children[1]} | set(TREE.children(children[1]))
    below = TREE.cell_at(2, TREE.centre(TREE.children(children[1])[3]))
    assert TREE.leaves([below]) == TREE.leaves([root, children[1], below])


@given(st.data())
@settings(deadline=None, max_examples=100)
def test_published_cells_are_those_of_algorithm_1(data: st.DataObject) -> None:
    """Line by line."""
    tree = data.draw(trees())
    L, L_next = {tree.root}, set(tree.children(tree.root))
    measured: list[Cell] = []
    for _ in range(data.draw(st.integers(1, 6))):
        assert tree.published(measured) == (tuple(sorted(L)), tuple(sorted(L | L_next)))
        if not L | L_next:
            return
        a = data.draw(st.sampled_from(sorted(L | L_next)))
        if a in L_next:
            (parent,) = [*tree.ancestors(a)][:1]
            L = L - {parent} | set(tree.children(a))
            L_next = L_next - {a}
        else:
            L = L - {a} | set(tree.children(a))
        for i in L:
            L_next |= set(tree.children(i))
        measured.append(a)


def test_siblings() -> None:
    """As printed they stay candidates, and their children come once they were measured."""
    children = TREE.children(TREE.root)
    leaves, active = TREE.published([children[1]])
    assert leaves == TREE.children(children[1])
    below = {cell for leaf in leaves for cell in TREE.children(leaf)}
    assert set(active) == {*children} - {children[1]} | {*leaves} | below


def test_the_finest_level_stays() -> None:
    tree = ResolutionTree((0.0,), (1.0,), 1)
    fine = tree.children(tree.root)
    assert tree.children(fine[0]) == ()
    assert tree.leaves([fine[0], fine[0]]) == fine
    assert tree.active([fine[0]]) == fine
    flat = ResolutionTree((0.0,), (1.0,), 0)
    assert flat.active([flat.root]) == (flat.root,)


def test_values() -> None:
    """It compares, prints and can be made again from its fields."""
    tree = ResolutionTree([0, 0], np.array([1, 2]), np.int64(2), [2, 3], [1, 2, 3], 0.1)  # type: ignore[arg-type]
    assert tree == eval(repr(tree))
    assert hash(tree) == hash(replace(tree))
    assert all(type(value) is float for value in (*tree.lower, *tree.upper, *(tree.costs or ())))
    assert type(tree.max_level) is int
    assert tree.num_children == 6
    assert eval(repr(tree.root)) == tree.root


def test_the_most_information_per_cost() -> None:
    active = TREE.active()
    position, reason = TREE.decide(active, [0.6, 1.0, 1.3, 0.1, 1.3])
    assert position == 2
    assert "tells 1.3 at a cost of 1: 1.3 per unit of cost is the most of 5 cells" in reason
    cheap, _ = TREE.decide(active, np.array([0.6, 1.0, 1.3, 0.1, 1.3]), remaining=0.9)
    assert active[cheap] == TREE.root
    # What is left is a sum of decimals.
    assert TREE.decide(active, [0, 1, 0, 0, 0], remaining=1.1 - 0.1)[0] == 1
    assert TREE.decide(active, [-2.0, -1.0, -1.1, -3, -3])[0] == 1


BAD: dict[str, tuple[Any, ...]] = {
    "lower": (0.0, (), (1.0,)),
    "upper": ((1.0, 2.0), (math.inf,)),
    "max_level": (-1, 1.5, 60),
    "splits": (1, (2, 2), 2.5, True, (0,)),
    "costs": ((1.0, 2.0), (1.0, 2.0, 0.0), 1.0),
    "noise": ((1.0,), -1.0, "low"),
}


@pytest.mark.parametrize(("name", "value"), [(n, x) for n, values in BAD.items() for x in values])
def test_bad_trees(name: str, value: Any) -> None:
    with pytest.raises(InputError, match=name):
        ResolutionTree(**{"lower": (0.0,), "upper": (1.0,), "max_level": 2, name: value})


@pytest.mark.parametrize("level", [7, -1, 0.5, math.nan, "0"])
def test_bad_levels(level: Any) -> None:
    with pytest.raises(InputError, match="level="):
        TREE.cell_at(level, (2.5, 7.5))


@pytest.mark.parametrize(
    ("level", "centre", "name"),
    [
        (0, (2.5,), "centre="),
        (0, (2.5, "x"), r"centre\[1\]='x'"),
        (1, (2.5, 7.5), "in column 0"),
        (1, (-1.25, 1e300), "in column 1"),
        (1, (-1.25, -1e300), "in column 1"),
    ],
)
def test_bad_centres(level: int, centre: Any, name: str) -> None:
    with pytest.raises(InputError, match=name):
        TREE.cell_at(level, centre)


@pytest.mark.parametrize(
    "cell", [Cell(7, (0, 0)), Cell(0, (0,)), Cell(1, (2, 0)), Cell(-1, (0, 0)), (0, (0, 0))]
)
def test_cells_of_another_tree(cell: Any) -> None:
    for call in (TREE.centre, TREE.children, lambda c: TREE.leaves([c])):
        with pytest.raises(InputError, match="cell="):
            call(cell)


def test_bad_decisions() -> None:
    active = TREE.active()
    with pytest.raises(InputError, match="4 values for 5 cells"):
        TREE.decide(active, [1.0] * 4)
    with pytest.raises(InputError, match="0 values for 0 cells"):
        TREE.decide([], [])
    with pytest.raises(InputError, match=r"information\[1\]=nan"):
        TREE.decide(active, [1.0, math.nan, 1, 1, 1])
    with pytest.raises(InputError, match=r"remaining=0.4"):
        TREE.decide(active, [1.0] * 5, remaining=0.4)
    with pytest.raises(InputError, match="remaining=nan"):
        TREE.decide(active, [1.0] * 5, remaining=math.nan)
    with pytest.raises(InputError, match="level=9"):
        TREE.half_widths(9)
    with pytest.raises(InputError, match="level=9"):
        TREE.cost(9)

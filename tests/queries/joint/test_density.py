"""How much the rows of a sample are smoothed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from inspect import getclosurevars
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ax_costaware.queries import JointEmpirical, NodesGiven, Placement, RawValue, Uniform
from ax_costaware.queries.joint.density import (
    FACTORS,
    LEAST_EFFECTIVE,
    ConditionalDensity,
    Smoothing,
    _chosen,
    left_out_scores,
    ranked_score,
    smoothing_of,
)

NONE = torch.empty(0, dtype=torch.double)
NAMES = ("a", "b", "y")


def plane(rows: Sequence[Mapping[str, RawValue]]) -> torch.Tensor:
    """Points of a model whose space is that of the raw values."""
    points = [[float(row.get(name, 0.5)) for name in NAMES] for row in rows]
    return torch.tensor(points, dtype=torch.double)


PLACE = Placement(plane, {name: (i,) for i, name in enumerate(NAMES)}, {}, 128, 0)


def none_of(rows: torch.Tensor) -> torch.Tensor:
    return NONE.expand(len(rows), 0)


def sample(n: int, num_given: int, kind: str, noise: float, seed: int = 0) -> dict[str, Any]:
    """``a`` (and ``b``) uniform, and ``y`` around its mean given these."""
    rng = np.random.default_rng(seed)
    x = rng.random((n, num_given))
    y = mean_of(kind, x) + noise * rng.normal(size=n)
    return {**{name: x[:, i] for i, name in enumerate(NAMES[:num_given])}, "y": y}


def mean_of(kind: str, x: Any) -> Any:
    center = x.mean(axis=1)
    return {"line": center, "curve": 0.5 * np.sin(2 * np.pi * center), "none": 0.0 * center}[kind]


def density_of(nodes_given: NodesGiven) -> ConditionalDensity:
    """What weighs the nodes of a ``JointEmpirical``."""
    density = getclosurevars(nodes_given).nonlocals["density"]  # type: ignore[arg-type]
    assert isinstance(density, ConditionalDensity)
    return density


def columns(frame: Mapping[str, Any], names: Sequence[str]) -> torch.Tensor:
    return torch.stack([torch.tensor(frame[name]) for name in names], dim=-1)


@pytest.mark.parametrize("moves", [False, True])
@pytest.mark.parametrize("factor", [1.0, 0.25])
def test_left_out_scores_are_those_of_laws_without_the_row(moves: bool, factor: float) -> None:
    """By brute force: each row dropped, the regression by NumPy, the score by its double sum."""
    frame = sample(25, 2, "curve", 0.1)
    x, y = columns(frame, ["a", "b"]).numpy(), frame["y"]
    kind = np.digitize(y + 0.3 * x[:, 0], [-0.2, 0.4])
    bandwidth = factor * x.std(axis=0, ddof=1) * 25 ** (-1 / 6)
    total = np.zeros(25)
    for i in range(25):
        others = np.arange(25) != i
        z = x[others] / bandwidth
        target = x[i].clip(x.min(axis=0), x.max(axis=0)) / bandwidth
        w = np.exp(-0.5 * ((z - target) ** 2).sum(axis=1))
        w /= w.sum()
        values = y[others]
        if moves:
            centered = z - w @ z
            gram = centered.T @ np.diag(w) @ centered + (w @ w) * np.eye(2)
            slope = np.linalg.solve(gram, centered.T @ (w * values))
            values = (values + (target - z) @ slope).clip(y.min(), y.max())
        gaps = np.abs(values - y[i]) @ w - 0.5 * w @ np.abs(values[:, None] - values) @ w
        total[i] = gaps / np.abs(y[:, None] - y).mean()
        for k in range(3):
            share = kind == k
            brier = (w @ share[others] - share[i]) ** 2
            total[i] += brier / (2 * share.mean() * (1 - share.mean()))
    density = ConditionalDensity(torch.tensor(x), 2, Smoothing(factor, moves))
    one_hot = torch.tensor(kind[:, None] == np.arange(3), dtype=torch.double)
    numbers = torch.tensor(y).unsqueeze(-1)
    found = left_out_scores(density, numbers, one_hot, density.weights_of_others())
    assert found.numpy() == pytest.approx(total, rel=1e-9)


def test_smoothing_is_the_most_within_a_standard_error_of_the_best() -> None:
    """The one on the grid; those with too few rows are not considered."""
    for kind, noise in (("line", 0.1), ("curve", 0.1), ("none", 0.3)):
        frame = sample(60, 1, kind, noise)
        rows, numbers = columns(frame, ["a"]), columns(frame, ["y"])
        scores = {}
        for factor in FACTORS:
            for moves in (False, True):
                density = ConditionalDensity(rows, 1, Smoothing(factor, moves))
                weights = density.weights_of_others()
                if (1 / weights.square().sum(dim=-1)).median() >= LEAST_EFFECTIVE:
                    key = Smoothing(factor, moves)
                    scores[key] = left_out_scores(density, numbers, none_of(rows), weights)
        assert 2 < len(scores) < 2 * len(FACTORS)
        best = min(scores.values(), key=torch.mean)
        loss = {key: score - best for key, score in scores.items()}
        fine = [key for key, d in loss.items() if d.mean() <= d.std() / math.sqrt(60)]
        wanted = max(fine, key=lambda key: (key.factor, not key.moves))
        assert smoothing_of(rows, 1, numbers, none_of(rows)) == wanted


@given(
    values=st.lists(st.floats(-3, 3), min_size=2, max_size=9),
    observed=st.floats(-4, 4),
    seed=st.integers(0, 99),
)
@settings(max_examples=50, deadline=None)
def test_ranked_score_is_the_integral(values: list[float], observed: float, seed: int) -> None:
    """Of the squared gap between the two distribution functions, between all jumps."""
    w = np.random.default_rng(seed).dirichlet(np.ones(len(values)))
    jumps = np.unique([*values, observed])
    middle = (jumps[1:] + jumps[:-1]) / 2
    below = (w[:, None] * (np.array(values)[:, None] <= middle)).sum(axis=0)
    wanted = float((below - (observed <= middle)) ** 2 @ np.diff(jumps))
    x, weights = torch.tensor(values, dtype=torch.double), torch.tensor(w)
    seen = torch.tensor([observed], dtype=torch.double)
    for v in (x, x.unsqueeze(0)):
        found = float(ranked_score(v, seen, weights.unsqueeze(0)))
        assert found == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize(
    ("kind", "num_given", "n", "noise", "low", "high"),
    [
        # Without smoothing by the rows' own errors: 2.1, 2.0, 1.9 and 1.7 in the first four.
        ("line", 1, 200, 0.05, 0.9, 1.1),
        ("curve", 1, 200, 0.1, 0.9, 1.15),
        ("line", 2, 200, 0.05, 0.85, 1.1),
        ("curve", 2, 2000, 0.1, 0.9, 1.2),
        ("line", 1, 30, 0.1, 0.75, 1.1),
        ("none", 1, 200, 0.3, 0.9, 1.1),
        ("none", 2, 200, 0.3, 0.9, 1.1),
    ],
)
def test_width_and_mean_of_a_known_law(
    kind: str, num_given: int, n: int, noise: float, low: float, high: float
) -> None:
    names = NAMES[:num_given]
    rng = np.random.default_rng(1)
    points = np.full((100, 3), 0.5)
    points[:, :num_given] = 0.05 + 0.9 * rng.random((100, num_given))
    ratios, errors = [], []
    for seed in range(4):
        law = JointEmpirical(sample(n, num_given, kind, noise, seed))
        nodes, weights = law.nodes_given(names, PLACE)(torch.tensor(points))
        mean = (nodes[..., 2] * weights).sum(dim=-1)
        variance = ((nodes[..., 2] - mean.unsqueeze(-1)).square() * weights).sum(dim=-1)
        ratios.append(float(variance.mean().sqrt()) / noise)
        wanted = torch.tensor(mean_of(kind, points[:, :num_given]))
        errors.append(float((mean - wanted).square().mean().sqrt()) / noise)
    assert low < np.mean(ratios) < high
    assert np.mean(errors) < 0.45


def test_nothing_is_gained_where_nothing_depends() -> None:
    """Then the law is what it was by Scott's rule, but for a sample in twenty or so."""
    changed = 0
    for seed in range(20):
        frame = sample(40, 1, "none", 0.3, seed)
        rows = columns(frame, ["a"])
        changed += smoothing_of(rows, 1, columns(frame, ["y"]), none_of(rows)) != Smoothing()
    assert changed <= 2


def test_cdf_and_nodes_are_of_one_law_where_the_model_s_scale_is_linear() -> None:
    frame = sample(80, 1, "curve", 0.05)
    law = JointEmpirical(frame)
    nodes, weights = law.nodes_given(["a"], PLACE)(plane([{"a": 0.3}]))
    for value in (0.3, 0.4, 0.47, 0.5, 0.6):
        share = float(weights[0, nodes[0, :, 2] <= value].sum())
        assert law.cdf_given("y", value, {"a": 0.3})[1] == pytest.approx(share, abs=1e-9)


def test_discrete_columns_choose_the_bandwidth_and_stay() -> None:
    """Integers, strings and numbers that repeat keep their values; the nodes' are those of rows."""
    rng = np.random.default_rng(0)
    a = rng.random(200)
    dry = np.where(a < 0.3, 0.0, a)
    for y in (a > 0.5, np.round(8 * a).astype(int), np.round(8 * a) / 8, np.round(500 * a), dry):
        law = JointEmpirical({"a": a, "y": y})
        nodes, weights = law.nodes_given(["a"], PLACE)(plane([{"a": 0.4}, {"a": 0.45}]))
        assert set(nodes[..., 2].flatten().tolist()) <= set(np.asarray(y, dtype=float))
        # Scott's bandwidth is 0.1: a law of half its width knows better.
        density = density_of(law.nodes_given(["a"], PLACE))
        assert not density.moves
        assert float(density.bandwidth) < 0.06
        mean = (nodes[..., 2] * weights).sum(dim=-1)
        assert abs(float(mean[0]) - float(y[np.abs(a - 0.4).argmin()])) <= 0.08 * float(y.max())
    names = np.where(a > 0.5, "high", "low")
    strict, _ = JointEmpirical({"a": a, "y": names}).cdf_given("y", "low", {"a": 0.4})
    assert strict < 0.02


def test_a_choice_that_tells_all_is_not_mixed_with_others() -> None:
    rng = np.random.default_rng(0)
    kind = rng.integers(3, size=120)
    y = kind + 0.05 * rng.random(120)
    law = JointEmpirical({"kind": [str(k) for k in kind], "y": y})
    for k in range(3):
        strict, _ = law.cdf_given("y", k - 1e-9, {"kind": str(k)})
        _, weak = law.cdf_given("y", k + 0.06, {"kind": str(k)})
        assert weak - strict == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("num_given", [1, 2])
@pytest.mark.parametrize("copies", [False, True])
def test_moving_nodes_have_gradients(num_given: int, copies: bool) -> None:
    """Of the law's mean and its square, by finite differences, within and beyond the rows."""
    frame = sample(50, num_given, "line", 0.03)
    names = NAMES[:num_given]
    independent = {"b": Uniform(0, 1)} if copies and num_given == 1 else {}
    place = Placement(plane, PLACE.columns, independent, 16, 0)
    nodes_given = JointEmpirical(frame).nodes_given(names, place)
    assert density_of(nodes_given).moves
    points = torch.tensor([[0.31, 0.4, 0.0], [0.72, 0.55, 0.0], [1.3, -0.2, 0.0]]).double()

    def moments(x: torch.Tensor) -> torch.Tensor:
        nodes, weights = nodes_given(x)
        return torch.stack([(nodes[..., 2] ** k * weights).sum(dim=-1) for k in (1, 2)])

    assert torch.autograd.gradcheck(moments, (points.requires_grad_(),), eps=1e-7, atol=1e-5)
    nodes, _ = nodes_given(points.detach())
    assert not torch.equal(nodes[0, :, 2], nodes[1, :, 2])
    assert frame["y"].min() <= float(nodes[..., 2].min())
    assert float(nodes[..., 2].max()) <= frame["y"].max()
    assert nodes_given(points[:0])[0].shape == (0, nodes.shape[1], 3)
    single, weights = nodes_given(points.detach().float())
    assert single.dtype == weights.dtype == torch.float
    assert torch.allclose(single.double(), nodes, atol=1e-4)


def test_rows_that_do_not_vary_do_not_count() -> None:
    frame = sample(40, 1, "line", 0.05)
    both = torch.cat([columns(frame, ["a"]), torch.full((40, 1), 0.3)], dim=-1)
    numbers = columns(frame, ["y"])
    density = ConditionalDensity(both, 2, Smoothing(0.5, True))
    alone = ConditionalDensity(both[:, :1], 2, Smoothing(0.5, True))
    points = torch.tensor([[0.2, 0.3], [0.6, 7.0]], dtype=torch.double)
    weights = density.weights(points)
    assert torch.allclose(weights, alone.weights(points[:, :1]))
    moved = density.moved(numbers, points, weights)
    assert torch.allclose(moved, alone.moved(numbers, points[:, :1], weights))
    flat = torch.full((40, 1), 2.0, dtype=torch.double)
    assert smoothing_of(flat, 1, numbers, none_of(flat)) == Smoothing()
    assert smoothing_of(both[:, :1], 1, flat, flat) == Smoothing()


def test_the_same_rows_are_looked_at_once() -> None:
    """Also those of an equal law, such as one that was stored and loaded again."""
    frame = sample(700, 1, "line", 0.05)
    one, two = JointEmpirical(frame), JointEmpirical({**frame})
    _, first = one.nodes_given(["a"], PLACE)(plane([{"a": 0.3}]))
    one.cdf_given("y", 0.5, {"a": 0.3})
    before = _chosen.cache_info()
    _, second = two.nodes_given(["a"], PLACE)(plane([{"a": 0.3}]))
    two.cdf_given("y", 0.4, {"a": 0.6})
    assert _chosen.cache_info().misses == before.misses
    assert torch.equal(first, second)

"""Hierarchical search spaces: inactive parameters are pinned, and what is shown is active."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from ax.exceptions.core import UnsupportedError, UserInputError

import ax_costaware as ac
from ax_costaware.core.optimize import maximize
from ax_costaware.core.problem import Problem
from ax_costaware.exceptions import InputError
from ax_costaware.space import Choice, Fixed, NonlinearConstraint, Range, Space
from ax_costaware.space.finite_spaces import all_points
from ax_costaware.space.hierarchy import Condition
from tests.fresh import FreshProcess
from tests.resuming import Run

pytestmark = pytest.mark.usefixtures("short_searches")

FAST: dict[str, Any] = {"num_restarts": 2, "raw_samples": 64}
SPACE = Space.of(
    [
        Choice("model", ("forest", "kernel", "mean")),
        Range("trees", 1, 5, is_integer=True),
        Range("depth", 1, 3, is_integer=True),
        Choice("kernel", (1, 2), is_ordered=True),
        Range("degree", 0.0, 4.0),
        Range("share", 0.0, 1.0),
    ],
    [({"trees": 1.0, "depth": 1.0}, 4.0), ({"degree": 1.0, "share": 2.0}, 3.0)],
    conditions={
        "degree": Condition("kernel", (2,)),
        "trees": Condition("model", ("forest",)),
        "depth": Condition("model", ("forest",)),
        "kernel": Condition("model", ("kernel",)),
    },
)
NAMES = ("model", "trees", "depth", "kernel", "degree", "share")


def active_in(row: Any) -> set[str]:
    """By hand."""
    found = {"model", "share"}
    if row["model"] == "forest":
        found |= {"trees", "depth"}
    if row["model"] == "kernel":
        found |= {"kernel"} | ({"degree"} if row["kernel"] == 2 else set())
    return found


def is_allowed(row: Any) -> bool:
    """By hand."""
    active = active_in(row)
    if "trees" in active and row["trees"] + row["depth"] > 4:
        return False
    return "degree" not in active or row["degree"] + 2 * row["share"] <= 3 + 1e-8


def test_active_and_pinned_by_hand() -> None:
    """In rows and in points; constraints on inactive parameters do not apply."""
    rows = [dict(row) for row, _ in zip(SPACE.design(0), range(300), strict=False)]
    assert {frozenset(SPACE.hierarchy.active(row)) for row in rows} == {
        frozenset(active_in(row)) for row in rows
    }
    assert len({frozenset(active_in(row)) for row in rows}) == 4
    for row in rows:
        pinned = SPACE.pinned(row)
        middle = {"trees": 3, "depth": 2, "kernel": 2, "degree": 2.0}
        active = active_in(row)
        assert pinned == {name: row[name] if name in active else middle[name] for name in NAMES}
        assert SPACE.meets(row) == SPACE.meets(pinned) == is_allowed(row)
    X = SPACE.encode(rows)
    assert torch.equal(SPACE.hierarchy.pin(X), X)
    decoded = SPACE.decode(X)
    assert [SPACE.pinned(row) for row in rows] == decoded
    kept = torch.tensor([is_allowed(row) for row in rows])
    assert torch.equal(SPACE.feasible(X), X[kept])
    assert SPACE.are_near(rows[0], [{**rows[0], "trees": 5, "degree": 0.1}], 0.01)
    limited = SPACE.within([NonlinearConstraint("trees * depth <= 2")])
    few = limited.decode(limited.sobol_points(200, 0))
    assert all(row["trees"] * row["depth"] <= 2 for row in few if row["model"] == "forest")  # type: ignore[operator]
    assert {row["model"] for row in few} == {"forest", "kernel", "mean"}


def test_a_finite_space_has_each_point_once() -> None:
    space = Space.of(
        [Choice("kind", ("a", "b")), *(Range(n, 1, 3, is_integer=True) for n in "xyz")],
        [({"x": 1.0, "y": 1.0}, 4.0)],
        conditions={n: Condition("kind", (kind,)) for n, kind in zip("xyz", "aab", strict=True)},
    )
    points = all_points(space)
    assert points is not None
    assert len(points) == 6 + 3  # of nine pairs (x, y) three are too large; z has three values


@pytest.mark.parametrize("held", [{}, {"model": "kernel"}, {"model": "kernel", "kernel": 2}])
def test_maximum_is_that_of_a_grid(held: dict[str, Any]) -> None:
    """Over all branches, or those that are left."""

    class Value(torch.nn.Module):
        def forward(self, X: torch.Tensor) -> torch.Tensor:
            found = [value(row) for row in SPACE.decode(X.squeeze(-2).detach())]
            slope = SPACE.raw("degree", X.squeeze(-2)) - SPACE.raw("share", X.squeeze(-2))
            return X.new_tensor(found) + 0.3 * (slope - slope.detach())

    def value(row: Any) -> float:
        active = {name: float(row[name]) for name in active_in(row) if name != "model"}
        return 0.3 * active.get("degree", 0) - 0.3 * active["share"] + 0.12 * active.get("trees", 0)

    problem = Problem(SPACE, fixed=held)
    found = maximize(problem, Value(), {"num_restarts": 6, "raw_samples": 256})  # type: ignore[arg-type]
    rows = [row for row in SPACE.sobol_rows(4000) if held.items() <= row.items()]
    best = max(value(row) for row in rows if is_allowed(row))
    assert found.value >= best - 1e-6
    (row,) = SPACE.decode(found.point.unsqueeze(0))
    assert is_allowed(row)
    assert held.items() <= row.items()


def test_refused() -> None:
    parameters = [Choice("kind", ("a", "b")), *(Range(n, 0.0, 1.0) for n in "xy")]
    conditions = {"x": Condition("kind", ("a",))}
    with pytest.raises(InputError, match=r"equality constraint .*\['x'\] are not active"):
        Space.of(parameters, equalities=[({"x": 1, "y": 1}, 1)], conditions=conditions)
    for fixed in ({"degree": 1.0}, {"degree": 1.0, "model": "kernel", "kernel": 1}):
        with pytest.raises(InputError, match="'degree' is active with kernel=2 only"):
            SPACE.held_at(fixed)  # type: ignore[arg-type]
    SPACE.held_at({"degree": 1.0, "model": "kernel", "kernel": 2})


def make_client(run: Run | None = None, strategy: Any = ac.cost_aware_strategy) -> Client:
    client = Client(storage_config=None if run is None else run.config)
    client.configure_experiment(
        name="toy",
        parameters=[
            ChoiceParameterConfig(
                "model",
                ["forest", "nearest"],
                "str",
                is_ordered=True,
                dependent_parameters={"forest": ["trees", "depth"], "nearest": ["k"]},
            ),
            RangeParameterConfig("trees", (10, 200), "int", scaling="log"),
            RangeParameterConfig("depth", (1, 9), "int"),
            RangeParameterConfig("k", (1, 50), "float"),
            RangeParameterConfig("share", (0.1, 0.9), "float"),
        ],
    )
    client.configure_optimization("score")
    given = strategy if not callable(strategy) else strategy("seconds", initial_trials=3, **FAST)
    client.set_generation_strategy(given)
    return client


def outcome(arm: Any) -> tuple[float, float]:
    """Score and cost, of the active parameters alone."""
    if arm["model"] == "forest":
        assert arm.keys() == {"model", "trees", "depth", "share"}
        return 0.8 - 0.01 * (arm["depth"] - 5) ** 2 - arm["share"] ** 2, 0.01 * arm["trees"]
    assert arm.keys() == {"model", "k", "share"}
    return 0.7 - 0.001 * abs(arm["k"] - 7) - arm["share"] ** 2, 0.2


@pytest.mark.parametrize("strategy", [ac.cost_aware_strategy, ac.gittins_strategy])
def test_a_run_and_its_stores(tmp_path: Path, fresh_process: FreshProcess, strategy: Any) -> None:
    run = Run(tmp_path)
    client = make_client(run, strategy)
    for step in range(5):
        index, arm = run.decide(client)
        score, cost = outcome(arm)
        ac.complete_trial(client, index, score, cost=cost)
        if step >= 2:
            run.store(client)
        asked = ac.query(client, index)
        assert asked.controlled == arm
        assert outcome(asked.parameters) == (score, cost)
    run.decide(client)
    best = ac.recommend(client)
    for found in (best, *best.alternatives):
        outcome(found.parameters)
    (held,) = client.get_next_trials(max_trials=1, fixed_parameters={"model": "nearest"}).values()
    assert held["model"] == "nearest"
    outcome(held)
    with pytest.raises(UserInputError, match="'k' is active with model='nearest' only"):
        client.get_next_trials(max_trials=1, fixed_parameters={"k": 7.0})
    run.assert_resumed_alike(fresh_process)


def test_past_data_as_a_table() -> None:
    """Cells of inactive parameters are empty."""
    client = make_client()
    frame = pd.DataFrame(
        {
            "model": ["forest", "nearest"],
            "trees": [100, None],
            "depth": [3, None],
            "k": [None, 7.0],
            "share": [0.5, 0.4],
            "score": [0.6, 0.7],
            "cost": [1.0, 0.2],
        },
        dtype=object,
    )
    assert ac.attach_table(client, frame) == [0, 1]
    assert ac.query(client, 1).controlled == {"model": "nearest", "k": 7.0, "share": 0.4}
    assert ac.recommend(client).parameters == ac.query(client, 1).controlled
    for change in ({"depth": [None, None]}, {"k": [3.0, 7.0]}):
        with pytest.raises(UserInputError, match=r"row 0 has .*'trees', 'depth', 'share'\], which"):
            ac.attach_table(client, frame.assign(**change))


def test_methods_that_refuse() -> None:
    client = make_client(strategy=ac.costly_feedback_strategy())
    with pytest.raises(UnsupportedError, match="the search space is hierarchical: costly_feedback"):
        client.get_next_trials(max_trials=1)


def test_a_parent_with_one_value() -> None:
    space = Space.of(
        [Fixed("model", "forest"), Range("trees", 1, 5), Range("k", 1, 5)],
        [({"k": 1.0, "trees": 1.0}, 3.0)],
        conditions={"trees": Condition("model", ("forest",)), "k": Condition("model", ("other",))},
    )
    rows = space.decode(space.sobol_points(50, 0))
    assert {row["k"] for row in rows} == {3.0}
    assert max(float(str(row["trees"])) for row in rows) > 4

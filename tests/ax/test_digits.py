"""Numbers of few digits: searches keep to their grid, and to the constraints."""

from __future__ import annotations

from typing import Any

import pytest
from ax.service.ax_client import AxClient, ObjectiveProperties

import ax_costaware as ac
from ax_costaware.acquisition.criteria import log_expected_gain
from ax_costaware.core.simulation import Outcome, simulate
from ax_costaware.methods import CostAware
from ax_costaware.space import Space
from ax_costaware.space.parameters import Range
from tests.session.conftest import make_ax_client

pytestmark = pytest.mark.usefixtures("short_searches")


def client_of(strategy: Any, digits: int, more: list[dict[str, Any]] | None = None) -> AxClient:
    """Two parameters whose sum is bounded where the grid has no value."""
    limit = 1.25 if digits == 1 else 1.25 + 0.5 * 10**-digits
    client = make_ax_client(generation_strategy=strategy)
    client.create_experiment(
        parameters=[
            *({"name": n, "type": "range", "bounds": [0.0, 1.0], "digits": digits} for n in "ab"),
            *(more or []),
        ],
        parameter_constraints=[f"a + b <= {limit}"],
        objectives={"y": ObjectiveProperties(minimize=False)},
    )
    return client


def value(x: dict[str, Any]) -> float:
    """Best where the constraint binds."""
    return float(x["a"]) + 1.3 * float(x["b"])


LAW = ac.GaussianConditional([[1.0, 1.0]], [0.0], covariance=0.01, outside="clip")


@pytest.mark.parametrize(
    ("strategy", "digits"),
    [
        (lambda: ac.cost_aware_strategy(cost=1, budget=40), 4),
        (lambda: ac.cost_aware_strategy(ac.AffineCost({"a": 1.0}, fixed=0.5), budget=40), 1),
        (lambda: ac.costly_feedback_strategy(budget=60), 4),
        (lambda: ac.indirect_query_strategy([Range("x", 0, 2)], LAW, budget=40), 1),
    ],
    ids=["constant", "affine", "feedback", "averages"],
)
def test_trials_are_on_the_grid_and_within_the_constraint(strategy: Any, digits: int) -> None:
    client = client_of(strategy(), digits)
    sums = []
    for _ in range(8):
        parameters, index = client.get_next_trial()
        assert all(round(float(x), digits) == x for x in parameters.values())
        sums.append(float(parameters["a"]) + float(parameters["b"]))
        ac.complete_trial(client, index, value(parameters))
    assert max(sums) <= 1.25 + 0.5 * 10**-digits + 1e-8


@pytest.mark.parametrize("digits", [1, 4])
def test_control_sets_keep_to_the_constraint(digits: int) -> None:
    sets = [ac.ControlSet(["a", "b"], cost=1), ac.ControlSet(["a", "b", "c"], cost=4)]
    named = ac.control_set_parameter(sets)
    more = [
        {"name": "c", "type": "range", "bounds": [0.0, 1.0]},
        {
            "name": named.name,
            "type": "choice",
            "values": list(named.values),
            "value_type": "str",
            "is_ordered": named.is_ordered,
            "sort_values": False,
        },
    ]
    strategy = ac.control_set_strategy(sets, {"c": ac.Uniform(0, 1)}, budget=60)
    client = client_of(strategy, digits, more)
    for i in range(7):
        _, index = client.get_next_trial()
        inputs = {"c": 0.3 + 0.05 * i} | ac.query(client, index).controlled
        assert inputs["a"] + inputs["b"] <= 1.25 + 0.5 * 10**-digits + 1e-8
        assert all(round(inputs[n], digits) == inputs[n] for n in "ab")
        ac.complete_trial(client, index, value(inputs), realized=inputs)


def test_a_grid_of_few_digits_is_searched_as_a_finite_space() -> None:
    space = Space.of(
        [Range("a", 0, 1, digits=1), Range("b", 0, 1, digits=1)], [({"a": 1, "b": 1}, 0.25)]
    )
    assert space.ranges["a"].values_up_to(100) == tuple(round(0.1 * i, 1) for i in range(11))
    assert space.ranges["a"].values_up_to(10) is None
    assert not space.smooth
    found = simulate(
        CostAware(cost=1.0, budget=100.0, initial_trials=2),
        space,
        lambda x, _: Outcome(value(x)),
        30,
    )
    # All six points that meet the constraint, each once.
    made = {(t.parameters["a"], t.parameters["b"]) for t in found.trials}
    assert made == {(0, 0), (0, 0.1), (0, 0.2), (0.1, 0), (0.1, 0.1), (0.2, 0)}
    assert len(found.trials) == 6


def test_the_chosen_point_is_the_best_of_the_grid() -> None:
    import torch

    space = Space.of(
        [Range("a", 0, 1, digits=1), Range("b", 0, 1, digits=1)], [({"a": 1, "b": 1}, 1.25)]
    )
    method = CostAware(cost=1.0, budget=100.0, acquisition="log_ei_per_cost")
    found = simulate(method, space, lambda x, _: Outcome(value(x)), 7)
    problem = found.problem()
    decision = found.ask()
    grid = [{"a": i / 10, "b": j / 10} for i in range(11) for j in range(11) if i + j <= 12]
    made = [t.parameters for t in found.trials]
    grid = [row for row in grid if row not in made]
    with torch.no_grad():
        mean, variance = problem.posterior(space.encode(grid))
        best = float(problem.posterior(problem.evaluated)[0].max())
    gains = log_expected_gain(mean - best, variance.sqrt())
    assert grid[int(torch.argmax(gains))] == decision.parameters


@pytest.mark.parametrize("bound", [0.35, 0.05])
def test_rounding_moves_a_point_back_within_the_constraints(bound: float) -> None:
    import torch

    digits = 5  # too fine for a grid: searched as a real number
    space = Space.of(
        [Range("a", 0, 1, digits=digits), Range("b", 0, 1, digits=digits)],
        [({"a": 1, "b": 1}, bound + 2e-6)],
    )
    assert len(space.smooth) == 2
    X = torch.rand(200, 1, dtype=torch.double, generator=torch.Generator().manual_seed(0)) * bound
    X = torch.cat([X, bound + 2e-6 - X], dim=-1)
    for point, row in zip(X.tolist(), space.decode(X), strict=True):
        assert space.meets(row)
        assert abs(row["a"] - point[0]) + abs(row["b"] - point[1]) <= 2.1e-5

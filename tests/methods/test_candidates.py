"""Decisions among the rows of a table, and with descriptors of a choice."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from ax_costaware.acquisition import LogExpectedImprovementPerCost
from ax_costaware.core import FixedHyperparameters, PastTrial, Simulation, Stop
from ax_costaware.core.simulation import Outcome
from ax_costaware.exceptions import InputError
from ax_costaware.methods import CostAware, Gittins, MultiFidelity
from ax_costaware.space import Candidates, Choice, Descriptors, Range, Space

GIVEN = FixedHyperparameters(lengthscale=0.4, outputscale=1.0, noise_variance=1e-6)
SPACE = Space.of(
    [Range("u", 0.0, 1.0), Range("v", 0, 9, is_integer=True), Choice("k", tuple("abc"))]
)
_DRAW = np.random.default_rng(0)
TABLE = Candidates(
    {
        "u": _DRAW.random(60).round(4),
        "v": _DRAW.integers(0, 10, 60),
        "k": _DRAW.choice(list("abc"), 60),
        "price": 0.5 + _DRAW.random(60),
    },
    cost="price",
)
ROWS = [TABLE.row(i) for i in range(len(TABLE))]


def value(row: Any) -> float:
    """The objective."""
    return math.sin(5 * row["u"]) + 0.1 * row["v"] + {"a": 0.0, "b": 0.5, "c": -0.5}[row["k"]]


def run(simulation: Simulation, trials: int, **outcome: Any) -> list[dict[str, Any]]:
    """Run some trials, and return what was tried."""
    for _ in range(trials):
        decision = simulation.ask()
        assert not isinstance(decision, Stop)
        simulation.tell(decision, Outcome(value(decision.parameters), **outcome))
    return [dict(trial.parameters) for trial in simulation.trials]


def test_a_decision_is_the_best_row() -> None:
    method = CostAware(
        "price", candidates=TABLE, acquisition="log_ei_per_cost", initial_trials=4, lmbda=0.01
    )
    simulation = Simulation(method, SPACE, hyperparameters=GIVEN)
    tried = run(simulation, 8)
    decision = simulation.ask()
    assert not isinstance(decision, Stop)
    problem = simulation.problem()
    left = [row for row in ROWS if row not in tried]
    prices = torch.tensor([TABLE.costs[ROWS.index(row)] for row in left], dtype=torch.double)
    best_f = float(problem.posterior.mixture(problem.evaluated)[0].max())
    acquisition = LogExpectedImprovementPerCost(problem.model, best_f, lambda X: prices.to(X))
    values = acquisition(problem.space.encode(left).unsqueeze(-2))
    assert decision.parameters == left[int(values.argmax())]
    assert decision.expected_cost == TABLE.costs[ROWS.index(decision.parameters)]
    assert simulation.ledger[0].charged == TABLE.costs[ROWS.index(tried[0])]


@pytest.mark.parametrize("kind", [CostAware, Gittins])
def test_every_row_is_tried_once(kind: type[CostAware]) -> None:
    few = Candidates({name: TABLE.table[name][:9] for name in ("u", "v", "k")})
    simulation = Simulation(
        kind(1.0, candidates=few, initial_trials=3), SPACE, hyperparameters=GIVEN
    )
    tried = run(simulation, 9)
    assert sorted(map(str, tried)) == sorted(map(str, ROWS[:9]))
    stop = simulation.ask()
    assert isinstance(stop, Stop)
    assert "every point of the search space has been evaluated" in stop.reason
    assert simulation.recommend().parameters == max(ROWS[:9], key=value)


def test_fixed_values_failures_and_past_trials() -> None:
    past = {"u": 0.31, "v": 9, "k": "b"}
    assert past not in ROWS
    trials = [PastTrial(0, past, status="COMPLETED", outcome=9.0, is_observed=True)]
    method = CostAware("price", candidates=TABLE, initial_trials=3, budget=50.0)
    simulation = Simulation(method, SPACE, hyperparameters=GIVEN, trials=trials)
    run(simulation, 3)
    fixed = simulation.ask(fixed={"k": "a"})
    assert not isinstance(fixed, Stop)
    assert fixed.parameters in ROWS
    assert fixed.parameters["k"] == "a"
    decision = simulation.ask()
    assert not isinstance(decision, Stop)
    simulation.tell(decision, Outcome(failed=True))
    tried = run(simulation, 5)
    assert tried[1:].count(decision.parameters) == 1
    assert all(row in ROWS for row in tried[1:])
    assert simulation.recommend().parameters in tried[1:]
    with pytest.raises(InputError, match="no row of candidates has"):
        simulation.ask(fixed={"u": 0.5})


def test_costs_are_learned_or_declared_beside_a_table() -> None:
    plain = Candidates({name: TABLE.table[name] for name in TABLE.names})
    learned = Simulation(
        CostAware("hours", candidates=plain, initial_trials=3), SPACE, hyperparameters=GIVEN
    )
    assert all(row in ROWS for row in run(learned, 5, cost=2.0))
    by_hand = CostAware(lambda row: 1.0 + row["u"], candidates=TABLE, initial_trials=2)
    assert all(row in ROWS for row in run(Simulation(by_hand, SPACE, hyperparameters=GIVEN), 4))


@pytest.mark.parametrize("is_listed", [True, False])
def test_fidelities_in_a_table_and_free(is_listed: bool) -> None:
    few = {name: TABLE.table[name][:12] for name in ("u", "k")}
    if is_listed:
        few = {n: [x for x in c for _ in range(3)] for n, c in few.items()} | {"v": [1, 5, 9] * 12}
    table = Candidates(few)
    method = MultiFidelity(target={"v": 9}, cost=1.0, candidates=table, initial_trials=3)
    simulation = Simulation(method, SPACE)
    for row in run(simulation, 5):
        assert table.find(row) is not None
    assert simulation.recommend().parameters["v"] == 9
    if is_listed:
        lacks = Candidates({name: column[:-1] for name, column in few.items()})
        with pytest.raises(InputError, match="no row at the target"):
            Simulation(MultiFidelity(target={"v": 9}, cost=1.0, candidates=lacks), SPACE)


def test_descriptors_predict_an_untried_value() -> None:
    space = Space.of([Choice("k", tuple("abcdefgh")), Range("u", 0.0, 1.0)])
    size = Descriptors("k", {"k": list("abcdefgh"), "size": range(8)})
    trials = [
        PastTrial(i, {"k": k, "u": 0.5}, status="COMPLETED", outcome=float(i), is_observed=True)
        for i, k in enumerate("abcdefg")
    ]
    method = CostAware(1.0, descriptors=[size], initial_trials=3)
    problem = Simulation(method, space, trials=trials).problem()
    mean = method.expected(problem, [{"k": k, "u": 0.5} for k in "ah"]).mean
    assert float(mean[1]) > 5.5 > 1.0 > float(mean[0])


@pytest.mark.parametrize("more", [{}, {"weight": [3.0, 1.0, 2.0, 2.5]}])
def test_described_choices_are_searched_beside_real_parameters(more: dict[str, Any]) -> None:
    space = Space.of([Choice("k", tuple("abcd")), Range("u", 0.0, 1.0)])
    sizes = Descriptors("k", {"k": list("abcd"), "size": [0.0, 1.0, 3.0, 5.0], **more})
    method = CostAware(1.0, descriptors=[sizes], initial_trials=3)
    trials = [
        PastTrial(i, {"k": k, "u": u}, status="COMPLETED", outcome=u - i % 2, is_observed=True)
        for i, (k, u) in enumerate(zip("abca", (0.3, 0.5, 0.8, 0.6), strict=True))
    ]
    problem = Simulation(method, space, hyperparameters=GIVEN, trials=trials).problem()
    acquisition = LogExpectedImprovementPerCost(problem.model, 0.5, 1.0)
    found = problem.maximize(acquisition, {"num_restarts": 4, "raw_samples": 64})
    grid = problem.space.encode([{"k": k, "u": i / 100} for k in "abcd" for i in range(101)])
    assert found.value >= float(acquisition(grid.unsqueeze(-2)).max()) - 1e-3
    (row,) = problem.space.decode(found.point.unsqueeze(0))
    assert torch.equal(problem.space.encode([row])[0], found.point)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"candidates": [1]}, "expected a Candidates, or None"),
        ({"descriptors": ["ligand"]}, "expected a sequence of Descriptors"),
        ({"descriptors": 3}, "expected a sequence of Descriptors"),
    ],
)
def test_arguments_of_another_kind(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        CostAware(1.0, **arguments)

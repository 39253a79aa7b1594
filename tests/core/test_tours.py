"""Order of the trials of a batch: brute force, the records, and where the order stays."""

from __future__ import annotations

import math
from itertools import pairwise, permutations
from typing import Any

import numpy as np
import pytest

from ax_costaware.core import Decision, Simulation, Stop
from ax_costaware.core.account import ledger_of
from ax_costaware.core.history import PastTrial
from ax_costaware.core.problem import Pending, Problem
from ax_costaware.core.simulation import Outcome
from ax_costaware.core.tours import cheapest_order, in_cheapest_order
from ax_costaware.costs import LinearSwitch, SwitchingCost
from ax_costaware.methods import CostAware
from ax_costaware.space import Range, Space
from tests.priced import method_of

SPACE = Space.of([Range("oven", 100.0, 300.0), Range("days", 1, 8)])
UP_IS_CHEAP = SwitchingCost({"oven": LinearSwitch(0.01, 0.1)}, 1.0)


def cost_of(order: Any, first: Any, costs: Any) -> float:
    """The cost of an order."""
    return float(first[order[0]] + sum(costs[i][j] for i, j in pairwise(order)))


@pytest.mark.parametrize("size", [1, 2, 4, 7])
@pytest.mark.parametrize("seed", range(4))
def test_the_order_is_that_of_brute_force(size: int, seed: int) -> None:
    """Also with costs that are not allowed."""
    random = np.random.default_rng(seed)
    first, costs = random.random(size), random.random((size, size))
    if seed % 2:
        first[0], costs[-1, 0] = math.inf, math.inf
    found = cheapest_order(first.tolist(), costs.tolist())
    assert sorted(found) == [*range(size)]
    least = min(cost_of(order, first, costs) for order in permutations(range(size)))
    assert cost_of(found, first, costs) == pytest.approx(least)


def test_equal_orders_stay() -> None:
    assert cheapest_order([1.0] * 4, [[1.0] * 4] * 4) == [0, 1, 2, 3]
    assert cheapest_order([0.1] * 12, [[0.3] * 12] * 12) == [*range(12)]


def test_a_large_batch_is_close_to_sorted() -> None:
    """On a line, with a cheap direction, the best way is known: up through all."""
    places = np.random.default_rng(0).permutation(24).astype(float)
    costs = [[0.01 * max(b - a, 0) + 0.1 * max(a - b, 0) for b in places] for a in places]
    first = [0.01 * (b + 1.0) for b in places]
    order = cheapest_order(first, costs)
    assert [places[i] for i in order] == sorted(places)


def batch(method: CostAware, ovens: list[float], **changes: Any) -> Any:
    """The order and records of a batch of decisions after a trial at 200 degrees."""
    before = PastTrial(0, {"oven": 200.0, "days": 2}, outcome=1.0, is_observed=True)
    rows = [{"oven": oven, "days": 2} for oven in ovens]
    pending = tuple(Pending(None, row) for row in rows)
    problem = Problem(SPACE, (before,), pending)
    settings, records = [before.parameters, *rows], []
    for start, row in pairwise(settings):
        change = method.trial_costs.switching.between(start, row)  # type: ignore[union-attr]
        spent = 1.0 + sum(record["expected_cost"] for record in records)
        decision = {"spent": spent, "remaining": 50.0 - spent, **changes}
        records.append(
            {
                "expected_cost": 1.0 + change,
                "switching_cost": change,
                "why": "Best.",
                "phase": "rule",
                "decision": decision,
            }
        )
    return problem, records, in_cheapest_order(problem, method, records)


def test_records_have_the_costs_of_the_new_order() -> None:
    problem, _, found = batch(CostAware(UP_IS_CHEAP, budget=50.0), [280.0, 210.0, 230.0])
    assert [i for i, _ in found] == [1, 2, 0]
    records = [record for _, record in found]
    assert [record["switching_cost"] for record in records] == pytest.approx([0.1, 0.2, 0.5])
    costs = [record["expected_cost"] for record in records]
    assert costs == pytest.approx([1.1, 1.2, 1.5])
    assert [r["decision"]["spent"] for r in records] == pytest.approx([1.0, 2.1, 3.3])
    assert all(
        r["decision"]["spent"] + r["decision"]["remaining"] == pytest.approx(50.0) for r in records
    )
    rows = [problem.earlier_in_batch[i] for i, _ in found]
    trials = [
        PastTrial(1 + i, row, record=r)
        for i, (row, r) in enumerate(zip(rows, records, strict=True))
    ]
    entries = ledger_of([*problem.trials, *trials], CostAware(UP_IS_CHEAP))
    assert [entry.charged for entry in entries[1:]] == pytest.approx(costs)


def test_where_the_order_stays() -> None:
    """A state goes on from decision to decision; no trial may be above ``max_trial_cost``."""
    method = CostAware(UP_IS_CHEAP)
    for given in (
        batch(method, [280.0, 210.0], state={"phase": "exploit"}),
        batch(CostAware(SwitchingCost({"oven": 5.0}, 1.0)), [280.0, 210.0]),
        batch(method, [210.0, 280.0]),
    ):
        _, records, found = given
        assert found == [*enumerate(records)]
    # By 60 at once is beyond the limit, wherever that is.
    down = SwitchingCost({"oven": LinearSwitch(0.1, 0.01)}, 1.0)
    _, _, found = batch(CostAware(down, max_trial_cost=5.0), [140.0, 240.0, 160.0])
    assert [i for i, _ in found] != sorted(i for i, _ in found)
    assert all(record["expected_cost"] <= 5.0 for _, record in found)


@pytest.mark.usefixtures("short_searches")
def test_a_batch_of_a_simulation() -> None:
    """Its trials are those that are chosen one by one, in the cheapest order, as charged."""
    method = method_of(UP_IS_CHEAP, initial_trials=6, initial_share=None, budget=40.0)
    together, single = (Simulation(method, SPACE) for _ in range(2))
    decisions = together.ask_batch(5)
    assert not isinstance(decisions, Stop)
    for decision in decisions:
        together.start(decision)
    for _ in decisions:
        alone = single.ask()
        assert isinstance(alone, Decision)
        single.start(alone)
    chosen = [[t.parameters for t in run.trials] for run in (together, single)]
    assert sorted(map(repr, chosen[0])) == sorted(map(repr, chosen[1]))
    paid = [sum(entry.switching_cost for entry in run.ledger) for run in (together, single)]
    assert paid[0] < paid[1]
    for decision, entry in zip(decisions, together.ledger, strict=True):
        assert decision.expected_cost == pytest.approx(entry.charged)
        assert decision.details["spent"] + decision.details["remaining"] == pytest.approx(40.0)
    for trial in list(together.trials):
        together.tell(Decision(dict(trial.parameters), "."), Outcome(0.0), trial.index)
    assert isinstance(together.ask(), Decision)

"""Control sets whose cost depends on the values that they set, on Ax and in its stores."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from ax.exceptions.core import OptimizationShouldStop, UserInputError
from ax.exceptions.storage import JSONEncodeError

from ax_costaware import (
    AffineCost,
    ControlSet,
    EpsilonSchedule,
    ExploreThenCommit,
    SwitchingCost,
    query,
    recommend,
    spending,
)
from ax_costaware.costs import ConstantCost
from tests.ax.toy import CONTROL_SETS, arm_of, complete, make_client, record
from tests.fresh import FreshProcess
from tests.resuming import Run

pytestmark = pytest.mark.usefixtures("short_searches")

COST = AffineCost({"x3": 3.0, "x1": 0.5}, fixed=0.2)
SETS = (CONTROL_SETS[0], CONTROL_SETS[1], ControlSet(["x1", "x2", "x3"], COST))


def expected_cost(arm: dict[str, Any]) -> float | None:
    chosen = next(s for s in SETS if s.name == arm["control_set"])
    return chosen.cost_at(arm)


def test_a_run_within_its_budget() -> None:
    """Batches, the query, the record, spending and the recommendation have the same cost."""
    client = make_client(control_sets=SETS, budget=7.0, max_trial_cost=1.5, initial_trials=4)
    charged, is_over = 0.0, False
    while not is_over:
        try:
            trials = client.get_next_trials(max_trials=2)
        except OptimizationShouldStop:
            is_over = True
            continue
        for index, arm in trials.items():
            cost = expected_cost(dict(arm))
            assert cost is not None
            assert cost <= 1.5
            assert query(client, index).expected_cost == record(client, index)["expected_cost"]
            assert record(client, index)["expected_cost"] == pytest.approx(cost, rel=1e-12)
            complete(client, index, dict(arm))
            charged += cost
    assert charged <= 7.0
    assert spending(client).spent == pytest.approx(charged)
    best = recommend(client)
    row = {**best.parameters, "control_set": best.control_set}
    assert best.expected_cost == expected_cost(row)


CASES: dict[str, dict[str, Any]] = {
    "budget": {"control_sets": SETS, "budget": 20.0},
    "changes": {
        "control_sets": (
            SETS[0],
            ControlSet(["x1", "x2"], AffineCost({"x2": 0.5}, fixed=0.1)),
            SETS[2],
        ),
        "switching_cost": SwitchingCost({"x1": 0.3}),
    },
    "epsilon": {"control_sets": SETS, "rule": EpsilonSchedule.constant(0.05)},
}


def test_next_decisions_after_reload_are_the_same(
    tmp_path: Path, fresh_process: FreshProcess
) -> None:
    """From JSON and SQLite, in a new process."""
    for case, settings in CASES.items():
        run = Run(tmp_path, case)
        client = make_client(storage_config=run.config, initial_trials=3, **settings)
        for step in range(6):
            index, arm = run.decide(client)
            complete(client, index, arm)
            if step in (1, 3, 4):
                run.store(client)
        run.decide(client)
        run.assert_resumed_alike(fresh_process)


@dataclass(frozen=True)
class OwnCost(ConstantCost):
    """A cost of a user's own class, which is not registered."""

    parameters = ("x3",)


def test_what_cannot_be_stored_is_named(tmp_path: Path) -> None:
    """By its control set."""
    sets = (*SETS[:2], replace(SETS[2], cost=OwnCost(2.0)))
    client = make_client(control_sets=sets)
    with pytest.raises(JSONEncodeError, match=r"control_sets\['x1\+x2\+x3'\]\.cost=OwnCost"):
        client.save_to_json_file(str(tmp_path / "toy.json"))


def test_refusals_are_the_users_errors() -> None:
    """Of an argument at once; of what does not fit the experiment with the first trial."""
    with pytest.raises(UserInputError, match=r"rule=ExploreThenCommit.*depends on its values"):
        make_client(control_sets=SETS, rule=ExploreThenCommit.adaptive())
    below = replace(SETS[2], cost=AffineCost({"x3": 1.0}, fixed=-0.5))
    client = make_client(control_sets=(*SETS[:2], below))
    with pytest.raises(UserInputError, match="finite cost > 0"):
        client.get_next_trials(max_trials=1)


def test_a_query_has_the_costs_that_were_looked_at() -> None:
    """Of a control set whose cost depends on its values none where no values were looked at."""
    client = make_client(control_sets=SETS, initial_trials=1)
    ((index, arm),) = client.get_next_trials(max_trials=1).items()
    assert arm["control_set"] == "x1"
    assert [c.cost for c in query(client, index).candidates] == [0.1, 0.3, None]
    complete(client, index, dict(arm))
    ((index, arm),) = client.get_next_trials(max_trials=1).items()
    found = query(client, index)
    assert all(isinstance(candidate.cost, float) for candidate in found.candidates)
    assert str(found)


def test_the_reason_has_the_cost_of_the_values() -> None:
    """And the record what each control set would have cost."""
    client = make_client(control_sets=SETS, initial_trials=3)
    for _ in range(5):
        ((index, arm),) = client.get_next_trials(max_trials=1).items()
        complete(client, index, dict(arm))
    found, cost = record(client, index), expected_cost(arm_of(client, index))
    assert found["expected_cost"] == cost
    assert {*found["decision"]["costs"]} == {s.name for s in SETS}
    assert found["decision"]["costs"][arm["control_set"]] == [cost, 0.0]
    assert f"at cost {cost:g}" in found["why"]

"""Switching costs in Ax: what is kept, charged, stored, and refused."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from ax.api.client import Client
from ax.exceptions.storage import JSONEncodeError

from ax_costaware import (
    LinearSwitch,
    SwitchingCost,
    cost_aware_strategy,
    spending,
)
from ax_costaware.ax_bridge.records import decision_record
from tests.ax.gittins_toy import arm_of, make_client, objective

pytestmark = [
    pytest.mark.filterwarnings(
        # BoTorch's optimiser of mixed spaces, where there are parameter constraints.
        "ignore:Unknown solver options. tol:scipy.optimize.OptimizeWarning"
    ),
    pytest.mark.usefixtures("short_searches"),
]


def test_in_a_batch_the_trial_before_is_the_one_started_last() -> None:
    """Of three at once each is charged for what it changes of the one before it."""
    cost = SwitchingCost({"x1": 3.0}, base=1.0)
    client = make_client(cost=cost, lmbda=1e-6, stop=False)
    for index, arm in client.get_next_trials(max_trials=4).items():
        client.complete_trial(index, {"y": objective(dict(arm))})
    client.get_next_trials(max_trials=3)
    arms = [arm_of(client, i) for i in range(7)]
    changes = [0.0, *(cost.between(a, b) for a, b in pairwise(arms))]
    assert [entry.charged for entry in spending(client).entries] == [1.0 + c for c in changes]
    # One that is given up was not set: what it had changed is changed by the next one.
    client.mark_trial_abandoned(5)
    charged = [entry.charged for entry in spending(client).entries]
    assert charged[5:] == [0.0, 1.0 + cost.between(arms[4], arms[6])]


def test_a_batch_is_in_the_cheapest_order(tmp_path: Path) -> None:
    """Its trials, their records, and the decision after a stored batch."""
    cost = SwitchingCost({"x1": LinearSwitch(3.0, 1.0)}, base=1.0)
    clients = [make_client(cost=cost, lmbda=1e-6, stop=False) for _ in range(2)]
    batch = clients[0].get_next_trials(max_trials=4)
    assert [*batch] == [0, 1, 2, 3]
    for index in batch:
        assert [*clients[1].get_next_trials(1)] == [index]
    arms, alone = ([arm_of(client, i) for i in batch] for client in clients)
    assert sorted(arms, key=repr) == sorted(alone, key=repr)
    # It starts at the largest, since decreases are cheap, and the first trial is free.
    assert [arm["x1"] for arm in arms] == sorted((arm["x1"] for arm in alone), reverse=True)
    for index, entry in enumerate(spending(clients[0]).entries):
        record = decision_record(clients[0]._experiment.trials[index])
        assert record["expected_cost"] == pytest.approx(entry.charged)
        assert record["switching_cost"] == pytest.approx(entry.switching_cost)
    for index, arm in batch.items():
        assert dict(arm) == arms[index]
        clients[0].complete_trial(index, {"y": objective(dict(arm))})
    path = str(tmp_path / "toy.json")
    clients[0].save_to_json_file(path)
    again = Client.load_from_json_file(path)
    assert again.get_next_trials(2) == clients[0].get_next_trials(2)


def test_a_base_that_is_a_function_cannot_be_stored(tmp_path: Path) -> None:
    def base(arm: dict[str, Any]) -> float:
        return 1.0

    client = make_client(cost=SwitchingCost({"x1": 3.0}, base))
    with pytest.raises(JSONEncodeError, match=r"cost\.base=.* is a function"):
        client.save_to_json_file(str(tmp_path / "toy.json"))


def test_changes_are_of_the_experiment() -> None:
    client = make_client()
    client.set_generation_strategy(cost_aware_strategy(SwitchingCost({"x3": 3.0}, 1.0)))
    with pytest.raises(Exception, match="changes has 'x3', which the experiment does not have"):
        client.get_next_trials(1)

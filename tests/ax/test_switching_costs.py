"""Switching costs in Ax: what is kept, charged, stored, and refused."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from ax.exceptions.storage import JSONEncodeError

from ax_costaware import (
    FixedHyperparameters,
    SwitchingCost,
    complete_trial,
    cost_aware_strategy,
    query,
    recommend,
    spending,
)
from ax_costaware.ax_bridge.records import decision_record
from tests.ax.gittins_toy import arm_of, make_client, objective
from tests.ax.test_gittins_spaces import PRODUCT, mixed_client, run
from tests.fresh import FreshProcess
from tests.resuming import Run

pytestmark = [
    pytest.mark.filterwarnings(
        # BoTorch's optimiser of mixed spaces, where there are parameter constraints.
        "ignore:Unknown solver options. tol:scipy.optimize.OptimizeWarning"
    ),
    pytest.mark.usefixtures("short_searches"),
]


@pytest.mark.slow
def test_settings_are_kept_on_every_kind_of_parameter(
    tmp_path: Path, fresh_process: FreshProcess
) -> None:
    """Exactly, within constraints; stores of the run go on as it does, in both formats."""
    stored, cost = Run(tmp_path, "mixed"), SwitchingCost({"dose": 50.0, "soil": 20.0}, PRODUCT)
    fixed = FixedHyperparameters(lengthscale=0.5, outputscale=0.2, noise_variance=1e-5)
    client = mixed_client(
        stored.config, cost=cost, budget=400.0, initial_trials=2, surrogate_spec=fixed
    )
    run(client, 4)
    stored.store(client)
    stored.decide(client)
    stored.assert_resumed_alike(fresh_process)
    arms = [arm_of(client, i) for i in range(5)]
    changes = [0.0, *(cost.between(a, b) for a, b in pairwise(arms))]
    assert changes[1] > 0, "the design is quasi-random, as its share pays for that"
    assert 0.0 in changes[2:]
    for i, (arm, change) in enumerate(zip(arms, changes, strict=True)):
        assert client._experiment.search_space.check_membership(arm)
        record = decision_record(client._experiment.trials[i])
        assert record["switching_cost"] == change
        assert record["expected_cost"] == pytest.approx(PRODUCT.at(arm) + change)
        assert query(client, i).expected_cost == record["expected_cost"]
    found = spending(client)
    assert [entry.charged for entry in found.entries] == pytest.approx(
        [PRODUCT.at(a) + c for a, c in zip(arms, changes, strict=True)]
    )
    assert f"{sum(changes):g} of it for switching costs" in str(found)
    assert found.to_frame()["switching_cost"].tolist() == changes
    best = recommend(client)
    assert best.expected_cost == pytest.approx(PRODUCT.at(best.parameters))


def test_a_run_is_stored(tmp_path: Path, fresh_process: FreshProcess) -> None:
    """As JSON and in SQLite; a new process knows what was set before as the old one does."""
    stored, cost = Run(tmp_path), SwitchingCost({"x1": 3.0}, base="y_cost")
    client = make_client(storage_config=stored.config, cost=cost, lmbda=1e-6, stop=False)
    before: dict[str, Any] | None = None
    for _ in range(5):
        ((index, arm),) = client.get_next_trials(1).items()
        paid = 1.0 + cost.between(before, arm)
        complete_trial(client, index, {"y": objective(dict(arm))}, cost=paid)
        before = dict(arm)
    stored.store(client)
    stored.decide(client)
    stored.assert_resumed_alike(fresh_process)


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


def test_a_base_that_is_a_function_cannot_be_stored() -> None:
    def base(arm: dict[str, Any]) -> float:
        return 1.0

    client = make_client(cost=SwitchingCost({"x1": 3.0}, base))
    with pytest.raises(JSONEncodeError, match=r"cost\.base=.* is a function"):
        client._to_json_snapshot()


def test_changes_are_of_the_experiment() -> None:
    client = make_client()
    client.set_generation_strategy(cost_aware_strategy(SwitchingCost({"x3": 3.0}, 1.0)))
    with pytest.raises(Exception, match="changes has 'x3', which the experiment does not have"):
        client.get_next_trials(1)

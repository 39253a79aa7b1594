"""The check on experiments of our own strategy and of others."""

from __future__ import annotations

from typing import Any

import pytest
from ax.api.client import Client
from ax.api.configs import RangeParameterConfig
from ax.exceptions.core import OptimizationShouldStop, UserInputError

from ax_costaware import (
    GittinsDecay,
    GittinsStop,
    StandardizedPrice,
    complete_trial,
    should_stop,
    spending,
)
from tests.ax.gittins_toy import COST, FAST, make_client, objective, record, run_trials

pytestmark = pytest.mark.usefixtures("short_searches")

SURROGATE = FAST["surrogate_spec"]


@pytest.mark.parametrize(
    ("acquisition", "minimize"), [("gittins", False), ("log_nei_per_cost", True)]
)
def test_it_says_what_the_next_decision_does(acquisition: str, minimize: bool) -> None:
    """The numbers of the record that the next trial gets, and stop where asking for it stops."""
    sign = -1.0 if minimize else 1.0
    client = make_client(minimize, lmbda=0.02, acquisition=acquisition)
    run_trials(client, 4, sign)
    while True:
        found = should_stop(client)
        before = len(client._experiment.trials)
        if found.stop:
            break
        run_trials(client, 1, sign)
        decision = record(client, before)["decision"]
        assert found.index == decision["index"]
        assert found.lmbda == decision["lambda"]
        for name in ("incumbent", "incumbent_trial", "spent", "remaining"):
            assert getattr(found, name) == decision[name]
    with pytest.raises(OptimizationShouldStop) as stop:
        client.get_next_trials(max_trials=1)
    assert found.index is not None
    assert sign * found.index <= sign * found.incumbent
    assert f"{found.index:.6g}" in str(stop.value)
    assert len(client._experiment.trials) == before > 4


def test_a_trial_that_failed_makes_it_think_twice_as_the_next_decision_does() -> None:
    """What is worth its cost by the outcomes alone is near the failure, and nothing else is."""
    client = make_client(lmbda=0.05, initialize_with_center=False)
    run_trials(client, 4)
    (failed,) = client.get_next_trials(max_trials=1)
    client.mark_trial_failed(failed)
    found = should_stop(client)
    with pytest.raises(OptimizationShouldStop, match="goes by the outcomes alone") as e:
        client.get_next_trials(max_trials=1)
    assert found.stop
    assert "trials that failed" in found.reason
    assert f"{found.index:.6g}" in str(e.value)


@pytest.mark.filterwarnings("ignore::botorch.exceptions.warnings.InputDataWarning")
def test_an_experiment_of_axs_default_strategy() -> None:
    """Cost and lambda are needed, and only these; learned costs are read from Ax's data."""
    client = Client()
    client.configure_experiment(
        name="plain",
        parameters=[RangeParameterConfig(n, (0, 1), "float") for n in ("x1", "x2")],
    )
    client.configure_optimization(objective="y")
    client.configure_tracking_metrics(["hours"])
    client.configure_generation_strategy(initialization_budget=8)
    for index, arm in client.get_next_trials(max_trials=5).items():
        x = dict(arm)
        client.complete_trial(index, {"y": objective(x), "hours": 1.0 + float(x["x2"])})
    options: dict[str, Any] = {"surrogate_spec": SURROGATE}
    go, stop = (should_stop(client, cost=COST, lmbda=p, **options) for p in (1e-4, 1.0))
    assert (go.stop, stop.stop) == (False, True)
    assert go.parameters == stop.parameters
    assert go.spent == pytest.approx(sum(COST.at(a.parameters) for a in _arms(client)))
    learned = should_stop(client, cost="hours", budget=20.0, **options)
    assert learned.remaining is not None
    assert learned.spent == pytest.approx(sum(1.0 + a.parameters["x2"] for a in _arms(client)))
    for arguments, named in (
        ({"lmbda": 1.0}, "cost=None"),
        ({"cost": COST}, "lmbda=None and budget=None"),
        ({"cost": "euros", "lmbda": 1.0, **options}, "cost='euros'"),
    ):
        with pytest.raises(UserInputError, match=named):
            should_stop(client, **arguments)


def _arms(client: Client) -> Any:
    return client._experiment.arms_by_name.values()


def test_a_price_may_be_tried() -> None:
    """Given, it takes the place of a decay and of the rule's own."""
    decaying = make_client(decay=GittinsDecay(0.1))
    ruled = make_client(lmbda=0.01, stop=GittinsStop(5.0))
    for client in (decaying, ruled):
        run_trials(client, 4)
        assert should_stop(client, lmbda=1e-6).lmbda == 1e-6
        assert not should_stop(client, lmbda=1e-6).stop
        scaled = should_stop(client, lmbda=StandardizedPrice(1e-6))
        assert scaled.lmbda == pytest.approx(1e-6 * SURROGATE.outputscale**0.5)
    assert should_stop(ruled).stop
    assert should_stop(ruled).lmbda == 5.0
    assert not should_stop(decaying).stop
    # So does what a budget comes to, unless the strategy has one beside its decay.
    less, more = (should_stop(decaying, budget=budget).lmbda for budget in (8.0, 100.0))
    assert less is not None
    assert more is not None
    assert less > more
    both = make_client(decay=GittinsDecay(0.1), budget=50.0)
    run_trials(both, 4)
    assert should_stop(both, budget=100.0).lmbda == should_stop(both).lmbda


def test_given_hyperparameters_see_outliers_as_they_are() -> None:
    """As in the strategy itself, and in the rule for others."""
    own = make_client(lmbda=0.01, acquisition="gittins")
    other = make_client(lmbda=0.01, acquisition="gittins", surrogate_spec=None)
    for client in (own, other):
        run_trials(client, 4)
        complete_trial(client, client.attach_trial({"x1": 0.9, "x2": 0.9}), -30.0)
    found = should_stop(other, surrogate_spec=SURROGATE)
    assert found == should_stop(own)


def test_when_nothing_can_be_paid() -> None:
    """Stop, without an index."""
    client = make_client(cost=1.0, budget=4.0)
    run_trials(client, 4)
    found = should_stop((client._experiment, client._generation_strategy))
    assert (found.stop, found.index, found.lmbda) == (True, None, None)
    assert found.remaining == 0.0
    with pytest.raises(UserInputError, match="no trial has an outcome"):
        should_stop(make_client(lmbda=1.0))
    assert found.spent == spending(client).spent

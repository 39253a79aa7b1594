"""The session functions for a method whose trials control every parameter.

Costs are either known beforehand or learned from what is reported under a metric.
"""

from __future__ import annotations

from typing import Any

import pytest
from ax.api.client import Client
from ax.api.configs import RangeParameterConfig
from ax.core.experiment import Experiment
from ax.exceptions.core import UserInputError

from ax_costaware.ax_bridge.records import outcome_record
from ax_costaware.core.method import Method
from ax_costaware.costs import AffineCost, SwitchingCost
from ax_costaware.methods.cost_aware import CostAware
from ax_costaware.session import (
    complete_trial,
    query,
    report_cost,
    spending,
)

from .conftest import KINDS, behind, strategy_with

ARM: dict[str, Any] = {"water": 0.25, "plants": 2}
LEARNED = CostAware(cost="hours", budget=20.0)


def make(settings: Method, metric: bool = True, trials: int = 1) -> Client:
    """An experiment with attached trials; ``metric``: whether it has the metric ``hours``."""
    client = Client()
    client.configure_experiment(
        name="plants",
        parameters=[
            RangeParameterConfig(name="water", bounds=(0.0, 1.0), parameter_type="float"),
            RangeParameterConfig(name="plants", bounds=(1, 5), parameter_type="int"),
        ],
    )
    client.configure_optimization(objective="growth")
    if metric:
        client.configure_tracking_metrics(["hours"])
    client.set_generation_strategy(strategy_with(settings))
    for i in range(trials):
        client.attach_trial({**ARM, "water": 0.25 + i / 8})
    return client


def observed(experiment: Experiment, trial_index: int = 0) -> dict[str, float]:
    """Means among Ax's data of one trial, by metric."""
    frame = experiment.lookup_data([trial_index]).df
    return dict(zip(frame["metric_name"], frame["mean"], strict=True))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("in_data", [False, True])
def test_learned_cost_is_shown_in_ax_and_kept_in_full(kind: str, in_data: bool) -> None:
    """In Ax's data it has ten decimals after storage; the record is what counts."""
    client, cost = make(LEARNED), 1.234567890123456e-7
    data: dict[str, Any] = {"growth": 1.0, **({"hours": cost} if in_data else {})}
    complete_trial(behind(kind, client), 0, data, cost=None if in_data else cost)
    assert outcome_record(client._experiment.trials[0]) == {
        "realized": {},
        "outcomes": {"growth": [1.0, None], "hours": [cost, None]},
        "cost": cost,
        "cost_metric": "hours",
    }
    assert observed(client._experiment) == {"growth": 1.0, "hours": pytest.approx(cost, rel=1e-9)}
    assert spending(client).spent == cost


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("in_data", [False, True])
def test_learned_cost_without_the_metric_in_the_experiment(kind: str, in_data: bool) -> None:
    client = make(LEARNED, metric=False)
    data: dict[str, Any] = {"growth": 1.0, **({"hours": 3.0} if in_data else {})}
    complete_trial(behind(kind, client), 0, data, cost=None if in_data else 3.0)
    assert observed(client._experiment) == {"growth": 1.0}
    assert "hours" not in client._experiment.metrics
    (entry,) = spending(client).entries
    assert (entry.expected_cost, entry.reported_cost, entry.charged) == (None, 3.0, 3.0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("metric", [False, True])
def test_cost_of_a_trial_without_an_outcome(kind: str, metric: bool) -> None:
    client = make(LEARNED, metric=metric)
    complete_trial(behind(kind, client), 0, cost=3.0)
    assert client._experiment.trials[0].status.is_completed
    assert observed(client._experiment) == ({"hours": 3.0} if metric else {})
    assert spending(client).spent == 3.0


def test_missing_cost_is_accepted_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    def warned() -> list[str]:
        return [r.getMessage() for r in caplog.records if r.name.endswith("session.completion")]

    client = make(LEARNED, trials=3)
    complete_trial(client, 0, raw_data=1.0, cost=2.0)
    assert warned() == []
    complete_trial(client, 1, raw_data=1.0)
    (message,) = warned()
    assert "trial 1 is completed without its cost" in message
    assert "ax_costaware.report_cost(client, 1, ...)" in message
    assert [entry.reported_cost for entry in spending(client).entries] == [2.0, None, None]
    report_cost(client, 1, 4.0)  # what the message advises
    assert [entry.reported_cost for entry in spending(client).entries] == [2.0, 4.0, None]
    client.attach_data(2, {"hours": 5.0})  # or by Ax, before it
    complete_trial(client, 2, raw_data=1.0)
    assert len(warned()) == 1
    assert spending(client).spent == 11.0


def test_a_missing_outcome_is_said_unless_ax_has_it(caplog: pytest.LogCaptureFixture) -> None:
    client = make(LEARNED, trials=2)
    client.attach_data(0, {"growth": 1.0})
    for index in (0, 1):
        complete_trial(client, index, cost=2.0)
    found = [r.getMessage() for r in caplog.records if "is completed" in r.getMessage()]
    assert found[-1] == "Trial 1 is completed without ['growth']."
    assert "Trial 0 is completed without ['growth']." not in found


def test_query_of_a_trial_with_a_switching_cost() -> None:
    """What is expected is what the ledger expects, switching costs included."""
    cost = SwitchingCost({"water": 4.0}, AffineCost({"plants": 1.5}, fixed=0.5))
    client = make(CostAware(cost, budget=20.0), trials=2)
    assert [query(client, i).expected_cost for i in range(2)] == [3.5, 7.5]
    assert [entry.expected_cost for entry in spending(client).entries] == [3.5, 7.5]


def test_a_cost_of_another_trial_is_the_mean_of_those_reported() -> None:
    """Ax's design is no model's decision; what is attached, neither."""
    client = make(LEARNED, trials=3)
    complete_trial(client, 0, raw_data=1.0, cost=2.0)
    complete_trial(client, 1, raw_data=1.0, cost=3.0)
    paid = spending(client)
    assert [entry.charged for entry in paid.entries] == [2.0, 3.0, 2.5]
    assert (paid.spent, paid.reserved) == (7.5, 2.5)
    assert "attached" in query(client, 2).why
    assert query(client, 2).expected_cost is None


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"cost": 0.0}, "cost=0.0"),
        ({"cost": "2"}, "cost='2'"),
        ({"raw_data": {"growth": 1.0, "hours": 0.0}}, r"raw_data\['hours'\]=0.0"),
        ({"raw_data": {"growth": 1.0, "hours": (-2.0, 0.1)}}, r"raw_data\['hours'\]=-2.0"),
        ({"raw_data": {"hours": float("nan")}}, r"raw_data\['hours'\]=nan"),
        ({"raw_data": {"growth": 1.0, "hours": 2.0}, "cost": 2.1}, r"raw_data\['hours'\]=2.0"),
        ({"raw_data": {"days": 2.0}}, r"raw_data .*\['days'\]"),
        ({"realized": {"plants": 2.5}}, r"realized\['plants'\]=2.5"),
    ],
)
def test_bad_costs_are_refused_and_change_nothing(change: dict[str, Any], named: str) -> None:
    client = make(LEARNED, metric=False)
    metrics = set(client._experiment.metrics)
    with pytest.raises(UserInputError, match=named):
        complete_trial(client, **{"trial_index": 0, "raw_data": 1.0, **change})
    trial = client._experiment.trials[0]
    assert (trial.status.is_running, trial.run_metadata) == (True, {})
    assert client._experiment.lookup_data().empty
    assert set(client._experiment.metrics) == metrics

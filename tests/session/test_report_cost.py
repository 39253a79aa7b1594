"""Reporting what a trial has cost after it ended, behind every kind of client."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
from ax.api.client import Client
from ax.core.experiment import Experiment
from ax.exceptions.core import UserInputError

from ax_costaware import (
    ControlSet,
    SwitchingCost,
    UnknownCosts,
    complete_trial,
    report_cost,
    spending,
)
from ax_costaware.ax_bridge.records import outcome_record, values_in_data
from ax_costaware.methods.cost_aware import CostAware
from ax_costaware.metrics import CostMetric
from tests.session.conftest import KINDS, REALIZED, SETTINGS, behind, strategy_with
from tests.session.test_whole_parameterization import make


def test_every_kind_of_client_takes_a_cost_afterwards(any_client: tuple[Any, Experiment]) -> None:
    """What was reported before stays beside it."""
    client, experiment = any_client
    complete_trial(client, 0, raw_data=0.5, realized=REALIZED)
    before = outcome_record(experiment.trials[0])
    assert spending(client).spent == 1.0
    report_cost(client, 0, 0.25)
    assert outcome_record(experiment.trials[0]) == {**before, "cost": 0.25}
    assert spending(client).spent == 0.25


@pytest.mark.parametrize("kind", KINDS)
def test_a_control_set_of_unknown_cost_needs_one(kind: str, client: Client) -> None:
    """Whether or not anything was measured, and before anything is written."""
    unknown = (ControlSet(["water"], fixed_cost=0.5), ControlSet(["water", "acid"], cost=2.5))
    settings = replace(SETTINGS, control_sets=unknown, rule=UnknownCosts())
    client.set_generation_strategy(strategy_with(settings))
    given, trial = behind(kind, client), client._experiment.trials[0]
    before = deepcopy((trial.run_metadata, trial.status))
    for raw_data in (1.0, None):
        for cost in (None, 0.5, -1.0):
            with pytest.raises(UserInputError, match=f"cost={cost}"):
                complete_trial(given, 0, raw_data, realized=REALIZED, cost=cost)
            assert (trial.run_metadata, trial.status) == before
    complete_trial(given, 0, 1.0, realized=REALIZED, cost=0.75)
    assert spending(given).spent == 0.75
    assert spending(given).entries[0].expected_cost is None


def test_a_learned_cost_is_more_than_its_switching_cost() -> None:
    """By what ran before, and before anything is written; also of what was given up."""
    client = make(CostAware(SwitchingCost({"water": 20.0}, base="hours"), budget=200.0), trials=3)
    complete_trial(client, 0, 1.0, cost=3.0)
    trials, message = client._experiment.trials, "cost=20.0: .* switching cost of 20"
    for raw_data, cost in ((1.0, 20.0), ({"growth": 1.0, "hours": 20.0}, None)):
        with pytest.raises(UserInputError, match=message):
            complete_trial(client, 1, raw_data, cost=cost)
    assert (trials[1].run_metadata, trials[1].status.name) == ({}, "RUNNING")
    client.mark_trial_abandoned(1)
    with pytest.raises(UserInputError, match=message):
        report_cost(client, 1, 20.0)
    assert not trials[1].run_metadata
    client.attach_trial({"water": 0.25, "plants": 3})
    complete_trial(client, 2, 1.0, cost=21.0)
    with pytest.raises(UserInputError, match="includes the switching cost of 20"):
        complete_trial(client, 3, 1.0, cost=20.0)
    complete_trial(client, 3, 1.0, cost=21.0)
    assert spending(client).switching_costs == 40.0


def test_a_metric_of_costs_shows_the_last_one(any_client: tuple[Any, Experiment]) -> None:
    """Also where costs are declared, and a runner's metric has fetched the first one."""
    client, experiment = any_client
    experiment.add_metric(CostMetric("labour"))
    complete_trial(client, 0, raw_data=0.5, realized=REALIZED, cost=2.0)
    experiment.fetch_data()
    assert values_in_data(experiment, "labour") == {0: 2.0}
    report_cost(client, 0, 3.0)
    assert values_in_data(experiment, "labour") == {0: 3.0}
    assert spending(client).spent == 3.0

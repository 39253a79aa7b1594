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
from tests.session.conftest import ARM, KINDS, REALIZED, SETTINGS, behind, strategy_with
from tests.session.test_whole_parameterization import LEARNED, make


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
        for cost, message in (
            (
                None,
                "cost=None: expected .* > 0.5, the cost of trial 0: of its control set 'water'",
            ),
            (0.5, "cost=0.5: expected .* > 0.5, the cost of trial 0.* fixed_cost=0.5 is known"),
            (-1.0, "cost=-1.0: expected a finite number >= 0"),
        ):
            with pytest.raises(UserInputError, match=message):
                complete_trial(given, 0, raw_data, realized=REALIZED, cost=cost)
            assert (trial.run_metadata, trial.status) == before
    complete_trial(given, 0, 1.0, realized=REALIZED, cost=0.75)
    assert spending(given).spent == 0.75
    assert spending(given).entries[0].expected_cost is None


def test_a_learned_cost_is_more_than_its_switching_cost() -> None:
    """By what ran before, and before anything is written; also of what was given up."""
    client = make(CostAware(SwitchingCost({"water": 20.0}, base="hours"), budget=200.0), trials=3)
    complete_trial(client, 0, 1.0, cost=3.0)
    trials, whole = client._experiment.trials, "a finite number > 20, the whole cost of"
    message = f"cost=20.0: expected {whole} trial 1; it includes the switching cost of 20"
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


def test_the_known_part_of_a_control_sets_cost_is_beside_a_switching_cost(client: Client) -> None:
    unknown = (ControlSet(["water"], fixed_cost=0.5), ControlSet(["water", "acid"], cost=2.5))
    changes = SwitchingCost({"water": 4.0})
    settings = replace(SETTINGS, control_sets=unknown, rule=UnknownCosts(), switching_cost=changes)
    client.set_generation_strategy(strategy_with(settings))
    client.attach_trial({**ARM, "water": 0.75})
    complete_trial(client, 0, 1.0, realized=REALIZED, cost=0.75)
    with pytest.raises(UserInputError, match=r"cost=4.5: .* > 4.5, .*fixed_cost=0.5.* cost of 4\."):
        complete_trial(client, 1, 1.0, realized=REALIZED, cost=4.5)
    complete_trial(client, 1, 1.0, realized=REALIZED, cost=4.75)


@pytest.mark.parametrize("metric", [True, False])
def test_where_costs_are_learned_from_a_metric(metric: bool) -> None:
    """Added or corrected, also beside Ax's data, which count where both have one."""
    client = make(LEARNED, metric=metric)
    complete_trial(client, 0, 1.0)
    report_cost(client, 0, 2.0)
    assert spending(client).spent == 2.0
    report_cost(client, 0, 1 / 3)
    assert spending(client).spent == 1 / 3
    for cost in (0.0, -1.0):
        with pytest.raises(UserInputError, match=r"cost=.*: expected a finite number > 0"):
            report_cost(client, 0, cost)
    assert spending(client).spent == 1 / 3


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


@pytest.mark.parametrize(
    ("trial_index", "cost", "message"),
    [
        (7, 1.0, "trial_index=7 does not exist"),
        (0, 1.0, r"trial 0 is RUNNING: expected one that has ended.*complete_trial"),
    ],
)
def test_refused_for_what_has_not_ended(
    trial_index: int, cost: float, message: str, client: Client
) -> None:
    """And nothing is written."""
    with pytest.raises(UserInputError, match=message):
        report_cost(client, trial_index, cost)
    assert not client._experiment.trials[0].run_metadata

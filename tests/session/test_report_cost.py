"""Reporting what a trial has cost after it ended, behind every kind of client."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
from ax.api.client import Client
from ax.core.experiment import Experiment
from ax.exceptions.core import UserInputError

from ax_costaware import ControlSet, UnknownCosts, complete_trial, report_cost, spending
from ax_costaware.ax_bridge.records import outcome_record, values_in_data
from ax_costaware.metrics import CostMetric
from tests.session.conftest import KINDS, REALIZED, SETTINGS, behind, strategy_with
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
                "cost=None: expected .* > 0.5, what trial 0 has cost: of its control set 'water'",
            ),
            (0.5, "cost=0.5: expected .* > 0.5, what trial 0 has cost.* fixed_cost=0.5 is known"),
            (-1.0, "cost=-1.0: expected a finite number >= 0"),
        ):
            with pytest.raises(UserInputError, match=message):
                complete_trial(given, 0, raw_data, realized=REALIZED, cost=cost)
            assert (trial.run_metadata, trial.status) == before
    complete_trial(given, 0, 1.0, realized=REALIZED, cost=0.75)
    assert spending(given).spent == 0.75
    assert spending(given).entries[0].expected_cost is None


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

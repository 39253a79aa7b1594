"""What a trial asks for, for generated and attached trials."""

from __future__ import annotations

import pytest
from ax.api.client import Client
from ax.core.arm import Arm
from ax.core.generator_run import GeneratorRun
from ax.exceptions.core import UserInputError

from ax_costaware.ax_bridge.records import RECORD
from ax_costaware.session import query

from .conftest import ARM

DECISION = {"in_play": ["water+acid"], "values": {"water+acid": 1.5}, "rule": "Rule()"}


def _generate(client: Client) -> int:
    """A trial as the strategy generates it."""
    arm = Arm(parameters={**ARM, "control_set": "water+acid", "acid": 0.123456789})
    record = {
        "control_set": "water+acid",
        "expected_cost": 2.75,
        "why": "It has the largest value.",
        "phase": "rule",
        "decision": DECISION,
    }
    run = GeneratorRun(arms=[arm], gen_metadata={RECORD: record})
    return client._experiment.new_trial(run).mark_running(no_runner_required=True).index


def test_arm_without_a_controlled_value_is_refused(client: Client) -> None:
    experiment = client._experiment
    experiment.new_trial().add_arm(Arm(parameters={"control_set": "water+acid", "water": 0.5}))
    with pytest.raises(UserInputError, match=r"trial 1 has no value for \['acid'\]"):
        query(client, 1)


def test_candidates_of_a_generated_trial(client: Client) -> None:
    asked = query(client, _generate(client))
    assert asked.parameters == asked.controlled == {"water": 0.25, "acid": 0.123456789}
    assert asked.decision == DECISION
    frame = asked.to_frame()
    assert list(frame["control_set"]) == ["water", "water+acid"]
    assert list(frame["chosen"]) == list(frame["in_play"]) == [False, True]
    assert list(frame["cost"]) == [1.0, 2.75]
    assert list(frame["value"].dropna()) == [1.5]
    assert asked.to_dict()["candidates"][1]["value"] == 1.5


def test_candidates_with_learned_costs_and_bounds(client: Client) -> None:
    decision = {
        "in_play": ["water", "water+acid"],
        "values": {"water": -1.0},
        "costs": {"water": [0.5, 0.1], "water+acid": [2.0, None]},
        "state": {"upper": {"0": 1.25, "1": 2.5}},
    }
    record = {"control_set": "water", "expected_cost": 0.5, "phase": "rule", "decision": decision}
    run = GeneratorRun(arms=[Arm(parameters=ARM)], gen_metadata={RECORD: record})
    trial = client._experiment.new_trial(run).mark_running(no_runner_required=True)
    frame = query(client, trial.index).to_frame()
    assert list(frame["in_play"]) == [True, True]
    assert list(frame["cost"]) == [0.5, 2.0]
    assert list(frame["cost_standard_error"].dropna()) == [0.1]
    assert list(frame["upper_bound"]) == [1.25, 2.5]

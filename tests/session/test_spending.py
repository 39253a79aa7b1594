"""What was spent, as numbers, as a frame and as text."""

from __future__ import annotations

import math
from dataclasses import replace

from ax.api.client import Client

from ax_costaware.session import complete_trial, spending

from .conftest import ARM, REALIZED


def test_frame(client: Client) -> None:
    client.attach_trial({**ARM, "control_set": "water+acid"})
    complete_trial(client, 0, raw_data=1.0, realized=REALIZED, cost=0.25)
    frame = spending(client).to_frame()
    assert list(frame.columns) == [
        "trial_index",
        "control_set",
        "expected_cost",
        "reported_cost",
        "charged",
        "lost",
        "switching_cost",
        "status",
        "initial",
        "skipped",
    ]
    first, second = frame.to_dict(orient="records")
    assert first == {
        "trial_index": 0,
        "control_set": "water",
        "expected_cost": 1.0,
        "reported_cost": 0.25,
        "lost": 0.0,
        "switching_cost": 0.0,
        "charged": 0.25,
        "status": "COMPLETED",
        "initial": True,
        "skipped": False,
    }
    assert math.isnan(second["reported_cost"])
    assert second["status"] == "RUNNING"


def test_text(client: Client) -> None:
    client.attach_trial({**ARM, "control_set": "water+acid", "water": 0.5})
    client.attach_trial({**ARM, "water": 0.75})
    complete_trial(client, 0, raw_data=1.0, realized=REALIZED, cost=0.25)
    assert str(spending(client)) == (
        "Spent 3.75 of 20 (3.5 of it reserved for unfinished trials), 16.25 remaining.\n"
        "  water: 2 trials, 1.25\n"
        "  water+acid: 1 trial, 2.5"
    )
    unlimited = replace(spending(client), budget=None, remaining=None)
    assert str(unlimited).startswith("Spent 3.75 (3.5 of it reserved for unfinished trials).\n")

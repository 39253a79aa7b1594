"""Costs that cannot be learned from: decisions and the ledger refuse them in the same words."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from ax.api.client import Client
from ax.core.metric import Metric
from ax.exceptions.core import UserInputError

from ax_costaware import (
    AffineCost,
    attach_table,
    complete_trial,
    cost_aware_strategy,
    exclude_trial,
    report_cost,
    should_stop,
    spending,
)
from ax_costaware.core.account import ledger_of
from ax_costaware.core.history import PastTrial
from ax_costaware.methods.cost_aware import CostAware
from tests.ax.gittins_toy import FAST, make_client

pytestmark = pytest.mark.usefixtures("short_searches")


def client_with_costs() -> Client:
    """Three trials of which each cost two seconds."""
    client = make_client(cost="seconds", budget=60.0, initial_trials=2)
    for name in ("seconds", "hours"):
        client._experiment.add_metric(Metric(name))
    for _ in range(3):
        ((index, arm),) = client.get_next_trials(max_trials=1).items()
        complete_trial(client, index, float(arm["x1"]), cost=2.0)
    return client


def check_refused(client: Client, message: str) -> None:
    """The same words wherever costs are counted."""
    for ask in (spending, should_stop, lambda c: c.get_next_trials(max_trials=1)):
        with pytest.raises(UserInputError, match=message):
            ask(client)


END: dict[str, Callable[[Client, int], None]] = {
    "completed": lambda client, index: client.complete_trial(index, {"y": 0.5}),
    "failed": lambda client, index: client.mark_trial_failed(index),
    "abandoned": lambda client, index: client.mark_trial_abandoned(index),
}


@pytest.mark.parametrize(
    ("end", "cost"), [("completed", -5.0), ("failed", math.inf), ("abandoned", 0.0)]
)
def test_costs_in_data_that_are_none(cost: float, end: str) -> None:
    """A negative one credits nothing, and an infinite one is not passed over."""
    client = client_with_costs()
    ((index, _),) = client.get_next_trials(max_trials=1).items()
    END[end](client, index)
    client.attach_data(index, {"seconds": cost})
    check_refused(client, rf"trial {{{index}: {cost}}}.*report_cost\(client, 3,")
    report_cost(client, index, 1.5)
    assert spending(client).spent == 7.5
    assert client.get_next_trials(max_trials=1)


def test_cost_in_data_that_is_not_a_number() -> None:
    """It says nothing: the cost is missing."""
    client = client_with_costs()
    ((index, _),) = client.get_next_trials(max_trials=1).items()
    client.complete_trial(index, {"y": 0.5})
    client.attach_data(index, {"seconds": math.nan})
    with pytest.raises(UserInputError, match=r"trials \[3\] were completed without a cost"):
        client.get_next_trials(max_trials=1)
    assert spending(client).spent == pytest.approx(8.0, rel=0.5)


def test_costs_under_another_metric(tmp_path: Path) -> None:
    """Of trials of the strategy, attached ones and a table; what is reported anew counts."""
    client = client_with_costs()
    attached = client.attach_trial({"x1": 0.2, "x2": 0.3})
    complete_trial(client, attached, 0.4, cost=2.0)
    attach_table(client, pd.DataFrame({"x1": [0.7], "x2": [0.6], "y": [0.5], "seconds": [2.0]}))
    ((running, _),) = client.get_next_trials(max_trials=1).items()
    client.save_to_json_file(str(tmp_path / "seconds.json"))
    client = Client.load_from_json_file(str(tmp_path / "seconds.json"))
    client.set_generation_strategy(cost_aware_strategy("hours", budget=9.0, **FAST))
    check_refused(
        client,
        re.escape("cost='hours': the costs of trials [0, 1, 2, 3, 4] were reported as 'seconds'")
        + r".*report_cost\(client, 0, .*exclude_trial\(client, 0\)",
    )
    report_cost(client, 0, 0.5)
    client.attach_data(1, {"hours": 0.25})
    exclude_trial(client, 2)
    check_refused(client, r"trials \[3, 4\] were reported as 'seconds'")
    report_cost(client, 3, 0.25)
    report_cost(client, 4, 0.5)
    entries = spending(client).entries
    # The table is not paid for; what runs is expected to cost what the others did, not two seconds.
    assert [entry.charged for entry in entries[:5]] == [0.5, 0.25, 0.0, 0.25, 0.0]
    assert entries[running].expected_cost is None
    assert entries[running].charged == pytest.approx(0.375)
    ((index, _),) = client.get_next_trials(max_trials=1).items()
    complete_trial(client, index, 0.5, cost=0.5)
    assert spending(client).entries[index].charged == 0.5


def test_expectations_in_another_unit() -> None:
    """A declared cost takes the place of what was expected as a learned one; not of its own."""
    record = {"expected_cost": 3600.0, "switching_cost": 100.0}
    for metric, expected in (("seconds", 2.0), (None, 3600.0)):
        known = record if metric is None else {**record, "cost_metric": metric}
        trial = PastTrial(0, {"x": 1.0}, status="RUNNING", record=known)
        (entry,) = ledger_of([trial], CostAware(AffineCost({"x": 2.0})))
        assert entry.expected_cost == expected

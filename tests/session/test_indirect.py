"""The session functions where trials are queries, and what is deployed is a point."""

from __future__ import annotations

from typing import Any

import pytest
from ax.api.client import Client
from ax.api.configs import RangeParameterConfig
from ax.exceptions.core import UserInputError

from ax_costaware import (
    UniformBoxConditional,
    complete_trial,
    indirect_query_strategy,
)
from ax_costaware.ax_bridge.records import RECORD
from ax_costaware.runners.reporting import read_outcome
from ax_costaware.runners.result import TrialResult, plain_result
from tests.ax import tree_toy

pytestmark = pytest.mark.usefixtures("short_searches")


def test_realised_queries_that_no_law_is_known_of() -> None:
    """They are refused before anything is written, and found where Ax wrote them."""
    law = UniformBoxConditional(half_width=5.0)
    client = Client()
    client.configure_experiment(parameters=[RangeParameterConfig("a", (5, 95), "float")])
    client.configure_optimization(objective="z")
    targets = [RangeParameterConfig("x", (0, 100), "float")]
    options: dict[str, Any] = {"target_parameters": targets, "conditional": law}
    client.set_generation_strategy(indirect_query_strategy(**options, initial_trials=1))
    (index,) = client.get_next_trials(max_trials=1)
    for wrong in (95.03, 0.0):
        with pytest.raises(UserInputError, match=r"trial 0: .* is no query of the conditional"):
            complete_trial(client, index, 1.0, realized={"a": wrong})
    trial = client._experiment.trials[index]
    # What a runner's function returns is refused in the same words, and fails the trial.
    returned = plain_result(TrialResult(1.0, realized={"a": 95.03}))
    with pytest.raises(UserInputError, match=r"trial 0: .* is no query of the conditional"):
        read_outcome(trial, returned, None)
    assert trial.status.is_running
    complete_trial(client, index, 1.0, realized={"a": 94.0})
    record = trial.run_metadata[RECORD]
    trial.update_run_metadata({RECORD: {**record, "realized": {"a": 95.03}}})
    with pytest.raises(UserInputError, match=r"trial 0: .*exclude_trial\(client, 0\)"):
        client.get_next_trials(max_trials=1)


def test_realised_cells_that_the_tree_does_not_have() -> None:
    client = tree_toy.make_client(initial_trials=1)
    (index,) = client.get_next_trials(max_trials=1)
    with pytest.raises(UserInputError, match=r"trial 0: .* is no cell of the tree") as refusal:
        complete_trial(client, index, 1.0, realized={"x1": 5.1})
    assert "outside" not in str(refusal.value)
    cell = {"level": 1, "x1": 2.5, "x2": 2.5}
    complete_trial(client, index, tree_toy.cell_mean(cell), realized=cell)
    ((_, arm),) = client.get_next_trials(max_trials=1).items()
    assert dict(arm) != cell
    trial = client._experiment.trials[index]
    record = trial.run_metadata[RECORD]
    trial.update_run_metadata({RECORD: {**record, "realized": {"x1": 5.1}}})
    with pytest.raises(UserInputError, match=r"trial 0: .* is no cell.*exclude_trial") as refusal:
        client.get_next_trials(max_trials=1)
    assert "outside" not in str(refusal.value)

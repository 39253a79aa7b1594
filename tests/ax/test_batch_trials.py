"""A ``BatchTrial`` of one arm, as an ``Orchestrator`` makes them on request, is a trial."""

from __future__ import annotations

from pathlib import Path

import pytest
from ax.api.client import Client
from ax.core.arm import Arm
from ax.core.batch_trial import BatchTrial
from ax.core.generator_run import GeneratorRun
from ax.exceptions.core import UnsupportedError

from ax_costaware import (
    complete_trial,
    exclude_trial,
    query,
    recommend,
    report_cost,
    set_budget,
    spending,
)
from ax_costaware.analysis import overview
from ax_costaware.ax_bridge.records import RECORD, outcome_record
from tests.ax.gittins_toy import make_client
from tests.contract import test_control_sets as control_sets
from tests.resuming import load, open_database
from tests.runners.bench import Bench

pytestmark = pytest.mark.usefixtures("short_searches")


def test_decisions_and_answers_are_those_of_trials(tmp_path: Path) -> None:
    contract = control_sets.TestUnknownCosts()
    clients: list[Client] = [contract.client(), contract.client()]
    single, batches = clients
    for client in clients:
        experiment = client._experiment
        for _ in range(5):
            ((run,),) = client._generation_strategy.gen(experiment, n=1)
            make = experiment.new_trial if client is single else experiment.new_batch_trial
            trial = make(generator_run=run)
            trial.mark_running(no_runner_required=True)
            contract.complete(client, trial.index)
    assert isinstance(batches._experiment.trials[4], BatchTrial)
    assert spending(single).entries == spending(batches).entries
    assert recommend(single).parameters == recommend(batches).parameters
    for index in range(5):
        assert query(single, index) == query(batches, index)
    assert not any("BatchTrial" in str(card.subtitle) for card in overview(batches))
    batches.save_to_json_file(str(tmp_path / "batches.json"))
    loaded = Client.load_from_json_file(str(tmp_path / "batches.json"))
    expected = single.get_next_trials(max_trials=1)
    assert batches.get_next_trials(max_trials=1) == expected
    assert loaded.get_next_trials(max_trials=1) == expected


def test_reports_of_a_trial_that_was_attached(tmp_path: Path) -> None:
    """Costs, data and stores, of an arm of the user's own."""
    storage = open_database(tmp_path / "toy.db")
    client = make_client(storage_config=storage, cost="seconds", budget=20.0)
    client.configure_tracking_metrics(["seconds"])
    batch = client._experiment.new_batch_trial(GeneratorRun([Arm({"x1": 0.2, "x2": 0.4})]))
    batch.mark_running(no_runner_required=True)
    complete_trial(client, 0, {"y": 0.7}, cost=3.0)
    found = client._experiment.lookup_data().df.set_index("metric_name")["mean"].to_dict()
    assert found == {"y": 0.7, "seconds": 3.0}
    report_cost(client, 0, 4.0)
    assert spending(client).entries[0].charged == 4.0
    set_budget(client, 40.0)
    loaded = load(str(tmp_path / "toy.db"))
    assert isinstance(loaded._experiment.trials[0], BatchTrial)
    assert spending(loaded).entries == spending(client).entries
    exclude_trial(client, 0)
    assert spending(client).spent == 0.0


def test_a_runner_runs_it() -> None:
    client, runner = make_client(), Bench()
    ((run,),) = client._generation_strategy.gen(client._experiment, n=1)
    batch = client._experiment.new_batch_trial(generator_run=run)
    batch.update_run_metadata(runner.run(batch))
    (started,) = runner.started.values()
    assert started == batch.arms[0].parameters
    assert outcome_record(batch) == batch.run_metadata[RECORD]


def test_without_an_arm_nothing_can_be_reported_and_runs_go_on() -> None:
    client = make_client()
    client._experiment.new_batch_trial()
    with pytest.raises(UnsupportedError, match="trial 0"):
        complete_trial(client, 0, 1.0)
    assert [*client.get_next_trials(max_trials=1)] == [1]

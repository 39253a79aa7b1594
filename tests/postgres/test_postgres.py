"""Experiments on a PostgreSQL server: resumed, read while they are written, and without it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import sqlalchemy
from ax.api.client import Client
from ax.storage.sqa_store.db import get_engine
from ax.utils.common import executils
from sqlalchemy.exc import OperationalError

from ax_costaware import spending
from ax_costaware.session import save
from tests.fresh import FreshProcess
from tests.postgres.server import Server
from tests.resuming import load, open_database
from tests.stores.make import CASES, NAME, decide, ledger, new_client, run

pytestmark = pytest.mark.postgres


@pytest.fixture
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ax waits five seconds and ten before it tries again to save."""
    monkeypatch.setattr(executils.time, "sleep", lambda _: None)


def test_tables_are_made(server: Server) -> None:
    open_database(server.new_database())
    tables = sqlalchemy.inspect(get_engine()).get_table_names()
    assert {"experiment_v2", "trial_v2", "data_v2", "generation_strategy"} <= set(tables)


@pytest.mark.parametrize("case", sorted(CASES))
def test_next_decision_after_reload_is_the_same(
    server: Server, fresh_process: FreshProcess, tmp_path: Path, case: str
) -> None:
    url = server.new_database()
    client = run(CASES[case], open_database(url))
    client.save_to_json_file(str(tmp_path / "toy.json"))
    in_memory = Client.load_from_json_file(str(tmp_path / "toy.json"))
    found = fresh_process.call("tests.postgres.work:next_decision", url)
    assert found == json.loads(json.dumps(decide(in_memory)))
    assert ledger(load(url, NAME)) == ledger(in_memory)


@pytest.mark.parametrize("case", ["control_sets", "gittins"])
def test_two_processes_read_while_a_third_writes(
    server: Server, fresh_process: FreshProcess, case: str
) -> None:
    url = server.new_database()
    client = new_client(CASES[case], open_database(url))
    for _ in range(4):
        ((index, arm),) = client.get_next_trials(max_trials=1).items()
        CASES[case].complete(client, index, dict(arm))
    assert fresh_process.call("tests.postgres.work:read_while_written", url, case, 5) == 5


def test_a_second_process_is_refused(server: Server, fresh_process: FreshProcess) -> None:
    url = server.new_database()
    client = new_client(CASES["gittins"], open_database(url))
    client.get_next_trials(max_trials=1)
    assert f"is run by process {os.getpid()} on" in fresh_process.call(
        "tests.postgres.work:ask", url
    )
    assert list(client.get_next_trials(max_trials=1)) == [1]


@pytest.mark.usefixtures("_no_waiting")
def test_server_goes_away_and_comes_back(server: Server) -> None:
    url = server.new_database()
    case = CASES["control_sets"]
    client = new_client(case, open_database(url))
    trials = dict(client.get_next_trials(max_trials=2))

    server.stop()
    with pytest.raises(OperationalError) as refused:
        case.complete(client, 0, dict(trials[0]))
    assert "call complete_trial with the same arguments again" in refused.value.__notes__[0]
    with pytest.raises(OperationalError):
        client.get_next_trials(max_trials=1)
    server.start()

    case.complete(client, 0, dict(trials[0]))
    assert [entry["status"] for entry in ledger(load(url, NAME))] == ["COMPLETED", "RUNNING"]
    save(client)
    assert ledger(load(url, NAME)) == ledger(client)
    # A connection that was cut in the meantime is made anew.
    server.stop()
    server.start()
    case.complete(client, 1, dict(trials[1]))
    ((index, arm),) = client.get_next_trials(max_trials=1).items()
    case.complete(client, index, dict(arm))
    assert ledger(load(url, NAME)) == ledger(client)
    assert spending(client).spent > 0

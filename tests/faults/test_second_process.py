"""Two processes, one stored experiment: one runs it, and the other is refused by name."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from ax.api.client import Client
from ax.exceptions.core import UnsupportedError, UserInputError

from ax_costaware import complete_trial, exclude_trial, spending, take_over
from ax_costaware.ax_bridge import claims
from ax_costaware.session import save
from tests.ax.gittins_toy import make_client
from tests.fresh import FreshProcess
from tests.resuming import load, open_database

pytestmark = pytest.mark.usefixtures("short_searches")

SECOND = "tests.faults.second_process"


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Where the experiment is stored."""
    return str(tmp_path / "toy.db")


@pytest.fixture
def client(path: str) -> Client:
    """An experiment that this process runs, with a trial that is running."""
    client = make_client(storage_config=open_database(path), initial_trials=3)
    client.get_next_trials(max_trials=1)
    return client


def as_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process take itself for another one, which runs."""
    monkeypatch.setattr(claims.os, "getpid", os.getppid)


def test_the_second_is_refused_by_name(
    fresh_process: FreshProcess, client: Client, path: str
) -> None:
    for refused in (
        fresh_process.call(f"{SECOND}:ask", path),
        fresh_process.call(f"{SECOND}:tell", path, 0),
    ):
        assert f"experiment 'toy' is run by process {os.getpid()} on " in refused
        assert "ax_costaware.take_over(client)" in refused
    complete_trial(client, 0, 0.1)
    assert list(client.get_next_trials(max_trials=1)) == [1]
    assert fresh_process.call(f"{SECOND}:look", path) == [0, 1]


def test_one_that_was_killed_holds_up_nobody(fresh_process: FreshProcess, path: str) -> None:
    make_client(storage_config=open_database(path), initial_trials=3)
    assert fresh_process.call(f"{SECOND}:ask_and_be_killed", path)
    assert fresh_process.call(f"{SECOND}:ask", path) == [1]
    assert fresh_process.call(f"{SECOND}:tell", path, 0) is None
    assert list(load(path).get_next_trials(max_trials=1)) == [2]


def test_who_was_taken_over_has_to_load_it_again(
    fresh_process: FreshProcess, client: Client, path: str
) -> None:
    assert fresh_process.call(f"{SECOND}:take_over_and_ask", path) == [1]
    with pytest.raises(UnsupportedError, match=r"trial 1 is not known here\. Load it again"):
        client.get_next_trials(max_trials=1)
    assert list(load(path).get_next_trials(max_trials=1)) == [2]


def test_who_was_taken_over_is_refused(
    client: Client, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = os.getpid()
    with monkeypatch.context() as patched:
        as_parent(patched)
        with pytest.raises(UnsupportedError, match=f"is run by process {first} on"):
            load(path).get_next_trials(max_trials=1)
        other = load(path)
        take_over(other)
        assert list(other.get_next_trials(max_trials=1)) == [1]
    before = spending(client)
    for refused in (
        lambda: client.get_next_trials(max_trials=1),
        lambda: complete_trial(client, 0, 0.1),
        lambda: exclude_trial(client, 0),
        lambda: save(client),
    ):
        with pytest.raises(UnsupportedError, match=f"is run by process {os.getppid()} on"):
            refused()
    assert spending(client) == before
    # Not even what Ax saves of the experiment takes the claim away.
    client.configure_tracking_metrics(["seconds"])
    with pytest.raises(UnsupportedError, match=f"is run by process {os.getppid()} on"):
        client.get_next_trials(max_trials=1)


def test_who_takes_over_knows_what_is_stored(
    client: Client, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = load(path)
    complete_trial(client, 0, 0.1)
    as_parent(monkeypatch)
    with pytest.raises(UnsupportedError, match=r"has changed .* trial 0 has ended\. Load it again"):
        take_over(other)
    take_over(load(path))


def test_a_process_of_another_machine_may_still_run(
    client: Client, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = claims.platform.node()
    monkeypatch.setattr(claims.platform, "node", lambda: "elsewhere")
    again = load(path)
    with pytest.raises(UnsupportedError, match=f"is run by process {os.getpid()} on {here}, since"):
        again.get_next_trials(max_trials=1)
    take_over(again)
    assert list(again.get_next_trials(max_trials=1)) == [1]


def test_another_process_of_the_same_number_is_another(
    client: Client, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "_started", lambda _: 1)
    assert list(load(path).get_next_trials(max_trials=1)) == [1]
    assert client._experiment.trials.keys() == {0}


def test_a_copy_of_the_file_is_free(
    fresh_process: FreshProcess, client: Client, path: str, tmp_path: Path
) -> None:
    copy = shutil.copy(path, tmp_path / "copy.db")
    assert fresh_process.call(f"{SECOND}:ask", str(copy)) == [1]
    assert list(client.get_next_trials(max_trials=1)) == [1]


def test_two_clients_of_one_process(client: Client, path: str) -> None:
    """The process has the claim, but the older client does not know of the trials of the newer."""
    assert list(load(path).get_next_trials(max_trials=1)) == [1]
    with pytest.raises(UnsupportedError, match=r"has changed .* trial 1 is not known here"):
        client.get_next_trials(max_trials=1)


def test_there_is_nothing_to_take_over_without_a_database() -> None:
    with pytest.raises(UserInputError, match="client has no database"):
        take_over(make_client())

"""A SQLite file that is out of reach for a while: nothing is lost, and all is stored afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from ax.api.client import Client
from ax.exceptions.core import UserInputError
from ax.utils.common import executils
from sqlalchemy.exc import OperationalError

from ax_costaware import complete_trial, spending
from ax_costaware.ax_bridge.training_data import restore_data
from ax_costaware.metrics import ReportedMetric
from ax_costaware.runners import FunctionRunner, register_trial_function
from ax_costaware.session import save
from tests.ax.gittins_toy import make_client, objective
from tests.resuming import load, open_database

pytestmark = pytest.mark.usefixtures("short_searches")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the database is; Ax does not wait before it tries again to save."""
    monkeypatch.setattr(executils.time, "sleep", lambda _: None)
    here = tmp_path / "database"
    here.mkdir()
    return here


@contextmanager
def away(folder: Path) -> Iterator[None]:
    """The folder is elsewhere."""
    folder.rename(folder.with_name("elsewhere"))
    try:
        yield
    finally:
        folder.with_name("elsewhere").rename(folder)


def stored(folder: Path) -> list[tuple[str, float, list[float]]]:
    """Status, charge and data of each trial that is stored."""
    return facts(load(str(folder / "toy.db")))


def facts(client: Client) -> list[tuple[str, float, list[float]]]:
    """Status, charge and data of each trial."""
    data = client._experiment.lookup_data().df
    return [
        (
            entry.status,
            entry.charged,
            data.loc[data["trial_index"] == entry.trial_index, "mean"].round(9).tolist(),
        )
        for entry in spending(client).entries
    ]


def test_complete_trial_is_repeated(folder: Path) -> None:
    client = make_client(storage_config=open_database(folder / "toy.db"), initial_trials=2)
    arms = dict(client.get_next_trials(max_trials=2))
    report: dict[str, Any] = {"raw_data": {"y": objective(dict(arms[0]))}, "cost": 0.7}
    with away(folder), pytest.raises(OperationalError) as refused:
        complete_trial(client, 0, **report)
    assert "Trial 0 is completed in this process" in refused.value.__notes__[0]
    assert [status for status, _, _ in facts(client)] == ["COMPLETED", "RUNNING"]
    assert [status for status, _, _ in stored(folder)] == ["RUNNING", "RUNNING"]

    complete_trial(client, 0, **report)
    assert stored(folder) == facts(client)
    with pytest.raises(UserInputError, match="trial 0 is already completed"):
        complete_trial(client, 0, raw_data={"y": 0.0})


def test_next_save_stores_what_came_before(folder: Path) -> None:
    """A trial that was generated in the meantime is there, and is stored by ``save``."""
    client = make_client(storage_config=open_database(folder / "toy.db"), initial_trials=2)
    client.get_next_trials(max_trials=1)
    with away(folder):
        for call in (
            lambda: complete_trial(client, 0, {"y": 0.1}),
            lambda: client.get_next_trials(max_trials=1),
        ):
            with pytest.raises(OperationalError):
                call()
    assert [status for status, _, _ in facts(client)] == ["COMPLETED", "RUNNING"]
    save(client)
    assert stored(folder) == facts(client)
    complete_trial(client, 1, {"y": 0.2})
    ((index, _),) = client.get_next_trials(max_trials=1).items()
    assert index == 2
    save(client)
    assert stored(folder) == facts(client)


def test_run_trials_goes_on(folder: Path) -> None:
    """``run_trials`` raises; with the database back another call goes on from there."""
    client = make_client(storage_config=open_database(folder / "toy.db"), initial_trials=2)
    seen: list[int] = []

    def function(arm: dict[str, Any]) -> float:
        seen.append(len(seen))
        if len(seen) == 2:
            folder.rename(folder.with_name("elsewhere"))
        return objective(arm)

    client.configure_metrics([ReportedMetric("y")])
    register_trial_function("goes away", function)
    client.configure_runner(FunctionRunner("goes away"))
    with pytest.raises(OperationalError):
        client.run_trials(max_trials=3, initial_seconds_between_polls=0)
    folder.with_name("elsewhere").rename(folder)
    before = facts(client)
    client.run_trials(max_trials=2, initial_seconds_between_polls=0)
    assert facts(client)[: len(before) - 1] == before[:-1]
    assert stored(folder) == facts(client)


def test_save_needs_a_database() -> None:
    with pytest.raises(UserInputError, match="client has no database"):
        save(make_client())


def test_lost_data_are_made_from_the_record() -> None:
    """As where a process was killed after the trial was stored, and before its data were."""
    client = make_client(initial_trials=2)
    for value in (0.1, 0.2):
        ((index, _),) = client.get_next_trials(max_trials=1).items()
        complete_trial(client, index, {"y": (value, 0.01)}, cost=1.0)
    experiment = client._experiment
    whole = experiment.lookup_data().df
    experiment.data = type(experiment.data)(df=whole[whole["trial_index"] == 0])
    assert restore_data(experiment) == [1]
    assert restore_data(experiment) == []
    found = experiment.lookup_data().df
    columns = ["trial_index", "arm_name", "metric_name", "mean", "sem"]
    assert found[columns].values.tolist() == whole[columns].values.tolist()


@pytest.mark.parametrize("hand_over", [False, True])
def test_lost_data_do_not_change_the_next_decision(hand_over: bool) -> None:
    """Neither where the initial design hands over, nor later."""
    clients = [make_client(initial_trials=2) for _ in range(2)]
    for client in clients:
        for _ in range(2 if hand_over else 4):
            ((index, arm),) = client.get_next_trials(max_trials=1).items()
            complete_trial(client, index, {"y": objective(dict(arm))})
    experiment = clients[1]._experiment
    frame = experiment.lookup_data().df
    last = frame["trial_index"].max()
    experiment.data = type(experiment.data)(df=frame[frame["trial_index"] < last])
    first, second = (client.get_next_trials(max_trials=1) for client in clients)
    assert first == second

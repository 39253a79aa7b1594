"""Storing a run after its trials, and deciding anew from each store in a fresh process."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from ax.api.client import Client
from ax.api.configs import StorageConfig

from ax_costaware.ax_bridge.client import create_tables
from ax_costaware.ax_bridge.records import decision_record
from tests.fresh import FreshProcess

STORED_IN_BOTH = 1
"""So many times a run is stored as JSON and SQLite, then as one of them by turns."""


def open_database(path: str | Path) -> StorageConfig:
    """Make a SQLite file, or a server's URL, the database of this process, with Ax's tables."""
    url = str(path) if "://" in str(path) else f"sqlite:///{path}"
    create_tables(url)
    return StorageConfig(url=url)


def load(path: str, name: str = "toy") -> Client:
    """The client stored at ``path``: a .json file, another file of SQLite, or a URL."""
    if path.endswith(".json"):
        return Client.load_from_json_file(path)
    return Client.load_from_database(name, storage_config=open_database(path))


def decide(client: Client, **fixed: Any) -> tuple[int, dict[str, Any]]:
    """Index of the next trial, and its arm with the generator's record of the decision."""
    ((index, arm),) = client.get_next_trials(max_trials=1, fixed_parameters=fixed or None).items()
    return index, {"arm": dict(arm), "record": decision_record(client._experiment.trials[index])}


def decisions(paths: list[str], **fixed: Any) -> list[dict[str, Any]]:
    """The next decision of each stored experiment."""
    return [decide(load(path), **fixed)[1] for path in paths]


class Run:
    """A run in a SQLite database, its stores, and the decision that came after each.

    Args:
        folder: Where to store.
        name: Begins the names of the files.
    """

    def __init__(self, folder: Path, name: str = "toy") -> None:
        self._stem = str(folder / name)
        self.config = open_database(f"{self._stem}.db")
        self.decisions: list[dict[str, Any]] = []
        self._stored: list[tuple[str, int]] = []
        self._times_stored = 0

    def decide(self, client: Client) -> tuple[int, dict[str, Any]]:
        """Index and arm of the next trial."""
        index, decision = decide(client)
        self.decisions.append(decision)
        return index, decision["arm"]

    def store(self, client: Client) -> None:
        """Store the run as it is: the next decision is to come out alike."""
        stem, turn = f"{self._stem}{self._times_stored}", self._times_stored
        self._times_stored += 1
        if turn < STORED_IN_BOTH or turn % 2 == 0:
            client.save_to_json_file(f"{stem}.json")
            self._stored.append((f"{stem}.json", len(self.decisions)))
        if turn < STORED_IN_BOTH or turn % 2 == 1:
            shutil.copy(f"{self._stem}.db", f"{stem}.db")
            self._stored.append((f"{stem}.db", len(self.decisions)))

    @property
    def paths(self) -> list[str]:
        """The stores."""
        return [path for path, _ in self._stored]

    def assert_resumed_alike(self, fresh_process: FreshProcess) -> None:
        """A process that knows the stores only decides as the run did after each of them."""
        found = fresh_process.call("tests.resuming:decisions", self.paths)
        for (path, place), decision in zip(self._stored, found, strict=True):
            then = json.loads(json.dumps(self.decisions[place]))
            assert decision == then, f"decision {place}, from {Path(path).name}"

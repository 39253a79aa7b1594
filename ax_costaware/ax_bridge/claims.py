"""Claim of a process on a stored experiment, which other processes respect.

Ax keeps an experiment in memory and only writes to the database. So two processes that run one
experiment overwrite each other's trials. Therefore:

- a process that asks for trials or reports on them writes its name into the properties of the
  experiment, and checks that name before every later write;
- another process is refused until the first one has ended;
- the end of a process on another machine cannot be detected, so ``take_over`` exists;
- a copy of a SQLite file is unclaimed, since a claim is on the original file.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ax.core.experiment import Experiment
from ax.core.trial_status import TrialStatus
from ax.exceptions.core import UnsupportedError

from ax_costaware.ax_bridge.records import RECORD

if TYPE_CHECKING:
    from sqlalchemy import Connection

CLAIM = "claim"
"""Key of the claim in the record of the experiment."""

_PROCESS = ("host", "pid", "started")
"""Fields of a claim that identify the process."""

_PLACE = ("experiment", "file")
"""Fields of a claim that identify the experiment and its database."""


def hold_claim(experiment: Experiment, take_over: bool = False) -> None:
    """Claim an experiment for this process, or check its claim.

    An experiment without a database needs no claim. If the database does not answer, nothing is
    done, since saving retries and raises.

    Args:
        experiment: The experiment.
        take_over: True to claim it although another process may run it.

    Raises:
        UnsupportedError: If another process has the claim, or the database has changes that this
            process does not know.
    """
    if experiment.db_id is None:
        return
    from ax.storage.sqa_store.db import get_engine
    from sqlalchemy.exc import OperationalError

    try:
        engine = get_engine()
    except ValueError:  # this process has no database
        return
    try:
        with engine.begin() as connection:
            _hold(experiment, connection, take_over)
    except OperationalError:
        return


def _hold(experiment: Experiment, connection: Connection, take_over: bool) -> None:
    from ax.storage.sqa_store.sqa_classes import SQAExperiment, SQATrial
    from sqlalchemy import column, func, select, table, update

    # Compare stored texts, so that the update fails if another process was faster.
    stored_in = table(SQAExperiment.__tablename__, *map(column, ("id", "name", "properties")))
    is_this = (stored_in.c.id == experiment.db_id, stored_in.c.name == experiment.name)
    text = stored_in.c.properties
    trials = table(SQATrial.__tablename__, *map(column, ("experiment_id", "index", "status"))).c
    of_this = trials.experiment_id == experiment.db_id
    known = max(experiment.trials, default=-1)
    further = select(func.min(trials.index)).where(of_this, trials.index > known)
    query = select(text, further.scalar_subquery()).where(*is_this)
    mine = _own_claim(experiment, connection)
    while True:
        row = connection.execute(query).one_or_none()
        if row is None:  # this process is connected to another database now
            return
        stored, unknown = row
        properties = json.loads(stored or "{}")
        claim = (properties.get(RECORD) or {}).get(CLAIM) or {}
        is_mine = _same(claim, mine, _PROCESS + _PLACE)
        if not is_mine and not take_over and _same(claim, mine, _PLACE) and _runs(claim):
            # Saving the experiment from here must not remove the other claim.
            _set_claim(experiment._properties, claim)
            raise _claimed(experiment, claim)
        if unknown is not None:
            raise _changed(experiment, f"trial {unknown} is not known here")
        if is_mine:
            _set_claim(experiment._properties, claim)
            return
        ended = {i for i, trial in experiment.trials.items() if trial.status.is_terminal}
        for index, status in connection.execute(select(trials.index, trials.status).where(of_this)):
            if TrialStatus(status).is_terminal and index not in ended:
                raise _changed(experiment, f"trial {index} has ended")
        _set_claim(properties, mine)
        was = text.is_(None) if stored is None else text == stored
        change = update(stored_in).where(*is_this, was).values(properties=json.dumps(properties))
        if connection.execute(change).rowcount:
            _set_claim(experiment._properties, mine)
            return


def _claimed(experiment: Experiment, claim: Mapping[str, Any]) -> UnsupportedError:
    return UnsupportedError(
        f"experiment {experiment.name!r} is run by process {claim['pid']} on {claim['host']}, "
        f"since {claim['since']}: two would overwrite each other's trials. "
        "ax_costaware.read_experiment reads it. To continue here, end that process; or call "
        "ax_costaware.take_over(client), after which that process is refused."
    )


def _changed(experiment: Experiment, what: str) -> UnsupportedError:
    return UnsupportedError(
        f"experiment {experiment.name!r} has changed in the database since it was loaded: {what}. "
        "Load it again, with Client.load_from_database."
    )


def _own_claim(experiment: Experiment, connection: Connection) -> dict[str, Any]:
    path = connection.engine.url.database or ""
    is_file = connection.dialect.name == "sqlite" and Path(path).is_file()
    return {
        "host": platform.node(),
        "pid": os.getpid(),
        "started": _started(os.getpid()),
        "since": datetime.now(UTC).isoformat(sep=" ", timespec="seconds"),
        "experiment": experiment.db_id,
        "file": Path(path).stat().st_ino if is_file else None,
    }


def _same(claim: Mapping[str, Any], other: Mapping[str, Any], names: tuple[str, ...]) -> bool:
    return all(claim.get(name) == other.get(name) for name in names)


def _runs(claim: Mapping[str, Any]) -> bool:
    """True if the process of a claim may still run; always for another machine's."""
    if claim["host"] != platform.node():
        return True
    if Path("/proc/self/stat").exists():
        return bool(_started(claim["pid"]) == claim["started"])
    if os.name != "posix":  # the later process continues, and the earlier one is refused
        return False
    try:
        os.kill(claim["pid"], 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _started(pid: int) -> int | None:
    """Return the start time of a process, in clock ticks since boot, on Linux.

    None: it does not run, or is a zombie.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def _set_claim(properties: dict[str, Any], claim: Mapping[str, Any]) -> None:
    """Write the claim into the properties of an experiment; other properties stay."""
    properties[RECORD] = {**(properties.get(RECORD) or {}), CLAIM: dict(claim)}

"""Runs of a benchmark that are kept as they finish, so that a run that was killed goes on.

A run is either one JSON file in ``benchmarks/results/partial``, which stays on the machine, or a
line of a file in ``benchmarks/results`` that is part of the repository: then more seeds can be run
later, elsewhere. What is kept is not run again.
"""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from tqdm import tqdm

RESULTS = Path(__file__).parent / "results"
PARTIAL = RESULTS / "partial"

Task = TypeVar("Task")


class KeptRuns:
    """Runs in a file of the repository, one a line: what a table needs of them, and what they were.

    Args:
        name: Name of the file in ``benchmarks/results``, without its ending.
    """

    def __init__(self, name: str) -> None:
        self.path = RESULTS / f"{name}.jsonl"

    def rows(self, **wanted: Any) -> list[dict[str, Any]]:
        """The runs that are what is wanted, by seed."""
        if not self.path.exists():
            return []
        rows = map(json.loads, self.path.read_text().splitlines())
        found = [row for row in rows if all(row[name] == value for name, value in wanted.items())]
        return sorted(found, key=lambda row: int(row["seed"]))

    def run_missing(
        self,
        run: Callable[[Task], dict[str, Any]],
        tasks: Sequence[Task],
        identify: Callable[[Task], dict[str, Any]],
        processes: int,
        title: str = "",
    ) -> None:
        """Make the runs that are not kept, and keep each when it is finished.

        Args:
            run: A function of a module, since the processes are started anew. Its numbers are kept
                with six digits.
            tasks: What it is called with.
            identify: What a task is, the seed included; it is kept with the result.
            processes: How many tasks run at a time.
            title: What the progress bar says.
        """
        names = list(identify(tasks[0])) if tasks else []
        done = {tuple(row[name] for name in names) for row in self.rows()}
        missing = [(run, t, i) for t in tasks if tuple((i := identify(t)).values()) not in done]
        with (
            multiprocessing.get_context("spawn").Pool(processes) as pool,
            self.path.open("a") as file,
            tqdm(total=len(tasks), initial=len(tasks) - len(missing), desc=title) as progress,
        ):
            for row in pool.imap_unordered(_identified, missing):
                file.write(json.dumps(row) + "\n")
                file.flush()
                progress.update()


def _identified(
    work: tuple[Callable[[Any], dict[str, Any]], Any, dict[str, Any]],
) -> dict[str, Any]:
    run, task, identity = work
    return {**identity, **_rounded(run(task))}


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(part) for part in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def path_of(key: str) -> Path:
    """The file of the run with this key."""
    return PARTIAL / f"{key.replace(' ', '-')}.json"


def read(key: str) -> Any:
    """What the run with this key returned."""
    return json.loads(path_of(key).read_text())


def keep(key: str, result: Any) -> None:
    """Write a result; a reader never sees half of it."""
    path = path_of(key)
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(f".{os.getpid()}.tmp")  # two may come to the same at once
    unfinished.write_text(json.dumps(result))
    unfinished.rename(path)


def run_all(
    run: Callable[[Task], None],
    tasks: Sequence[Task],
    key: Callable[[Task], str],
    processes: int,
    title: str,
) -> None:
    """Call ``run``, which keeps its result, for every task whose result is not kept yet.

    Args:
        run: A function of a module, since the processes are started anew.
        tasks: The tasks.
        key: The key of a task's result.
        processes: How many tasks run at a time.
        title: What the progress bar says.
    """
    missing = [task for task in tasks if not path_of(key(task)).exists()]
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        progress = tqdm(total=len(tasks), initial=len(tasks) - len(missing), desc=title)
        for _ in pool.imap_unordered(run, missing):
            progress.update()
        progress.close()

"""Runs of a benchmark that are kept as they finish, so that a run that was killed goes on.

Each run is one JSON file in ``benchmarks/results/partial``; a file that is there is not run again.
"""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from tqdm import tqdm

RESULTS = Path(__file__).parent / "results"
PARTIAL = RESULTS / "partial"

Task = TypeVar("Task")


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
    unfinished = path.with_suffix(".tmp")
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

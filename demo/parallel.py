"""Runs in parallel processes, with one progress bar of the cost spent by all of them.

Nothing here imports Ax before a worker does: its import takes many seconds, which every worker
needs but the parent does not.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.queues import Queue
from pathlib import Path
from queue import Empty

from tqdm import tqdm

from demo.outcome import Run

_SECONDS_BETWEEN_LOOKS = 0.2
_costs: Queue[float]


def run_all(
    tasks: Sequence[tuple[str, int, Path | None]], budget: float, progress: bool = True
) -> list[Run]:
    """Run the tasks, each ``(method, seed, folder)``, and return what came out in their order."""
    # One thread a process: these models are too small for more to pay.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    context = multiprocessing.get_context("spawn")
    costs: Queue[float] = context.Queue()
    workers = min(len(tasks), os.cpu_count() or 1)
    bar = tqdm(total=len(tasks) * budget, unit="cost", desc="starting Ax", disable=not progress)
    with bar, ProcessPoolExecutor(workers, context, _start, (costs,)) as pool:
        futures = [pool.submit(_run, *task, budget) for task in tasks]
        while not all(future.done() for future in futures):
            _advance(bar, costs)
        _advance(bar, costs)
        return [future.result() for future in futures]


def _advance(bar: tqdm[None], costs: Queue[float]) -> None:
    """Move the bar by what was spent since."""
    while True:
        try:
            bar.update(costs.get(timeout=_SECONDS_BETWEEN_LOOKS))
        except Empty:
            return
        bar.set_description("cost spent")


def _start(costs: Queue[float]) -> None:
    global _costs
    _costs = costs
    logging.disable(logging.WARNING)  # Ax logs every trial, which would break the bar


def _run(method: str, seed: int, folder: Path | None, budget: float) -> Run:
    from demo.runs import run

    return run(method, seed, budget, on_cost=_costs.put, folder=folder)

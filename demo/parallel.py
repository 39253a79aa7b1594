"""Runs in parallel processes, with one progress bar of the cost spent by all of them.

Nothing here imports Ax before a worker does: its import takes many seconds, which every worker
needs but the parent does not.
"""

from __future__ import annotations

import importlib
import logging
import multiprocessing
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.queues import Queue
from queue import Empty
from typing import Any

from tqdm import tqdm

_SECONDS_BETWEEN_LOOKS = 0.2
_BAR = "{desc}: {percentage:3.0f}%|{bar}| {n:.0f}/{total:.0f} {unit} [{elapsed}<{remaining}]"
_costs: Queue[float]


def run_all(
    module: str,
    tasks: Sequence[tuple[Any, ...]],
    total: float,
    unit: str = "cost",
    progress: bool = True,
) -> list[Any]:
    """Call ``run(*task, on_cost)`` for every task, and return what came out in their order.

    Args:
        module: Name of the module that has ``run``; only the workers import it. ``run`` calls
            ``on_cost`` with the cost of every trial.
        tasks: The arguments of each call.
        total: What all tasks together may cost.
        unit: Unit of cost.
        progress: Whether to show a progress bar.
    """
    # One thread a process: these models are too small for more to pay.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    context = multiprocessing.get_context("spawn")
    costs: Queue[float] = context.Queue()
    workers = min(len(tasks), os.cpu_count() or 1)
    bar = tqdm(
        total=total,
        unit=unit,
        desc="starting Ax",
        disable=not progress,
        bar_format=_BAR,
        mininterval=1,
    )
    with bar, ProcessPoolExecutor(workers, context, _start, (costs,)) as pool:
        futures = [pool.submit(_call, module, task) for task in tasks]
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
        bar.set_description_str("done", refresh=False)


def _start(costs: Queue[float]) -> None:
    global _costs
    _costs = costs
    logging.disable(logging.WARNING)  # Ax logs every trial, which would break the bar


def _call(module: str, task: tuple[Any, ...]) -> Any:
    return importlib.import_module(module).run(*task, _costs.put)

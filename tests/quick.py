"""What tests need not wait for, in the processes in which they run.

Nothing of it changes what is decided, recorded or stored.
"""

from __future__ import annotations

import gc
import time
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

import pandas as pd
import torch
from ax.core import data, parameter_constraint
from ax.orchestration import orchestrator
from botorch.generation import gen
from botorch.optim.utils import timeout
from sqlalchemy import event
from sqlalchemy.engine import Engine
from threadpoolctl import ThreadpoolController

POLL = 0.02
"""Ax's orchestrator waits a second after each trial that it starts: here for this many."""


def _is_in_order(df: pd.DataFrame) -> bool:
    """Whether each trial's rows are of one arm, and come after those of the trial before."""
    trials = df["trial_index"].tolist()
    arms = set(zip(trials, df["arm_name"], strict=True))
    return trials == sorted(trials) and len(arms) == len(set(trials))


def make_quick() -> None:
    """To be called once in a process, after its imports."""
    sleep = time.sleep
    orchestrator.sleep = lambda seconds: sleep(min(seconds, POLL))

    # BoTorch looks for the loaded libraries again before every fit and every search.
    libraries = ThreadpoolController()

    def limits(**options: Any) -> AbstractContextManager[Any]:
        return libraries.limit(**options)

    gen.threadpool_limits = timeout.threadpool_limits = limits

    # With every seed torch notes the whole stack for GPUs, in case it comes to meet one.
    for kind in (torch.cuda, torch.xpu, torch.mtia):
        if not kind.is_available():
            kind.manual_seed_all = lambda seed: None

    # Ax has SymPy read a constraint again for every copy of a search space, some hundreds a trial.
    read = parameter_constraint.extract_coefficient_dict_from_inequality
    parameter_constraint.extract_coefficient_dict_from_inequality = cache(read)

    # And it sorts every table of data by columns that it makes for that: one with an arm for each
    # trial, and these in order, comes out as it went in.
    sort = data.sort_by_trial_index_and_arm_name
    data.sort_by_trial_index_and_arm_name = lambda df: df if _is_in_order(df) else sort(df)

    # A process that is killed loses nothing by this; a machine that loses its power does.
    @event.listens_for(Engine, "connect")
    def leave_writing_to_the_system(connection: Any, record: Any) -> None:
        if type(connection).__module__ == "sqlite3":
            connection.execute("PRAGMA synchronous = OFF")

    # What is imported by now stays: looking through it for garbage took a tenth of the time.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)

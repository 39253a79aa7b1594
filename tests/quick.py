"""What tests need not wait for, in the processes in which they run.

Nothing of it changes what is decided, recorded or stored.
"""

from __future__ import annotations

import gc
import time
from contextlib import AbstractContextManager
from typing import Any

from ax.orchestration import orchestrator
from botorch.generation import gen
from botorch.optim.utils import timeout
from sqlalchemy import event
from sqlalchemy.engine import Engine
from threadpoolctl import ThreadpoolController

POLL = 0.02
"""Ax's orchestrator waits a second after each trial that it starts: here for this many."""


def make_quick() -> None:
    """To be called once in a process, after its imports."""
    sleep = time.sleep
    orchestrator.sleep = lambda seconds: sleep(min(seconds, POLL))

    # BoTorch looks for the loaded libraries again before every fit and every search.
    libraries = ThreadpoolController()

    def limits(**options: Any) -> AbstractContextManager[Any]:
        return libraries.limit(**options)

    gen.threadpool_limits = timeout.threadpool_limits = limits

    # A process that is killed loses nothing by this; a machine that loses its power does.
    @event.listens_for(Engine, "connect")
    def leave_writing_to_the_system(connection: Any, record: Any) -> None:
        if type(connection).__module__ == "sqlite3":
            connection.execute("PRAGMA synchronous = OFF")

    # What is imported by now stays: looking through it for garbage took a tenth of the time.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)

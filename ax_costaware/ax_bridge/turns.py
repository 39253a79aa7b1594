"""Whose turn it is: one thread at a time asks for trials of an experiment, or tells of them.

Ax's clients know no threads. Deciding is one call in them, and making trials of what was decided
another: a second thread that decides in between knows nothing of these trials, and overruns the
budget. So a thread that was given decisions keeps its turn until they are trials of the experiment,
and, where it is in a database, stored ones.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ax.core.base_trial import BaseTrial
from ax.core.experiment import Experiment
from ax.core.generator_run import GeneratorRun
from ax.exceptions.core import OptimizationShouldStop
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.utils.common.logger import get_logger

from ax_costaware.ax_bridge.claims import hold_claim
from ax_costaware.ax_bridge.latest import store_as_latest
from ax_costaware.ax_bridge.records import check_copied

logger = get_logger(__name__)

LONGEST = 30.0
"""Seconds after which a thread that makes no trials of what it was given loses its turn."""

_PAUSE = 0.001
"""Seconds between two looks at whether a turn is over."""


class Turn:
    """The turn of one experiment: a lock, and what its last holder was given."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.strategy: weakref.ref[GenerationStrategy] | None = None
        self._thread: threading.Thread | None = None
        self._given: Sequence[GeneratorRun] = ()
        self._until = 0.0

    def give(self, runs: Sequence[GeneratorRun]) -> None:
        """Let the calling thread keep its turn until these runs are trials."""
        self._thread, self._given = threading.current_thread(), runs
        self._until = time.monotonic() + LONGEST

    def is_free(self, experiment: Experiment) -> bool:
        """Whether nobody else is about to make trials of what was decided."""
        thread = self._thread
        if thread in (None, threading.current_thread()) or time.monotonic() > self._until:
            return True
        assert thread is not None
        if thread.is_alive():
            is_stored = experiment.db_id is not None
            known = [
                run
                for trial in list(experiment._trials.values())  # which the other thread adds to
                if trial.db_id is not None or not is_stored
                for run in _runs_of(trial)
            ]
            if not all(any(run is other for other in known) for run in self._given):
                return False
        self._thread, self._given = None, ()
        return True


def _runs_of(trial: BaseTrial) -> list[GeneratorRun]:
    try:
        return trial.generator_runs
    except AttributeError:  # it is being made
        return []


_TURNS: dict[int, Turn] = {}
"""By the identity of experiments, which have no hash."""

_NEW_TURN = threading.Lock()


def _turn(experiment: Experiment) -> Turn:
    with _NEW_TURN:
        if id(experiment) not in _TURNS:
            _TURNS[id(experiment)] = Turn()
            weakref.finalize(experiment, _TURNS.pop, id(experiment), None)
        return _TURNS[id(experiment)]


def running_strategy(experiment: Experiment) -> GenerationStrategy | None:
    """The strategy that this process has last asked for trials; None if it has asked none."""
    found = _turn(experiment).strategy
    return None if found is None else found()


@contextmanager
def turn_at(experiment: Experiment) -> Iterator[Turn]:
    """Wait for one's turn at an experiment, and have it meanwhile; to have it twice is no harm."""
    turn = _turn(experiment)
    turn.lock.acquire()
    while not turn.is_free(experiment):
        turn.lock.release()
        time.sleep(_PAUSE)
        turn.lock.acquire()
    try:
        yield turn
    finally:
        turn.lock.release()


class CostAwareStrategy(GenerationStrategy):
    """A strategy with nodes of ours: one thread, and one process, decides at a time.

    A batch ends before the first trial that should not be, where Ax loses those before it, too.
    """

    def gen(self, experiment: Experiment, *args: Any, **kwargs: Any) -> list[list[GeneratorRun]]:
        """Decide on the next trials, as Ax has it: as many as should be, one at least.

        Raises:
            OptimizationShouldStop: If there should be none.
            UserInputError: If trials of this package were copied without their records.
            UnsupportedError: If another process runs the experiment, or has changed it.
        """
        with turn_at(experiment) as turn:
            hold_claim(experiment)
            store_as_latest(self, experiment)
            turn.strategy = weakref.ref(self)
            check_copied(experiment)
            found = self._batch(experiment, *args, **kwargs)
            hold_claim(experiment)  # which another process may have taken over meanwhile
            turn.give([run for runs in found for run in runs])
        return found

    def _batch(self, *args: Any, **kwargs: Any) -> list[list[GeneratorRun]]:
        """What Ax makes of a batch until there should be no more."""
        before = list(self._generator_runs)
        try:
            return super().gen(*args, **kwargs)
        except OptimizationShouldStop as stop:
            # Those that a killed process left may have been put in order meanwhile.
            new = [run for run in self._generator_runs if run.db_id is None]
            made = [run for run in new if all(run is not other for other in before)]
            if not made:
                raise
            logger.info(f"Trials of the batch until its end: {len(made)}. {stop.message}")
            return [[run] for run in made]

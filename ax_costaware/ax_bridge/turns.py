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
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ax.core.base_trial import BaseTrial
from ax.core.data import Data
from ax.core.experiment import Experiment
from ax.core.generator_run import GeneratorRun
from ax.core.observation import ObservationFeatures
from ax.exceptions.core import DataRequiredError, OptimizationShouldStop
from ax.exceptions.generation_strategy import MaxParallelismReachedException
from ax.generation_strategy.generation_node import GenerationNode
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

WAITING = (DataRequiredError, MaxParallelismReachedException)
"""Errors by which Ax says that there is no trial before others have reported."""


class Turn:
    """The turn of one experiment: a lock, and what its last holder was given."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.strategy: weakref.ref[GenerationStrategy] | None = None
        self.most_spent = 0.0
        """The most that the log has seen spent or reserved in this process."""
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


def turn_of(experiment: Experiment) -> Turn:
    """Return what this process keeps of an experiment."""
    with _NEW_TURN:
        if id(experiment) not in _TURNS:
            _TURNS[id(experiment)] = Turn()
            weakref.finalize(experiment, _TURNS.pop, id(experiment), None)
        return _TURNS[id(experiment)]


def running_strategy(experiment: Experiment) -> GenerationStrategy | None:
    """The strategy that this process has last asked for trials; None if it has asked none."""
    found = turn_of(experiment).strategy
    return None if found is None else found()


@contextmanager
def turn_at(experiment: Experiment) -> Iterator[Turn]:
    """Wait for one's turn at an experiment, and have it meanwhile; to have it twice is no harm."""
    turn = turn_of(experiment)
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

    A batch ends before the first trial that should not be, or not yet, where Ax loses those before
    it, too.
    """

    def gen(
        self,
        experiment: Experiment,
        data: Data | None = None,
        n: int | None = None,
        fixed_features: ObservationFeatures | None = None,
        num_trials: int = 1,
    ) -> list[list[GeneratorRun]]:
        """Decide on the next trials, as Ax has it: as many as should be, one at least.

        Raises:
            OptimizationShouldStop: If there should be none.
            UserInputError: If trials of this package were copied without their records.
            DataRequiredError: If there should be none before those that run have reported.
            UnsupportedError: If another process runs the experiment, or has changed it.
        """
        with turn_at(experiment) as turn:
            hold_claim(experiment)
            store_as_latest(self, experiment)
            turn.strategy = weakref.ref(self)
            check_copied(experiment)
            found = self._batch(experiment, data, n, fixed_features, num_trials)
            hold_claim(experiment)  # which another process may have taken over meanwhile
            turn.give([run for runs in found for run in runs])
        return found

    def _batch(self, *args: Any) -> list[list[GeneratorRun]]:
        """Return what Ax makes of a batch until there should be no more, and log why it ends."""
        before, asked = list(self._generator_runs), args[-1]
        try:
            try:
                found = super().gen(*args)
            except OptimizationShouldStop:
                # The budget may be used up, so that another node goes on.
                if len(self._generator_runs) > len(before):
                    raise
                if not self.current_node.should_transition_to_next_node(False)[0]:
                    raise
                found = super().gen(*args)
            why = self.limit_reason() if len(found) < asked else ""
        except (OptimizationShouldStop, *WAITING) as signal:
            # Those that a killed process left may have been put in order meanwhile.
            new = [run for run in self._generator_runs if run.db_id is None]
            made = [run for run in new if all(run is not other for other in before)]
            if not made:
                raise
            found, why = [[run] for run in made], signal.message
        log_short_batch(len(found), asked, why)
        return found

    def limit_reason(self) -> str:
        """Return why Ax makes fewer trials at once than were asked for."""
        node = self.current_node
        if isinstance(node, LimitedNode):
            return node.limit_reason()
        return f"The node {node.name!r} makes no more of them at once."


class LimitedNode(GenerationNode):
    """A node that says why it limits a batch."""

    @abstractmethod
    def limit_reason(self) -> str:
        """Return why the node makes fewer trials at once than were asked for."""


def log_short_batch(made: int, asked: int, why: str) -> None:
    """Log why a batch has fewer trials than were asked for, if it has."""
    if made < asked:
        logger.info(f"The batch ends with {made} of {asked} trials. {why}")

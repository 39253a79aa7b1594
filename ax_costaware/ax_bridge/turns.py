"""Lock of an experiment: one thread at a time asks for trials or reports on them.

Ax's clients are not thread-safe. They decide in one call and make trials in another. A second
thread that decides in between does not know these trials, and overruns the budget. So a thread
keeps its turn until its decisions are trials of the experiment, and stored if there is a database.
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

MAX_SECONDS = 30.0
"""Seconds after which a thread that makes no trials of its decisions loses its turn."""

_POLL_SECONDS = 0.001
"""Seconds between two checks of a turn."""

WAITING = (DataRequiredError, MaxParallelismReachedException)
"""Ax's errors if no trial can be generated before others have reported."""


class Turn:
    """Turn of one experiment: a lock, and the decisions of its last holder."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.strategy: weakref.ref[GenerationStrategy] | None = None
        self.most_spent = 0.0
        """Largest amount, spent or reserved, that this process has logged."""
        self._thread: threading.Thread | None = None
        self._given: Sequence[GeneratorRun] = ()
        self._until = 0.0

    def give(self, runs: Sequence[GeneratorRun]) -> None:
        """Keep the turn of the calling thread until these runs are trials."""
        self._thread, self._given = threading.current_thread(), runs
        self._until = time.monotonic() + MAX_SECONDS

    def is_free(self, experiment: Experiment) -> bool:
        """True if no other thread is about to make trials of its decisions."""
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
"""Turns by the identity of experiments, which have no hash."""

_NEW_TURN = threading.Lock()


def turn_of(experiment: Experiment) -> Turn:
    """Return the turn of an experiment in this process."""
    with _NEW_TURN:
        if id(experiment) not in _TURNS:
            _TURNS[id(experiment)] = Turn()
            weakref.finalize(experiment, _TURNS.pop, id(experiment), None)
        return _TURNS[id(experiment)]


def running_strategy(experiment: Experiment) -> GenerationStrategy | None:
    """Return the strategy that this process last asked for trials; None if there is none."""
    found = turn_of(experiment).strategy
    return None if found is None else found()


@contextmanager
def turn_at(experiment: Experiment) -> Iterator[Turn]:
    """Wait for the turn at an experiment and hold it; the same thread may hold it twice."""
    turn = turn_of(experiment)
    turn.lock.acquire()
    while not turn.is_free(experiment):
        turn.lock.release()
        time.sleep(_POLL_SECONDS)
        turn.lock.acquire()
    try:
        yield turn
    finally:
        turn.lock.release()


class CostAwareStrategy(GenerationStrategy):
    """Strategy with a node of this package: one thread, and one process, decides at a time.

    A batch ends before the first trial that is not worth its cost, or has to wait. Ax would lose
    the trials before it.
    """

    def gen(
        self,
        experiment: Experiment,
        data: Data | None = None,
        n: int | None = None,
        fixed_features: ObservationFeatures | None = None,
        num_trials: int = 1,
    ) -> list[list[GeneratorRun]]:
        """Decide on the next trials, at least one and at most as many as requested.

        Raises:
            OptimizationShouldStop: If no trial is worth its cost, or none is affordable.
            UserInputError: If trials of this package were copied without their records.
            DataRequiredError: If pending trials have to report first.
            UnsupportedError: If another process runs the experiment, or has changed it.
        """
        with turn_at(experiment) as turn:
            hold_claim(experiment)
            store_as_latest(self, experiment)
            turn.strategy = weakref.ref(self)
            check_copied(experiment)
            nodes = [n for n in self.nodes_by_name.values() if isinstance(n, LimitedNode)]
            for node in nodes:
                node.batch_size = num_trials
            try:
                found = self._batch(experiment, data, n, fixed_features, num_trials)
            finally:
                for node in nodes:
                    node.batch_size = None
            hold_claim(experiment)  # another process may have taken it over meanwhile
            turn.give([run for runs in found for run in runs])
        return found

    def _batch(self, *args: Any) -> list[list[GeneratorRun]]:
        """Return the trials of a batch up to the first refused one, and log the reason."""
        before, asked = list(self._generator_runs), args[-1]
        try:
            try:
                found = super().gen(*args)
            except OptimizationShouldStop:
                # If the budget is used up, another node continues.
                if len(self._generator_runs) > len(before):
                    raise
                if not self.current_node.should_transition_to_next_node(False)[0]:
                    raise
                found = super().gen(*args)
            why = self.limit_reason() if len(found) < asked else ""
        except (OptimizationShouldStop, *WAITING) as signal:
            # Runs of a killed process may have been repaired meanwhile.
            new = [run for run in self._generator_runs if run.db_id is None]
            made = [run for run in new if all(run is not other for other in before)]
            if not made:
                raise
            found, why = [[run] for run in made], signal.message
        log_short_batch(len(found), asked, why)
        node, runs = self.current_node, [run for each in found for run in each]
        if isinstance(node, LimitedNode) and len(runs) == len(found):
            self._generator_runs[-len(runs) :] = ordered = node.in_order(runs)
            found = [[run] for run in ordered]
        return found

    def limit_reason(self) -> str:
        """Return the reason why Ax makes fewer trials at once than requested."""
        node = self.current_node
        if isinstance(node, LimitedNode):
            return node.limit_reason()
        return f"The node {node.name!r} makes no more trials at once."


class LimitedNode(GenerationNode):
    """Node with a reason for the limit of a batch, and an order of its trials."""

    @abstractmethod
    def in_order(self, runs: Sequence[GeneratorRun]) -> list[GeneratorRun]:
        """Return the trials of a batch in the order in which they are to run."""

    batch_size: int | None = None
    """Number of trials that are asked for together, while they are; else None."""

    @abstractmethod
    def limit_reason(self) -> str:
        """Return the reason why the node makes fewer trials at once than requested."""


def log_short_batch(made: int, asked: int, why: str) -> None:
    """Log the reason if a batch has fewer trials than requested."""
    if made < asked:
        logger.info(f"The batch ends with {made} of {asked} trials. {why}")

"""Base of the package's runners: attempts to run a trial, polled by Ax until they end.

Ax's ``Orchestrator`` (and ``Client.run_trials``) starts a trial by ``run``, asks for the status of
running trials by ``poll_trial_status``, and stores a trial if its status has changed. A subclass
adds a backend, which knows attempts by a key and reports their state. The state that another
process needs to continue is in the trial's run metadata, next to the record of ``complete_trial``::

    {"attempts": [...], "running": {"attempt": 1, "key": "name@1700000000/7/1", "started": ...}}

``attempts`` has every attempt that has ended, the one that counts last, with

- ``state``: completed, failed, timed out, lost or stopped;
- ``error``;
- ``started`` (seconds since 1970) and ``seconds``;
- ``cost``, in the user's own unit (None: not known), which the ledger charges;
- ``returned``: a refused return value of the function, as of ``plain_result``.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from ax.core.base_trial import BaseTrial
from ax.core.trial_status import TrialStatus
from ax.core.types import TParamValue
from ax.exceptions.core import UnsupportedError, UserInputError
from ax.utils.common.logger import get_logger

from ax_costaware.argument_checks import boolean, integer_at_least, positive_number
from ax_costaware.ax_bridge.checks import ax_errors
from ax_costaware.ax_bridge.claims import hold_claim
from ax_costaware.ax_bridge.records import RECORD, outcome_record, with_one_arm
from ax_costaware.runners.registry import StoredRunner
from ax_costaware.runners.reporting import (
    failed_cost,
    is_cost_of_trial,
    log_cost,
    read_outcome,
    trial_parameters,
)
from ax_costaware.runners.result import RUNNING, AttemptState, AttemptStatus, TrialFunction
from ax_costaware.session.realized import warn_out_of_bounds

logger = get_logger(__name__)

_RUNNING = "running"
_ATTEMPTS = "attempts"
_COMPLETED = "completed"
_STOPPED = "stopped"
_TIMED_OUT = "timed out"
_RETURNED = "returned"

_CANCEL_SECONDS = 30.0
"""Seconds to wait for the end of an attempt that was cancelled."""

_POLL_SECONDS = 0.02
"""Seconds between two checks of that."""

_REASON_LENGTH = 100
"""Length of Ax's database column for the reason of a failure."""


class PolledRunner(StoredRunner):
    """Runner with attempts in a backend: time-outs, retries, checks and records.

    A subclass defines the backend by ``start``, ``poll`` and ``cancel``, and by ``forget`` if it
    keeps finished attempts.

    - The return value of a finished attempt is checked as ``complete_trial`` checks its arguments,
      and recorded before Ax completes the trial.
    - A refused return value fails the trial and is kept with the attempt. It is not retried, since
      another attempt would return the same.
    - An attempt that fails, is lost or times out is recorded, and repeated as often as ``retries``
      says; then the trial fails.
    - Metrics read the records: ``ReportedMetric`` the outcomes, ``CostMetric`` the cost.
    - A trial that is running without an attempt, attached by the user or from ``get_next_trials``,
      is started at the first poll.

    Args:
        function: The user's function of a trial's parameters, or the name of a registered one.
        timeout: Largest duration of an attempt in seconds; None for no limit.
        retries: Number of further attempts after one that failed.
        time_cost: True to charge an attempt its duration in seconds, if the function reports no
            cost.

    Raises:
        UserInputError: If an argument is of the wrong type or out of range.
    """

    @ax_errors()
    def __init__(
        self,
        function: TrialFunction | str,
        timeout: float | None = None,
        retries: int = 0,
        time_cost: bool = False,
    ) -> None:
        super().__init__(function)
        expected = "a number of seconds > 0, or None"
        self.timeout = None if timeout is None else positive_number(timeout, "timeout", expected)
        self.retries = integer_at_least(retries, 0, "retries")
        self.time_cost = boolean(time_cost, "time_cost")
        # Not a list: Ax compares lists with the stored runner's when it saves an experiment again.
        self._over: deque[str] = deque()

    @abstractmethod
    def start(self, key: str, parameters: dict[str, TParamValue]) -> None:
        """Start an attempt and return at once.

        The backend may know the key already, from a process that was killed before Ax had stored
        the trial. It continues that attempt if the parameters are the same; otherwise it ends the
        attempt and starts anew. Two attempts with one key never run at the same time.

        Args:
            key: Key of the attempt: the same in every process that continues the experiment.
            parameters: The values to set, by parameter name.

        Raises:
            UserInputError: If the user must change something before any attempt can start. The run
                ends with that error, and nothing is marked as failed. At a trial's first attempt
                any other error ends the run, too; at a later one the attempt has failed.
        """

    @abstractmethod
    def poll(self, key: str) -> AttemptState:
        """Return the state of an attempt; ``lost`` if the backend does not know it.

        An error here changes nothing: it is logged, and the next poll asks again, until the attempt
        times out.
        """

    @abstractmethod
    def cancel(self, key: str) -> None:
        """Stop an attempt as far as the backend can; a later result is ignored."""

    def forget(self, key: str) -> None:
        """Release an attempt in the backend, after its result was stored."""

    def parameters_of(self, trial: BaseTrial) -> dict[str, TParamValue]:
        """Return the values to set for a trial, the ``parameters`` of ``start``."""
        return trial_parameters(trial)

    def run(self, trial: BaseTrial) -> dict[str, Any]:
        """Start a trial's first attempt and return the metadata from which it is polled."""
        self._release_finished()
        trial = with_one_arm(trial)
        return {RECORD: {**outcome_record(trial), _RUNNING: self._launch(trial, 0)}}

    def poll_trial_status(self, trials: Iterable[BaseTrial]) -> dict[TrialStatus, set[int]]:
        """Return the statuses of trials, after retries were started and outcomes recorded.

        Ax stores a trial only if its status has changed. A trial with a new attempt is therefore
        reported as staged and then as running, so that Ax stores it.

        Raises:
            UnsupportedError: If another process runs the experiment.
        """
        self._release_finished()
        found: dict[TrialStatus, set[int]] = {TrialStatus.STAGED: set()}
        live = [t for t in trials if t.status in (TrialStatus.RUNNING, TrialStatus.STAGED)]
        if live:
            hold_claim(live[0].experiment)
        for trial in live:
            status = self._advance(with_one_arm(trial))
            found.setdefault(status, set()).add(trial.index)
        found.setdefault(TrialStatus.RUNNING, set()).update(found[TrialStatus.STAGED])
        return {status: indices for status, indices in found.items() if indices}

    def poll_exception(self, trial: BaseTrial) -> str:
        """Return the reason of a failure, which Ax keeps with the status of the trial.

        It is cut to the length of Ax's database column; the record has all of it.
        """
        attempts = outcome_record(trial).get(_ATTEMPTS) or [{}]
        error = str(attempts[-1].get("error") or "no attempt was recorded")
        return error if len(error) <= _REASON_LENGTH else f"{error[: _REASON_LENGTH - 3]}..."

    def stop(self, trial: BaseTrial, reason: str | None = None) -> dict[str, Any]:
        """Stop a trial's attempt and record it as stopped; no other attempt follows."""
        trial = with_one_arm(trial)
        record = outcome_record(trial)
        running = record.pop(_RUNNING, None)
        if running is not None:
            self._cancel(running["key"])
            seconds = _seconds_since(running["started"])
            self._store_cost(trial, self._record(trial, record, running, _STOPPED, seconds, reason))
        return {}

    def _advance(self, trial: BaseTrial) -> TrialStatus:
        """Return the status of a trial; staged if another attempt was started."""
        record = outcome_record(trial)
        attempts = record.get(_ATTEMPTS) or []
        running = record.pop(_RUNNING, None)
        if running is None:
            if attempts and attempts[-1]["state"] == _COMPLETED:
                return TrialStatus.COMPLETED
            if attempts:  # It was stopped or has ended, or the next attempt could not be started.
                stopped = attempts[-1]["state"] == _STOPPED
                return TrialStatus.FAILED if stopped else self._retry(trial, record)
            logger.info(f"Trial {trial.index} was running without an attempt: one is started now.")
            self._launch_again(trial, record, 0)
            return TrialStatus.STAGED
        known = running.get("state")
        state = self._ask(running["key"]) if known is None else AttemptState.from_plain(known)
        seconds = _seconds_since(running["started"]) if state.seconds is None else state.seconds
        how, error, cost = state.status.value, state.error, state.cost
        outcome: dict[str, Any] = {}
        parts: dict[str, Any] = {}
        if state.status is AttemptStatus.RUNNING:
            if self.timeout is None or seconds <= self.timeout:
                return TrialStatus.RUNNING
            self._cancel(running["key"])
            how, error = _TIMED_OUT, f"was still running after {self.timeout:g} seconds"
        elif state.status is AttemptStatus.FINISHED:
            returned = state.result or {}
            try:
                outcome = read_outcome(trial, returned, seconds if self.time_cost else None)
                how, cost = _COMPLETED, outcome.get("cost")
            except UserInputError as refused:
                how, error = AttemptStatus.FAILED.value, str(refused)
                cost, parts = failed_cost(trial, returned), {_RETURNED: returned}
        elif state.result is not None:
            cost = failed_cost(trial, state.result)
        ran = state.seconds if state.status is AttemptStatus.LOST else seconds
        record = self._record(trial, {**record, **outcome}, running, how, ran, error, cost, **parts)
        if how == _COMPLETED:
            warn_out_of_bounds(outcome["realized"], trial.experiment.search_space)
            return TrialStatus.COMPLETED
        return self._retry(trial, record)

    def _retry(self, trial: BaseTrial, record: dict[str, Any]) -> TrialStatus:
        """Start the next attempt if retries remain; otherwise the trial has failed."""
        while (attempt := len(record[_ATTEMPTS])) <= self.retries:
            failure = record[_ATTEMPTS][-1]
            if _RETURNED in failure:
                break
            logger.warning(
                f"Attempt {attempt} of trial {trial.index} {_ending(failure)}. It is tried again."
            )
            try:
                self._launch_again(trial, record, attempt)
            except UnsupportedError:
                raise
            except Exception as error:
                unstarted = {"attempt": attempt, "key": None, "started": time.time()}
                text = f"could not be started: {type(error).__name__}: {error}"
                record = self._record(trial, record, unstarted, "failed", 0.0, text, 0.0)
            else:
                return TrialStatus.STAGED
        self._store_cost(trial, record)
        said = _ending(record[_ATTEMPTS][-1])
        logger.warning(f"Trial {trial.index} has failed, since its last attempt {said}.")
        return TrialStatus.FAILED

    def _store_cost(self, trial: BaseTrial, record: dict[str, Any]) -> None:
        """Record the cost of the last attempt, which no other follows, as the trial's cost."""
        cost = record[_ATTEMPTS][-1]["cost"]
        if cost is not None and is_cost_of_trial(trial, cost):
            trial.update_run_metadata({RECORD: {**record, "cost": cost}})

    def _record(
        self,
        trial: BaseTrial,
        record: dict[str, Any],
        running: dict[str, Any],
        state: str,
        seconds: float | None,
        error: str | None = None,
        cost: float | None = None,
        **parts: Any,
    ) -> dict[str, Any]:
        """Record that an attempt has ended and return the trial's new record."""
        if cost is None and self.time_cost and state != _COMPLETED:
            cost = seconds
        ended = {
            "attempt": running["attempt"],
            "started": running["started"],
            "seconds": seconds,
            "state": state,
            "error": None if error is None else _storable(error),
            "cost": cost,
            **parts,
        }
        record = {**record, _ATTEMPTS: [*(record.get(_ATTEMPTS) or []), ended]}
        trial.update_run_metadata({RECORD: record})
        log_cost(trial)
        if running["key"] is not None:
            self._over.append(running["key"])
        return record

    def _launch(self, trial: BaseTrial, attempt: int) -> dict[str, Any]:
        """Start an attempt and return its record, with its end if it ended at once."""
        key = attempt_key(trial, attempt)
        self.start(key, self.parameters_of(trial))
        running: dict[str, Any] = {"attempt": attempt, "key": key, "started": time.time()}
        state = self._ask(key)
        if state.status in (AttemptStatus.FINISHED, AttemptStatus.FAILED):
            running["state"] = state.to_plain()
        return running

    def _launch_again(self, trial: BaseTrial, record: dict[str, Any], attempt: int) -> None:
        """Call ``_launch`` during polling, where Ax abandons trials for other errors."""
        try:
            running = self._launch(trial, attempt)
        except UserInputError as error:
            raise UnsupportedError(f"trial {trial.index} cannot be started: {error}") from error
        trial.update_run_metadata({RECORD: {**record, _RUNNING: running}})

    def _ask(self, key: str) -> AttemptState:
        with _logged_errors(f"ask for the attempt {key!r}, which is asked for again"):
            return self.poll(key)
        return RUNNING

    def _cancel(self, key: str) -> None:
        with _logged_errors(f"stop {key!r}"):
            self.cancel(key)

    def _release_finished(self) -> None:
        """Release the attempts that had ended at the last poll, which Ax has stored."""
        while self._over:
            key = self._over.popleft()
            with _logged_errors(f"let go of {key!r}"):
                self.forget(key)


def imported(module: str, runner: str, name: str, extra: str) -> Any:
    """Return the package of a backend.

    Raises:
        UserInputError: If it is not installed; the message names the extra that installs it.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise UserInputError(
            f"{runner} needs {name}, which is not installed: pip install 'ax-costaware[{extra}]'."
        ) from error


def wait_until_ended(key: str, is_there: Callable[[], bool]) -> None:
    """Wait for the end of a cancelled attempt, so that another can have its key.

    Raises:
        TimeoutError: If it does not end.
    """
    deadline = time.monotonic() + _CANCEL_SECONDS
    while is_there():
        if time.monotonic() > deadline:
            raise TimeoutError(f"an attempt with the key {key!r} has not ended")
        time.sleep(_POLL_SECONDS)


@contextmanager
def _logged_errors(what: str) -> Iterator[None]:
    """Log errors of the backend instead of raising them."""
    try:
        yield
    except Exception as error:
        logger.warning(f"Could not {what} ({type(error).__name__}: {error}).")


def attempt_key(trial: BaseTrial, attempt: int) -> str:
    """Return the key of an attempt: the same in every process that continues the experiment.

    The creation time separates experiments of the same name. Databases keep it to the second, and
    allow no two experiments of one name.
    """
    experiment = trial.experiment
    name = experiment.name if experiment.has_name else "unnamed"
    created = experiment.time_created.timestamp()
    second = created if experiment.db_id is None else int(created)
    return f"{name}@{second:.16g}/{trial.index}/{attempt}"


def _seconds_since(started: float) -> float:
    return max(0.0, time.time() - started)


def _storable(text: str) -> str:
    """Return a text without surrogates and null characters, which some databases refuse."""
    return text.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()


def _ending(attempt: Mapping[str, Any]) -> str:
    """Return the end of an attempt as the rest of a sentence."""
    if attempt["state"] == _TIMED_OUT:
        return str(attempt["error"])
    how = "was lost" if attempt["state"] == "lost" else "failed"
    return f"{how} ({str(attempt['error']).rstrip('.')})"

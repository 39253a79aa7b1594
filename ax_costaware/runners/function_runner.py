"""Runner that calls the user's function in threads of this process."""

from __future__ import annotations

from concurrent.futures import Future
from threading import Thread
from typing import Any

from ax.core.types import TParamValue

from ax_costaware.runners.polled_runner import PolledRunner
from ax_costaware.runners.registry import trial_function
from ax_costaware.runners.result import (
    RUNNING,
    AttemptState,
    AttemptStatus,
    TrialFunction,
    lost,
    run_function,
)


class _Attempts(dict[str, Future[AttemptState]]):
    """Attempts of a runner by key, shared by the copies that Ax makes of the runner."""

    def __deepcopy__(self, memo: dict[int, Any]) -> _Attempts:
        return self


class LocalRunner(PolledRunner):
    """Base of runners with attempts in this process; see ``PolledRunner``."""

    def __init__(
        self,
        function: TrialFunction | str,
        *,
        timeout: float | None = None,
        retries: int = 0,
        time_cost: bool = False,
    ) -> None:
        super().__init__(function, timeout=timeout, retries=retries, time_cost=time_cost)
        self._attempts = _Attempts()

    def poll(self, key: str) -> AttemptState:
        """Return the state of the attempt; lost if this process did not start it."""
        attempt = self._attempts.get(key)
        if attempt is None:
            return lost("the process that ran it has ended, or the experiment was loaded again")
        return attempt.result() if attempt.done() else RUNNING

    def cancel(self, key: str) -> None:
        """Drop the attempt, finished or not: Python cannot stop a thread."""
        self._attempts.pop(key, None)

    forget = cancel


class FunctionRunner(LocalRunner):
    """Runner that calls a function in a thread of this process for each trial.

    For example::

        client.configure_runner(FunctionRunner(train, timeout=600, retries=1))
        client.configure_metrics([ReportedMetric("accuracy")])
        client.run_trials(max_trials=30, parallelism=4)

    The function takes a dictionary of the values to set, those of ``query(...).controlled``. With
    control sets it has only the controlled parameters. The function returns a number, ``(mean,
    sem)``, a mapping from metric to either, or a ``TrialResult`` with the realized inputs and the
    cost. It raises ``TrialFailedError``, or any other exception, if the run failed.

    ``run_trials(parallelism=...)`` sets the number of trials that run at once. Functions that use a
    library's global random state, or need more than one processor for Python code, need processes
    of their own: see ``RayRunner`` and ``SubmititRunner``.

    Threads end with the process. So an attempt is lost if the process is killed; it is repeated if
    there are retries. Python cannot stop a thread, so a function that exceeds ``timeout`` runs on
    in the background. Its result is ignored, and it does not keep the interpreter from exiting.
    ``SubmititRunner`` and ``RayRunner`` really end it.

    Args:
        function: The function, or its name from ``register_trial_function``. Only a name can be
            stored, so an experiment with a function cannot be.
        timeout: Largest duration of an attempt in seconds; None for no limit.
        retries: Number of further attempts after one that failed, timed out or was lost.
        time_cost: True to charge an attempt its duration in seconds, if the function reports no
            cost.

    Raises:
        UserInputError: If an argument is of the wrong type or out of range.
    """

    def start(self, key: str, parameters: dict[str, TParamValue]) -> None:
        """Start a thread that calls the function.

        Raises:
            UserInputError: If no function is registered under the name.
        """
        function = trial_function(self.function)
        attempt: Future[AttemptState] = Future()
        if self._attempts.setdefault(key, attempt) is not attempt:
            return

        def work() -> None:
            try:
                state = run_function(function, parameters)
            except BaseException as error:  # Otherwise the attempt would never end.
                state = AttemptState(AttemptStatus.FAILED, error=f"{type(error).__name__}: {error}")
            attempt.set_result(state)

        Thread(target=work, name=key, daemon=True).start()

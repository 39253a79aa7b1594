"""Running trials by a function of the user's, in threads of this process."""

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
    """The attempts of a runner; a copy of the runner, as Ax makes them, speaks of the same ones."""

    def __deepcopy__(self, memo: dict[int, Any]) -> _Attempts:
        return self


class LocalRunner(PolledRunner):
    """The base of runners whose attempts are made in this process; see ``PolledRunner``."""

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
        """Where the attempt stands; lost where this process did not make it."""
        attempt = self._attempts.get(key)
        if attempt is None:
            return lost("the process that ran it has ended, or the experiment was loaded again")
        return attempt.result() if attempt.done() else RUNNING

    def cancel(self, key: str) -> None:
        """Ask no more for the attempt, over or not: Python cannot stop a thread."""
        self._attempts.pop(key, None)

    forget = cancel


class FunctionRunner(LocalRunner):
    """Runs each trial by calling a function in a thread of this process.

    In the place of a runner of your own::

        client.configure_runner(FunctionRunner(train, timeout=600, retries=1))
        client.configure_metrics([ReportedMetric("accuracy")])
        client.run_trials(max_trials=30, parallelism=4)

    The function takes the values to set as a dictionary, those that ``query(...).controlled``
    names: with control sets only what the trial controls. It returns a number, ``(mean, sem)``, a
    mapping from metric to either, or a ``TrialResult`` with the realised inputs and the cost. It
    raises ``TrialFailedError``, or anything else, when the run failed.

    How many trials run at once is what ``run_trials(parallelism=...)`` says. Functions that draw
    from a library's global random numbers, or need more than one processor for Python code, belong
    in processes of their own: see ``RayRunner`` and ``SubmititRunner``.

    Threads end with the process, so an attempt that ran when the process was killed is lost, and is
    tried again if there are retries. A function that hangs past ``timeout`` is left behind: Python
    has no way to stop a thread. It runs on in the background, its result is ignored, and it does
    not keep the interpreter from exiting; to really end it use ``SubmititRunner`` or
    ``RayRunner``.

    Args:
        function: The function, or the name under which ``register_trial_function`` knows it. Only
            a name can be stored, so with a function the experiment cannot be.
        timeout: Seconds that an attempt may take; None for no limit.
        retries: How many more attempts follow one that failed, timed out or was lost.
        time_cost: Whether what an attempt costs is the seconds that it took, where the function
            says nothing of its cost.

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
            except BaseException as error:  # Nothing else would say that the thread is over.
                state = AttemptState(AttemptStatus.FAILED, error=f"{type(error).__name__}: {error}")
            attempt.set_result(state)

        Thread(target=work, name=key, daemon=True).start()

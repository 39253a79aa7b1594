"""What of ``RayRunner`` runs on the cluster: one actor per attempt, and one that keeps results.

None of it needs Ax, or this package, on a worker: the classes are defined in functions and what
they call is sent with them, so that an attempt does not begin by importing Ax for ten seconds. Only
plain data come back.
"""

from __future__ import annotations

import functools
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from ax.core.types import TParamValue
from ax.exceptions.core import UserInputError

from ax_costaware.runners import result
from ax_costaware.runners.result import TrialFailedError, TrialFunction, TrialResult, run_function


def results_class() -> type:
    """The class of the actor that knows of all attempts, and keeps what came of them.

    An attempt hands its result over and ends, which frees what it held of the cluster, also while
    no driver is there to ask for it.
    """

    class Results:
        def __init__(self) -> None:
            self.parameters: dict[str, Any] = {}
            self.began: dict[str, float] = {}
            self.states: dict[str, dict[str, Any]] = {}

        def announce(self, key: str, parameters: dict[str, Any]) -> bool:
            """Note that an attempt is to be started; returns whether one like it was before."""
            if self.parameters.get(key) == parameters:
                return True
            self.drop(key)
            self.parameters[key] = parameters
            return False

        def begin(self, key: str) -> None:
            """Note that an attempt has found a worker."""
            import time

            self.began[key] = time.monotonic()

        def put(self, key: str, state: dict[str, Any]) -> None:
            """Keep what came of an attempt."""
            self.states[key] = state

        def look(self, key: str) -> tuple[dict[str, Any] | None, float | None]:
            """What came of an attempt, and for how long it has run.

            None and zero for one that waits for a worker; None and None for an unknown one.
            """
            import time

            if key in self.began:
                seconds = time.monotonic() - self.began[key]
                return self.states.get(key), seconds
            return self.states.get(key), 0.0 if key in self.parameters else None

        def drop(self, key: str) -> None:
            """Forget an attempt."""
            for known in (self.parameters, self.began, self.states):
                known.pop(key, None)

    return Results


def attempt_class() -> type:
    """The class of the actor that makes one attempt, hands over what came of it, and ends."""

    class Attempt:
        def __init__(self, key: str, payload: bytes, results: Any) -> None:
            import ray

            self.key, self.payload, self.results = key, payload, results
            # Called by the actor itself, and not by the driver, the method outlives the driver.
            ray.get_runtime_context().current_actor.run.remote()

        def run(self) -> None:
            import ray
            from ray import cloudpickle

            ray.get(self.results.begin.remote(self.key))
            try:
                state = cloudpickle.loads(self.payload)()
            except BaseException as error:
                text = f"{type(error).__name__}: {error}"
                state = {"status": "failed", "error": f"it could not be run on its worker: {text}"}
            ray.get(self.results.put.remote(self.key, state))
            ray.actor.exit_actor()

    return Attempt


def pack(function: TrialFunction, parameters: dict[str, TParamValue]) -> bytes:
    """What an attempt calls: the function, its parameters, and what makes plain data of it.

    The function's own module is sent along, so that workers need not have it, unless it is
    installed as a package.

    Raises:
        UserInputError: If the function cannot be sent.
    """
    from ray import cloudpickle

    modules = [sys.modules[__name__], result, *_module_to_send(function)]
    try:
        with _by_value(cloudpickle, modules):
            packed = cloudpickle.dumps(functools.partial(_attempt, function, parameters))
    except Exception as error:
        raise UserInputError(
            f"function={function!r} cannot be sent to a worker ({type(error).__name__}: {error}): "
            "expected a function that refers to nothing that is bound to this process, such as "
            "an open file, a lock or a connection. It can open them itself."
        ) from error
    return bytes(packed)


def _attempt(function: TrialFunction, parameters: dict[str, TParamValue]) -> dict[str, Any]:
    """Call the function on a worker and return its state as plain data."""

    def translated(values: dict[str, TParamValue]) -> Any:
        # A worker that has imported this package has classes of these names of its own.
        try:
            outcome = function(values)
        except Exception as error:
            if type(error).__name__ == "TrialFailedError" and hasattr(error, "cost"):
                raise TrialFailedError(str(error), error.cost) from error
            raise
        if type(outcome).__name__ == "TrialResult" and hasattr(outcome, "raw_data"):
            return TrialResult(outcome.raw_data, outcome.realized, outcome.cost)
        return outcome

    return run_function(translated, parameters).to_plain()


def _module_to_send(function: Callable[..., Any]) -> list[ModuleType]:
    while isinstance(function, functools.partial):
        function = function.func
    name = getattr(function, "__module__", None) or type(function).__module__
    module = sys.modules.get(name)
    file = getattr(module, "__file__", None)
    if module is None or file is None or name == "__main__":
        return []  # Sent by value in any case, or built in.
    paths = sysconfig.get_paths()
    installed = {Path(paths[kind]).resolve() for kind in ("stdlib", "purelib", "platlib")}
    return [] if installed.intersection(Path(file).resolve().parents) else [module]


@contextmanager
def _by_value(cloudpickle: Any, modules: list[ModuleType]) -> Iterator[None]:
    """Let functions and classes of these modules be sent whole, not by their names."""
    registered = []
    try:
        for module in modules:
            if module.__name__ not in cloudpickle.list_registry_pickle_by_value():
                cloudpickle.register_pickle_by_value(module)
                registered.append(module)
        yield
    finally:
        for module in registered:
            cloudpickle.unregister_pickle_by_value(module)

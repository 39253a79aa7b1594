"""What of ``RayRunner`` runs on the cluster: one actor per attempt, and one that keeps results.

None of it needs Ax, or this package, on a worker: the classes are defined in functions and what
they call is sent with them, so that an attempt does not begin by importing Ax for ten seconds. Only
plain data come back.
"""

from __future__ import annotations

from typing import Any


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

"""Actors of ``RayRunner`` on the cluster: one per attempt, and one that keeps results.

A worker needs neither Ax nor this package. The classes are defined in functions, and what they call
is sent with them, since an import of Ax takes ten seconds. Only plain data come back.
"""

from __future__ import annotations

from typing import Any


def results_class() -> type:
    """Return the class of the actor that knows all attempts and keeps their results.

    An attempt delivers its result and ends, which frees its resources, even without a driver that
    asks for it.
    """

    class Results:
        def __init__(self) -> None:
            self.parameters: dict[str, Any] = {}
            self.began: dict[str, float] = {}
            self.states: dict[str, dict[str, Any]] = {}

        def announce(self, key: str, parameters: dict[str, Any]) -> bool:
            """Register an attempt; return if the same one was registered before."""
            if self.parameters.get(key) == parameters:
                return True
            self.drop(key)
            self.parameters[key] = parameters
            return False

        def begin(self, key: str) -> None:
            """Record that an attempt has found a worker."""
            import time

            self.began[key] = time.monotonic()

        def put(self, key: str, state: dict[str, Any]) -> None:
            """Keep the result of an attempt."""
            self.states[key] = state

        def look(self, key: str) -> tuple[dict[str, Any] | None, float | None]:
            """Return the result of an attempt, and its running time so far.

            None and zero for one that waits for a worker; None and None for an unknown one.
            """
            import time

            if key in self.began:
                seconds = time.monotonic() - self.began[key]
                return self.states.get(key), seconds
            return self.states.get(key), 0.0 if key in self.parameters else None

        def drop(self, key: str) -> None:
            """Delete an attempt."""
            for known in (self.parameters, self.began, self.states):
                known.pop(key, None)

    return Results


def attempt_class() -> type:
    """Return the class of the actor that makes one attempt, delivers its result, and ends."""

    class Attempt:
        def __init__(self, key: str, payload: bytes, results: Any) -> None:
            import ray

            self.key, self.payload, self.results = key, payload, results
            # The actor calls the method itself, so that it outlives the driver.
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

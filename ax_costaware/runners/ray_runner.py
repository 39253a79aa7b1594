"""Runner for Ray: trials run on the machines of a cluster, or in processes of this one.

Each attempt is a detached actor named by the attempt's key. One more detached actor keeps the
results. Both outlive the process that started them, as long as the cluster runs. So a driver that
was killed is started again, loads the experiment from its store, and finds its attempts by their
keys. An attempt whose worker or machine died is lost, and retried like a failed one. An attempt
that takes too long is killed. ``docs/cluster.md`` explains how to start a cluster.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from threading import Lock
from typing import Any

from ax.core.types import TParamValue
from ax.exceptions.core import UserInputError
from ax.utils.common.logger import get_logger

from ax_costaware.argument_checks import (
    instance_of,
    nonempty_string,
    optional,
    positive_number,
)
from ax_costaware.ax_bridge.checks import ax_errors
from ax_costaware.runners.polled_runner import PolledRunner, imported, wait_until_ended
from ax_costaware.runners.ray_worker import attempt_class, results_class
from ax_costaware.runners.registry import trial_function
from ax_costaware.runners.result import AttemptState, AttemptStatus, TrialFunction, lost
from ax_costaware.runners.sending import attempt, pickled_by_value

logger = get_logger(__name__)

RESULTS = "ax_costaware/results"
"""Name of the actor that keeps results; the key of an attempt has an ``@`` and so differs."""

_OPTIONS = {"CPU": "num_cpus", "GPU": "num_gpus", "memory": "memory"}
"""Ray's own resources, and the actor options that request them."""

_CONNECTING = Lock()
"""Lock for the connection, which Ray makes once per process."""

_ANSWER_SECONDS = 30.0
"""Seconds without an answer after which the cluster counts as unreachable."""


class RayRunner(PolledRunner):
    """Runner for Ray, with the extra ``ax-costaware[ray]``.

    The function is sent to the workers with the module that defines it. Installed packages that it
    imports must be installed there. Time in the queue of the cluster does not count towards
    ``timeout``.

    Args:
        function: Takes the parameters of a trial and returns its outcome, as for
            ``FunctionRunner``; or its name from ``register_trial_function``, which is needed to
            store the experiment.
        timeout: Seconds that an attempt may run before it is killed; None for no limit.
        retries: Number of further attempts after one that failed, timed out, or was lost with its
            worker.
        resources: Resources of a running attempt, by Ray's names: ``CPU``, ``GPU``, ``memory``
            (bytes), and custom ones. By default one CPU.
        address: Address of the cluster, as for ``ray.init``: ``"auto"`` for one that runs on this
            machine, ``"local"`` for one that is started here and ends with this process. None: the
            cluster of the environment variable ``RAY_ADDRESS``, or of this machine if there is one,
            else a local one. Ignored if ``ray.init`` was called before.
        namespace: Ray's namespace of the actors; the same in every process that continues the
            experiment.
        time_cost: True to charge an attempt its duration in seconds, if the function reports no
            cost.

    Raises:
        UserInputError: If an argument is of the wrong type or out of range.
    """

    @ax_errors()
    def __init__(
        self,
        function: TrialFunction | str,
        *,
        timeout: float | None = None,
        retries: int = 1,
        resources: Mapping[str, float] | None = None,
        address: str | None = None,
        namespace: str = "ax_costaware",
        time_cost: bool = False,
    ) -> None:
        super().__init__(function, timeout=timeout, retries=retries, time_cost=time_cost)
        self.resources = _checked_resources(resources)
        self.address = optional(nonempty_string)(address, "address")
        self.namespace = nonempty_string(namespace, "namespace")

    def start(self, key: str, parameters: dict[str, TParamValue]) -> None:
        """Start an attempt on the cluster, unless the cluster has it already.

        Args:
            key: Key of the attempt.
            parameters: The values to set, by parameter name.

        Raises:
            UserInputError: If Ray is not installed, there is no cluster at the address, no function
                has the name, or the function cannot be sent to a worker.
        """
        function = trial_function(self.function)
        ray, results = self._ray(), self._results()
        from ray import cloudpickle

        with pickled_by_value(cloudpickle, function):
            payload = cloudpickle.dumps(partial(attempt, function, parameters))
        is_known = self._answer(results.announce.remote(key, parameters))
        if is_known and self.poll(key).status is not AttemptStatus.LOST:
            return
        self.cancel(key)
        wait_until_ended(key, lambda: self._actor(key) is not None)
        self._warn_if_too_large(ray)
        own = {name: n for name, n in self.resources.items() if name not in _OPTIONS}
        options = {_OPTIONS[name]: n for name, n in self.resources.items() if name in _OPTIONS}
        ray.remote(attempt_class()).options(
            name=key,
            namespace=self.namespace,
            lifetime="detached",
            max_restarts=0,
            resources=own,
            **{"num_cpus": 0, **options},
        ).remote(key, payload, results)

    def poll(self, key: str) -> AttemptState:
        """Return the state of an attempt; ``lost`` if it has no result and no actor."""
        results = self._results()
        for _ in range(2):  # It may deliver its result and end between the two calls.
            state, seconds = self._answer(results.look.remote(key))
            if state is not None:
                return AttemptState.from_plain(state)
            if self._actor(key) is not None:
                return AttemptState(AttemptStatus.RUNNING, seconds=seconds)
        return lost("its worker died, or the cluster was stopped")

    def cancel(self, key: str) -> None:
        """Kill an attempt, waiting or running."""
        if (actor := self._actor(key)) is not None:
            self._ray().kill(actor)

    def forget(self, key: str) -> None:
        """Delete the result of an attempt from the cluster."""
        self._results().drop.remote(key)

    def _ray(self) -> Any:
        """Return Ray, connected to the cluster."""
        ray = imported("ray", "RayRunner", "Ray", "ray")
        with _CONNECTING:
            if ray.is_initialized():
                return ray
            try:
                ray.init(
                    address=self.address,
                    namespace=self.namespace,
                    include_dashboard=False,
                    log_to_driver=False,
                    logging_level=logging.WARNING,
                )
            except (ConnectionError, RuntimeError, ValueError) as error:
                raise UserInputError(
                    f"address={self.address!r}: Ray could not connect to a cluster there, or start "
                    f"one ({type(error).__name__}: {error}). A cluster that requires a token needs "
                    "RAY_AUTH_MODE=token in the environment if its address is given."
                ) from error
        return ray

    def _results(self) -> Any:
        """Return the actor that keeps results; start it if there is none. It is never ended."""
        if (known := self._actor(RESULTS)) is not None:
            return known
        actor = self._ray().remote(results_class())
        return actor.options(
            name=RESULTS,
            namespace=self.namespace,
            lifetime="detached",
            get_if_exists=True,
            num_cpus=0,
            max_restarts=-1,
            max_task_retries=-1,
        ).remote()

    def _answer(self, reference: Any) -> Any:
        return self._ray().get(reference, timeout=_ANSWER_SECONDS)

    def _actor(self, key: str) -> Any:
        """Return the actor of an attempt, waiting or running; None if there is none."""
        try:
            return self._ray().get_actor(key, namespace=self.namespace)
        except ValueError:
            return None

    def _warn_if_too_large(self, ray: Any) -> None:
        """Warn if no machine of the cluster has the resources of an attempt."""
        fits = any(
            all(node["Resources"].get(name, 0.0) >= n for name, n in self.resources.items())
            for node in ray.nodes()
            if node["Alive"]
        )
        if not fits:
            logger.warning(
                f"resources={self.resources}: no machine of the cluster has as much. Trials wait "
                "until one joins it."
            )


def _checked_resources(resources: Any) -> dict[str, float]:
    if resources is None:
        return {"CPU": 1.0}
    expected = "a mapping from Ray's names, such as 'CPU' and 'GPU', to amounts > 0"
    named = dict(instance_of(resources, "resources", Mapping, expected))
    if not all(isinstance(name, str) and name for name in named):
        raise UserInputError(f"resources={named!r}: expected {expected}.")
    return {name: positive_number(n, f"resources[{name!r}]") for name, n in named.items()}

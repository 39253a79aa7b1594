"""Runner for Slurm, through submitit: each attempt is a job, on the cluster or this machine.

Jobs outlive the process that submitted them. Each has its own folder, by which another process
finds it. So a driver that was killed is started again, loads the experiment from its store, and
continues. submitit pickles the function and its return value in the folder; none of it gets into
the experiment's store. ``docs/cluster.md`` describes the setup.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import math
import os
import re
import shutil
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, get_args

from ax.core.types import TParamValue
from ax.exceptions.core import UserInputError

from ax_costaware.argument_checks import instance_of, one_of
from ax_costaware.ax_bridge.checks import ax_errors
from ax_costaware.runners.polled_runner import PolledRunner, imported, wait_until_ended
from ax_costaware.runners.registry import trial_function
from ax_costaware.runners.result import AttemptState, AttemptStatus, TrialFunction, lost
from ax_costaware.runners.sending import BEGAN, attempt_in, pickled_by_value

Executor = Literal["slurm", "local"]
"""Executors of submitit."""

_SPARE_MINUTES = 2
"""Difference between a job's own time limit and the runner's, whose error is more specific."""

_NO_LIMIT_MINUTES = 366 * 24 * 60
"""Time limit of a local job without ``timeout``; submitit's default is two minutes."""

_MAX_NAME_BYTES = 246
"""Largest length of a folder's name, without the digest that makes it unique."""

_JOBS: dict[Path, Any] = {}
"""Jobs that this process has submitted or polled, by folder."""

# submitit's jobs read files in their destructor, which fails while the interpreter shuts down.
atexit.register(_JOBS.clear)


class SubmititRunner(PolledRunner):
    """Runner with jobs of Slurm, or processes of this machine.

    Its extra is ``ax-costaware[slurm]``. The function is sent with the module that defines it.
    Installed packages that it imports must be installed where jobs run. Time in the queue does not
    count towards ``timeout``.

    Args:
        function: Takes the parameters of a trial and returns its outcome, as for
            ``FunctionRunner``; or its name from ``register_trial_function``, which is needed to
            store the experiment.
        folder: Folder of the jobs, their logs and results, on a file system that all machines
            share. Anyone who can write there can run code.
        executor: ``"slurm"``, or ``"local"`` for processes of this machine.
        timeout: Seconds that an attempt may run before it is killed; None for no limit.
        retries: Number of further attempts after one that failed, timed out, or was lost with its
            machine.
        options: Options of submitit's ``update_parameters``, such as ``{"slurm_partition": "gpu",
            "gpus_per_node": 1}``. Slurm's own limit, ``timeout_min``, follows from ``timeout``.
        time_cost: True to charge an attempt its duration in seconds, if the function reports no
            cost.

    Raises:
        UserInputError: If an argument is of the wrong type or out of range, or Slurm's jobs have no
            time limit, for which submitit's default is five minutes.
    """

    @ax_errors()
    def __init__(
        self,
        function: TrialFunction | str,
        *,
        folder: str | os.PathLike[str],
        executor: Executor = "slurm",
        timeout: float | None = None,
        retries: int = 1,
        options: Mapping[str, Any] | None = None,
        time_cost: bool = False,
    ) -> None:
        super().__init__(function, timeout=timeout, retries=retries, time_cost=time_cost)
        expected = "a folder, with no '%' in its path"
        given = os.fspath(instance_of(folder, "folder", str | os.PathLike, expected))
        self.folder = str(Path(given).absolute())  # independent of the working directory
        if not given or "%" in self.folder:
            raise UserInputError(f"folder={given!r}: expected {expected}.")
        self.executor = one_of(executor, "executor", get_args(Executor))
        expected = "a mapping from names of submitit's update_parameters to values"
        self.options = dict(instance_of(options, "options", Mapping | None, expected) or {})
        if executor == "slurm" and timeout is None and "timeout_min" not in self.options:
            raise UserInputError(
                "timeout=None: submitit ends a job of Slurm after five minutes. Expected the "
                "seconds that an attempt may take, or options={'timeout_min': ...}."
            )

    def start(self, key: str, parameters: dict[str, TParamValue]) -> None:
        """Submit an attempt, unless it was submitted already.

        Args:
            key: Key of the attempt.
            parameters: The values to set, by parameter name.

        Raises:
            UserInputError: If submitit is not installed, finds no Slurm, or refuses the options; or
                if no function has the name, or the function cannot be sent to a job.
        """
        function, submitit = trial_function(self.function), self._submitit()
        folder, values = self._folder_of(key), json.dumps(parameters)
        known = folder / "parameters.json"
        if known.exists():
            is_same = known.read_text("utf-8") == values
            if is_same and self.poll(key).status is not AttemptStatus.LOST:
                return
            self._end(key)
        folder.mkdir(parents=True, exist_ok=True)
        known.write_text(values, "utf-8")
        minutes = math.ceil((self.timeout or 0) / 60) + _SPARE_MINUTES
        limit = minutes if self.timeout is not None else _NO_LIMIT_MINUTES
        try:
            executor = submitit.AutoExecutor(folder=folder, cluster=self.executor)
            executor.update_parameters(**{"timeout_min": limit, **self.options})
        except (AssertionError, NameError, RuntimeError, TypeError, ValueError) as error:
            raise UserInputError(
                f"executor={self.executor!r}, options={self.options!r}: submitit refuses them "
                f"({type(error).__name__}: {error})."
            ) from error
        import cloudpickle

        with pickled_by_value(cloudpickle, function):
            _JOBS[folder] = executor.submit(attempt_in, str(folder), function, parameters)

    def poll(self, key: str) -> AttemptState:
        """Return the state of an attempt; ``lost`` if its job has ended without a result."""
        folder, job = self._folder_of(key), self._job(key)
        if job is None:
            return lost("no job was submitted for it")
        if not self._is_over(job):
            seconds = 0.0
            with suppress(FileNotFoundError):
                seconds = max(0.0, time.time() - (folder / BEGAN).stat().st_mtime)
            return AttemptState(AttemptStatus.RUNNING, seconds=seconds)
        if self.executor == "local" and not job.paths.result_pickle.exists():
            return lost(f"its process has ended without a result: see {job.paths.stderr}")
        try:
            return AttemptState.from_plain(job.result())
        except Exception as error:  # It was cancelled, or ended by Slurm, or its machine died.
            return lost(str(error)[-2000:])

    def cancel(self, key: str) -> None:
        """Kill an attempt, waiting or running."""
        if (job := self._job(key)) is None:
            return
        if self.executor == "slurm":
            job.cancel()
            return
        # Kill the attempt itself, and the process that starts it.
        starter = int(job.job_id)
        is_there = _is_of_job(starter, job)
        with suppress(FileNotFoundError, ValueError, ProcessLookupError, PermissionError):
            process = int((self._folder_of(key) / BEGAN).read_text())
            if is_there or _is_of_job(process, job):
                os.kill(process, signal.SIGKILL)
        with suppress(ProcessLookupError, PermissionError):
            if is_there:
                os.kill(starter, signal.SIGINT)

    def forget(self, key: str) -> None:
        """Release an attempt; its folder stays, with its logs."""
        _JOBS.pop(self._folder_of(key), None)

    def _submitit(self) -> Any:
        return imported("submitit", "SubmititRunner", "submitit", "slurm")

    def _folder_of(self, key: str) -> Path:
        """Return the folder of an attempt, whose name has no patterns of submitit's."""
        digest = hashlib.sha256(key.encode()).hexdigest()[:8]
        readable = re.sub(r"[^\w@.-]", "-", key).encode()[:_MAX_NAME_BYTES].decode(errors="ignore")
        return Path(self.folder) / f"{readable}-{digest}"

    def _job(self, key: str) -> Any:
        """Return the job of an attempt, of this or another process; None without one.

        submitit names the submission file after the job; a job without that file does nothing.
        """
        folder = self._folder_of(key)
        submitted = next(folder.glob("*_submitted.pkl"), None)
        if folder not in _JOBS and submitted is not None:
            submitit = self._submitit()
            kind = submitit.SlurmJob if self.executor == "slurm" else submitit.LocalJob
            _JOBS[folder] = kind(folder, submitted.name.removesuffix("_submitted.pkl"))
        return _JOBS.get(folder)

    def _is_over(self, job: Any) -> bool:
        if not job.done() or self.executor == "slurm":
            return bool(job.done())
        # submitit knows only the processes that this one started.
        return job.paths.result_pickle.exists() or not _is_of_job(int(job.job_id), job)

    def _end(self, key: str) -> None:
        """Kill the attempt with the key, and remove its folder."""
        self.cancel(key)
        if (job := self._job(key)) is not None:
            wait_until_ended(key, lambda: not self._is_over(job))
        self.forget(key)
        shutil.rmtree(self._folder_of(key))


def _is_of_job(process: int, job: Any) -> bool:
    """True if a process lives and belongs to a job: its id may have been reused."""
    try:
        os.kill(process, 0)
        command = Path(f"/proc/{process}/cmdline")
        return not command.exists() or os.fsencode(job.paths.folder.name) in command.read_bytes()
    except OSError:
        return False

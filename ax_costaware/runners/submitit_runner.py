"""A runner for Slurm, through submitit: each attempt is a job, on the cluster or of this machine.

Jobs outlive the process that submitted them, and each has a folder of its own by which the next
process finds it: a driver that was killed is started again, loads the experiment from its store,
and goes on. submitit pickles the function and what it returns there; of that nothing gets into the
experiment's store. ``docs/cluster.md`` says what to set.
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
from ax_costaware.runners.polled_runner import PolledRunner, imported, wait_until_gone
from ax_costaware.runners.registry import trial_function
from ax_costaware.runners.result import AttemptState, AttemptStatus, TrialFunction, lost
from ax_costaware.runners.sending import BEGAN, attempt_in, sent_whole

Executor = Literal["slurm", "local"]
"""Where submitit runs jobs."""

_SPARE_MINUTES = 2
"""By which a job's own limit is above the runner's, which says more when it ends an attempt."""

_NO_LIMIT_MINUTES = 366 * 24 * 60
"""submitit ends a job of this machine after two minutes unless it is told otherwise."""

_MOST_BYTES = 246
"""Of a folder's name that file systems take, without what tells names apart."""

_JOBS: dict[Path, Any] = {}
"""Jobs that this process has submitted, or asked about, by their folders."""

# submitit's jobs look at files when they are deleted, which fails when the interpreter is going.
atexit.register(_JOBS.clear)


class SubmititRunner(PolledRunner):
    """Runs trials as jobs of Slurm, or as processes of this machine.

    Its extra is ``ax-costaware[slurm]``. The function is sent with the module that defines it;
    what it imports, and is installed as a package, must be installed where jobs run. An attempt
    that waits for a machine does not use up its ``timeout``.

    Args:
        function: Takes the parameters of a trial and returns its outcome, as of ``FunctionRunner``;
            or the name under which ``register_trial_function`` knows it, without which the
            experiment cannot be stored.
        folder: Of the jobs, their logs and what they return, on a file system that all machines
            share. Whoever can write there can run code.
        executor: ``"slurm"``, or ``"local"`` for processes of this machine.
        timeout: Seconds that an attempt may run before it is killed; None for no limit.
        retries: How many more attempts follow one that failed, took too long, or was lost with its
            machine.
        options: For submitit's ``update_parameters``, such as ``{"slurm_partition": "gpu",
            "gpus_per_node": 1}``. Slurm's own limit, ``timeout_min``, follows from ``timeout``.
        time_cost: Whether what an attempt costs is the seconds that it took, where the function
            says nothing of its cost.

    Raises:
        UserInputError: If an argument is of the wrong type or out of range, or nothing limits the
            time of Slurm's jobs, which submitit then ends after five minutes.
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
        self.folder = str(Path(given).absolute())  # the same, wherever the next process is started
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
            key: Names the attempt.
            parameters: The values to set, by parameter name.

        Raises:
            UserInputError: If submitit is not installed, finds no Slurm, or refuses the options; if
                no function has the name, or the function cannot be sent to a job.
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

        with sent_whole(cloudpickle, function):
            _JOBS[folder] = executor.submit(attempt_in, str(folder), function, parameters)

    def poll(self, key: str) -> AttemptState:
        """Where an attempt stands; ``lost`` if its job is over and has left no result."""
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
        """Kill an attempt, whatever it is doing."""
        if (job := self._job(key)) is None:
            return
        if self.executor == "slurm":
            job.cancel()
            return
        # The attempt itself, and what has started it, or is about to.
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
        """Let go of an attempt; its folder stays, with its logs."""
        _JOBS.pop(self._folder_of(key), None)

    def _submitit(self) -> Any:
        return imported("submitit", "SubmititRunner", "submitit", "slurm")

    def _folder_of(self, key: str) -> Path:
        """The folder of an attempt, whose name submitit does not take for a pattern."""
        digest = hashlib.sha256(key.encode()).hexdigest()[:8]
        readable = re.sub(r"[^\w@.-]", "-", key).encode()[:_MOST_BYTES].decode(errors="ignore")
        return Path(self.folder) / f"{readable}-{digest}"

    def _job(self, key: str) -> Any:
        """The job of an attempt, also one that another process has submitted; None without one.

        submitit names what it has submitted after the job, and a job without it does nothing.
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
        # submitit knows the processes of this one only.
        return job.paths.result_pickle.exists() or not _is_of_job(int(job.job_id), job)

    def _end(self, key: str) -> None:
        """Kill what has the key, and remove its folder."""
        self.cancel(key)
        if (job := self._job(key)) is not None:
            wait_until_gone(key, lambda: not self._is_over(job))
        self.forget(key)
        shutil.rmtree(self._folder_of(key))


def _is_of_job(process: int, job: Any) -> bool:
    """Whether a process lives and is of a job: its number may be another's, as after a restart."""
    try:
        os.kill(process, 0)
        command = Path(f"/proc/{process}/cmdline")
        return not command.exists() or os.fsencode(job.paths.folder.name) in command.read_bytes()
    except OSError:
        return False

"""What the user's function returns for a trial, and how it travels: as plain JSON data.

A runner calls the function elsewhere, in a thread or on another machine, and takes back numbers,
strings, lists and mappings only: what comes back is stored with the trial, and nothing stored is
pickled. What runs beside the function uses nothing of Ax, whose import takes a worker many seconds.
Costs are in the user's own unit, outcomes and realised inputs in raw units.
"""

from __future__ import annotations

import math
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from numbers import Real
from pathlib import Path
from typing import Any, TypeAlias

from ax.core.types import TParamValue

from ax_costaware.session.reported import RawData

TrialFunction: TypeAlias = Callable[[dict[str, Any]], Any]
"""Takes a trial's parameters and returns its outcome; see ``run_function``."""

EXPECTED = (
    "expected a number, (mean, sem), a mapping from metric to either, or an "
    "ax_costaware.TrialResult"
)


@dataclass(frozen=True)
class TrialResult:
    """What a trial came to; the fields mean what the arguments of ``complete_trial`` mean."""

    raw_data: RawData | None = None
    """The objective's value, ``(mean, sem)``, or a mapping from metric to either. None: nothing was
    measured."""

    realized: Mapping[str, Any] | None = None
    """The value that each uncontrolled parameter took, in its own unit."""

    cost: float | None = None
    """What the trial cost, in the user's own unit; None: not known."""


class TrialFailedError(Exception):
    """Raised by a user's function to say that a run failed, and what it cost all the same.

    Args:
        message: What went wrong; it is recorded with the trial.
        cost: What the failed run cost, in the user's own unit. None: not known, and it is charged
            what was expected of it.
    """

    def __init__(self, message: str, cost: float | None = None) -> None:
        super().__init__(message)
        self.cost = cost


class AttemptStatus(Enum):
    """Where one attempt at running a trial stands."""

    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    LOST = "lost"


@dataclass(frozen=True)
class AttemptState:
    """Where one attempt at running a trial stands, and what came of it; plain data only."""

    status: AttemptStatus
    """Running (or waiting for a machine), finished, failed, or lost: nobody knows of it."""

    result: dict[str, Any] | None = None
    """What a finished attempt returned, as ``plain_result`` gives it; of one that failed by what it
    returned, the numbers among that, since its cost may be one."""

    error: str | None = None
    """What went wrong in one that failed or was lost."""

    cost: float | None = None
    """What a failed attempt cost, as far as the function said so; in the user's own unit."""

    seconds: float | None = None
    """How long the attempt ran, or has run so far; None: not known, and the runner counts from
    when it started the attempt."""

    def to_plain(self) -> dict[str, Any]:
        """The state as JSON data, from which ``from_plain`` makes it again."""
        return {**vars(self), "status": self.status.value}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> AttemptState:
        """The state that ``to_plain`` gave."""
        return cls(**{**plain, "status": AttemptStatus(plain["status"])})


RUNNING = AttemptState(AttemptStatus.RUNNING)
"""An attempt that is not over, of which no more is known."""


def lost(error: str) -> AttemptState:
    """The state of an attempt that nobody knows of (any more), and why."""
    return AttemptState(AttemptStatus.LOST, error=error)


def run_function(function: TrialFunction, parameters: Mapping[str, TParamValue]) -> AttemptState:
    """Call the user's function, wherever this is, and say in plain data what came of it.

    ``KeyboardInterrupt`` passes; anything else that the function raises is a failed attempt.

    Args:
        function: Takes the parameters of a trial, as a dictionary, and returns what
            ``plain_result`` accepts.
        parameters: The values to set, by parameter name.

    Returns:
        A finished or a failed state, with the seconds that the function took.
    """
    started, outcome = time.perf_counter(), None
    try:
        outcome = function(dict(parameters))
        state = AttemptState(AttemptStatus.FINISHED, result=plain_result(outcome))
    except TrialFailedError as failure:
        error, cost = _plain_cost(failure)
        state = AttemptState(AttemptStatus.FAILED, error=error, cost=cost)
    except (Exception, SystemExit) as failure:
        numbers = None if outcome is None else _numbers_of(outcome)
        state = AttemptState(AttemptStatus.FAILED, numbers, _described(failure))
    return replace(state, seconds=time.perf_counter() - started)


def plain_result(outcome: Any) -> dict[str, Any]:
    """What a user's function returned, as JSON data.

    Only its form is looked at here; ``read_result`` reverses it, and numbers and names are checked
    where the experiment is known.

    Args:
        outcome: A number, ``(mean, sem)``, a mapping from metric to either, or a ``TrialResult``;
            numpy's and torch's scalars count as numbers. None: the function returned nothing.

    Returns:
        ``raw_data``, ``realized``, ``cost``, and ``returned``: whether there was anything.

    Raises:
        TypeError: If it is none of these, or holds what is neither text nor a number.
        ValueError: If it holds a number that is not finite.
    """
    result = outcome if isinstance(outcome, TrialResult) else TrialResult(raw_data=outcome)
    if not isinstance(result.realized, Mapping | None):
        raise TypeError(
            f"realized={result.realized!r}: expected a mapping from parameter to value."
        )
    return {
        "returned": outcome is not None,
        "raw_data": _plain(result.raw_data, "its outcome"),
        "realized": _plain(result.realized, "realized"),
        "cost": _plain(result.cost, "cost"),
    }


def read_result(plain: Mapping[str, Any]) -> TrialResult:
    """The ``TrialResult`` behind what ``plain_result`` gave."""
    raw_data = plain["raw_data"]
    if isinstance(raw_data, Mapping):
        raw_data = {metric: _measurement(value) for metric, value in raw_data.items()}
    else:
        raw_data = _measurement(raw_data)
    return TrialResult(raw_data=raw_data, realized=plain["realized"], cost=plain["cost"])


def _numbers_of(refused: Any) -> dict[str, Any]:
    """What ``plain_result`` would give of a refused outcome, as far as that is numbers."""

    def number(value: Any) -> Any:
        try:
            return _plain(value, "a number")
        except (TypeError, ValueError):
            return None

    result = refused if isinstance(refused, TrialResult) else TrialResult(raw_data=refused)
    values = result.raw_data if isinstance(result.raw_data, Mapping) else {}
    raw_data = {str(metric): number(value) for metric, value in values.items()}
    return {"raw_data": raw_data, "cost": number(result.cost)}


def _measurement(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _plain(value: Any, what: str) -> Any:
    """Plain numbers and texts, of which there may be a tuple, or a mapping of such.

    Scalars of numpy and torch are unpacked.
    """
    if isinstance(value, Mapping):
        return {str(name): _plain(part, f"{what}[{name!r}]") for name, part in value.items()}
    if isinstance(value, tuple):
        return [_plain(part, what) for part in value]
    if getattr(value, "ndim", None) == 0 and callable(getattr(value, "item", None)):
        value = value.item()
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int):
        return int(value)
    if not isinstance(value, Real):
        raise TypeError(
            f"the function returned {what} as {value!r}, a {type(value).__name__}: {EXPECTED}."
        )
    if not math.isfinite(value):
        raise ValueError(f"the function returned {what} as {value!r}: expected a finite number.")
    return float(value)


def _described(failure: BaseException) -> str:
    """What the user's function raised, and where in its own file."""
    text = f"{type(failure).__name__}: {failure}" if str(failure) else type(failure).__name__
    beside = Path(run_function.__code__.co_filename).parent
    frames = [
        frame
        for frame in traceback.extract_tb(failure.__traceback__)
        if Path(frame.filename).parent != beside
    ]
    if not frames:  # What it returned was refused.
        return text
    last = [frame for frame in frames if frame.filename == frames[0].filename][-1]
    return f"{text} ({Path(last.filename).name}, line {last.lineno}, in {last.name})"


def _plain_cost(failure: TrialFailedError) -> tuple[str, float | None]:
    """What went wrong and what it cost; a cost that is none is said so, and is not known."""
    message = str(failure) or type(failure).__name__
    try:
        cost = _plain(failure.cost, "its cost")
        is_number = isinstance(cost, int | float) and not isinstance(cost, bool)
        if cost is not None and not (is_number and 0 <= cost <= sys.float_info.max):
            raise ValueError(f"cost={cost!r}: expected a finite number >= 0.")
    except (TypeError, ValueError) as error:
        return f"{message} ({error})", None
    return message, cost

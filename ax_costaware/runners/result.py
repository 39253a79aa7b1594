"""Return values of the user's function, and their form as plain JSON data.

A runner calls the function in a thread or on another machine. It gets back numbers, strings, lists
and mappings only: they are stored with the trial, and nothing stored is pickled. Code that runs
with the function uses nothing of Ax, whose import takes a worker many seconds. Costs are in the
user's own unit, outcomes and realized inputs in raw units.
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

from ax_costaware.core.repeats import is_repeated
from ax_costaware.session.reported import RawData

TrialFunction: TypeAlias = Callable[[dict[str, Any]], Any]
"""Function of a trial's parameters that returns its outcome; see ``run_function``."""

_REPEATS = "values of repeats"
"""Key of the plain form of a list, whose JSON is otherwise that of ``(mean, sem)``."""

EXPECTED = (
    "expected a number, (mean, sem), a list of repeats, a mapping from metric to these, or an "
    "ax_costaware.TrialResult"
)


@dataclass(frozen=True)
class TrialResult:
    """Outcome of a trial; the fields have the meaning of the arguments of ``complete_trial``."""

    raw_data: RawData | None = None
    """Value of the objective, ``(mean, sem)``, a list of the values of its repeats, or a mapping
    from metric to one of these. None: nothing was measured."""

    realized: Mapping[str, Any] | None = None
    """Realized value of each uncontrolled parameter, in its own unit."""

    cost: float | None = None
    """Cost of the trial, in the user's own unit; None: not known."""


class TrialFailedError(Exception):
    """Error for a user's function to report a failed run, with its cost.

    Args:
        message: Reason of the failure, which is recorded with the trial.
        cost: Cost of the failed run, in the user's own unit. None: not known, and the expected
            cost is charged.
    """

    def __init__(self, message: str, cost: float | None = None) -> None:
        super().__init__(message)
        self.cost = cost


class AttemptStatus(Enum):
    """Status of one attempt to run a trial."""

    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    LOST = "lost"


@dataclass(frozen=True)
class AttemptState:
    """State of one attempt to run a trial, and its result; plain data only."""

    status: AttemptStatus
    """Running (or waiting for a machine), finished, failed, or lost (unknown to the backend)."""

    result: dict[str, Any] | None = None
    """Return value of a finished attempt, as of ``plain_result``. If the return value was refused,
    the numbers in it, since one may be the cost."""

    error: str | None = None
    """Reason of a failure or loss."""

    cost: float | None = None
    """Cost of a failed attempt if the function reported it, in the user's own unit."""

    seconds: float | None = None
    """Duration of the attempt so far; None: not known, and the runner counts from its start."""

    def to_plain(self) -> dict[str, Any]:
        """Return the state as JSON data, from which ``from_plain`` makes it again."""
        return {**vars(self), "status": self.status.value}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> AttemptState:
        """Return the state from the data of ``to_plain``."""
        return cls(**{**plain, "status": AttemptStatus(plain["status"])})


RUNNING = AttemptState(AttemptStatus.RUNNING)
"""State of a running attempt without further information."""


def lost(error: str) -> AttemptState:
    """Return the state of an attempt that the backend does not know, with the reason."""
    return AttemptState(AttemptStatus.LOST, error=error)


def run_function(function: TrialFunction, parameters: Mapping[str, TParamValue]) -> AttemptState:
    """Call the user's function, on any machine, and return its result as plain data.

    ``KeyboardInterrupt`` passes; any other exception of the function is a failed attempt.

    Args:
        function: Takes a dictionary of the parameters of a trial and returns what ``plain_result``
            accepts.
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
    """Return the return value of a user's function as JSON data.

    Only the form is checked here; ``read_result`` reverses it. Numbers and names are checked where
    the experiment is known.

    Args:
        outcome: A number, ``(mean, sem)``, a list or array of repeats, a mapping from metric to
            one of these, or a ``TrialResult``. Scalars of numpy and torch count as numbers. None:
            the function returned nothing.

    Returns:
        ``raw_data``, ``realized``, ``cost``, and ``returned``: False for None.

    Raises:
        TypeError: If it is none of these, or contains anything but text and numbers.
        ValueError: If it contains a number that is not finite.
    """
    result = outcome if isinstance(outcome, TrialResult) else TrialResult(raw_data=outcome)
    if not isinstance(result.realized, Mapping | None):
        raise TypeError(
            f"realized={result.realized!r}: expected a mapping from parameter to value."
        )
    return {
        "returned": outcome is not None,
        "raw_data": _plain_outcome(result.raw_data, "its outcome"),
        "realized": _plain(result.realized, "realized"),
        "cost": _plain(result.cost, "cost"),
    }


def read_result(plain: Mapping[str, Any]) -> TrialResult:
    """Return the ``TrialResult`` from the data of ``plain_result``."""
    raw_data = plain["raw_data"]
    if isinstance(raw_data, Mapping) and _REPEATS not in raw_data:
        raw_data = {metric: _measurement(value) for metric, value in raw_data.items()}
    else:
        raw_data = _measurement(raw_data)
    return TrialResult(raw_data=raw_data, realized=plain["realized"], cost=plain["cost"])


def _numbers_of(refused: Any) -> dict[str, Any]:
    """Return the numeric part of a refused outcome, in the form of ``plain_result``."""

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
    if isinstance(value, Mapping):
        return list(value[_REPEATS])
    return tuple(value) if isinstance(value, list) else value


def _plain_outcome(value: Any, what: str) -> Any:
    """Return ``_plain`` of an outcome, with the values of repeats under ``_REPEATS``."""
    if isinstance(value, Mapping):
        return {str(name): _plain_outcome(one, f"{what}[{name!r}]") for name, one in value.items()}
    if not is_repeated(value):
        return _plain(value, what)
    values = value if isinstance(value, list) else value.tolist()
    return {_REPEATS: [_plain(part, what) for part in values]}


def _plain(value: Any, what: str) -> Any:
    """Return plain numbers and texts, or a tuple or a mapping of them.

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
    """Return the error of the user's function, with its place in the function's file."""
    text = f"{type(failure).__name__}: {failure}" if str(failure) else type(failure).__name__
    folder = Path(run_function.__code__.co_filename).parent
    frames = [
        frame
        for frame in traceback.extract_tb(failure.__traceback__)
        if Path(frame.filename).parent != folder
    ]
    if not frames:  # Its return value was refused.
        return text
    last = [frame for frame in frames if frame.filename == frames[0].filename][-1]
    return f"{text} ({Path(last.filename).name}, line {last.lineno}, in {last.name})"


def _plain_cost(failure: TrialFailedError) -> tuple[str, float | None]:
    """Return the message and the cost of a failure; an invalid cost is reported and unknown."""
    message = str(failure) or type(failure).__name__
    try:
        cost = _plain(failure.cost, "its cost")
        is_number = isinstance(cost, int | float) and not isinstance(cost, bool)
        if cost is not None and not (is_number and 0 <= cost <= sys.float_info.max):
            raise ValueError(f"cost={cost!r}: expected a finite number >= 0.")
    except (TypeError, ValueError) as error:
        return f"{message} ({error})", None
    return message, cost

"""Transfer of a user's function to another machine, with its module and its caller.

A worker needs neither Ax nor this package, since an import of Ax takes ten seconds. Only plain data
come back.
"""

from __future__ import annotations

import functools
import os
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import Any

from ax.core.types import TParamValue
from ax.exceptions.core import UserInputError

from ax_costaware.core import repeats
from ax_costaware.runners import result
from ax_costaware.runners.result import TrialFailedError, TrialFunction, TrialResult, run_function

BEGAN = "began"
"""Name of the file with the process id of an attempt; its modification time is the start."""

_SENDING = Lock()
"""Lock of cloudpickle's list of modules to pickle by value, which all threads share."""


def attempt(function: TrialFunction, parameters: dict[str, TParamValue]) -> dict[str, Any]:
    """Call the function on a worker and return its state as plain data."""

    def translated(values: dict[str, TParamValue]) -> Any:
        # A worker that has imported this package has its own classes of these names.
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


def attempt_in(
    folder: str, function: TrialFunction, parameters: dict[str, TParamValue]
) -> dict[str, Any]:
    """Call ``attempt``, after writing the process id to a file in a folder."""
    Path(folder, BEGAN).write_text(str(os.getpid()))
    return attempt(function, parameters)


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
def pickled_by_value(cloudpickle: Any, function: TrialFunction) -> Iterator[None]:
    """Pickle a function by value within the context, with its module and its caller.

    The function's own module is sent along, so that workers need not have it, unless it is an
    installed package.

    Raises:
        UserInputError: If the function cannot be sent.
    """
    registered = []
    with _SENDING:
        try:
            for module in [sys.modules[__name__], result, repeats, *_module_to_send(function)]:
                if module.__name__ not in cloudpickle.list_registry_pickle_by_value():
                    cloudpickle.register_pickle_by_value(module)
                    registered.append(module)
            try:
                cloudpickle.dumps(function)
            except Exception as error:
                raise UserInputError(
                    f"function={function!r} cannot be sent to a worker ({type(error).__name__}: "
                    f"{error}): expected a function without references to objects of this "
                    "process, such as an open file, a lock or a connection. It can open them "
                    "itself."
                ) from error
            yield
        finally:
            for module in registered:
                cloudpickle.unregister_pickle_by_value(module)

"""Names for the functions that run trials, so that an experiment stores the name and no code."""

from __future__ import annotations

from ax.exceptions.core import UserInputError
from ax.exceptions.storage import JSONEncodeError

from ax_costaware.runners.result import TrialFunction

_FUNCTIONS: dict[str, TrialFunction] = {}


def register_trial_function(name: str, function: TrialFunction) -> None:
    """Give a function a name by which a runner knows it, here and in a store.

    Register it again, under the same name, in each process that continues the experiment. To
    register another function under the name replaces the first.

    Args:
        name: The name to pass to a runner, as in ``FunctionRunner("train")``.
        function: Takes the parameters of a trial and returns its outcome; see ``FunctionRunner``.

    Raises:
        UserInputError: If the name is no text, or is empty, or the function is not callable.
    """
    if not isinstance(name, str) or not name:
        raise UserInputError(f"name={name!r}: expected a non-empty string.")
    if not callable(function):
        raise UserInputError(
            f"function={function!r} is a {type(function).__name__}: expected a function of a "
            "trial's parameters."
        )
    _FUNCTIONS[name] = function


def trial_function(function: TrialFunction | str) -> TrialFunction:
    """The function itself, or the one registered under that name.

    Raises:
        UserInputError: If no function is registered under the name.
    """
    if not isinstance(function, str):
        return function
    found = _FUNCTIONS.get(function)
    if found is None:
        raise UserInputError(
            f"function={function!r}: no function has that name. Call "
            f"ax_costaware.register_trial_function({function!r}, ...) in this process, before "
            f"trials are run; known are {sorted(_FUNCTIONS)}."
        )
    return found


def check_trial_function(function: object) -> None:
    """Refuse what is neither a function nor a name of one.

    Raises:
        UserInputError: If ``function`` is something else.
    """
    if not callable(function) and not (isinstance(function, str) and function):
        raise UserInputError(
            f"function={function!r} is a {type(function).__name__}: expected a function of a "
            "trial's parameters, or the name of one from register_trial_function."
        )


def check_storable_function(function: TrialFunction | str) -> None:
    """Refuse to store a function that has no name.

    Raises:
        JSONEncodeError: If it is a function and not the name of one.
    """
    if not isinstance(function, str):
        raise JSONEncodeError(
            f"this experiment cannot be stored: its runner's function={function!r} is a function. "
            "Call ax_costaware.register_trial_function(name, function) and pass the name to the "
            "runner instead; the name is what is stored."
        )

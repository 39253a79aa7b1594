"""Registry of names for the functions that run trials: stores have the name and no code.

A runner is stored by its class and the arguments of its constructor, in both of Ax's stores.
"""

from __future__ import annotations

from typing import Any, Self

from ax.api.protocols import IRunner
from ax.exceptions.core import UserInputError
from ax.exceptions.storage import JSONEncodeError
from ax.storage.json_store.decoder import object_from_json
from ax.storage.json_store.encoder import object_to_json
from ax.utils.common.serialization import SerializationMixin, extract_init_args, serialize_init_args

from ax_costaware.runners.result import TrialFunction
from ax_costaware.storage import register_runner

_FUNCTIONS: dict[str, TrialFunction] = {}


def register_trial_function(name: str, function: TrialFunction) -> None:
    """Register a function under a name, by which runners and stores refer to it.

    Register it again, under the same name, in each process that continues the experiment. A second
    registration of a name replaces the first.

    Args:
        name: The name to pass to a runner, as in ``FunctionRunner("train")``.
        function: Takes the parameters of a trial and returns its outcome; see ``FunctionRunner``.

    Raises:
        UserInputError: If the name is not a non-empty string, or the function is not callable.
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
    """Return the function itself, or the one registered under that name.

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


class StoredRunner(IRunner):
    """Runner of a user's function; the stores keep the function's name.

    Arguments of a subclass's constructor must be plain values or registered value objects, kept as
    attributes of the same names. A subclass is registered with Ax's JSON and SQL stores under the
    name of the class. Import its module before a stored experiment is loaded.

    Args:
        function: The user's function of a trial's parameters, or the name of a registered one.

    Raises:
        UserInputError: If ``function`` is neither.
    """

    def __init__(self, function: TrialFunction | str) -> None:
        if not callable(function) and not (isinstance(function, str) and function):
            raise UserInputError(
                f"function={function!r} is a {type(function).__name__}: expected a function of a "
                "trial's parameters, or the name of one from register_trial_function."
            )
        self.function = function

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        register_runner(cls)

    @classmethod
    def serialize_init_args(cls, obj: SerializationMixin) -> dict[str, Any]:
        """Return the arguments of the constructor as JSON data.

        Raises:
            JSONEncodeError: If ``function`` is a function and not the name of a registered one.
        """
        arguments = serialize_init_args(obj)
        if not isinstance(function := arguments["function"], str):
            raise JSONEncodeError(
                f"this experiment cannot be stored: its runner's function={function!r} is a "
                "function. Call ax_costaware.register_trial_function(name, function) and pass the "
                "name to the runner instead; the name is what is stored."
            )
        return {name: object_to_json(value) for name, value in arguments.items()}

    @classmethod
    def deserialize_init_args(
        cls, args: dict[str, Any], *registries: Any, **by_name: Any
    ) -> dict[str, Any]:
        """Return the arguments of the constructor from the data of ``serialize_init_args``."""
        return {
            name: object_from_json(value) for name, value in extract_init_args(args, cls).items()
        }

    def clone(self) -> Self:
        """Return a runner with the same arguments and no attempts."""
        return type(self)(**serialize_init_args(self))

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and serialize_init_args(self) == serialize_init_args(other)

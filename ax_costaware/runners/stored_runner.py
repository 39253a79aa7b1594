"""A runner that both of Ax's stores keep: by its class and the arguments of its constructor."""

from __future__ import annotations

from typing import Any, Self

from ax.api.protocols import IRunner
from ax.storage.json_store.decoder import object_from_json
from ax.storage.json_store.encoder import object_to_json
from ax.utils.common.serialization import (
    SerializationMixin,
    TClassDecoderRegistry,
    TDecoderRegistry,
    extract_init_args,
    serialize_init_args,
)

from ax_costaware.runners.registry import check_storable_function, check_trial_function
from ax_costaware.runners.result import TrialFunction
from ax_costaware.storage import register_runner


class StoredRunner(IRunner):
    """A runner of a user's function, of which the stores keep the name.

    The arguments of a subclass's constructor are kept as attributes of the same names, and are
    plain values or registered value objects. A subclass is registered with Ax's JSON and SQL stores
    when it is defined, under the name of the class; import its module before a stored experiment is
    loaded.

    Args:
        function: The user's function of a trial's parameters, or the name of a registered one.

    Raises:
        UserInputError: If ``function`` is neither.
    """

    def __init__(self, function: TrialFunction | str) -> None:
        check_trial_function(function)
        self.function = function

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        register_runner(cls)

    @classmethod
    def serialize_init_args(cls, obj: SerializationMixin) -> dict[str, Any]:
        """The arguments of the constructor as JSON data.

        Raises:
            JSONEncodeError: If ``function`` is a function and not the name of a registered one.
        """
        arguments = serialize_init_args(obj)
        check_storable_function(arguments["function"])
        return {name: object_to_json(value) for name, value in arguments.items()}

    @classmethod
    def deserialize_init_args(
        cls,
        args: dict[str, Any],
        decoder_registry: TDecoderRegistry[Any] | None = None,
        class_decoder_registry: TClassDecoderRegistry | None = None,
    ) -> dict[str, Any]:
        """The arguments of the constructor from what ``serialize_init_args`` gave."""
        return {
            name: object_from_json(value) for name, value in extract_init_args(args, cls).items()
        }

    def clone(self) -> Self:
        """A runner with the same arguments, which knows of no attempts."""
        return type(self)(**serialize_init_args(self))

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and serialize_init_args(self) == serialize_init_args(other)

    def __hash__(self) -> int:
        return id(self)

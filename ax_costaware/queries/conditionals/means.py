"""Means of Gaussian conditionals that users name, so that a stored conditional holds no code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from torch import Tensor

from ax_costaware.exceptions import InputError

MeanFunction: TypeAlias = Callable[[Tensor], Tensor]

_MEANS: dict[str, MeanFunction] = {}


def register_conditional_mean(name: str, function: MeanFunction) -> None:
    """Give a function a name under which ``GaussianConditional.from_mean`` finds it.

    An experiment stores the name only: register the same function under the same name, in each
    process that loads the experiment, before it is used. A name that is registered again stands
    for the newest function.

    Args:
        name: Any string that is not empty.
        function: From queries ``... x p`` to means ``... x d`` in raw units, made of PyTorch
            operations, so that it can be differentiated.

    Raises:
        InputError: For a name that is no string or empty, or a function that cannot be called.
    """
    _MEANS[checked_name(name)] = _checked_function(function)


def conditional_mean(name: str) -> MeanFunction:
    """The function that is registered under a name.

    Raises:
        InputError: Where there is none.
    """
    if name not in _MEANS:
        known = ", ".join(map(repr, sorted(_MEANS))) or "none"
        raise InputError(
            f"mean={name!r} is not registered (registered: {known}): call "
            f"register_conditional_mean({name!r}, function) first, in each process."
        )
    return _MEANS[name]


def checked_name(name: Any) -> str:
    """``name`` unchanged.

    Raises:
        InputError: Unless it is a string that is not empty.
    """
    if not isinstance(name, str) or not name:
        raise InputError(f"mean={name!r}: expected the name of a registered function.")
    return name


def _checked_function(function: Any) -> MeanFunction:
    if not callable(function):
        raise InputError(f"function={function!r}: expected a function of a tensor.")
    return function  # type: ignore[no-any-return]

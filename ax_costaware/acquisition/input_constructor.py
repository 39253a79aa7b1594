"""How BoTorch, and Ax through it, learns what the constructor of an acquisition function takes."""

from __future__ import annotations

import inspect
from typing import Any, TypeVar

from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.acquisition.input_constructors import acqf_input_constructor

Class = TypeVar("Class", bound=type[AcquisitionFunction])


def takes_its_inputs(acquisition: Class) -> Class:
    """Register a class whose inputs are the arguments of its constructor, nothing to be made of.

    Of what BoTorch offers to all acquisition functions it is given what it names.
    """

    def construct_inputs(**arguments: Any) -> dict[str, Any]:
        return arguments

    # What BoTorch goes by.
    construct_inputs.__signature__ = inspect.signature(acquisition)  # type: ignore[attr-defined]
    acqf_input_constructor(acquisition)(construct_inputs)
    return acquisition
